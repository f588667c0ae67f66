//! What the configuration as a whole means for the TLS of its sites, and what conflicts with it.

use std::time::Duration;

use http::HeaderValue;
use rudy_config::{Location, Problem};
use rudy_pipeline::HTTPS_PORT;
use rudy_service::listen_address::Address;
use rudy_site_tls::{Definition, ticket_keys_problem};

use super::{Config, Site};

/// What browsers' built-in lists require (hstspreload.org).
const PRELOAD_MIN: Duration = Duration::from_hours(365 * 24);

impl Config {
    /// Where the TLS settings of a site come from. `None` without TLS.
    pub(crate) fn tls_of(&self, site: &Site) -> Option<Definition> {
        Some(Definition {
            table: site.tls.clone()?,
            location: site.location.key("tls"),
            hosts: site.hosts.clone(),
            directory: self.acme.directory().to_owned(),
            http2: self.offers_http2(),
            http3: self.offers_http3(site),
            other_protocols: site.connections.as_ref().map(|connections| connections.alpn.clone()),
        })
    }

    /// Whether a site has TLS.
    pub(crate) fn has_tls(&self) -> bool {
        self.sites.iter().any(|site| site.tls.is_some())
    }

    /// Reports a file with the keys of session tickets that cannot be used, if a site has TLS.
    pub(crate) fn unusable_ticket_keys(&self) -> Option<Problem> {
        let path = self.ticket_keys.as_deref().filter(|_| self.has_tls())?;
        ticket_keys_problem(path, &Location::file(0).key("ticket_keys"))
    }
}

/// Returns the value of `Strict-Transport-Security` for a site.
pub(crate) fn hsts(config: &Config, site: &Site, problems: &mut Vec<Problem>) -> Option<HeaderValue> {
    let table = site.hsts.as_ref()?.on()?;
    let location = site.location.key("hsts");
    // A trusted proxy may provide HTTPS.
    if site.tls.is_none() && config.client_address.trusted_proxies.is_empty() {
        let problem = Problem::key(&location, "`hsts` has no effect without HTTPS").label("needs HTTPS");
        problems.push(problem.help("add `tls` to the site, or `trusted_proxies` if a proxy provides HTTPS"));
    }
    if table.preload && (!table.include_subdomains || table.max_age.0 < PRELOAD_MIN) {
        let problem = Problem::value(&location.key("preload"), "browsers would not list this site");
        problems.push(problem.label("needs `include_subdomains = true` and `max_age = \"365d\"` or more"));
    }
    let subdomains = if table.include_subdomains { "; includeSubDomains" } else { "" };
    let preload = if table.preload { "; preload" } else { "" };
    HeaderValue::try_from(format!("max-age={}{subdomains}{preload}", table.max_age.0.as_secs())).ok()
}

/// Returns the port to redirect the site's plain requests to: that of its first address with TLS.
pub(crate) fn https_port(config: &Config, site: &Site, problems: &mut Vec<Problem>) -> Option<u16> {
    if !site.redirects_to_https() {
        return None;
    }
    // A trusted proxy may provide HTTPS.
    if site.tls.is_none() && config.client_address.trusted_proxies.is_empty() {
        let location = site.location.key("redirect_to_https");
        let problem = Problem::key(&location, "the site has no TLS to redirect to").label("needs HTTPS");
        problems.push(problem.help("add `tls` to the site, or `trusted_proxies` if a proxy provides HTTPS"));
    }
    let mut addresses = config.addresses_of(site).iter().filter(|address| address.tls);
    let port = addresses.find_map(|address| address.endpoint.port());
    Some(port.unwrap_or(HTTPS_PORT))
}

/// Reports an address whose connections may speak HTTP/2, which the engine does not.
pub(crate) fn h2c(config: &Config) -> Option<Problem> {
    let (_, location) = config.located_addresses().into_iter().find(|(address, _)| address.h2c)?;
    config.engine.model.has_thread_per_connection().then(|| {
        Problem::value(&location, format!("the engine `{}` speaks only HTTP/1.1", config.engine.model))
            .label("expects HTTP/2")
            .help("use the engine `percore`, `task` or `mailbox`, or remove `,h2c`")
    })
}

/// Reports an address with TLS that serves no site with TLS, and a site with TLS that no address with TLS serves.
pub(crate) fn listeners(config: &Config) -> impl Iterator<Item = Problem> {
    let has_no_site = |address: &Address| {
        address.tls && config.sites_at(address).all(|site| site.tls.is_none() && site.connections.is_none())
    };
    let address = config.located_addresses().into_iter().find(|(address, _)| has_no_site(address));
    let address = address.map(|(_, location)| {
        let help = "add `tls = \"self-signed\"`, or `tls` with `certificate` and `key`, to a [[site]]";
        Problem::value(&location, "no site has TLS").label("expects HTTPS").help(help)
    });
    let has_no_address =
        |site: &&Site| site.tls.is_some() && config.addresses_of(site).iter().all(|address| !address.tls);
    let site = config.sites.iter().find(has_no_address).map(|site| {
        let problem = Problem::key(&site.location.key("tls"), "no address accepts HTTPS");
        let help = "append `,tls` to an address: `listen = [\":443,tls\", \":80\"]`";
        problem.label("a site with TLS").help(help)
    });
    address.into_iter().chain(site)
}

/// Returns a line about sessions that are in memory only, because early data must not be accepted twice.
pub(crate) fn early_data_notice(config: &Config) -> Option<String> {
    let has_early_data = |site: &Site| site.tls.as_ref().is_some_and(|tls| tls.early_data);
    config.sites.iter().any(has_early_data).then(|| {
        "sites with `early_data` keep their sessions in memory: after a restart, and at another machine, clients \
         make a full handshake"
            .to_owned()
    })
}
