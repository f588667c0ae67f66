//! A server as a site.

use std::collections::BTreeSet;

use super::listen::Listeners;
use super::locations::{self, Kind, Match};
use super::scope::{Scope, named};
use super::text::substitute;
use super::{Context, Site, messages, rewrites, route, tls};
use crate::site::empty;
use crate::syntax::Directive;
use crate::toml::{Table, Value};
use crate::{hoist, regexes};

/// Names that clients on this machine use: a server with them alone is meant for all hosts.
const LOCAL: [&str; 2] = ["localhost", "127.0.0.1"];

/// Translates a server; `None` if no request reaches it.
pub(super) fn site(
    index: usize,
    server: &Scope<'_>,
    listeners: &Listeners,
    context: &mut Context<'_>,
) -> Option<Site> {
    let mut site = Site::default();
    if let Some(first) = server.own().first() {
        site.table.comment(format!("{}  server", first.place));
    }
    let names = names(server, context);
    let hosts = hosts(index, server, names.clone(), listeners, context)?;
    let addresses = listeners.addresses(index, hosts.is_empty());
    if !hosts.is_empty() {
        let is_new = |host: &String| context.hosts.insert((addresses.join(" "), host.clone()));
        let hosts: Vec<_> = hosts.into_iter().filter(is_new).collect();
        if hosts.is_empty() {
            return None;
        }
        site.table.set("hosts", Value::texts(hosts));
    }
    site.table.set("listen", Value::texts(addresses));
    context.ports = listeners.ports(index);
    context.server_name = names.first().filter(|name| !name.contains(['*', ':'])).cloned();
    context.internal = 0;
    context.paths = paths(server);
    if context.ports.iter().any(|(_, tls)| *tls) {
        tls::apply(&mut site.table, server, context);
    }
    site.routes = routes(server, context);
    if let Some(file) = context.maintenance.take() {
        site.table.set("maintenance", file);
    }
    messages::access_log(&mut site.table, server.own(), server, context);
    remove_unreachable(&mut site);
    remove_scripts(&mut site, context);
    internal_redirects(&mut site);
    if site.routes.is_empty() {
        site.routes.push(empty("None of its locations is translated."));
    }
    hoist::hoist(&mut site);
    Some(site)
}

/// The paths of exact locations and prefixes.
fn paths(server: &Scope<'_>) -> BTreeSet<String> {
    let path = |location: &Directive| match Kind::of(location) {
        Kind::Exact(path) | Kind::Prefix { path, .. } => Some(path),
        Kind::Regex { .. } | Kind::Named => None,
    };
    named(server.own(), "location").filter_map(path).collect()
}

fn routes(server: &Scope<'_>, context: &mut Context<'_>) -> Vec<Table> {
    let everything = Match::path("/*");
    let phase = rewrites::phase(server, &everything, server, context);
    let mut routes = phase.routes;
    if phase.is_complete {
        skip(server.own(), "no request reaches it: the server responds before", context);
        return routes;
    }
    for chosen in locations::in_order(server, context) {
        routes.extend(route::routes(&chosen, server, context));
    }
    if !context.paths.contains("/") && server.find("root").is_some() {
        routes.extend(route::rest(server, context));
    }
    routes
}

/// Gives locations that are never chosen a verdict.
fn skip(block: &[Directive], reason: &str, context: &mut Context<'_>) {
    for location in named(block, "location") {
        context.ledger.different(location, reason);
        for inner in location.children() {
            context.ledger.different(inner, reason);
        }
        skip(location.children(), reason, context);
    }
}

/// Rudy rejects routes behind one that has all requests.
fn remove_unreachable(site: &mut Site) {
    let takes_all = |route: &Table| {
        let passes_on = matches!(route.get("files"), Some(Value::Table(keys)) if keys.iter().any(|(key, _)| key == "next_route"));
        route.get("path") == Some(&Value::from("/*")) && route.get("when").is_none() && !passes_on
    };
    if let Some(at) = site.routes.iter().position(takes_all) {
        site.routes.truncate(at + 1);
    }
}

