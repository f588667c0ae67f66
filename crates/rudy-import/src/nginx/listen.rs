//! The addresses of servers. In Rudy, all sites write an address in the same way.

use std::collections::BTreeMap;

use super::Context;
use super::scope::Scope;
use super::text::substitute;
use crate::syntax::Directive;

/// The addresses of all servers.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    options: BTreeMap<String, Options>,
    /// The server that handles unknown hosts, by address: its index, and whether it is declared.
    defaults: BTreeMap<String, (usize, bool)>,
    /// The addresses of each server, with their directives.
    servers: Vec<Vec<(String, Option<Directive>)>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Options {
    tls: bool,
    proxy_protocol: bool,
}

impl Listeners {
    pub(super) fn of(servers: &[Scope<'_>], context: &mut Context<'_>) -> Self {
        let mut listeners = Self::default();
        for (index, server) in servers.iter().enumerate() {
            let is_tls = server.find("ssl").is_some_and(|ssl| ssl.arg(0) == "on");
            context.ledger.all_translated(server.find("ssl"));
            let mut addresses = Vec::new();
            for listen in super::scope::named(server.own(), "listen") {
                let Some(address) = address(listen, server, context) else { continue };
                listeners.add(index, &address, listen, is_tls);
                if !addresses.iter().any(|(known, _)| *known == address) {
                    addresses.push((address, Some(listen.clone())));
                }
            }
            if addresses.is_empty() {
                addresses.push((":80".to_owned(), None));
                listeners.defaults.entry(":80".to_owned()).or_insert((index, false));
            }
            listeners.servers.push(addresses);
        }
        listeners.join_wildcards(context);
        listeners
    }

    fn add(&mut self, index: usize, address: &str, listen: &Directive, is_tls: bool) {
        let has = |option: &str| listen.args.iter().skip(1).any(|arg| arg == option);
        let options = self.options.entry(address.to_owned()).or_default();
        options.tls |= has("ssl") || has("quic") || is_tls;
        options.proxy_protocol |= has("proxy_protocol");
        let is_declared = has("default_server") || has("default");
        let default = self.defaults.entry(address.to_owned()).or_insert((index, is_declared));
        if is_declared && !default.1 {
            *default = (index, true);
        }
    }

    /// A port on all addresses and on one is an error in Rudy: the sites of the one are reached by their hosts.
    fn join_wildcards(&mut self, context: &mut Context<'_>) {
        let all: Vec<String> = self.servers.iter().flatten().map(|(address, _)| address.clone()).collect();
        for (address, listen) in self.servers.iter_mut().flatten() {
            let port = address.rsplit(':').next().unwrap_or_default();
            let wildcard = format!(":{port}");
            if !address.starts_with(['u', ':']) && all.contains(&wildcard) {
                if let Some(listen) = listen {
                    let advice = format!(
                        "{address} is a part of {wildcard}: at all addresses, hosts have this site. Choose another port"
                    );
                    context.ledger.unprotected(listen, advice);
                }
                *address = wildcard;
            }
        }
    }

    /// The values of `listen` for a server: all, or those where it has the unknown hosts.
    pub(super) fn addresses(&self, index: usize, of_default: bool) -> Vec<String> {
        let is_meant = |address: &&(String, _)| {
            !of_default || self.defaults.get(&address.0).is_none_or(|(server, _)| *server == index)
        };
        let written = |(address, _): &(String, _)| {
            let options = self.options.get(address).copied().unwrap_or_default();
            let tls = if options.tls { ",tls" } else { "" };
            let proxy = if options.proxy_protocol { ",proxy_protocol" } else { "" };
            format!("{address}{tls}{proxy}")
        };
        let mut addresses: Vec<_> = self.servers[index].iter().filter(is_meant).map(written).collect();
        addresses.dedup();
        addresses
    }

    /// The ports of a server, and whether each has TLS.
    pub(super) fn ports(&self, index: usize) -> Vec<(u16, bool)> {
        let port = |(address, _): &(String, _)| {
            let port = address.rsplit(':').next()?.parse().ok()?;
            Some((port, self.options.get(address).is_some_and(|options| options.tls)))
        };
        let mut ports: Vec<_> = self.servers[index].iter().filter_map(port).collect();
        ports.dedup();
        ports
    }

    /// Whether a server handles unknown hosts at an address.
    pub(super) fn is_default_somewhere(&self, index: usize) -> bool {
        self.servers[index]
            .iter()
            .any(|(address, _)| self.defaults.get(address).is_some_and(|(server, _)| *server == index))
    }

    /// Whether a server handles unknown hosts at all its addresses, and whether it is declared to do so.
    pub(super) fn is_default(&self, index: usize) -> (bool, bool) {
        let of = |(address, _): &(String, _)| self.defaults.get(address).copied().unwrap_or((index, false));
        let mut defaults = self.servers[index].iter().map(of);
        let is_default = defaults.clone().all(|(server, _)| server == index);
        (is_default, defaults.any(|(server, declared)| server == index && declared))
    }
}

/// The address of a `listen` in Rudy's notation.
fn address(listen: &Directive, server: &Scope<'_>, context: &mut Context<'_>) -> Option<String> {
    let text = substitute(listen.arg(0), server);
    let is_quic = listen.args.iter().any(|arg| arg == "quic");
    if is_quic {
        context.ledger.different(listen, "HTTP/3 is on by default at addresses with TLS");
    } else {
        context.ledger.translated(listen);
    }
    if let Some(path) = text.strip_prefix("unix:") {
        return Some(format!("unix:{path}"));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ if text.parse::<u16>().is_ok() => ("*", text.as_str()),
        _ => (text.as_str(), "80"),
    };
    if port.parse::<u16>().is_err() {
        context.ledger.open(listen, "write the port into `listen`");
        return None;
    }
    match host {
        "*" | "" | "0.0.0.0" | "[::]" => Some(format!(":{port}")),
        "localhost" => Some(format!("127.0.0.1:{port}")),
        _ if host.starts_with('[') || host.parse::<std::net::Ipv4Addr>().is_ok() => {
            Some(format!("{host}:{port}"))
        }
        _ => {
            context.ledger.open(listen, "write the IP address into `listen`");
            None
        }
    }
}
