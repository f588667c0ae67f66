//! The `tls` table of a site.

use std::fmt;
use std::path::Path;

use rudy_config::{FilePath, Located, Location, OrOff, Problem, Table, WordList, Words, missing};

use super::algorithms::{CipherSuite, Curve};

/// TLS of a site: a certificate from an authority (\"auto\"), made on the spot (\"self-signed\" or \"internal\"), or a table with
/// files.
#[derive(Debug, Clone, Table)]
#[setting(short(source), what = "\"auto\", \"self-signed\", \"internal\" or a table", default)]
pub struct TlsTable {
    /// Where the certificate comes from: `auto`, from the authority of `[acme]`, for each of the `hosts`; `self-signed`, which browsers
    /// warn about; `internal`, signed by a local authority that `rudy certificates trust` installs.
    pub source: Option<CertificateSource>,
    /// File with the certificate of the site, followed by those of its issuers, in PEM.
    #[setting(example = "cert.pem")]
    pub certificate: Option<FilePath>,
    /// File with the private key of the certificate, in PEM, without a password.
    #[setting(example = "key.pem")]
    pub key: Option<FilePath>,
    /// File with an OCSP response for the certificate, in DER. It is sent to clients that ask for one.
    #[setting(example = "ocsp.der")]
    pub ocsp: Option<FilePath>,
    /// Further certificates, for other names or with keys of other types. A client receives one that is valid for the server name, and of
    /// these the first that it supports: ECDSA, Ed25519, RSA.
    #[setting(example = [{ certificate = "rsa.pem", key = "rsa-key.pem" }])]
    pub certificates: Vec<Located<CertificateTable>>,
    /// Minimum protocol version: `1.2` or `1.3`. The default is `1.2`.
    #[setting(example = "1.3")]
    pub min_version: Option<MinVersion>,
    /// The cipher suites of all versions, the preferred one first, also in OpenSSL's spelling (`ECDHE-RSA-AES128-GCM-SHA256`) and as one text
    /// with colons. A client that prefers `ChaCha20` gets it, if it is in the list. By default, all.
    #[setting(example = ["TLS_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"])]
    pub cipher_suites: Option<WordList<CipherSuite>>,
    /// The curves and other groups for the exchange of keys, the preferred one first, also as one text with colons. The default is
    /// X25519MLKEM768, X25519, secp256r1 and secp384r1, of which a client gets its own first one.
    #[setting(example = ["X25519MLKEM768", "X25519", "secp256r1", "secp384r1"])]
    pub curves: Option<WordList<Curve>>,
    /// Whether clients get session tickets, with which they return without a full handshake. The default is `true`.
    #[setting(example = false)]
    pub tickets: Option<bool>,
    /// Accepts early data (0-RTT) from clients that return: safe requests are answered without waiting for the handshake. The
    /// default is `false`.
    pub early_data: bool,
    /// Asks clients for certificates. By default, one is required. `false` switches off the setting for all sites.
    #[setting(example = { authority = "clients.pem" })]
    pub client_certificates: Option<OrOff<ClientCertificatesTable>>,
}

/// Where a certificate comes from, if not from files of the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Words)]
pub enum CertificateSource {
    /// From the authority of `[acme]`, and renewed in time.
    Auto,
    /// Signed with its own key.
    SelfSigned,
    /// Signed by a local authority, which `rudy certificates trust` installs.
    Internal,
}

impl fmt::Display for CertificateSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::SelfSigned => "self-signed",
            Self::Internal => "internal",
        })
    }
}

/// The files of a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
pub struct CertificateTable {
    /// File with the certificate of the site, followed by those of its issuers, in PEM.
    #[setting(example = "cert.pem")]
    pub certificate: FilePath,
    /// File with the private key of the certificate, in PEM, without a password.
    #[setting(example = "key.pem")]
    pub key: FilePath,
    /// File with an OCSP response for the certificate, in DER. It is sent to clients that ask for one.
    #[setting(example = "ocsp.der")]
    pub ocsp: Option<FilePath>,
}

/// The client certificates that a site accepts.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
pub struct ClientCertificatesTable {
    /// File with the certificates of the authorities that issue client certificates, or with such certificates themselves, in PEM.
    #[setting(example = "clients.pem")]
    pub authority: FilePath,
    /// File with the revocation lists of these authorities, in PEM. With it, each authority needs a current list.
    #[setting(example = "revoked.pem")]
    pub crl: Option<FilePath>,
    /// Whether clients without a certificate are rejected. The default is `true`; with `false`, apps decide by
    /// `SSL_CLIENT_VERIFY`.
    #[setting(default = true)]
    pub required: bool,
    /// Whether apps receive the certificate itself, as `SSL_CLIENT_CERT`. The default is `false`.
    #[setting(default)]
    pub forward: bool,
}

/// A protocol version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Words)]
pub enum MinVersion {
    /// TLS 1.2.
    #[default]
    #[setting(name = "1.2")]
    Tls12,
    /// TLS 1.3.
    #[setting(name = "1.3")]
    Tls13,
}

impl From<MinVersion> for rudy_tls::Version {
    fn from(version: MinVersion) -> Self {
        match version {
            MinVersion::Tls12 => Self::Tls12,
            MinVersion::Tls13 => Self::Tls13,
        }
    }
}

