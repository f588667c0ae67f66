//! The global options.

use super::is_network;
use super::text::time;
use crate::report::Ledger;
use crate::syntax::Directive;
use crate::toml::{Table, Value};

const PRIVATE: [&str; 6] =
    ["192.168.0.0/16", "172.16.0.0/12", "10.0.0.0/8", "127.0.0.0/8", "fd00::/8", "::1/128"];

/// Translates the options. Returns whether sites have HTTPS by default.
pub(super) fn apply(top: &mut Table, blocks: &[&Directive], ledger: &mut Ledger) -> bool {
    let mut has_tls = true;
    let mut acme: Vec<(String, Value)> = Vec::new();
    for block in blocks {
        ledger.translated(block);
        for option in block.children() {
            match option.name.as_str() {
                "email" => acme.push(("email".to_owned(), option.arg(0).into())),
                "acme_ca" => acme.push(("directory".to_owned(), option.arg(0).into())),
                "auto_https" => has_tls = option.arg(0) != "off",
                "order" | "debug" => {}
                "grace_period" if time(option.arg(0)).is_some() => {
                    top.set("shutdown_timeout", time(option.arg(0)).unwrap_or_default());
                }
                "servers" => {
                    servers(top, option, ledger);
                    continue;
                }
                "admin" | "log" | "persist_config" | "storage" | "local_certs" | "skip_install_trust"
                | "http_port" | "https_port" | "default_sni" | "renew_interval" | "ocsp_stapling"
                | "metrics" | "default_bind" | "key_type" | "shutdown_delay" | "cert_issuer"
                | "frankenphp" => {
                    ledger.different(
                        option,
                        "Rudy has its own files, socket and defaults: see docs/from-caddy.md",
                    );
                    for inner in option.children() {
                        mark(inner, ledger);
                    }
                    continue;
                }
                "acme_dns" => {
                    ledger.open(option, "write `dns_hook` into `acme` (docs/internet.md)");
                    continue;
                }
                _ => {
                    ledger.open(option, "write it by hand: see docs/from-caddy.md");
                    continue;
                }
            }
            ledger.translated(option);
        }
    }
    if !acme.is_empty() {
        top.set("acme", Value::Table(acme));
    }
    has_tls
}

/// Gives a directive and all in it the verdict that it is another way in Rudy.
pub(super) fn mark(directive: &Directive, ledger: &mut Ledger) {
    ledger.different(directive, "Rudy has its own files, socket and defaults: see docs/from-caddy.md");
    directive.children().iter().for_each(|inner| mark(inner, ledger));
}

fn servers(top: &mut Table, servers: &Directive, ledger: &mut Ledger) {
    ledger.translated(servers);
    for option in servers.children() {
        match (option.name.as_str(), option.arg(0)) {
            ("trusted_proxies", "static") => {
                let mut proxies: Vec<String> = Vec::new();
                for arg in &option.args[1..] {
                    match arg.as_str() {
                        "private_ranges" => proxies.extend(PRIVATE.map(str::to_owned)),
                        _ if is_network(arg) => proxies.push(arg.clone()),
                        _ => ledger.open(option, "write the networks into `trusted_proxies`"),
                    }
                }
                ledger.translated(option);
                if !proxies.is_empty() {
                    top.set("trusted_proxies", Value::texts(proxies));
                }
            }
            ("client_ip_headers", field) if option.args.len() == 1 => {
                ledger.translated(option);
                if !field.eq_ignore_ascii_case("x-forwarded-for") {
                    top.set("client_address", field.to_lowercase());
                }
            }
            ("trusted_proxies" | "client_ip_headers", _) => {
                ledger.open(option, "write `trusted_proxies` and `client_address`");
            }
            _ => mark(option, ledger),
        }
    }
}
