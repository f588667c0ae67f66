//! Runs `rudy tls`: a visit with a full handshake, another one that resumes its session, and the report.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use http::{HeaderMap, Method, Version};
use rudy_command::{Exit, print_line, report_error};
use rudy_request::{
    AccessError, Error, Protocols, Remote, Security, SessionStore, Template, Waiter, resolve,
};
use rudy_tls::{RevocationLists, in_words};
use rustls::ClientConfig;
use rustls::client::Resumption;

use super::json;
use super::options::Options;
use super::report::Report;
use super::visit::{Target, Visit};
use crate::units::{Visible, visible_json};

/// Takes the handshake with a server apart and prints the report.
#[must_use]
pub fn tls(options: &Options) -> Exit {
    let mut lists = RevocationLists::default();
    for path in &options.revocation_lists {
        if let Err(why) = lists.read(path) {
            return report_error(Exit::BadInput, &why);
        }
    }
    let waiter = match Waiter::catch() {
        Ok(waiter) => waiter,
        Err(error) => return report_error(Exit::CannotRun, &format!("cannot catch Ctrl-C: {error}")),
    };
    match probe(options, &lists, &waiter) {
        Ok(report) => print(&report, options),
        Err(Error::Interrupted(signal)) => Exit::Signal(signal),
        Err(error) => {
            if options.is_json {
                print_json(&json::failure(&options.server, &error));
            }
            report_error(Exit::CannotRun, &error.to_string())
        }
    }
}

/// Prints the report. The exit code says whether a certificate has a problem or expires soon.
fn print(report: &Report, options: &Options) -> Exit {
    if options.is_json {
        print_json(&json::report(report));
    } else {
        // A closed pipe is no error: the reader has read enough.
        let _ = write!(Visible(io::stdout()), "{report}");
    }
    let now = SystemTime::now();
    let left = report.inspection.expiry().map(|expiry| expiry.duration_since(now).unwrap_or_default());
    if let (Some(limit), Some(left)) = (options.expires_within, left)
        && left <= limit
    {
        print_line(&format!(
            "a certificate expires in {}, and so within {} (--expires-within)",
            in_words(left),
            in_words(limit)
        ));
        return Exit::NotMet;
    }
    if report.inspection.problems.is_empty() { Exit::Done } else { Exit::NotMet }
}

fn print_json(value: &serde_json::Value) {
    let _ = writeln!(io::stdout(), "{}", visible_json(&format_args!("{value:#}")));
}

fn probe(options: &Options, lists: &RevocationLists, waiter: &Waiter) -> Result<Report, Error> {
    let (config, inspector) = options.access.trust.inspecting_config().map_err(AccessError::Trust)?;
    let until = || Instant::now().checked_add(options.timeout);
    let remotes = match (&options.access.unix_socket, &options.connect) {
        (Some(path), _) => vec![Remote::Unix(path.clone())],
        (None, url) => {
            let url = url.as_ref().unwrap_or(&options.server);
            resolve(url.host(), url.port(), waiter, until())?
        }
    };
    let (remotes, _relay) = options.access.relayed(remotes)?;
    let prober = Prober { options, remotes, waiter, config };
    let security = prober.security(prober.with_sessions())?.offering(Protocols::Any);
    let full = prober.visit(Protocols::Any, &security)?;
    let inspection = inspector.inspect(&full.chain, &security.name, SystemTime::now(), lists);
    Ok(Report { server: options.server.clone(), full, resumed: prober.resume(), inspection })
}

struct Prober<'a> {
    options: &'a Options,
    remotes: Vec<Remote>,
    waiter: &'a Waiter,
    config: ClientConfig,
}

impl Prober<'_> {
    fn name(&self) -> &str {
        self.options.server_name.as_deref().unwrap_or(self.options.server.host())
    }

    fn security(&self, config: ClientConfig) -> Result<Security, Error> {
        Ok(Security::new(Arc::new(config), self.name())?)
    }

    /// The configuration with a memory for sessions of its own.
    fn with_sessions(&self) -> ClientConfig {
        let mut config = self.config.clone();
        config.resumption = Resumption::store(Arc::new(SessionStore::default()));
        config
    }

    fn visit(&self, protocols: Protocols, security: &Security) -> Result<Visit, Error> {
        let request = head(protocols).encode(&self.options.server).map_err(Error::Request)?;
        let until = Instant::now().checked_add(self.options.timeout);
        let (remotes, security) = (&self.remotes, security.clone());
        let round_trip = self.options.access.round_trip.unwrap_or_default();
        Target { remotes, security, protocols, request: &request, until, round_trip }.visit(self.waiter)
    }

    /// Visits the server twice with HTTP/1.1, the second time with the session of the first. Early data is bound to the protocol that
    /// the session was made for (RFC 8446 §4.2.10), and HTTP/1.1 is the one that needs no exchange before a request.
    fn resume(&self) -> Result<Visit, String> {
        let mut config = self.with_sessions();
        config.enable_early_data = true;
        let security = self.security(config).map_err(|error| error.to_string())?;
        let visit = || self.visit(Protocols::Http1, &security);
        visit().and_then(|_| visit()).map_err(|error| error.to_string())
    }
}

/// A request without a response body, so that the first byte ends the measurement.
fn head(protocols: Protocols) -> Template {
    Template {
        method: Method::HEAD,
        fields: HeaderMap::new(),
        body: None,
        version: Version::HTTP_11,
        protocols,
        keep_alive: true,
    }
}
