//! Certificates from files.

use std::fs;
use std::path::Path;

use rudy_tls::{Certificate, CertificateError};

use super::TlsTable;
use crate::config::{Location, Problem};

/// Reads the certificate and its key.
pub(super) fn certificate(table: &TlsTable, location: &Location) -> Result<Certificate, Box<Problem>> {
    let (certificate_at, key_at) = (location.key("certificate"), location.key("key"));
    let chain = read(&table.certificate, &certificate_at)?;
    let key = read(&table.key, &key_at)?;
    let explain = |error| match error {
        CertificateError::Certificate(problem) => {
            Problem::value(&certificate_at, format!("cannot use {}", table.certificate.display()))
                .label(problem)
        }
        CertificateError::Key(problem) => {
            Problem::value(&key_at, format!("cannot use {}", table.key.display())).label(problem)
        }
        CertificateError::Mismatch => Problem::value(&key_at, error.to_string())
            .label("a key of another certificate")
            .also(&certificate_at, "the certificate"),
    };
    Certificate::from_pem(&chain, &key).map_err(|error| Box::new(explain(error)))
}

fn read(path: &Path, location: &Location) -> Result<Vec<u8>, Box<Problem>> {
    fs::read(path).map_err(|error| {
        let problem = Problem::value(location, format!("cannot read {}", path.display()));
        Box::new(problem.label(error.to_string()))
    })
}
