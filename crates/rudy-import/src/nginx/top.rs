//! The settings at the top of the file.

use super::scope::Scope;
use super::{Context, Site, limits, messages};
use crate::site::common_addresses;
use crate::toml::{Table, Value};

/// The table at the top. Addresses that all sites have in common are there.
pub(super) fn table(http: &Scope<'_>, sites: &mut [Site], is_part: bool, context: &mut Context<'_>) -> Table {
    let mut top = Table::default();
    if is_part {
        top.comment("The imported file is a part of a server: put its routes into the site.");
    }
    for note in std::mem::take(&mut context.joined) {
        top.comment(note);
    }
    common_addresses(&mut top, sites);
    if context.request_id {
        top.set("request_id", true);
    }
    proxies(&mut top, http, context);
    messages::access_log(&mut top, http.own(), http, context);
    let mut limits = limits::of_server(http, context);
    if http.find("client_max_body_size").is_none() {
        // The default of nginx.
        limits.insert(0, ("body_bytes".to_owned(), "1M".into()));
    }
    if !limits.is_empty() {
        top.set("limits", Value::Table(limits));
    }
    top
}

/// `set_real_ip_from` and `real_ip_header`, which are for the whole server in Rudy.
fn proxies(top: &mut Table, http: &Scope<'_>, context: &mut Context<'_>) {
    let blocks: Vec<_> = http.everywhere("server").collect();
    let scopes =
        std::iter::once(http.clone()).chain(blocks.iter().map(|server| http.inner(server.children())));
    let mut proxies: Vec<String> = Vec::new();
    for scope in scopes {
        for directive in scope.all("set_real_ip_from") {
            let text = directive.arg(0);
            let proxy = text.trim_end_matches(':').to_owned();
            let is_network =
                text.split('/').next().is_some_and(|text| text.parse::<std::net::IpAddr>().is_ok());
            if !is_network && proxy != "unix" {
                context.ledger.open(directive, "write the network into `trusted_proxies`");
                continue;
            }
            context.ledger.translated(directive);
            if !proxies.contains(&proxy) {
                proxies.push(proxy);
            }
        }
        if let Some(header) = scope.find("real_ip_header") {
            context.ledger.translated(header);
            let field = header.arg(0).to_lowercase();
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            if !field.bytes().all(is_name) {
                context.ledger.open(header, "write the field into `client_address`");
            } else if !["x-forwarded-for", "proxy_protocol"].contains(&field.as_str()) {
                top.set("client_address", field);
            }
        }
    }
    if !proxies.is_empty() {
        top.set("trusted_proxies", Value::texts(proxies));
    }
}
