//! TLS of sites: where their certificates come from, and whether they fit.

mod authority;
mod check;
mod files;
mod hsts;
mod made;
mod redirect;
mod state;
mod table;
mod ticket_keys;
mod watch;

use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use rudy_tls::{Certificate, SiteSettings, TlsSite};

pub(crate) use self::authority::certificate_file as authority_file;
pub(crate) use self::check::{early_data_notice, listeners};
pub use self::hsts::HstsTable;
pub(crate) use self::hsts::hsts;
pub(crate) use self::redirect::{https_port, redirect};
pub(crate) use self::state::TlsState;
pub use self::table::{CertificateTable, ClientCertificatesTable, MadeCertificate, MinVersion, TlsTable};
pub(crate) use self::ticket_keys::ticket_keys;
pub(crate) use self::watch::INTERVAL as WATCH_INTERVAL;
use self::watch::Watched;
use crate::config::{self, Location, Problem};
use crate::routing::HostPattern;

/// Builds the TLS settings of a site. They are replaced when their files change.
pub(crate) fn site(
    site: &config::Site,
    state: &TlsState,
    problems: &mut Vec<Problem>,
) -> Option<Arc<ArcSwap<TlsSite>>> {
    let table = site.tls.as_ref()?;
    let location = site.location.key("tls");
    let (stamps, invalid) = (watch::stamps(table), table.problems(&location));
    let built = if invalid.is_empty() {
        build(table, &location, &site.hosts, state, SystemTime::now())
    } else {
        Err(invalid)
    };
    match built {
        Ok(tls) => {
            let tls = Arc::new(ArcSwap::from_pointee(tls));
            state.notify(expiry_notices(table, &tls.load(), SystemTime::now()));
            state.watch(Watched::new(&tls, table, &site.hosts, stamps));
            Some(tls)
        }
        Err(more) => {
            problems.extend(more);
            None
        }
    }
}

/// Returns lines about certificates from files that expire soon.
fn expiry_notices(table: &TlsTable, tls: &TlsSite, now: SystemTime) -> Vec<String> {
    let from_files = tls.certificates().iter().filter(|_| table.source.is_none());
    from_files.filter_map(|certificate| check::expiry_notice(certificate, now)).collect()
}

/// Reads or makes what the table at `location` names.
fn build(
    table: &TlsTable,
    location: &Location,
    hosts: &[HostPattern],
    state: &TlsState,
    now: SystemTime,
) -> Result<TlsSite, Vec<Problem>> {
    let mut problems = Vec::new();
    let certificates = certificates(table, location, hosts, state, now, &mut problems);
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
        early_data: table.early_data.then(|| state.single_use_sessions()),
    };
    TlsSite::new(settings, &state.ticket_keys)
        .map_err(|error| vec![Problem::value(location, format!("invalid TLS settings: {error}"))])
}

/// Reads or makes the certificates of a site, and checks that they fit.
fn certificates(
    table: &TlsTable,
    location: &Location,
    hosts: &[HostPattern],
    state: &TlsState,
    now: SystemTime,
    problems: &mut Vec<Problem>,
) -> Vec<Certificate> {
    if let Some(kind) = table.source {
        let made = state.made(kind, hosts, now).map(|made| made.with_source(kind.to_string()));
        let made =
            made.map_err(|error| problems.push(Problem::value(location, error).label("cannot be made")));
        return made.into_iter().collect();
    }
    let read = |(location, files): (Location, CertificateTable)| {
        let certificate = files::certificate(&files, &location)?;
        match check::misfit(&certificate, hosts, now) {
            Some(why) => Err(files::unusable(&files.certificate, &location.key("certificate"), why)),
            None => Ok(certificate.with_source(files.certificate.display().to_string())),
        }
    };
    let all = table.files(location).into_iter().map(read);
    all.filter_map(|certificate| certificate.map_err(|problem| problems.push(*problem)).ok()).collect()
}
