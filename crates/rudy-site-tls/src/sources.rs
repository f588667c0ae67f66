//! What the TLS settings of all sites are built from.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use parking_lot::Mutex;
use rudy_pipeline::registry::Registry;
use rudy_pipeline::routing::HostPattern;
use rudy_system::watched_files::{Stamp, stamp};
use rudy_tls::{Certificate, KeyLogFile, SingleUseSessions, TicketKeys};

use super::acme::Acme;
use super::made::{MadeCertificate, MadeCertificates};

/// Certificates that Rudy makes or orders, and the keys of session tickets: a session survives a reload.
#[derive(Debug)]
pub(super) struct Sources {
    /// The keys of session tickets.
    pub(super) ticket_keys: Arc<TicketKeys>,
    /// By their files, as they were read.
    from_files: Registry<(Vec<PathBuf>, Vec<Stamp>), Certificate>,
    made: MadeCertificates,
    /// What the operator should know, until it is logged.
    notices: Mutex<Vec<String>>,
    key_log: OnceLock<Arc<KeyLogFile>>,
    single_use_sessions: OnceLock<SingleUseSessions>,
    /// Certificates from an authority.
    pub(super) acme: Arc<Acme>,
}

impl Sources {
    /// Sources that are kept in a folder.
    pub(super) fn in_folder(folder: Option<PathBuf>) -> Self {
        Self {
            ticket_keys: Arc::default(),
            from_files: Registry::default(),
            made: MadeCertificates::in_folder(folder.clone()),
            notices: Mutex::default(),
            key_log: OnceLock::new(),
            single_use_sessions: OnceLock::new(),
            acme: Arc::new(Acme::in_folder(folder)),
        }
    }

    /// Returns the certificate from these files, which is read with `read`. Sites share it while it is in use, and a reload reads
    /// it again only if a file has changed.
    pub(super) fn shared<E>(
        &self,
        files: Vec<PathBuf>,
        read: impl FnOnce() -> Result<Certificate, E>,
    ) -> Result<Arc<Certificate>, E> {
        let stamps = files.iter().map(|file| stamp(file)).collect();
        self.from_files.get_or_create(&(files, stamps), || read().map(Arc::new))
    }

    /// Returns a certificate made for this machine and these hosts.
    pub(super) fn made(
        &self,
        kind: MadeCertificate,
        hosts: &[HostPattern],
        now: SystemTime,
    ) -> Result<Certificate, String> {
        let (certificate, notice) = self.made.get(kind, hosts, now)?;
        self.notify(notice);
        Ok(certificate)
    }

    /// Keeps lines for the log.
    pub(super) fn notify(&self, lines: impl IntoIterator<Item = String>) {
        self.notices.lock().extend(lines);
    }

    /// Returns the notices since the last call.
    pub(super) fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *self.notices.lock())
    }

    /// Writes the secrets of all sessions from now on to a file.
    pub(super) fn set_key_log(&self, file: File) {
        // It is set once, at the start.
        let _ = self.key_log.set(Arc::new(KeyLogFile::new(file)));
    }

    pub(super) fn key_log(&self) -> Option<Arc<KeyLogFile>> {
        self.key_log.get().cloned()
    }

    /// The sessions of sites with early data.
    pub(super) fn single_use_sessions(&self) -> SingleUseSessions {
        self.single_use_sessions.get_or_init(SingleUseSessions::new).clone()
    }
}