/// nginx lets every application redirect to internal locations (`X-Accel-Redirect`); in Rudy, a route names them.
fn internal_redirects(site: &mut Site) {
    let is_internal = |route: &&Table| route.get("internal") == Some(&Value::Bool(true));
    let path = |route: &Table| match route.get("path") {
        Some(Value::Text(path)) if path.ends_with('*') && !path.starts_with("/_import/") => {
            Some(path.clone())
        }
        _ => None,
    };
    let paths: Vec<_> = site.routes.iter().filter(is_internal).filter_map(path).collect();
    if paths.is_empty() {
        return;
    }
    for route in site.routes.iter_mut().filter(|route| !is_internal(&&**route)) {
        for (handler, main) in [("proxy", "upstreams"), ("fastcgi", "address")] {
            let mut keys = match route.remove(handler) {
                Some(Value::Table(keys)) => keys,
                Some(value) => vec![(main.to_owned(), value)],
                None => continue,
            };
            keys.push(("accel_redirect".to_owned(), Value::texts(paths.clone())));
            route.set(handler, Value::Table(keys));
        }
    }
}

/// Scripts that are tried need a route that runs them; without one, they would be sent as text.
fn remove_scripts(site: &mut Site, context: &mut Context<'_>) {
    if site.routes.iter().any(|route| route.get("fastcgi").is_some() || route.get("proxy").is_some()) {
        return;
    }
    let is_script = |value: &Value| matches!(value, Value::Text(text) if text.split('?').next().is_some_and(|path| path.rsplit('.').next() == Some("php")));
    for route in &mut site.routes {
        let Some(Value::Table(mut keys)) = route.get("files").cloned() else { continue };
        for (key, value) in &mut keys {
            if let ("try_files", Value::List(entries)) = (key.as_str(), value) {
                let count = entries.len();
                entries.retain(|entry| !is_script(entry));
                if entries.len() == count {
                    continue;
                }
                context.joined.push("scripts that no route runs are left out of `try_files`".to_owned());
            }
        }
        route.set("files", Value::Table(keys));
    }
}

/// The names of a server that are names of hosts, in Rudy's notation.
fn names(server: &Scope<'_>, context: &mut Context<'_>) -> Vec<String> {
    let mut names = Vec::new();
    context.host_groups.clear();
    for directive in named(server.own(), "server_name") {
        context.ledger.translated(directive);
        for name in &directive.args {
            let name = substitute(name, server).to_lowercase();
            if let Some(expression) = name.strip_prefix('~') {
                context.host_groups.extend(regexes::groups(expression));
                names.push(format!("regex:{}", expression.replace("(?P<", "(?<")));
            } else if let Some(domain) = name.strip_prefix('.') {
                names.extend([domain.to_owned(), format!("*.{domain}")]);
            } else if is_host(&name) {
                names.push(name);
            } else if name.contains(|letter: char| letter.is_ascii_alphanumeric()) {
                context.ledger.open(directive, format!("write the host instead of `{name}`"));
                names.push(placeholder_host(&name));
            }
        }
    }
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

fn is_host(name: &str) -> bool {
    let bare = name.strip_prefix("*.").or_else(|| name.strip_suffix(".*")).unwrap_or(name);
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let is_label = |label: &str| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-');
    !bare.is_empty() && bare != "_" && bare.bytes().all(is_letter) && bare.split('.').all(is_label)
}

/// A host that exists nowhere, in place of a text such as `${HOST}` or `<your domain>`.
fn placeholder_host(name: &str) -> String {
    let letters = name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' });
    let text: String = letters.collect();
    format!("{}.example", text.trim_matches('-'))
}

/// The hosts of the site; empty for all hosts that no other site has. `None` if no request reaches the server.
fn hosts(
    index: usize,
    server: &Scope<'_>,
    names: Vec<String>,
    listeners: &Listeners,
    context: &mut Context<'_>,
) -> Option<Vec<String>> {
    let (is_default, is_declared) = listeners.is_default(index);
    let is_local = names.iter().all(|name| LOCAL.contains(&name.as_str()));
    let directive = server.find("server_name");
    if is_default && (is_declared || is_local) {
        return Some(Vec::new());
    }
    if names.is_empty() && listeners.is_default_somewhere(index) {
        return Some(Vec::new());
    }
    if names.is_empty() {
        if let Some(directive) = directive {
            context.ledger.different(directive, "another server has the unknown hosts of this address");
        }
        return None;
    }
    if let Some(directive) = directive.filter(|_| is_default) {
        context.ledger.different(
            directive,
            "unknown hosts get 421; nginx gives them to the first server. Remove `hosts` to do so",
        );
    }
    Some(names)
}
