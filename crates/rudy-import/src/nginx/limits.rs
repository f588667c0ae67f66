//! Limits: the size of bodies, requests per time and at the same time, and bytes per second.

use super::Context;
use super::proxy::{size, timeout};
use super::scope::Scope;
use super::text::field_name;
use crate::syntax::Directive;
use crate::toml::{Table, Value};

/// The size of a body without a limit.
const UNLIMITED: &str = "1000T";

/// Sets the limits of a route.
pub(super) fn apply(route: &mut Table, scope: &Scope<'_>, context: &mut Context<'_>) {
    body(route, scope, context);
    requests(route, scope, context);
    connections(route, scope, context);
    let bytes = |name: &str| scope.find(name).and_then(|rate| Some((rate, size(rate.arg(0))?)));
    if let Some((rate, bytes_per_second)) = bytes("limit_rate").filter(|(rate, _)| rate.arg(0) != "0") {
        context.ledger.translated(rate);
        let mut keys = vec![("rate", bytes_per_second.into())];
        if let Some((after, bytes)) = bytes("limit_rate_after") {
            context.ledger.translated(after);
            keys.push(("after", bytes.into()));
        }
        route.set("bandwidth", Value::table(keys));
    } else if let Some(rate) = scope.find("limit_rate").filter(|rate| rate.arg(0) != "0") {
        context.ledger.open(rate, "write `bandwidth`");
    }
}

fn body(route: &mut Table, scope: &Scope<'_>, context: &mut Context<'_>) {
    let Some(limit) = scope.find("client_max_body_size") else { return };
    let text = super::text::substitute(limit.arg(0), scope);
    let Some(bytes) = size(&text) else {
        context.ledger.unprotected(limit, "write `body_bytes`");
        return;
    };
    context.ledger.translated(limit);
    let is_unlimited = bytes.trim_end_matches(char::is_alphabetic) == "0";
    route.set("body_bytes", if is_unlimited { UNLIMITED.to_owned() } else { bytes });
}

/// What a limit counts by.
fn key(variable: &str) -> Option<String> {
    let name = variable.strip_prefix('$')?.trim_matches(['{', '}']);
    match name {
        "binary_remote_addr" | "remote_addr" => Some("address".to_owned()),
        "server_name" | "host" | "http_host" => Some("host".to_owned()),
        "uri" | "request_uri" => Some("path".to_owned()),
        "remote_user" => Some("user".to_owned()),
        _ => name.strip_prefix("http_").map(|field| format!("header.{}", field_name(field).to_lowercase())),
    }
}

/// A zone that all locations with its name share.
fn zone<'a>(name: &str, kind: &str, scope: &Scope<'a>) -> Option<&'a Directive> {
    scope.everywhere(kind).find(|zone| {
        zone.args
            .iter()
            .filter_map(|arg| arg.strip_prefix("zone="))
            .any(|zone| zone.split(':').next() == Some(name))
    })
}

fn status(name: &str, scope: &Scope<'_>, context: &mut Context<'_>) -> u64 {
    let Some(directive) = scope.find(name) else { return 503 };
    context.ledger.translated(directive);
    directive.arg(0).parse().ok().filter(|status| (400..600).contains(status)).unwrap_or(503)
}

fn requests(route: &mut Table, scope: &Scope<'_>, context: &mut Context<'_>) {
    let mut limits = Vec::new();
    for limit in scope.all("limit_req") {
        let option = |name: &str| limit.args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('='));
        let zone = option("zone").and_then(|name| Some((name, zone(name, "limit_req_zone", scope)?)));
        let parts = zone.and_then(|(name, zone)| {
            let rate = zone.args.iter().find_map(|arg| arg.strip_prefix("rate="))?;
            Some((name, zone, key(zone.arg(0))?, rate.replace("r/", "/")))
        });
        let Some((name, zone, by, rate)) = parts else {
            context.ledger.unprotected(
                limit,
                "write `rate_limit`: Rudy counts by address, user, host, path or header field",
            );
            continue;
        };
        context.ledger.all_translated([limit, zone]);
        if !limit.args.iter().any(|arg| arg == "nodelay") {
            context
                .ledger
                .different(limit, "requests over the rate are not delayed, but rejected with Retry-After");
        }
        let burst = option("burst").and_then(|burst| burst.parse::<u64>().ok()).unwrap_or(0);
        let mut keys = vec![("rate", rate.into()), ("burst", burst.saturating_add(1).min(1_000_000).into())];
        if by != "address" {
            keys.push(("by", by.into()));
        }
        keys.push(("status", status("limit_req_status", scope, context).into()));
        if let Some(dry) = scope.find("limit_req_dry_run").filter(|dry| dry.arg(0) == "on") {
            context.ledger.translated(dry);
            keys.push(("dry_run", true.into()));
        }
        keys.push(("name", format!("{name} {burst}").into()));
        limits.push(Value::table(keys));
    }
    if !limits.is_empty() {
        route.set("rate_limit", Value::one_or_many(limits));
    }
}

fn connections(route: &mut Table, scope: &Scope<'_>, context: &mut Context<'_>) {
    let mut limits = Vec::new();
    for limit in scope.all("limit_conn") {
        let zone = zone(limit.arg(0), "limit_conn_zone", scope);
        let parts = zone.and_then(|zone| Some((zone, key(zone.arg(0))?, limit.arg(1).parse::<u64>().ok()?)));
        let Some((zone, by, max)) = parts else {
            context.ledger.unprotected(limit, "write `concurrent_requests`");
            continue;
        };
        context.ledger.all_translated([limit, zone]);
        let mut keys = vec![("max", max.clamp(1, 1_000_000).into())];
        if by != "address" {
            keys.push(("by", by.into()));
        }
        keys.push(("status", status("limit_conn_status", scope, context).into()));
        limits.push(Value::table(keys));
    }
    if !limits.is_empty() {
        route.set("concurrent_requests", Value::one_or_many(limits));
    }
}

/// Limits of the whole server, for the top of the file.
pub(super) fn of_server(http: &Scope<'_>, context: &mut Context<'_>) -> Vec<(String, Value)> {
    let mut limits = Vec::new();
    for (name, key) in [
        ("keepalive_timeout", "idle_timeout"),
        ("client_header_timeout", "head_timeout"),
        ("send_timeout", "send_stall_timeout"),
    ] {
        let Some(directive) = http.find(name) else { continue };
        match timeout(directive.arg(0)) {
            Some(time) => {
                context.ledger.translated(directive);
                limits.push((key.to_owned(), time.into()));
            }
            None => context
                .ledger
                .different(directive, "see `limits` (docs/configuration.md#limits-and-timeouts)"),
        }
    }
    limits
}
