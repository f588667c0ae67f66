//! What the TLS of all configurations of a process shares.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use rudy_admin::CertificateStatus;
use rudy_tls::{Certificate, KeyLogFile, SingleUseSessions, TicketKeys};

use super::made::{MadeCertificate, MadeCertificates};
use super::ticket_keys::KeyFile;
use super::watch::Watched;
use crate::acme::Acme;
use rudy_pipeline::routing::HostPattern;

/// Certificates that Rudy makes, and the keys of session tickets: a session survives a reload.
#[derive(Debug)]
pub struct TlsState {
    /// The keys of session tickets.
    pub ticket_keys: Arc<TicketKeys>,
    key_file: Mutex<KeyFile>,
    made: MadeCertificates,
    /// What the operator should know, until it is logged.
    notices: Mutex<Vec<String>>,
    watched: Mutex<Vec<Arc<Watched>>>,
    key_log: OnceLock<Arc<KeyLogFile>>,
    single_use_sessions: OnceLock<SingleUseSessions>,
    /// Certificates from an authority.
    pub acme: Arc<Acme>,
}

impl Default for TlsState {
    /// State in memory only.
    fn default() -> Self {
        Self::in_folder(None)
    }
}

impl TlsState {
    /// State that is kept in a folder.
    #[must_use]
    pub fn in_folder(folder: Option<PathBuf>) -> Self {
        Self {
            ticket_keys: Arc::default(),
            key_file: Mutex::new(KeyFile::in_folder(folder.clone())),
            made: MadeCertificates::in_folder(folder.clone()),
            notices: Mutex::default(),
            watched: Mutex::default(),
            key_log: OnceLock::new(),
            single_use_sessions: OnceLock::new(),
            acme: Arc::new(Acme::in_folder(folder)),
        }
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

    /// Uses the keys of session tickets in this file, or keys of our own.
    pub fn use_ticket_keys(&self, file: Option<&Path>) {
        let changed = self.lock_key_file().use_file(file, &self.ticket_keys, SystemTime::now());
        self.notify(changed.map(|line| match line {
            Ok(line) | Err(line) => line,
        }));
    }

    /// Keeps lines for the log.
    pub(super) fn notify(&self, lines: impl IntoIterator<Item = String>) {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).extend(lines);
    }

    /// Writes the secrets of all sessions from now on to a file.
    pub fn set_key_log(&self, file: File) {
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

    /// Watches the certificates of a site, for as long as it exists.
    pub(super) fn watch(&self, watched: Watched) {
        self.lock_watched().push(Arc::new(watched));
    }

    /// Replaces certificates and keys whose files have changed, and those made by Rudy in time. Returns a line for the
    /// log about each, an error if the old one stays in use.
    pub fn replace_changed(&self) -> Vec<Result<String, String>> {
        self.acme.challenges.refresh();
        let keys = self.lock_key_file().update(&self.ticket_keys, SystemTime::now());
        let watched = self.watched();
        keys.into_iter().chain(watched.iter().filter_map(|watched| watched.replace_changed(self))).collect()
    }

    /// The certificates in use, each once: several sites may share one, and a site of before a reload has requests in
    /// progress. Does not wait for files that are being read.
    pub fn certificates(&self) -> Vec<CertificateStatus> {
        let mut all = Vec::new();
        for status in self.watched().iter().flat_map(|watched| watched.statuses(self)) {
            if !all.contains(&status) {
                all.push(status);
            }
        }
        all
    }

    /// Returns the settings of the sites in use. Reading their files may take long, so the list is not locked meanwhile.
    fn watched(&self) -> Vec<Arc<Watched>> {
        let mut watched = self.lock_watched();
        watched.retain(|watched| watched.is_in_use());
        watched.clone()
    }

    fn lock_watched(&self) -> MutexGuard<'_, Vec<Arc<Watched>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_key_file(&self) -> MutexGuard<'_, KeyFile> {
        self.key_file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the notices since the last call.
    pub fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *self.notices.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
