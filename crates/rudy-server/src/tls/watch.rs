//! Replaces the certificates and authorities of a running server.
//!
//! The files are compared every few seconds. Notifications of the kernel would be faster, but miss changes behind
//! symbolic links, as certbot and Kubernetes make them, and on network file systems.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rudy_tls::{Certificate, TlsSite};

use super::check::date;
use super::{TlsState, TlsTable, build, expiry_notices};
use crate::admin::{CertificateStatus, LastError};
use crate::config::{Location, Problem};
use crate::routing::HostPattern;

/// The time between two comparisons.
pub(crate) const INTERVAL: Duration = Duration::from_secs(2);

/// What identifies the content of a file: device, inode, size, and time of change.
pub(super) type Stamp = Option<(u64, u64, u64, i64, i64)>;

/// The TLS settings of a site, and the files they were read from.
#[derive(Debug)]
pub(super) struct Watched {
    site: Weak<ArcSwap<TlsSite>>,
    table: TlsTable,
    hosts: Vec<HostPattern>,
    stamps: Vec<Stamp>,
    /// When the remaining time was checked last.
    checked: SystemTime,
    /// Why the settings could not be replaced, since then.
    last_error: Option<(SystemTime, String)>,
}

/// How often the remaining time of a certificate is checked.
const CHECK_INTERVAL: Duration = Duration::from_hours(24);

/// Returns the stamps of the files, before they are read: a change in between is found later.
pub(super) fn stamps(table: &TlsTable) -> Vec<Stamp> {
    table.paths().map(stamp).collect()
}

pub(super) fn stamp(path: &Path) -> Stamp {
    let data = fs::metadata(path).ok()?;
    Some((data.dev(), data.ino(), data.size(), data.ctime(), data.ctime_nsec()))
}

impl Watched {
    pub(super) fn new(
        site: &Arc<ArcSwap<TlsSite>>,
        table: &TlsTable,
        hosts: &[HostPattern],
        stamps: Vec<Stamp>,
    ) -> Self {
        let (table, hosts) = (table.clone(), hosts.to_vec());
        Self {
            site: Arc::downgrade(site),
            table,
            hosts,
            stamps,
            checked: SystemTime::now(),
            last_error: None,
        }
    }

    /// The certificates in use.
    pub(super) fn statuses(&self) -> Vec<CertificateStatus> {
        let Some(site) = self.site.upgrade() else { return Vec::new() };
        let last_error = self.last_error.as_ref();
        let last_error =
            last_error.map(|(time, message)| LastError { time: date(*time), message: message.clone() });
        let status = |certificate: &Certificate| CertificateStatus {
            names: certificate.names.iter().map(str::to_owned).collect(),
            issuer: certificate.issuer.clone(),
            not_before: date(certificate.not_before),
            not_after: date(certificate.not_after),
            key_type: certificate.key_type.to_string(),
            source: certificate.source.clone(),
            last_error: last_error.clone(),
        };
        site.load().certificates().iter().map(status).collect()
    }

    pub(super) fn is_in_use(&self) -> bool {
        self.site.strong_count() > 0
    }

    /// Replaces the settings if their files have changed, and certificates that Rudy makes in time. Returns a line for
    /// the log.
    pub(super) fn replace_changed(&mut self, state: &TlsState) -> Option<Result<String, String>> {
        let site = self.site.upgrade()?;
        let (now, stamps) = (SystemTime::now(), stamps(&self.table));
        let is_due = || now.duration_since(self.checked).is_ok_and(|age| age >= CHECK_INTERVAL);
        let has_changed = stamps != self.stamps;
        if !has_changed && !is_due() {
            return None;
        }
        (self.stamps, self.checked) = (stamps, now);
        if !has_changed && self.table.source.is_none() {
            state.notify(expiry_notices(&self.table, &site.load(), now));
            return None;
        }
        let names: Vec<_> = self.table.paths().map(|path| path.display().to_string()).collect();
        match build(&self.table, &Location::none(), &self.hosts, state, now) {
            Ok(new) => {
                site.store(Arc::new(new));
                self.last_error = None;
                has_changed.then(|| Ok(format!("replaced the TLS settings: {} changed", names.join(", "))))
            }
            Err(problems) => {
                let problems = problems.iter().map(Problem::line).collect::<Vec<_>>().join("; ");
                self.last_error = Some((now, problems.clone()));
                Some(Err(format!("{problems}; the old TLS settings stay in use")))
            }
        }
    }
}
