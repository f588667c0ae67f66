//! Replaces the certificates and authorities of a running server.

use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rudy_admin::{CertificateStatus, LastError};
use rudy_config::Problem;
use rudy_log::utc;
use rudy_runtime::{clock, is_planted};
use rudy_system::watched_files::{Seen, Stamp};
use rudy_tls::{Certificate, TlsSite};

use super::check::{Expiry, expiry, expiry_notice};
use super::definition::Definition;
use super::sources::Sources;
use super::table::CertificateSource;

/// The TLS settings of a site, and the files they were read from.
#[derive(Debug)]
pub(super) struct Watched {
    site: Weak<ArcSwap<TlsSite>>,
    definition: Definition,
    /// Locked while files are read, which may take long.
    progress: Mutex<Progress>,
    /// Why the settings could not be replaced, since then.
    last_error: Mutex<Option<(SystemTime, String)>>,
}

/// What was read and reported.
#[derive(Debug)]
struct Progress {
    seen: Seen,
    /// When the remaining time was checked last.
    checked: SystemTime,
    /// What was reported about the remaining time of each certificate.
    reported: Vec<Option<Expiry>>,
}

/// How often the remaining time of certificates is checked.
const CHECK_INTERVAL: Duration = Duration::from_hours(1);

impl Watched {
    pub(super) fn new(site: &Arc<ArcSwap<TlsSite>>, definition: Definition, stamps: Vec<Stamp>) -> Self {
        let progress = Progress { seen: Seen::new(stamps), checked: clock::utc(), reported: Vec::new() };
        Self {
            site: Arc::downgrade(site),
            definition,
            progress: Mutex::new(progress),
            last_error: Mutex::default(),
        }
    }

    /// The certificates in use, and those that an authority has not signed yet.
    pub(super) fn statuses(&self, sources: &Sources) -> Vec<CertificateStatus> {
        let Some(site) = self.site.upgrade() else { return Vec::new() };
        let site = site.load();
        let in_use = site.certificates().iter().map(|certificate| self.status(sources, certificate));
        let waiting = self.definition.ordered_names().filter(|name| !site.has_certificate_for(name));
        let waiting = waiting.map(|name| {
            let outlook = sources.acme.outlook(&name);
            CertificateStatus {
                names: vec![name.into_owned()],
                source: CertificateSource::Auto.to_string(),
                next_attempt: outlook.next.map(utc),
                last_error: outlook.last_error.map(last_error),
                ..CertificateStatus::default()
            }
        });
        in_use.chain(waiting).collect()
    }

    fn status(&self, sources: &Sources, certificate: &Certificate) -> CertificateStatus {
        let names: Vec<_> = certificate.names.iter().map(str::to_owned).collect();
        let is_ordered = self.definition.is_auto();
        let outlook =
            names.first().filter(|_| is_ordered).map(|name| sources.acme.outlook(name)).unwrap_or_default();
        CertificateStatus {
            names,
            issuer: Some(certificate.issuer.clone()),
            not_before: Some(utc(certificate.not_before)),
            not_after: Some(utc(certificate.not_after)),
            key_type: Some(certificate.key_type.to_string()),
            source: certificate.source.clone(),
            next_attempt: outlook.next.map(utc),
            last_error: outlook.last_error.or_else(|| self.last_error.lock().clone()).map(last_error),
        }
    }

    pub(super) fn is_in_use(&self) -> bool {
        self.site.strong_count() > 0
    }

    /// Replaces the settings if their files have changed, and certificates that Rudy makes in time. Returns a line for
    /// the log.
    pub(super) fn replace_changed(&self, sources: &Sources) -> Option<Result<String, String>> {
        let site = self.site.upgrade()?;
        let (now, stamps) = (clock::utc(), self.definition.stamps(sources));
        let mut progress = self.progress.lock();
        let is_due = now.duration_since(progress.checked).is_ok_and(|age| age >= CHECK_INTERVAL);
        let has_changed =
            progress.seen.is_outdated(&stamps) && !is_planted("a new certificate that is not used");
        let build = || self.definition.build(sources, now).map_err(|problems| lines(&problems));
        let built = if has_changed || is_due && self.definition.is_made() {
            progress.seen.read(stamps, build)
        } else {
            None
        };
        let is_replaced = matches!(built, Some(Ok(_)));
        let line = match built {
            Some(Ok(new)) => {
                site.store(Arc::new(new));
                *self.last_error.lock() = None;
                has_changed.then(|| Ok(self.replaced_line(sources)))
            }
            Some(Err(why)) => {
                *self.last_error.lock() = Some((now, why.clone()));
                Some(Err(format!("{why}; the old TLS settings stay in use")))
            }
            None => None,
        };
        if is_due || is_replaced {
            progress.checked = now;
            sources.notify(self.expiry_notices(&mut progress, &site.load(), now));
        }
        line
    }

    fn replaced_line(&self, sources: &Sources) -> String {
        let files: Vec<_> =
            self.definition.paths(sources).iter().map(|path| path.display().to_string()).collect();
        format!("replaced the TLS settings: {} changed", files.join(", "))
    }

    /// Returns lines about certificates that expire soon, before the first replacement. Not about those that Rudy makes.
    pub(super) fn first_expiry_notices(&self, tls: &TlsSite, now: SystemTime) -> Vec<String> {
        self.expiry_notices(&mut self.progress.lock(), tls, now)
    }

    /// Returns lines about certificates that expire soon, once for each time.
    fn expiry_notices(&self, progress: &mut Progress, tls: &TlsSite, now: SystemTime) -> Vec<String> {
        if self.definition.is_made() {
            return Vec::new();
        }
        let certificates = tls.certificates();
        let current: Vec<_> = certificates.iter().map(|certificate| expiry(certificate, now)).collect();
        let new = certificates.iter().zip(&current).enumerate();
        let new = new.filter(|(index, (_, current))| progress.reported.get(*index) != Some(*current));
        let lines = new.filter_map(|(_, (certificate, current))| {
            current.as_ref().map(|_| expiry_notice(certificate, now))
        });
        let lines = lines.collect();
        progress.reported = current;
        lines
    }
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(Problem::line).collect::<Vec<_>>().join("; ")
}

fn last_error((time, message): (SystemTime, String)) -> LastError {
    LastError { time: utc(time), message }
}
