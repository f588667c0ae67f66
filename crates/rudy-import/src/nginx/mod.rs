//! The directives of nginx as sites and routes.

mod access;
mod authorizers;
mod caching;
mod conditions;
mod fastcgi;
mod files;
mod known;
mod limits;
mod listen;
mod locations;
mod maps;
mod messages;
mod proxy;
mod proxy_fields;
mod proxy_path;
mod rewrites;
mod route;
mod scope;
mod server;
mod text;
mod tls;
mod top;
mod upstreams;

use std::collections::{BTreeMap, BTreeSet};

use self::known::{Known, known};
use self::listen::Listeners;
use self::scope::{Scope, named};
use crate::report::Ledger;
use crate::site::{Site, write};
use crate::syntax::Directive;
use crate::toml::Table;

/// The directives of a server, which mark a file as a part of one.
const OF_SERVER: [&str; 4] = ["location", "listen", "server_name", "try_files"];

/// Blocks whose lines are no directives.
const LISTS: [&str; 7] = ["map", "types", "geo", "split_clients", "events", "stream", "mail"];

/// What the translation of all servers has in common.
pub(crate) struct Context<'a> {
    ledger: &'a mut Ledger,
    upstreams: BTreeMap<&'a str, &'a Directive>,
    maps: BTreeMap<&'a str, &'a Directive>,
    /// Maps that are used, by name, with the keys of their tables.
    used_maps: BTreeMap<String, Table>,
    /// Whether a header field needs the id of the request.
    request_id: bool,
    /// The first name of the server that is being translated.
    server_name: Option<String>,
    /// The ports of this server, and whether each has TLS.
    ports: Vec<(u16, bool)>,
    /// The named groups of the location, and those of the names of the server.
    groups: BTreeSet<String>,
    host_groups: BTreeSet<String>,
    /// Addresses that are parts of others.
    joined: Vec<String>,
    /// The hosts of the sites so far, with their addresses.
    hosts: BTreeSet<(String, String)>,
    /// The paths of the exact locations and prefixes of this server.
    paths: BTreeSet<String>,
    /// The file that switches maintenance of this server on.
    maintenance: Option<String>,
    /// How many folders for internal rewrites this server has.
    internal: usize,
}

/// Translates the directives of all files to the text of `rudy.toml`.
pub(crate) fn translate(directives: &[Directive], ledger: &mut Ledger) -> String {
    let mut http = Scope::default().inner(directives);
    for block in named(directives, "http") {
        ledger.translated(block);
        http = http.inner(block.children());
    }
    let is_part = directives.iter().any(|directive| OF_SERVER.contains(&directive.name.as_str()));
    let mut context = Context::new(&http, ledger);
    let servers: Vec<Scope<'_>> = if is_part {
        vec![http.clone()]
    } else {
        let blocks: Vec<_> = http.everywhere("server").collect();
        context.ledger.all_translated(blocks.iter().copied());
        blocks.iter().map(|block| http.inner(block.children())).collect()
    };
    let listeners = Listeners::of(&servers, &mut context);
    let mut sites = Vec::new();
    for (index, server) in servers.iter().enumerate() {
        sites.extend(server::site(index, server, &listeners, &mut context));
    }
    if sites.is_empty() {
        let routes = vec![crate::site::empty("The imported files have no server.")];
        sites.push(Site { routes, ..Site::default() });
    }
    let top = top::table(&http, &mut sites, is_part, &mut context);
    let maps = std::mem::take(&mut context.used_maps);
    let mut used = BTreeSet::new();
    collect_names(directives, &mut used);
    finish(directives, &used, false, context.ledger);
    write(&top, &maps, &sites)
}

