//! Certificates that look after themselves: those of sites with `tls = "auto"` are ordered by ACME, kept in the state folder,
//! and renewed in time.
//!
//! Several processes and machines can share the folder. A lock decides which of them orders; each serves what is in the folder,
//! and answers the challenges there.

mod attempts;
mod challenges;
mod folder;
mod hook;
mod keeper;
mod lock;
mod renewals;
mod table;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::SystemTime;

use parking_lot::Mutex;
use rudy_tls::Certificate;

pub use self::challenges::Challenges;
use self::folder::Folder;
pub use self::renewals::{Renewals, Wanted, prepare};
pub use self::table::{AcmeTable, ChallengeName, ExternalAccountTable};

/// What the certificates of a process share.
#[derive(Debug, Default)]
pub struct Acme {
    /// `None` keeps nothing: `rudy check`.
    folder: Option<Folder>,
    /// The challenges that are answered now.
    pub challenges: Challenges,
    /// By name.
    outlooks: Mutex<HashMap<String, Outlook>>,
}

/// What happens next with the certificate of a name.
#[derive(Debug, Clone, Default)]
pub struct Outlook {
    /// The last attempt, if it failed: when, and why.
    pub last_error: Option<(SystemTime, String)>,
    /// When the next attempt is.
    pub next: Option<SystemTime>,
}

impl Acme {
    /// What is kept in this folder.
    pub fn in_folder(folder: Option<PathBuf>) -> Self {
        let folder = folder.map(Folder::new);
        let challenges = Challenges::in_folder(folder.as_ref().map(Folder::challenges));
        Self { folder, challenges, outlooks: Mutex::default() }
    }

    /// Returns the file with the certificate of an authority for a name.
    pub fn file(&self, directory: &str, name: &str) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.certificate(directory, name))
    }

    /// Returns the stored certificate of an authority for a name. `None` without a file that can be used: the next
    /// certificate replaces it.
    ///
    /// # Errors
    ///
    /// The file cannot be read now.
    pub fn stored(&self, directory: &str, name: &str) -> Result<Option<Certificate>, String> {
        self.folder.as_ref().map_or(Ok(None), |folder| folder.read(directory, name))
    }

    /// Returns what happens next with the certificate of a name.
    pub fn outlook(&self, name: &str) -> Outlook {
        self.outlooks.lock().get(name).cloned().unwrap_or_default()
    }

    fn set_outlook(&self, name: &str, outlook: Outlook) {
        self.outlooks.lock().insert(name.to_owned(), outlook);
    }
}
