//! The definition of the TLS of a site, from which its settings are built.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rudy_config::{Location, Problem};
use rudy_pipeline::routing::HostPattern;
use rudy_system::watched_files::{Stamp, stamp};
use rudy_tls::{Certificate, SiteSettings, TlsSite};

use super::algorithms::names;
use super::made::MadeCertificate;
use super::sources::Sources;
use super::table::{CertificateSource, CertificateTable, TlsTable};
use super::{check, files, sufficient};

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
    /// Whether HTTP/3 is served.
    pub http3: bool,
    /// The protocols that are offered (ALPN) if connections do not speak HTTP.
    pub other_protocols: Option<Vec<String>>,
}

impl Definition {
    /// Whether the certificates are ordered from an authority.
    pub(super) fn is_auto(&self) -> bool {
        self.table.source == Some(CertificateSource::Auto)
    }

    /// Whether Rudy makes the certificates itself.
    pub(super) fn is_made(&self) -> bool {
        self.table.source.is_some() && !self.is_auto()
    }

    /// The files of certificates and authorities.
    pub(super) fn paths(&self, sources: &Sources) -> Vec<PathBuf> {
        let ordered = self.ordered_names().filter_map(|name| sources.acme.file(&self.directory, &name));
        self.table.paths().map(Path::to_owned).chain(ordered).collect()
    }

    /// Returns the stamps of the files, before they are read: a change in between is found later.
    pub(super) fn stamps(&self, sources: &Sources) -> Vec<Stamp> {
        self.paths(sources).iter().map(|path| stamp(path)).collect()
    }

    /// The names whose certificates are ordered.
    pub(super) fn ordered_names(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.hosts.iter().filter(|_| self.is_auto()).filter_map(HostPattern::certificate_name)
    }

    /// Returns the problems of the table alone.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let of_table = self.table.problems(&self.location);
        of_table.into_iter().chain(sufficient::problems(&self.table, &self.location)).collect()
    }

    /// Reads or makes what the table names.
    pub(super) fn build(&self, sources: &Sources, now: SystemTime) -> Result<TlsSite, Vec<Problem>> {
        let (table, location) = (&self.table, &self.location);
        let mut problems = Vec::new();
        let certificates = self.certificates(sources, now, &mut problems);
        let clients = table.client_certificates().and_then(|table| {
            let clients = files::client_certificates(table, &location.key("client_certificates"), now);
            clients.map_err(|more| problems.extend(more)).ok()
        });
        if !problems.is_empty() {
            return Err(problems);
        }
        let settings = SiteSettings {
            certificates,
            min_version: table.min_version().into(),
            cipher_suites: names(table.cipher_suites.as_ref()),
            groups: names(table.curves.as_ref()),
            has_no_tickets: !table.has_tickets(),
            client_certificates: clients,
            key_log: sources.key_log(),
            http2: self.http2,
            http3: self.http3,
            other_protocols: self.other_protocols.clone(),
            early_data: table.early_data.then(|| sources.single_use_sessions()),
            ..SiteSettings::default()
        };
        TlsSite::new(&settings, &sources.ticket_keys)
            .map_err(|error| vec![Problem::value(location, format!("invalid TLS settings: {error}"))])
    }

    /// Reads or makes the certificates, and checks that they fit. One that an authority has not signed yet is missing.
    fn certificates(
        &self,
        sources: &Sources,
        now: SystemTime,
        problems: &mut Vec<Problem>,
    ) -> Vec<Arc<Certificate>> {
        let Some(source) = self.table.source else { return self.read_files(sources, now, problems) };
        let kind = match source {
            CertificateSource::Auto => {
                let names = self.ordered_names();
                return names.filter_map(|name| self.stored(sources, &name, problems)).collect();
            }
            CertificateSource::SelfSigned => MadeCertificate::SelfSigned,
            CertificateSource::Internal => MadeCertificate::Internal,
        };
        let made = sources.made(kind, &self.hosts, now).map(|made| made.with_source(source.to_string()));
        let made = made
            .map_err(|error| problems.push(Problem::value(&self.location, error).label("cannot be made")));
        made.into_iter().map(Arc::new).collect()
    }

    /// Returns the certificate of an authority for a name, if it is there.
    fn stored(&self, sources: &Sources, name: &str, problems: &mut Vec<Problem>) -> Option<Arc<Certificate>> {
        let file = sources.acme.file(&self.directory, name)?;
        let stored = sources.shared(vec![file], || {
            let stored = sources.acme.stored(&self.directory, name).map_err(Some)?;
            stored.map(|certificate| certificate.with_source(CertificateSource::Auto.to_string())).ok_or(None)
        });
        let report = |why| problems.push(Problem::value(&self.location, why));
        stored.map_err(|why: Option<String>| why.map(report)).ok()
    }

    fn read_files(
        &self,
        sources: &Sources,
        now: SystemTime,
        problems: &mut Vec<Problem>,
    ) -> Vec<Arc<Certificate>> {
        let files = self.table.files(&self.location);
        // What one lacks, another may have.
        let is_alone = files.len() == 1;
        let mut certificates = Vec::new();
        for (location, files) in &files {
            let paths = files.paths().map(Path::to_owned).collect();
            let read = sources.shared(paths, || files::certificate(files, location));
            match read.and_then(|certificate| self.fitting(certificate, (location, files), is_alone, now)) {
                Ok(certificate) => certificates.push(certificate),
                Err(more) => problems.extend(more),
            }
        }
        if problems.is_empty() {
            problems.extend(check::host_without(&certificates, &self.hosts).map(|host| {
                let title = format!("no certificate is valid for {host}");
                Problem::value(&self.location, title).label("needs one for each host")
            }));
        }
        certificates
    }

    /// Returns a certificate from files if it fits the site.
    fn fitting(
        &self,
        certificate: Arc<Certificate>,
        (location, files): (&Location, &CertificateTable),
        is_alone: bool,
        now: SystemTime,
    ) -> Result<Arc<Certificate>, Vec<Problem>> {
        if let Some(why) = check::misfit(&certificate, &self.hosts, is_alone, now) {
            return Err(vec![*files::unusable(&files.certificate, &location.key("certificate"), why)]);
        }
        let name = files.certificate.display();
        match sufficient::misfit(&self.table, &self.location, certificate.key_type, name) {
            Some(problem) => Err(vec![problem]),
            None => Ok(certificate),
        }
    }
}
