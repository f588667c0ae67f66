//! The step that asks for a user name and a password (RFC 7617).

mod credentials;
mod table;

use std::io;
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};

use http::{HeaderValue, StatusCode, header};
use rudy_log::{ErrorLog, Kind};
use rudy_pipeline::network::client_subject;
use rudy_pipeline::request_state::{HasRequestState, Identity, LoggedIn};
use rudy_pipeline::{Call, Decided, Flow, OwnedCall, Passage, Start, Step, pages};
use rudy_service::{Client, Request, Response};

use self::credentials::credentials;
pub use self::table::{BasicAuthTable, Realm};
use super::limits::{Attempt, LoginLimits};
use crate::passwords::{Busy, Check, PasswordChecks, PasswordFile};

/// After this many seconds, clients may try again if too many passwords wait to be verified: a queue is empty in about that time.
static RETRY_AFTER: HeaderValue = HeaderValue::from_static("5");

/// Maximum number of lines in a minute about rejected logins of a client: as many as programs such as fail2ban need to ban it.
const LOGIN_LINES: u32 = 5;

/// Passes on the requests of users with a correct password. Clones share everything.
#[derive(Debug, Clone)]
pub struct BasicAuth {
    shared: Arc<Shared>,
    /// They count attempts that fail.
    limits: LoginLimits,
}

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
    pub fn new(
        table: &BasicAuthTable,
        file: Arc<PasswordFile>,
        checks: Arc<PasswordChecks>,
        threads: NonZeroUsize,
    ) -> Self {
        let name = table.file.display().to_string();
        let challenge = table.realm.challenge();
        let shared = Arc::new(Shared { file, name, challenge, checks, threads, log: OnceLock::new() });
        Self { shared, limits: LoginLimits::default() }
    }

    /// Returns the same step with other limits.
    #[must_use]
    pub fn limited(&self, limits: &LoginLimits) -> Self {
        Self { shared: self.shared.clone(), limits: limits.clone() }
    }

    /// Responds to a request without credentials.
    fn challenge(&self, request: &Request<'_>) -> Response {
        let explanation = "Sign in to access this page.";
        let mut response = pages::error(StatusCode::UNAUTHORIZED, request.headers(), explanation);
        response.headers_mut().insert(header::WWW_AUTHENTICATE, self.shared.challenge.clone());
        response
    }

    /// Responds to a request with a wrong user name or password, and logs it.
    fn reject(&self, request: &Request<'_>, user: &str, client: &Client<'_>) -> Response {
        if let Some(log) = self.shared.log.get() {
            let address = client.address();
            let (name, subject) = ("a login was rejected", &*client_subject(address));
            log.client_with(Kind { name, subject, lines: LOGIN_LINES }, || {
                let (method, path) = (request.method(), request.uri().path());
                format!("a login as {user:?} from {address} was rejected: {method} {path}")
            });
        }
        self.challenge(request)
    }

    /// Responds to a request whose password cannot be verified now.
    fn busy(request: &Request<'_>) -> Response {
        let explanation = "Too many users sign in at the same time (`password_threads`). Try again soon.";
        let mut response = pages::error(StatusCode::SERVICE_UNAVAILABLE, request.headers(), explanation);
        response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER.clone());
        response
    }

    /// Passes the request of a user on.
    fn pass_on(&self, identity: Identity, passage: &mut Passage<'_>, client: &Client<'_>) {
        passage.kept.login = Some(self.login(&identity));
        identity.identify(&mut passage.request, client);
    }

    fn login(&self, identity: &Identity) -> LoggedIn {
        LoggedIn::new(self.shared.file.clone(), identity)
    }

    /// Responds to the request for an error page. It verifies no password: the page would show whether a guess is correct, which limits do
    /// not count. The failed request has.
    fn page(&self, identity: Option<Identity>, passage: &mut Passage<'_>, client: &Client<'_>) -> Flow {
        let login = passage.request.state().login.as_ref();
        match identity.filter(|identity| login.is_some_and(|login| login.is(&self.login(identity)))) {
            Some(identity) => identity.identify(&mut passage.request, client),
            None => return self.challenge(&passage.request).into(),
        }
        Flow::Continue
    }

    async fn verify(self, login: Login, mut passage: Passage<'static>, call: OwnedCall) -> Decided {
        let Login { user, identity, check, attempt } = login;
        let is_correct = match check {
            None => Ok(attempt.verify(|| false)),
            Some(check) => check.run(self.shared.threads, |verify| attempt.verify(verify)).await,
        };
        let (request, client) = (&passage.request, &call.client);
        let response = match (is_correct, identity) {
            (Ok(Ok(true)), Some(identity)) => {
                self.pass_on(identity, &mut passage, client);
                None
            }
            (Ok(Ok(_)), _) => Some(self.reject(request, &user, client)),
            (Ok(Err(over)), _) => Some(over.reject(request, &call.path, client)),
            (Err(Busy), _) => Some(Self::busy(request)),
        };
        Decided { call, passage, response }
    }
}

/// A login that may fail.
struct Login {
    user: String,
    /// `None` if the user is no value of a field.
    identity: Option<Identity>,
    /// `None` if the password cannot be correct.
    check: Option<Check>,
    attempt: Attempt,
}

impl Step for BasicAuth {
    fn request(&self, passage: &mut Passage<'_>, call: &Call<'_>) -> Flow {
        let (request, client) = (&passage.request, call.context.client);
        let Some(credentials) = credentials(&**request) else {
            return self.challenge(request).into();
        };
        let user = credentials.user.clone();
        let identity = Identity::of_login(&user);
        if request.state().error_page_for.is_some() {
            return self.page(identity, passage, client);
        }
        let mut attempt = match self.limits.begin(request, call) {
            Ok(attempt) => attempt,
            Err(over) => return over.reject(request, call.path, client).into(),
        };
        let check = self.shared.checks.check(credentials, &self.shared.file);
        let check = check.filter(|_| identity.is_some());
        let is_remembered = attempt.may_recall() && check.as_ref().is_some_and(Check::is_remembered);
        match identity {
            Some(identity) if is_remembered => {
                self.pass_on(identity, passage, client);
                Flow::Continue
            }
            identity => {
                // If others have used the allowance meanwhile, it is counted when it is verified. The client learns nothing before.
                let _over = attempt.count();
                let login = Login { user, identity, check, attempt };
                let passage = passage.take();
                Flow::Wait(Box::pin(self.clone().verify(login, passage, OwnedCall::of(call))))
            }
        }
    }

    fn acts_on(&self, request: &Request<'_>) -> Option<&'static str> {
        credentials(&**request).map(|_| "login: the password is not verified")
    }

    fn describe(&self) -> Vec<String> {
        let login = format!("login: a user of {}, otherwise 401", self.shared.name);
        std::iter::once(login).chain(self.limits.describe()).collect()
    }

    fn start(&self, start: &Start<'_>) -> io::Result<()> {
        self.shared.log.get_or_init(|| start.log.clone());
        self.limits.set_log(start.log);
        Ok(())
    }
}
