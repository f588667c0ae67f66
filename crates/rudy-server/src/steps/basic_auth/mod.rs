//! The step that asks for a user name and a password (RFC 7617).

mod credentials;
mod table;

use std::io;
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};

use http::{HeaderValue, StatusCode, header};
use rudy_net::{Client, Reply, Request, Response};

use self::credentials::credentials;
pub use self::table::{BasicAuthTable, Realm};
use super::identity::Identity;
use super::{Next, Resume, Step};
use crate::error_log::ErrorLog;
use crate::handlers::{Call, Start};
use crate::pages;
use crate::passwords::{Busy, Credentials, PasswordChecks, PasswordFile, Verdict};

/// After this many seconds, clients may try again if too many passwords wait to be verified: a queue is empty in about that time.
static RETRY_AFTER: HeaderValue = HeaderValue::from_static("5");

/// Passes on the requests of users with a correct password. Clones share everything.
#[derive(Debug, Clone)]
pub(super) struct BasicAuth(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    file: Arc<PasswordFile>,
    /// The name of the file, for `rudy check`.
    name: String,
    challenge: HeaderValue,
    checks: Arc<PasswordChecks>,
    threads: NonZeroUsize,
    log: OnceLock<ErrorLog>,
}

impl BasicAuth {
    /// Uses the users of a file. Passwords are verified by `checks`, on at most `threads` threads.
    pub(super) fn new(
        table: &BasicAuthTable,
        file: Arc<PasswordFile>,
        checks: Arc<PasswordChecks>,
        threads: NonZeroUsize,
    ) -> Self {
        let name = table.file.display().to_string();
        let challenge = table.realm.challenge();
        Self(Arc::new(Shared { file, name, challenge, checks, threads, log: OnceLock::new() }))
    }

    /// Responds to a request without credentials.
    fn challenge(&self, request: &Request) -> Response {
        let explanation = "Sign in to access this page.";
        let mut response = pages::error(StatusCode::UNAUTHORIZED, request.headers(), explanation);
        response.headers_mut().insert(header::WWW_AUTHENTICATE, self.0.challenge.clone());
        response
    }

    /// Responds to a request with a wrong user name or password, and logs it. Every failed login ends here.
    fn reject(&self, request: &Request, user: &str, client: &Client<'_>) -> Response {
        if let Some(log) = self.0.log.get() {
            let line = format!(
                "a login as {user:?} from {} was rejected: {} {}",
                client.address(),
                request.method(),
                request.uri().path()
            );
            log.client("a login was rejected", &line);
        }
        self.challenge(request)
    }

    /// Responds to a request whose password cannot be verified now.
    fn busy(request: &Request) -> Response {
        let explanation = "Too many users sign in at the same time. Try again soon.";
        let mut response = pages::error(StatusCode::SERVICE_UNAVAILABLE, request.headers(), explanation);
        response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER.clone());
        response
    }

    async fn verify(self, verdict: Verdict, request: Request, user: Identity, resume: Resume) -> Response {
        let is_correct = match verdict {
            Verdict::Known(is_correct) => Ok(is_correct),
            Verdict::Unknown(check) => check.run(self.0.threads).await,
        };
        match is_correct {
            Ok(true) => {
                let request = user.identify(request, resume.client());
                resume.call(request).response().await
            }
            Ok(false) => self.reject(&request, user.user(), resume.client()),
            Err(Busy) => Self::busy(&request),
        }
    }
}

impl Step for BasicAuth {
    fn call(&self, request: Request, call: Call<'_>, next: Next) -> Reply {
        let Some(credentials) = credentials(request.headers()) else {
            return self.challenge(&request).into();
        };
        let Credentials { user, .. } = &credentials;
        let Some(identity) = Identity::of_login(user) else {
            return self.reject(&request, user, call.context.client).into();
        };
        match self.0.checks.verdict(credentials, &self.0.file) {
            Verdict::Known(true) => identity.pass_on(request, call, next),
            verdict => {
                let resume = Resume::new(&call, next);
                Reply::Later(Box::pin(self.clone().verify(verdict, request, identity, resume)))
            }
        }
    }

    fn describe(&self) -> Vec<String> {
        vec![format!("login: a user of {}, otherwise 401", self.0.name)]
    }

    fn start(&self, start: &Start<'_>) -> io::Result<()> {
        self.0.log.get_or_init(|| start.log.clone());
        Ok(())
    }
}
