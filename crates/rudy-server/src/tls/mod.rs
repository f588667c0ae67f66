//! TLS of sites: where their certificates come from, and whether they fit.

mod check;
mod files;
mod made;
mod redirect;
mod state;
mod table;
mod watch;

use std::sync::Arc;
use std::time::SystemTime;

use rudy_tls::{Certificate, SiteSettings, TlsSite};

pub(crate) use self::check::listeners;
pub(crate) use self::redirect::{https_port, redirect};
pub(crate) use self::state::TlsState;
pub use self::table::{CertificateTable, MadeCertificate, MinVersion, TlsTable};
pub(crate) use self::watch::INTERVAL as WATCH_INTERVAL;
use self::watch::Watched;
use crate::config::{self, Location, Problem};
use crate::routing::HostPattern;

/// Builds the TLS settings of a site.
pub(crate) fn site(
    site: &config::Site,
    state: &TlsState,
    problems: &mut Vec<Problem>,
) -> Option<Arc<TlsSite>> {
    let table = site.tls.as_ref()?;
    let location = site.location.key("tls");
    let (before, stamps) = (problems.len(), watch::stamps(table));
    problems.extend(table.problems(&location));
    let certificates = if problems.len() == before {
        certificates(table, &location, &site.hosts, state, problems)
    } else {
        Vec::new()
    };
    if problems.len() > before {
        return None;
    }
    let settings = SiteSettings { certificates, min_version: table.min_version.into() };
    match TlsSite::new(settings, &state.ticket_keys) {
        Ok(tls) => {
            let tls = Arc::new(tls);
            state.watch(Watched::new(&tls, table, &site.hosts, stamps));
            Some(tls)
        }
        Err(error) => {
            problems.push(Problem::value(&location, format!("invalid TLS settings: {error}")));
            None
        }
    }
}

/// Reads or makes the certificates of a site, and checks that they fit.
fn certificates(
    table: &TlsTable,
    location: &Location,
    hosts: &[HostPattern],
    state: &TlsState,
    problems: &mut Vec<Problem>,
) -> Vec<Certificate> {
    let now = SystemTime::now();
    if table.source.is_some() {
        let made = state.self_signed(hosts, now);
        let made =
            made.map_err(|error| problems.push(Problem::value(location, error).label("cannot be made")));
        return made.into_iter().collect();
    }
    let mut certificates = Vec::new();
    for (location, files) in table.files(location) {
        match files::certificate(&files) {
            Ok(certificate) => {
                problems.extend(check::misfit(&certificate, hosts, now).map(|why| {
                    let title = format!("cannot use {}", files.certificate.display());
                    Problem::value(&location.key("certificate"), title).label(why)
                }));
                certificates.push(certificate);
            }
            Err(error) => problems.push(error.problem(&location)),
        }
    }
    certificates
}
