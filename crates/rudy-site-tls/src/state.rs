//! What the TLS of all configurations of a process shares.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rudy_admin::CertificateStatus;
use rudy_config::Problem;
use rudy_runtime::clock;
use rudy_tls::TlsSite;

use super::acme::Acme;
use super::definition::Definition;
use super::sources::Sources;
use super::ticket_keys::KeyFile;
use super::watch::Watched;

/// The sources of TLS settings, and the sites whose settings are replaced when they change.
#[derive(Debug)]
pub struct TlsState {
    sources: Sources,
    key_file: Mutex<KeyFile>,
    watched: Mutex<Vec<Arc<Watched>>>,
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
            key_file: Mutex::new(KeyFile::in_folder(folder.clone())),
            sources: Sources::in_folder(folder),
            watched: Mutex::default(),
        }
    }

    /// Returns the certificates from an authority.
    pub fn acme(&self) -> &Arc<Acme> {
        &self.sources.acme
    }

    /// Uses the keys of session tickets in this file, or keys of our own.
    pub fn use_ticket_keys(&self, file: Option<&Path>) {
        let changed = self.key_file.lock().use_file(file, &self.sources.ticket_keys, clock::utc());
        self.sources.notify(changed.map(|line| match line {
            Ok(line) | Err(line) => line,
        }));
    }

    /// Replaces certificates and keys whose files have changed, and those made by Rudy in time. Returns a line for the
    /// log about each, an error if the old one stays in use.
    pub fn replace_changed(&self) -> Vec<Result<String, String>> {
        self.sources.acme.challenges.refresh();
        let keys = self.key_file.lock().update(&self.sources.ticket_keys, clock::utc());
        let watched = self.watched();
        keys.into_iter()
            .chain(watched.iter().filter_map(|watched| watched.replace_changed(&self.sources)))
            .collect()
    }

    /// The certificates in use, each once: several sites may share one, and a site of before a reload has requests in
    /// progress. Does not wait for files that are being read.
    pub fn certificates(&self) -> Vec<CertificateStatus> {
        let mut all = Vec::new();
        for status in self.watched().iter().flat_map(|watched| watched.statuses(&self.sources)) {
            if !all.contains(&status) {
                all.push(status);
            }
        }
        all
    }

    /// Returns the settings of the sites in use. Reading their files may take long, so the list is not locked meanwhile.
    fn watched(&self) -> Vec<Arc<Watched>> {
        self.forget_unused();
        self.watched.lock().clone()
    }

    /// Frees what belongs to sites that are not in use any more.
    pub fn forget_unused(&self) {
        self.watched.lock().retain(|watched| watched.is_in_use());
    }

    /// Writes the secrets of all sessions from now on to a file.
    pub fn set_key_log(&self, file: File) {
        self.sources.set_key_log(file);
    }

    /// Returns the notices since the last call.
    pub fn take_notices(&self) -> Vec<String> {
        self.sources.take_notices()
    }
}

/// Builds the TLS settings of a site. They are replaced when their files change.
pub fn site(
    definition: Definition,
    state: &TlsState,
    problems: &mut Vec<Problem>,
) -> Option<Arc<ArcSwap<TlsSite>>> {
    let sources = &state.sources;
    let (stamps, invalid) = (definition.stamps(sources), definition.problems());
    let now = clock::utc();
    let built = if invalid.is_empty() { definition.build(sources, now) } else { Err(invalid) };
    match built {
        Ok(tls) => {
            let tls = Arc::new(ArcSwap::from_pointee(tls));
            let watched = Watched::new(&tls, definition, stamps);
            sources.notify(watched.first_expiry_notices(&tls.load(), now));
            state.watched.lock().push(Arc::new(watched));
            Some(tls)
        }
        Err(more) => {
            problems.extend(more);
            None
        }
    }
}
