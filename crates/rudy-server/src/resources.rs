//! What the configurations of a process share.

use std::sync::Arc;

use crate::files::Folders;
use crate::state_dir::state_dir;
use crate::steps::Limits;
use crate::tls::TlsState;

/// What outlives a configuration: open folders and their caches, the keys of TLS sessions, and the counts of limits. A
/// reload builds the next
/// [`App`](crate::App) with the same resources.
#[derive(Debug, Default)]
pub struct Resources {
    pub(crate) folders: Folders,
    pub(crate) tls: Arc<TlsState>,
    pub(crate) limits: Limits,
}

impl Resources {
    /// Resources that are kept in the state folder between runs, if there is one.
    pub(crate) fn kept() -> Self {
        Self { tls: Arc::new(TlsState::in_folder(state_dir())), ..Self::default() }
    }
}
