//! The files in the state folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rudy_acme::Issued;
use rudy_system::state_dir;
use rudy_tls::{Certificate, sha256};

/// The state folder.
#[derive(Debug, Clone)]
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// The certificate for a name and its key, in PEM. Those of a test authority have another file.
    pub(super) fn certificate(&self, directory: &str, name: &str) -> PathBuf {
        let file = format!("auto-{}-{}.pem", readable(name), hash(&[directory, name]));
        self.0.join("certificates").join(file)
    }

    /// The key of the account.
    pub(super) fn account(&self, directory: &str) -> PathBuf {
        self.0.join("acme").join(format!("account-{}.json", hash(&[directory])))
    }

    /// The lock of those who order for a name.
    pub(super) fn lock(&self, name: &str) -> PathBuf {
        self.0.join("acme/locks").join(hash(&[name]))
    }

    /// The folder of the challenges, with one file for each name.
    pub(super) fn challenges(&self) -> PathBuf {
        self.0.join("acme/challenges")
    }

    /// Creates the folders.
    pub(super) fn create(&self) -> Result<(), (PathBuf, io::Error)> {
        for folder in [self.0.join("certificates"), self.0.join("acme/locks"), self.challenges()] {
            state_dir::create(&folder).map_err(|error| (folder, error))?;
        }
        Ok(())
    }

    pub(super) fn read(&self, directory: &str, name: &str) -> Result<Option<Certificate>, String> {
        let path = self.certificate(directory, name);
        let pem = match fs::read(&path) {
            Ok(pem) => pem,
            // A file of another user stays unreadable until it is replaced.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
        };
        let certificate = Certificate::from_pem(&pem, &pem).ok();
        Ok(certificate.filter(|certificate| certificate.names.include(name)))
    }

    pub(super) fn write(&self, directory: &str, name: &str, issued: &Issued) -> Result<(), String> {
        let path = self.certificate(directory, name);
        write(&path, format!("{}{}", issued.key, issued.chain).as_bytes(), true)
    }
}

/// Writes a file, and reports its path with the error.
pub(super) fn write(path: &Path, content: &[u8], replaces: bool) -> Result<(), String> {
    state_dir::write(path, content, replaces)
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Returns the name of the file for these texts.
pub(super) fn hash(texts: &[&str]) -> String {
    let hash = sha256(texts.join("\n").as_bytes());
    format!("{:016x}", hash.first_chunk().map_or(0, |start| u64::from_be_bytes(*start)))
}

/// Returns the name for people who look into the folder.
fn readable(name: &str) -> String {
    name.replace('*', "_").replace(':', "-")
}
