//! `proxy_set_header`: what Rudy sends by itself, and `request_headers` for the rest.

use super::Context;
use super::authorizers;
use super::route::Place;
use super::text::{Use, substitute, translate};
use crate::syntax::Directive;
use crate::toml::{Table, Value};

/// Fields that only the connection sets, or that belong to a changed connection.
const OF_CONNECTION: [&str; 7] =
    ["connection", "upgrade", "te", "trailer", "transfer-encoding", "content-length", "keep-alive"];

/// Fields that Rudy sets, with the values of nginx that are the same.
const FORWARDED: [(&str, &[&str]); 3] = [
    (
        "x-forwarded-for",
        &[
            "${proxy_add_x_forwarded_for}",
            "${remote_addr}",
            "${http_x_forwarded_for}",
            "${http_x_forwarded_for}, ${realip_remote_addr}",
        ],
    ),
    (
        "x-forwarded-proto",
        &[
            "${scheme}",
            "${http_x_forwarded_proto}",
            "${proxy_x_forwarded_proto}",
            "${real_scheme}",
            "${x_forwarded_proto}",
            "${forwarded_scheme}",
        ],
    ),
    (
        "x-forwarded-host",
        &["${host}", "${http_host}", "${host}:${server_port}", "${server_name}", "${http_x_forwarded_host}"],
    ),
];

/// Sets the fields of requests to an upstream.
pub(super) fn apply(
    route: &mut Table,
    keys: &mut Vec<(String, Value)>,
    authority: &str,
    place: &Place<'_, '_>,
    context: &mut Context<'_>,
) {
    let scope = place.scope;
    let mut fields: Vec<(String, Value)> = Vec::new();
    let mut host = None;
    for directive in scope.all("proxy_set_header").into_iter().chain(scope.all("grpc_set_header")) {
        let (name, value) = (directive.arg(0), substitute(directive.arg(1), scope));
        let lower = name.to_ascii_lowercase();
        let is_same =
            |(field, values): &&(&str, &[&str])| *field == lower && values.contains(&value.as_str());
        if lower == "host" {
            host = Some((directive, value));
        } else if OF_CONNECTION.contains(&lower.as_str()) {
            context.ledger.different(
                directive,
                "Rudy manages connections, and changes their protocol (WebSocket) by itself",
            );
        } else if FORWARDED.iter().any(|field| is_same(&field))
            || lower == "x-forwarded-proto" && context.is_forwarded_scheme(&value)
            || authorizers::is_copied(&value, place)
        {
            context.ledger.translated(directive);
        } else if FORWARDED.iter().any(|(field, _)| *field == lower) {
            forwarded(directive, &lower, &value, context);
        } else if let Some(value) = field(directive, &value, place, context) {
            fields.retain(|(field, _)| !field.eq_ignore_ascii_case(name));
            fields.push((name.to_owned(), value));
        }
    }
    self::host(host, keys, authority, context);
    if !fields.is_empty() {
        route.set("request_headers", Value::Table(fields));
    }
}

/// A field that Rudy sets, with another value.
fn forwarded(directive: &Directive, name: &str, value: &str, context: &mut Context<'_>) {
    let is_tls = !context.ports.is_empty() && context.ports.iter().all(|(_, tls)| *tls);
    if name == "x-forwarded-proto" && value == (if is_tls { "https" } else { "http" }) {
        context.ledger.translated(directive);
    } else {
        context.ledger.open(
            directive,
            "Rudy sends the address, scheme and host that the client used: name proxies in front in `trusted_proxies`",
        );
    }
}

fn field(
    directive: &Directive,
    value: &str,
    place: &Place<'_, '_>,
    context: &mut Context<'_>,
) -> Option<Value> {
    if value == "${ssl_early_data}" {
        context.ledger.different(directive, "early data is off by default");
        return None;
    }
    context.ledger.translated(directive);
    if value.is_empty() {
        return Some(false.into());
    }
    match translate(value, Use::Field, place.scope, context) {
        Ok(value) => Some(value.into()),
        Err(why) => {
            context.ledger.open(directive, format!("{why}: write the field into `request_headers`"));
            None
        }
    }
}

/// `Host`: that of the client is the default of Rudy, and that of the upstream the default of nginx.
fn host(
    set: Option<(&Directive, String)>,
    keys: &mut Vec<(String, Value)>,
    authority: &str,
    context: &mut Context<'_>,
) {
    let Some((directive, value)) = set else {
        keys.push(("host".to_owned(), "upstream".into()));
        return;
    };
    context.ledger.translated(directive);
    let bare = value.trim_end_matches(":${server_port}").trim_end_matches(":${proxy_port}");
    match bare {
        "${host}" | "${http_host}" | "${server_name}" | "${hostname}" | "${http_x_forwarded_host}" => {}
        "${proxy_host}" => keys.push(("host".to_owned(), "upstream".into())),
        _ if value == authority => keys.push(("host".to_owned(), "upstream".into())),
        _ => context.ledger.open(
            directive,
            "Rudy sends the host of the client or of the URL: let the application accept one of them",
        ),
    }
}
