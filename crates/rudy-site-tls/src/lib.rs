//! TLS of sites: where their certificates come from, and whether they fit.

pub mod acme;
mod authority;
mod check;
mod files;
mod hsts;
mod made;
mod state;
mod table;
mod ticket_keys;
mod watch;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use rudy_config::{Location, Problem};
use rudy_tls::{Certificate, SiteSettings, TlsSite};

pub use self::authority::certificate_file as authority_file;
pub use self::files::certificate_and_key;
pub use self::hsts::HstsTable;
use self::made::MadeCertificate;
pub use self::state::TlsState;
pub use self::table::{CertificateSource, CertificateTable, ClientCertificatesTable, MinVersion, TlsTable};
pub use self::ticket_keys::ticket_keys_problem;
use self::watch::Watched;
use rudy_pipeline::routing::HostPattern;

/// Where the TLS settings of a site come from.
#[derive(Debug, Clone)]
pub struct Definition {
    /// The settings.
    pub table: TlsTable,
    /// The location of the table.
    pub location: Location,
    /// The hosts of the site.
    pub hosts: Vec<HostPattern>,
    /// The authority of `tls = "auto"`.
    pub directory: String,
    /// Whether HTTP/2 is offered.
    pub http2: bool,
}

/// Builds the TLS settings of a site. They are replaced when their files change.
pub fn site(
    definition: Definition,
    state: &TlsState,
    problems: &mut Vec<Problem>,
) -> Option<Arc<ArcSwap<TlsSite>>> {
    let (stamps, invalid) = (definition.stamps(state), definition.table.problems(&definition.location));
    let now = SystemTime::now();
    let built = if invalid.is_empty() { definition.build(state, now) } else { Err(invalid) };
    match built {
        Ok(tls) => {
            let tls = Arc::new(ArcSwap::from_pointee(tls));
            let watched = Watched::new(&tls, definition, stamps);
            state.notify(watched.first_expiry_notices(&tls.load(), now));
            state.watch(watched);
            Some(tls)
        }
        Err(more) => {
            problems.extend(more);
            None
        }
    }
}

impl Definition {
    /// Whether the certificates are ordered from an authority.
    fn is_auto(&self) -> bool {
        self.table.source == Some(CertificateSource::Auto)
    }

    /// Whether Rudy makes the certificates itself.
    fn is_made(&self) -> bool {
        self.table.source.is_some() && !self.is_auto()
    }

    /// The files of certificates and authorities.
    fn paths(&self, state: &TlsState) -> Vec<PathBuf> {
        let ordered = self.ordered_names().filter_map(|name| state.acme.file(&self.directory, &name));
        self.table.paths().map(Path::to_owned).chain(ordered).collect()
    }

    /// The names whose certificates are ordered.
    fn ordered_names(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.hosts.iter().filter(|_| self.is_auto()).filter_map(HostPattern::certificate_name)
    }

    /// Reads or makes what the table names.
    fn build(&self, state: &TlsState, now: SystemTime) -> Result<TlsSite, Vec<Problem>> {
        let (table, location) = (&self.table, &self.location);
        let mut problems = Vec::new();
        let certificates = self.certificates(state, now, &mut problems);
        let clients = table.client_certificates.as_ref().and_then(|table| {
            let clients = files::client_certificates(table, &location.key("client_certificates"), now);
            clients.map_err(|problem| problems.push(*problem)).ok()
        });
        if !problems.is_empty() {
            return Err(problems);
        }
        let settings = SiteSettings {
            certificates,
            min_version: table.min_version.into(),
            client_certificates: clients,
            key_log: state.key_log(),
            http2: self.http2,
            early_data: table.early_data.then(|| state.single_use_sessions()),
        };
        TlsSite::new(settings, &state.ticket_keys)
            .map_err(|error| vec![Problem::value(location, format!("invalid TLS settings: {error}"))])
    }

    /// Reads or makes the certificates, and checks that they fit. One that an authority has not signed yet is missing.
    fn certificates(
        &self,
        state: &TlsState,
        now: SystemTime,
        problems: &mut Vec<Problem>,
    ) -> Vec<Certificate> {
        let Some(source) = self.table.source else { return self.read_files(now, problems) };
        let kind = match source {
            CertificateSource::Auto => {
                let stored = self.ordered_names().map(|name| state.acme.stored(&self.directory, &name));
                let stored = stored.filter_map(|stored| {
                    stored.map_err(|why| problems.push(Problem::value(&self.location, why))).ok().flatten()
                });
                return stored.map(|certificate| certificate.with_source(source.to_string())).collect();
            }
            CertificateSource::SelfSigned => MadeCertificate::SelfSigned,
            CertificateSource::Internal => MadeCertificate::Internal,
        };
        let made = state.made(kind, &self.hosts, now).map(|made| made.with_source(source.to_string()));
        let made = made
            .map_err(|error| problems.push(Problem::value(&self.location, error).label("cannot be made")));
        made.into_iter().collect()
    }

    fn read_files(&self, now: SystemTime, problems: &mut Vec<Problem>) -> Vec<Certificate> {
        let read = |(location, files): (Location, CertificateTable)| {
            let certificate = files::certificate(&files, &location)?;
            match check::misfit(&certificate, &self.hosts, now) {
                Some(why) => Err(files::unusable(&files.certificate, &location.key("certificate"), why)),
                None => Ok(certificate.with_source(files.certificate.display().to_string())),
            }
        };
        let all = self.table.files(&self.location).into_iter().map(read);
        all.filter_map(|certificate| certificate.map_err(|problem| problems.push(*problem)).ok()).collect()
    }
}