impl CertificateTable {
    /// The files.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        [Some(&self.certificate), Some(&self.key), self.ocsp.as_ref()]
            .into_iter()
            .flatten()
            .map(|file| &**file)
    }
}

impl TlsTable {
    /// The files of all certificates, with their locations in the table at `location`.
    pub(super) fn files(&self, location: &Location) -> Vec<(Location, CertificateTable)> {
        let own = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                let (certificate, key) = (certificate.clone(), key.clone());
                Some((location.clone(), CertificateTable { certificate, key, ocsp: self.ocsp.clone() }))
            }
            _ => None,
        };
        let more = self.certificates.iter().map(|files| (files.location.clone(), files.value.clone()));
        own.into_iter().chain(more).collect()
    }

    /// All files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let more = self.certificates.iter().flat_map(|files| files.value.paths());
        let own = [self.certificate.as_ref(), self.key.as_ref(), self.ocsp.as_ref()];
        let clients = self.client_certificates().into_iter();
        let clients = clients.flat_map(|clients| [Some(&clients.authority), clients.crl.as_ref()]);
        let (own, clients) = (own.into_iter().flatten(), clients.flatten());
        own.map(|file| &**file).chain(more).chain(clients.map(|file| &**file))
    }

    /// The client certificates that the site accepts.
    #[must_use]
    pub fn client_certificates(&self) -> Option<&ClientCertificatesTable> {
        self.client_certificates.as_ref().and_then(OrOff::on)
    }

    /// The minimum protocol version.
    pub(super) fn min_version(&self) -> MinVersion {
        self.min_version.unwrap_or_default()
    }

    /// Whether clients get session tickets.
    pub(super) fn has_tickets(&self) -> bool {
        self.tickets.unwrap_or(true)
    }

    /// Whether it is a source of certificates. Without, it has only settings for sites with tables of their own.
    #[must_use]
    pub fn has_certificates(&self) -> bool {
        let files = [&self.certificate, &self.key, &self.ocsp];
        self.source.is_some() || files.iter().any(|file| file.is_some()) || !self.certificates.is_empty()
    }

    /// Takes the settings that it lacks from the table for all sites. Returns their keys.
    pub fn inherit(&mut self, of_all: &Self) -> impl Iterator<Item = &'static str> + use<> {
        let taken = [
            take(&mut self.client_certificates, of_all.client_certificates.as_ref()),
            take(&mut self.min_version, of_all.min_version.as_ref()),
            take(&mut self.cipher_suites, of_all.cipher_suites.as_ref()),
            take(&mut self.curves, of_all.curves.as_ref()),
            take(&mut self.tickets, of_all.tickets.as_ref()),
        ];
        Self::INHERITED.into_iter().zip(taken).filter(|(_, is_taken)| *is_taken).map(|(key, _)| key)
    }

    /// The keys of a site that its table takes from that for all sites.
    pub const INHERITED: [&str; 5] =
        ["tls.client_certificates", "tls.min_version", "tls.cipher_suites", "tls.curves", "tls.tickets"];

    /// Returns the problems that the schema cannot express.
    pub(super) fn problems(&self, location: &Location) -> Vec<Problem> {
        let mut problems = self.problems_of_source(location);
        if self.early_data && !self.has_tickets() {
            let problem =
                Problem::key(&location.key("early_data"), "`early_data` needs session tickets".to_owned());
            let problem = problem.label("only clients that return with a ticket send early data");
            problems.push(problem.also(&location.key("tickets"), "issues none"));
        }
        if self.early_data && self.client_certificates().is_some() {
            let title = "`early_data` and `client_certificates` exclude each other";
            let problem = Problem::key(&location.key("early_data"), title.to_owned());
            let clients = location.key("client_certificates");
            problems.push(problem.label("before the client is known").also(&clients, "decides who it is"));
        }
        problems
    }

    fn problems_of_source(&self, location: &Location) -> Vec<Problem> {
        let given = [("certificate", &self.certificate), ("key", &self.key), ("ocsp", &self.ocsp)];
        let has_own = given.iter().any(|(_, file)| file.is_some());
        if self.source.is_some() {
            let conflict = |key| {
                let problem =
                    Problem::key(&location.key(key), format!("`source` and `{key}` exclude each other"));
                problem
                    .label("a certificate from files")
                    .also(&location.key("source"), "a certificate that Rudy makes or orders")
            };
            let files = given.iter().filter(|(_, file)| file.is_some()).map(|(key, _)| conflict(key));
            return files.chain((!self.certificates.is_empty()).then(|| conflict("certificates"))).collect();
        }
        if !has_own && !self.certificates.is_empty() {
            return Vec::new();
        }
        given[..2]
            .iter()
            .filter(|(_, file)| file.is_none())
            .map(|(key, _)| missing(&(), location, key))
            .collect()
    }
}

/// Sets a missing setting. Returns whether it was missing.
fn take<T: Clone>(own: &mut Option<T>, of_all: Option<&T>) -> bool {
    let is_taken = own.is_none() && of_all.is_some();
    if is_taken {
        *own = of_all.cloned();
    }
    is_taken
}
