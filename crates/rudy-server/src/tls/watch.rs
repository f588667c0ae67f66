//! Replaces the certificates of a running server.
//!
//! The files are compared every few seconds. Notifications of the kernel would be faster, but miss changes behind
//! symbolic links, as certbot and Kubernetes make them, and on network file systems.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use rudy_tls::{Certificate, TlsSite};

use super::check::misfit;
use super::{TlsState, TlsTable, files};
use crate::config::Location;
use crate::routing::HostPattern;

/// The time between two comparisons.
pub(crate) const INTERVAL: Duration = Duration::from_secs(2);

/// What identifies the content of a file: device, inode, size, and time of change.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

/// The certificates of a site, and the files they were read from.
#[derive(Debug)]
pub(super) struct Watched {
    site: Weak<TlsSite>,
    table: TlsTable,
    hosts: Vec<HostPattern>,
    stamps: Vec<Stamp>,
    /// When a certificate made by Rudy was made or checked last.
    made: SystemTime,
}

/// How often the remaining time of a certificate made by Rudy is checked.
const MADE_INTERVAL: Duration = Duration::from_hours(24);

/// Returns the stamps of the files, before they are read: a change in between is found later.
pub(super) fn stamps(table: &TlsTable) -> Vec<Stamp> {
    table.paths().map(stamp).collect()
}

fn stamp(path: &Path) -> Stamp {
    let data = fs::metadata(path).ok()?;
    Some((data.dev(), data.ino(), data.size(), data.ctime(), data.ctime_nsec()))
}

impl Watched {
    pub(super) fn new(
        site: &Arc<TlsSite>,
        table: &TlsTable,
        hosts: &[HostPattern],
        stamps: Vec<Stamp>,
    ) -> Self {
        let (table, hosts) = (table.clone(), hosts.to_vec());
        Self { site: Arc::downgrade(site), table, hosts, stamps, made: SystemTime::now() }
    }

    pub(super) fn is_in_use(&self) -> bool {
        self.site.strong_count() > 0
    }

    /// Replaces the certificates if they have changed.
    pub(super) fn replace_changed(&mut self, state: &TlsState) -> Option<Result<String, String>> {
        let site = self.site.upgrade()?;
        let now = SystemTime::now();
        if self.table.source.is_some() {
            if now.duration_since(self.made).is_ok_and(|age| age < MADE_INTERVAL) {
                return None;
            }
            self.made = now;
            let made = state.self_signed(&self.hosts, now);
            return made.map(|certificate| site.replace(vec![certificate])).err().map(Err);
        }
        let stamps = stamps(&self.table);
        if stamps == self.stamps {
            return None;
        }
        self.stamps = stamps;
        let names: Vec<_> = self.table.paths().map(|path| path.display().to_string()).collect();
        Some(match self.read(now) {
            Ok(certificates) => {
                site.replace(certificates);
                Ok(format!("replaced the certificate: {} changed", names.join(", ")))
            }
            Err(error) => Err(format!("{error}; the old certificate stays in use")),
        })
    }

    fn read(&self, now: SystemTime) -> Result<Vec<Certificate>, String> {
        let read = |(_, files)| {
            let certificate = files::certificate(&files).map_err(|error| error.line())?;
            match misfit(&certificate, &self.hosts, now) {
                Some(why) => Err(format!("cannot use {}: {why}", files.certificate.display())),
                None => Ok(certificate),
            }
        };
        self.table.files(&Location::none()).into_iter().map(read).collect()
    }
}
