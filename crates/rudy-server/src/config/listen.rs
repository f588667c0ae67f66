//! The addresses to listen on: those of the main file, and those that only sites name.

use std::ptr;

use rudy_config::{Location, Problem};
use rudy_net::engine::Model;
use rudy_service::listen_address::Address;

use super::{Config, Site};

impl Config {
    /// Returns the addresses to accept connections on.
    #[must_use]
    pub fn addresses(&self) -> Vec<Address> {
        self.located_addresses().into_iter().map(|(address, _)| address.clone()).collect()
    }

    /// Returns the addresses to accept connections on, with the locations where they are first written.
    pub(crate) fn located_addresses(&self) -> Vec<(&Address, Location)> {
        let mut all = located(&self.listen, &Location::file(0));
        for site in &self.sites {
            for (address, location) in located(site.addresses().unwrap_or_default(), &site.location) {
                if all.iter().all(|(known, _)| *known != address) {
                    all.push((address, location));
                }
            }
        }
        all
    }

    /// Returns the addresses that serve a site.
    pub(crate) fn addresses_of<'c>(&'c self, site: &'c Site) -> &'c [Address] {
        site.addresses().unwrap_or(&self.listen)
    }

    /// Returns the sites that an address serves.
    pub(crate) fn sites_at(&self, address: &Address) -> impl Iterator<Item = &Site> {
        self.sites.iter().filter(move |site| self.addresses_of(site).contains(address))
    }

    /// Returns the name of a site in logs and metrics: its first host, and its first address if it shares the host with another site.
    pub(crate) fn name_of(&self, site: &Site) -> String {
        let host = site.hosts.first();
        let name = host.map(ToString::to_string).unwrap_or_default();
        let Some([address, ..]) = site.addresses() else { return name };
        if name.is_empty() && site.connections.is_some() {
            return format!("tcp at {address}");
        }
        if !self.sites.iter().any(|other| !ptr::eq(other, site) && other.hosts.first() == host) {
            return name;
        }
        if name.is_empty() { format!("default at {address}") } else { format!("{name} at {address}") }
    }

    /// Chooses the addresses that also serve HTTP/3: those with TLS for which a site has it.
    pub(crate) fn choose_http3(&mut self) {
        let has_site = |address: &Address| self.sites_at(address).any(|site| self.offers_http3(site));
        let chosen: Vec<_> = self
            .addresses()
            .into_iter()
            .filter(|address| can_have_http3(address) && has_site(address))
            .collect();
        let of_sites =
            self.sites.iter_mut().filter_map(|site| site.listen.as_mut()).flat_map(|all| &mut all.0);
        for address in self.listen.iter_mut().chain(of_sites) {
            address.http3 = chosen.contains(address);
        }
    }

    /// Whether a site has HTTP/3.
    pub(crate) fn offers_http3(&self, site: &Site) -> bool {
        let is_wanted = site.http3.unwrap_or(self.http3);
        is_wanted && site.tls.is_some() && self.engine.model == Model::PerCore
    }

    /// Whether not all addresses serve the same sites.
    pub(crate) fn has_separate_listeners(&self) -> bool {
        self.sites.iter().any(|site| site.listen.is_some())
    }
}

/// Whether an address has a port for UDP: the PROXY protocol has none for QUIC, and a service manager passes sockets of TCP.
fn can_have_http3(address: &Address) -> bool {
    address.tls && !address.proxy_protocol && address.endpoint.port().is_some()
}

/// Returns the addresses of the key `listen` in a table.
fn located<'a>(addresses: &'a [Address], table: &Location) -> Vec<(&'a Address, Location)> {
    let location = |index| table.key("listen").index(index);
    addresses.iter().enumerate().map(|(index, address)| (address, location(index))).collect()
}

/// Reports addresses that cannot be listeners beside each other.
pub(crate) fn conflicts(config: &Config) -> Vec<Problem> {
    let all = config.located_addresses();
    let conflicting = all.iter().enumerate().filter_map(|(number, (address, location))| {
        let (other, first) =
            all[..number].iter().find(|(other, _)| address.endpoint.overlaps(&other.endpoint))?;
        let problem = Problem::value(location, format!("`{address}` and `{other}` cannot both be listeners"));
        let problem = problem.label("accepts connections of the other one").also(first, "the other one");
        Some(problem.help("use one of them everywhere, with the same options, or another port"))
    });
    conflicting.collect()
}
