//! Certificates from files.

use std::fs;
use std::io;
use std::path::Path;

use rudy_tls::{Certificate, CertificateError};

use super::table::CertificateTable;
use crate::config::{Location, Problem};

/// Why the files of a certificate cannot be used.
#[derive(Debug)]
pub(super) struct FileError {
    /// The key of the file in its table.
    key: &'static str,
    title: String,
    detail: String,
}

impl FileError {
    /// Returns the problem of the table at `location`.
    pub(super) fn problem(self, location: &Location) -> Problem {
        Problem::value(&location.key(self.key), self.title).label(self.detail)
    }

    /// Returns the error on one line, for the log.
    pub(super) fn line(&self) -> String {
        format!("{}: {}", self.title, self.detail)
    }
}

/// Reads a certificate, its key and its OCSP response.
pub(super) fn certificate(files: &CertificateTable) -> Result<Certificate, FileError> {
    let chain = read("certificate", &files.certificate)?;
    let key = read("key", &files.key)?;
    let certificate = Certificate::from_pem(&chain, &key).map_err(|error| {
        let (key, path) = match error {
            CertificateError::Certificate(_) => ("certificate", &files.certificate),
            CertificateError::Key(_) | CertificateError::Mismatch => ("key", &files.key),
        };
        FileError { key, title: format!("cannot use {}", path.display()), detail: error.to_string() }
    })?;
    Ok(match &files.ocsp {
        Some(path) => certificate.with_ocsp(read("ocsp", path)?),
        None => certificate,
    })
}

fn read(key: &'static str, path: &Path) -> Result<Vec<u8>, FileError> {
    fs::read(path).map_err(|error| {
        let detail = match error.kind() {
            io::ErrorKind::PermissionDenied => {
                "let the group of Rudy's user read it, or pass it with `LoadCredential=` in the systemd unit"
            }
            _ => "this file",
        };
        FileError {
            key,
            title: format!("cannot read {}: {error}", path.display()),
            detail: detail.to_owned(),
        }
    })
}
