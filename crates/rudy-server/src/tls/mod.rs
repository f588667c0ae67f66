//! TLS of sites: where their certificates come from.

mod files;
mod table;

pub use table::TlsTable;

use std::sync::Arc;

use rudy_tls::{SiteSettings, TicketKey, TicketKeys, TlsSite};

use crate::config::{self, Problem};

/// What the TLS of all configurations shares: a session survives a reload.
#[derive(Debug)]
pub(crate) struct TlsState {
    pub(crate) ticket_keys: Arc<TicketKeys>,
}

impl Default for TlsState {
    fn default() -> Self {
        let keys = TicketKeys::default();
        // Without keys, there are no tickets.
        keys.set(TicketKey::random().into_iter().collect());
        Self { ticket_keys: Arc::new(keys) }
    }
}

/// Builds the TLS settings of a site.
pub(crate) fn site(
    site: &config::Site,
    state: &TlsState,
    problems: &mut Vec<Problem>,
) -> Option<Arc<TlsSite>> {
    let table = site.tls.as_ref()?;
    let location = site.location.key("tls");
    let certificate = files::certificate(table, &location).map_err(|problem| problems.push(*problem)).ok()?;
    let settings = SiteSettings { certificates: vec![certificate], ..SiteSettings::default() };
    match TlsSite::new(settings, &state.ticket_keys) {
        Ok(site) => Some(Arc::new(site)),
        Err(error) => {
            problems.push(Problem::value(&location, format!("invalid TLS settings: {error}")));
            None
        }
    }
}