impl<'a> Context<'a> {
    fn new(http: &Scope<'a>, ledger: &'a mut Ledger) -> Self {
        let upstreams = http.everywhere("upstream").map(|upstream| (upstream.arg(0), upstream)).collect();
        let variable = |map: &'a Directive| (map.arg(1).trim_start_matches('$'), map);
        Self {
            ledger,
            upstreams,
            maps: http.everywhere("map").map(variable).collect(),
            used_maps: BTreeMap::new(),
            request_id: false,
            server_name: None,
            ports: Vec::new(),
            groups: BTreeSet::new(),
            host_groups: BTreeSet::new(),
            joined: Vec::new(),
            hosts: BTreeSet::new(),
            paths: BTreeSet::new(),
            maintenance: None,
            internal: 0,
        }
    }

    /// The port of the server, if it has one, or the usual one for the scheme if it has both.
    fn port(&mut self) -> Option<String> {
        match self.ports[..] {
            [(port, _)] => Some(port.to_string()),
            [(80, false), (443, true)] | [(443, true), (80, false)] => {
                let mut table = Table::default();
                table.set("from", "{scheme}");
                let ports = [("http", "80".into()), ("https", "443".into())];
                table.set("values", crate::toml::Value::table(ports));
                self.used_maps.insert("server_port".to_owned(), table);
                Some("{map.server_port}".to_owned())
            }
            _ => None,
        }
    }
}

/// The variables and the zones that directives use.
fn collect_names<'a>(directives: &'a [Directive], used: &mut BTreeSet<&'a str>) {
    for directive in directives {
        for arg in &directive.args {
            used.extend(arg.strip_prefix("zone="));
            used.insert(arg);
            let is_defined = ["map", "geo", "set"].contains(&directive.name.as_str());
            for part in text::parts(arg) {
                if let text::Part::Variable(name) = part
                    && !(is_defined && arg.strip_prefix('$') == Some(name))
                {
                    used.insert(name);
                }
            }
        }
        collect_names(directive.children(), used);
    }
}

/// What a directive defines for others.
fn defined(directive: &Directive) -> Option<&str> {
    match directive.name.as_str() {
        "map" | "geo" => Some(directive.args.last()?.trim_start_matches('$')),
        "limit_req_zone" | "limit_conn_zone" => {
            directive.args.iter().find_map(|arg| arg.strip_prefix("zone="))?.split(':').next()
        }
        _ => None,
    }
}

/// Gives a verdict to all directives that have none. Those of content that is not translated are not translated either.
fn finish(directives: &[Directive], used: &BTreeSet<&str>, is_lost: bool, ledger: &mut Ledger) {
    for directive in directives {
        if !ledger.has(directive) {
            verdict(directive, used, is_lost, ledger);
        }
        if !LISTS.contains(&directive.name.as_str()) {
            let is_content = |inner: &&Directive| inner.name.ends_with("_pass") || inner.name == "alias";
            let is_lost = ledger.is_open(directive)
                || directive.children().iter().filter(is_content).any(|inner| ledger.is_open(inner));
            finish(directive.children(), used, is_lost, ledger);
        }
    }
}

fn verdict(directive: &Directive, used: &BTreeSet<&str>, is_lost: bool, ledger: &mut Ledger) {
    match directive.name.as_str() {
        "map" if directive.arg(0) == "$http_upgrade" => {
            ledger.different(directive, "Rudy changes the protocol of connections (WebSocket) by itself");
        }
        "map" if directive.arg(0) == "$http_x_forwarded_proto" => {
            ledger.different(directive, "Rudy passes on the scheme that `trusted_proxies` report");
        }
        "location" if directive.arg(0).starts_with('@') && used.contains(directive.arg(0)) => {
            ledger.open(directive, "what leads to it is not translated");
        }
        _ if defined(directive).is_some_and(|name| !used.contains(name)) => {
            ledger.different(directive, "nothing uses it");
        }
        name if known::is_translated(name) && is_lost => {
            ledger.open(directive, "it belongs to content that is not translated");
        }
        name if known::is_translated(name) => {
            ledger.different(directive, "no location uses it: inner blocks have their own, or other content");
        }
        name => match known(name) {
            Known::Different(reason) => ledger.different(directive, reason),
            Known::Open { protects: true, advice } => ledger.unprotected(directive, advice),
            Known::Open { protects: false, advice } => ledger.open(directive, advice),
        },
    }
}
