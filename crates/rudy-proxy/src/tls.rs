//! TLS for `https` upstreams: the certificates that Rudy trusts, and the one that it presents.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rudy_config::{Location, Problem};
use rudy_site_tls::certificate_and_key;
use rudy_system::watched_files::{Seen, Stamp, stamp};
use rudy_tls::{Certificate, ClientSettings, ClientTls, Trust};

use super::table::ProxyTable;
use super::url::UpstreamUrl;

/// The settings for the upstreams of a table. They are replaced when their files change.
#[derive(Debug)]
pub(super) struct UpstreamTls {
    settings: Arc<ClientSettings>,
    files: Files,
    /// The location of the table.
    location: Location,
    seen: Mutex<Seen>,
}

/// The files of a table.
#[derive(Debug)]
struct Files {
    trusted: Option<PathBuf>,
    /// Whether any certificate is accepted.
    trusts_all: bool,
    /// A certificate and its key.
    certificate: Option<(PathBuf, PathBuf)>,
}

impl UpstreamTls {
    /// Reads the files of a table; `None` without an `https` upstream.
    ///
    /// # Errors
    ///
    /// A file cannot be used.
    pub(super) fn new(table: &ProxyTable, location: &Location) -> Result<Option<Arc<Self>>, Vec<Problem>> {
        if table.urls().all(|url| url.tls_name().is_none()) {
            return Ok(None);
        }
        let path = |path: &rudy_config::FilePath| path.0.clone();
        let certificate = table.client_certificate.as_ref().map(path);
        let files = Files {
            trusted: table.trusted_certificates.as_ref().map(path),
            trusts_all: table.insecure_skip_verify,
            certificate: certificate.zip(table.client_key.as_ref().map(path)),
        };
        // Before the files are read: a change in between is found later.
        let seen = Mutex::new(Seen::new(files.stamps()));
        let settings = Arc::new(files.read(location)?);
        Ok(Some(Arc::new(Self { settings, files, location: location.clone(), seen })))
    }

    /// Returns what is needed for sessions with an upstream.
    pub(super) fn of(&self, url: &UpstreamUrl) -> Option<ClientTls> {
        ClientTls::new(self.settings.clone(), url.tls_name()?)
    }

    /// Replaces the settings if their files have changed; `name` is that of the proxy. Returns a line for the log.
    pub(super) fn replace_changed(&self, name: &dyn Display) -> Option<Result<String, String>> {
        let mut seen = self.seen.lock();
        let read = || self.files.read(&self.location).map_err(|problems| lines(&problems));
        Some(match seen.update(self.files.stamps(), read)? {
            Ok(new) => {
                self.settings.replace(&new);
                let files: Vec<_> = self.files.paths().map(|path| path.display().to_string()).collect();
                Ok(format!("replaced the TLS settings for {name}: {} changed", files.join(", ")))
            }
            Err(why) => Err(format!("{why}; the old TLS settings for {name} stay in use")),
        })
    }
}

impl Files {
    fn paths(&self) -> impl Iterator<Item = &Path> {
        let certificate = self.certificate.iter().flat_map(|(certificate, key)| [certificate, key]);
        self.trusted.iter().chain(certificate).map(PathBuf::as_path)
    }

    fn stamps(&self) -> Vec<Stamp> {
        self.paths().map(stamp).collect()
    }

    fn read(&self, location: &Location) -> Result<ClientSettings, Vec<Problem>> {
        let at = |key: &str| location.key(key);
        let certificate = self.certificate.as_ref().map(|(certificate, key)| {
            certificate_and_key((certificate, &at("client_certificate")), (key, &at("client_key")))
        });
        let trust = match &self.trusted {
            _ if self.trusts_all => Trust::All,
            Some(path) => Trust::File(path.clone()),
            None => Trust::Platform,
        };
        let settings = |certificate: Option<&Certificate>| {
            ClientSettings::new(&trust, certificate).map_err(|error| {
                let problem = Problem::value(&at("trusted_certificates"), error.to_string());
                vec![problem.label("for `https` upstreams")]
            })
        };
        match certificate.transpose() {
            Ok(certificate) => settings(certificate.as_ref()),
            Err(problems) => {
                Err(problems.into_iter().chain(settings(None).err().unwrap_or_default()).collect())
            }
        }
    }
}

/// The problems on one line, for the log.
fn lines(problems: &[Problem]) -> String {
    problems.iter().map(Problem::line).collect::<Vec<_>>().join("; ")
}
