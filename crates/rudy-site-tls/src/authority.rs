//! The local authority: it signs certificates for this machine, and people can install it in their browsers.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rudy_system::state_dir;
use rudy_tls::{Certificate, authority};

/// The key and the certificate of the local authority, in PEM.
#[derive(Debug)]
pub(super) struct Authority {
    pub(super) key: String,
    pub(super) certificate: String,
}

/// Returns the file with the certificate of the authority in a state folder. It has no secret.
#[must_use]
pub fn certificate_file(folder: &Path) -> PathBuf {
    folder.join("authority.crt")
}

impl Authority {
    /// Returns the authority in a state folder, or makes one.
    pub(super) fn kept(folder: Option<&Path>, now: SystemTime) -> Result<Self, String> {
        if let Some((folder, known)) = folder.and_then(|folder| Some((folder, Self::read(folder, now)?))) {
            if !certificate_file(folder).exists() {
                known.copy_certificate(folder)?;
            }
            return Ok(known);
        }
        let (key, certificate) = authority(now).map_err(|error| error.to_string())?;
        // `rudy check` keeps nothing.
        let Some(folder) = folder else { return Ok(Self { key, certificate }) };
        // One file for both, so that it decides which of two processes was faster.
        let path = folder.join("authority.pem");
        match state_dir::write(&path, format!("{key}{certificate}").as_bytes(), path.exists()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Self::read(folder, now).ok_or_else(|| format!("{} is not valid", path.display()))
            }
            Err(error) => Err(format!("cannot write {}: {error}", path.display())),
            Ok(()) => {
                let new = Self { key, certificate };
                new.copy_certificate(folder)?;
                Ok(new)
            }
        }
    }

    /// Writes the certificate alone, which people pass on.
    fn copy_certificate(&self, folder: &Path) -> Result<(), String> {
        let copy = certificate_file(folder);
        state_dir::write(&copy, self.certificate.as_bytes(), true)
            .map_err(|error| format!("cannot write {}: {error}", copy.display()))
    }

    fn read(folder: &Path, now: SystemTime) -> Option<Self> {
        let both = fs::read_to_string(folder.join("authority.pem")).ok()?;
        let known = Certificate::from_pem(both.as_bytes(), both.as_bytes()).ok()?;
        let (key, certificate) = both.split_at(both.find("-----BEGIN CERTIFICATE-----")?);
        known.is_valid_at(now).then(|| Self { key: key.to_owned(), certificate: certificate.to_owned() })
    }
}
