//! Certificates and authorities from files.

use std::io;
use std::path::Path;
use std::time::SystemTime;

use rudy_config::{Location, Problem};
use rudy_log::utc;
use rudy_system::watched_files;
use rudy_tls::{
    Certificate, CertificateError, ClientCertificateUse, ClientCertificates, ClientCertificatesError, Names,
};

use super::table::{CertificateTable, ClientCertificatesTable, TlsTable};

impl TlsTable {
    /// Returns the names in the certificate from a file. `None` without one that can be read.
    #[must_use]
    pub fn names(&self) -> Option<Names> {
        let (_, files) = self.files(&Location::none()).into_iter().next()?;
        certificate(&files, &Location::none()).ok().map(|certificate| certificate.names)
    }
}

/// Reads a certificate, its key and its OCSP response: the files of the table at `location`.
pub(super) fn certificate(
    files: &CertificateTable,
    location: &Location,
) -> Result<Certificate, Box<Problem>> {
    let certificate = certificate_and_key(
        (&files.certificate, &location.key("certificate")),
        (&files.key, &location.key("key")),
    )?;
    Ok(match &files.ocsp {
        Some(path) => {
            let (location, file) = (location.key("ocsp"), path);
            let with_ocsp = certificate.with_ocsp(read(file, &location)?);
            with_ocsp.map_err(|why| unusable(file, &location, why))?
        }
        None => certificate,
    })
}

/// Reads a certificate and its key, which the configuration names at these locations.
pub fn certificate_and_key(
    (certificate, at_certificate): (&Path, &Location),
    (key, at_key): (&Path, &Location),
) -> Result<Certificate, Box<Problem>> {
    let chain = read(certificate, at_certificate)?;
    Certificate::from_pem(&chain, &read(key, at_key)?).map_err(|error| match error {
        CertificateError::Certificate(why) => unusable(certificate, at_certificate, why),
        CertificateError::Key(_) | CertificateError::Mismatch => unusable(key, at_key, error.to_string()),
    })
}

/// Reads the authorities and revocation lists of client certificates: the files of the table at `location`.
pub(super) fn client_certificates(
    table: &ClientCertificatesTable,
    location: &Location,
    now: SystemTime,
) -> Result<ClientCertificates, Box<Problem>> {
    let authority = read(&table.authority, &location.key("authority"))?;
    let crl = match &table.crl {
        Some(path) => Some((path, read(path, &location.key("crl"))?)),
        None => None,
    };
    let usage = ClientCertificateUse { is_required: table.required, is_forwarded: table.forward };
    let lists = crl.as_ref().map(|(_, lists)| &lists[..]);
    let clients = ClientCertificates::from_pem(&authority, lists, usage).map_err(|error| {
        let (key, path) = match (&error, &crl) {
            (ClientCertificatesError::Crl(_), Some((path, _))) => ("crl", *path),
            _ => ("authority", &table.authority),
        };
        unusable(path, &location.key(key), error.to_string())
    })?;
    match (clients.expiry.filter(|expiry| *expiry < now), &crl) {
        (Some(expiry), Some((path, _))) => {
            let why = format!("the revocation list has expired ({}), so no client is accepted", utc(expiry));
            Err(unusable(path, &location.key("crl"), why))
        }
        _ => Ok(clients),
    }
}

/// The problem of a file that cannot be used.
pub(super) fn unusable(path: &Path, location: &Location, why: String) -> Box<Problem> {
    Problem::value(location, format!("cannot use {}", path.display())).label(why).into()
}

fn read(path: &Path, location: &Location) -> Result<Vec<u8>, Box<Problem>> {
    watched_files::read(path).map_err(|error| {
        let problem = Problem::value(location, format!("cannot read {}: {error}", path.display()));
        let label = match error.kind() {
            io::ErrorKind::PermissionDenied => {
                "let the group of Rudy's user read it, or pass it with `LoadCredential=` in the systemd unit; in the sandbox, restart \
                 Rudy if it is a link that leads to another folder now"
            }
            _ => "this file",
        };
        problem.label(label).into()
    })
}
