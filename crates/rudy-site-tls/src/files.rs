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
) -> Result<Certificate, Vec<Problem>> {
    let certificate = certificate_and_key(
        (&files.certificate, &location.key("certificate")),
        (&files.key, &location.key("key")),
    );
    let certificate = certificate.map(|read| read.with_source(files.certificate.display().to_string()));
    let Some(file) = &files.ocsp else { return certificate };
    let location = location.key("ocsp");
    match (certificate, read(file, &location)) {
        (Ok(certificate), Ok(response)) => {
            certificate.with_ocsp(response).map_err(|why| vec![*unusable(file, &location, why)])
        }
        (certificate, response) => {
            let problems = certificate.err().unwrap_or_default();
            Err(problems.into_iter().chain(response.err().map(|problem| *problem)).collect())
        }
    }
}

/// Reads a certificate and its key, which the configuration names at these locations.
pub fn certificate_and_key(
    (certificate, at_certificate): (&Path, &Location),
    (key, at_key): (&Path, &Location),
) -> Result<Certificate, Vec<Problem>> {
    let (chain, key_pem) = both(read(certificate, at_certificate), read(key, at_key))?;
    Certificate::from_pem(&chain, &key_pem).map_err(|error| match error {
        CertificateError::Certificate(why) => {
            let of_key = Certificate::key_problem(&key_pem).map(|why| *unusable(key, at_key, why));
            std::iter::once(*unusable(certificate, at_certificate, why)).chain(of_key).collect()
        }
        CertificateError::Key(_) | CertificateError::Mismatch => {
            vec![*unusable(key, at_key, error.to_string())]
        }
    })
}

/// Both values, or the problems of both.
fn both<A, B>(one: Result<A, Box<Problem>>, other: Result<B, Box<Problem>>) -> Result<(A, B), Vec<Problem>> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok((one, other)),
        (one, other) => Err([one.err(), other.err()].into_iter().flatten().map(|problem| *problem).collect()),
    }
}

/// Reads the authorities and revocation lists of client certificates: the files of the table at `location`.
pub(super) fn client_certificates(
    table: &ClientCertificatesTable,
    location: &Location,
    now: SystemTime,
) -> Result<ClientCertificates, Vec<Problem>> {
    let crl = table.crl.as_ref().map(|path| Ok((path, read(path, &location.key("crl"))?))).transpose();
    let (authority, crl) = both(read(&table.authority, &location.key("authority")), crl)?;
    let usage = ClientCertificateUse { is_required: table.required, is_forwarded: table.forward };
    let lists = crl.as_ref().map(|(_, lists)| &lists[..]);
    let clients = ClientCertificates::from_pem(&authority, lists, usage).map_err(|error| {
        let (key, path) = match (&error, &crl) {
            (ClientCertificatesError::Crl(_), Some((path, _))) => ("crl", *path),
            _ => ("authority", &table.authority),
        };
        vec![*unusable(path, &location.key(key), error.to_string())]
    })?;
    match (clients.expiry.filter(|expiry| *expiry < now), &crl) {
        (Some(expiry), Some((path, _))) => {
            let why = format!("the revocation list has expired ({}), so no client is accepted", utc(expiry));
            Err(vec![*unusable(path, &location.key("crl"), why)])
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
