//! What the configurations of a process share.

use std::sync::Arc;

use crate::cache::Caches;
use crate::files::Folders;
use crate::passwords::PasswordChecks;
use crate::state_dir::state_dir;
use crate::steps::Limits;
use crate::tls::TlsState;
use crate::watched_files::WatchedFiles;

/// What outlives a configuration: open folders and their caches, the keys of TLS sessions, the counts of limits, the users
/// whose passwords were verified, and what is read again when its file changes. A reload builds the next
/// [`App`](crate::App) with the same resources.
#[derive(Debug, Default)]
pub struct Resources {
    pub(crate) folders: Folders,
    pub(crate) tls: Arc<TlsState>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) watched_files: WatchedFiles,
    pub(crate) passwords: Arc<PasswordChecks>,
    pub(crate) caches: Caches,
}

impl Resources {
    /// Resources that are kept in the state folder between runs, if there is one.
    pub(crate) fn kept() -> Self {
        Self { tls: Arc::new(TlsState::in_folder(state_dir())), ..Self::default() }
    }
}
