//! `proxy_pass` and `grpc_pass`.

use super::Context;
use super::route::{Place, unavailable};
use super::scope::Scope;
use super::text::substitute;
use super::upstreams::{Server, Upstream, upstream};
use super::{messages, proxy_fields, proxy_path};
use crate::syntax::Directive;
use crate::toml::{Table, Value};

/// A URL of `proxy_pass`.
pub(super) struct Url {
    scheme: &'static str,
    authority: String,
    /// The path and the query, if the URL has them.
    pub(super) uri: Option<String>,
    /// Whether it was written with variables: then the path is not a replacement for that of the location.
    pub(super) is_variable: bool,
}

impl Url {
    fn of(pass: &Directive, scope: &Scope<'_>) -> Option<Self> {
        let text = substitute(pass.arg(0), scope);
        let is_variable = pass.arg(0).contains('$');
        let text = text.replace("${is_args}${args}", "{query}");
        let (scheme, rest) = match text.split_once("://") {
            Some(("http", rest)) => (if pass.name == "grpc_pass" { "h2c" } else { "http" }, rest),
            Some(("https" | "grpcs", rest)) => ("https", rest),
            Some(("grpc", rest)) => ("h2c", rest),
            None if pass.name == "grpc_pass" => ("h2c", text.as_str()),
            _ => return None,
        };
        if let Some(rest) = rest.strip_prefix("unix:") {
            let (path, uri) = match rest.split_once(':') {
                Some((path, uri)) => (path, (!uri.is_empty()).then(|| uri.to_owned())),
                None => (rest, None),
            };
            return Some(Self { scheme, authority: format!("unix:{path}"), uri, is_variable });
        }
        let uri_at = ["/", "${request_uri}", "${uri}", "${1}", "?", "{query}"]
            .iter()
            .filter_map(|start| rest.find(start))
            .min();
        let (authority, uri) = rest.split_at(uri_at.unwrap_or(rest.len()));
        let uri = (!uri.is_empty()).then(|| uri.to_owned());
        Some(Self { scheme, authority: authority.to_owned(), uri, is_variable })
    }
}

/// The routes of a location with `proxy_pass`.
pub(super) fn routes(pass: &Directive, place: &Place<'_, '_>, context: &mut Context<'_>) -> Vec<Table> {
    context.ledger.translated(pass);
    let Some(url) = Url::of(pass, place.scope).filter(|url| !url.authority.contains('$')) else {
        context.ledger.open(pass, "write the URL of the upstream: it has variables without a value here");
        return vec![unavailable(place, &format!("{}: its upstream is not known.", pass.summary()))];
    };
    let upstream = match context.upstreams.get(url.authority.as_str()).copied() {
        Some(block) => upstream(block, context),
        None => Upstream { servers: vec![Server::one(&url.authority)], keys: Vec::new() },
    };
    let is_address = |server: &Server| is_authority(&server.address);
    if upstream.servers.is_empty() || !upstream.servers.iter().all(is_address) {
        context.ledger.open(pass, "write the URL of the upstream");
        return vec![unavailable(place, &format!("{}: its upstream is not known.", pass.summary()))];
    }
    let mut keys = vec![(
        "upstreams".to_owned(),
        Value::one_or_many(upstream.servers.iter().map(|server| server.value(url.scheme)).collect()),
    )];
    let is_pool = upstream.servers.len() > 1;
    keys.extend(upstream.keys);
    let mut routes = proxy_path::path(&url, pass, place, &mut keys, context);
    settings(&mut keys, &url, is_pool, place.scope, context);
    if let Some(route) = routes.last_mut() {
        proxy_fields::apply(route, &mut keys, &url.authority, place, context);
        messages::hidden_fields(route, "proxy_hide_header", place.scope, context);
        if keys.iter().any(|(key, _)| key == "insecure_skip_verify") {
            route.comment("As in nginx, the certificate of the upstream is not verified: remove `insecure_skip_verify` to do so.");
        }
        super::caching::apply(route, "proxy", place.scope, context);
        route.set("proxy", if keys.len() == 1 { keys.remove(0).1 } else { Value::Table(keys) });
    }
    routes
}

fn is_authority(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    text.starts_with("unix:/") || !text.is_empty() && text.bytes().all(is_letter)
}

/// Timeouts, buffers, retries, and TLS of the upstream.
fn settings(
    keys: &mut Vec<(String, Value)>,
    url: &Url,
    is_pool: bool,
    scope: &Scope<'_>,
    context: &mut Context<'_>,
) {
    let name = if url.scheme == "h2c" { "grpc" } else { "proxy" };
    for (suffix, targets) in TIMEOUTS {
        let Some(directive) = scope.find(&format!("{name}_{suffix}")) else { continue };
        let Some(time) = timeout(&substitute(directive.arg(0), scope)) else {
            context.ledger.open(directive, "write the time");
            continue;
        };
        context.ledger.translated(directive);
        for target in *targets {
            keys.push(((*target).to_owned(), time.as_str().into()));
        }
    }
    if let Some(buffering) = scope.find("proxy_request_buffering") {
        context.ledger.translated(buffering);
        if buffering.arg(0) == "off" {
            keys.push(("request_buffering".to_owned(), "off".into()));
        }
    }
    if let Some(file) = scope.find("proxy_max_temp_file_size")
        && let Some(size) = size(file.arg(0))
    {
        context.ledger.translated(file);
        keys.push(("response_buffer".to_owned(), size.into()));
    }
    retries(keys, is_pool, scope, context);
    redirects(keys, url, scope, context);
    if url.scheme == "https" {
        tls(keys, scope, context);
    }
}

const TIMEOUTS: &[(&str, &[&str])] =
    &[("connect_timeout", &["connect_timeout"]), ("read_timeout", &["response_timeout", "stall_timeout"])];

fn retries(keys: &mut Vec<(String, Value)>, is_pool: bool, scope: &Scope<'_>, context: &mut Context<'_>) {
    let Some(next) = scope.find("proxy_next_upstream") else { return };
    context.ledger.translated(next);
    let status = |arg: &String| arg.strip_prefix("http_")?.parse::<u64>().ok();
    let statuses: Vec<_> = next.args.iter().filter_map(status).filter(|status| *status >= 500).collect();
    if is_pool && !statuses.is_empty() {
        let statuses = Value::List(statuses.into_iter().map(Value::from).collect());
        keys.push(("retry_statuses".to_owned(), statuses));
    }
    if is_pool && next.args.iter().any(|arg| arg == "non_idempotent") {
        keys.push(("retry_non_idempotent".to_owned(), true.into()));
    }
}

fn redirects(keys: &mut Vec<(String, Value)>, url: &Url, scope: &Scope<'_>, context: &mut Context<'_>) {
    for directive in scope.all("proxy_redirect") {
        let from = substitute(directive.arg(0), scope);
        if from == "off" {
            context.ledger.translated(directive);
            keys.retain(|(key, _)| key != "rewrite_location");
        } else if from == "default" || from.contains(&url.authority) {
            context.ledger.translated(directive);
            if !keys.iter().any(|(key, _)| key == "rewrite_location") {
                keys.push(("rewrite_location".to_owned(), true.into()));
            }
        } else if from == "http://" || from.starts_with("http://${") {
            context.ledger.different(
                directive,
                "the application gets the scheme in X-Forwarded-Proto, and redirects to it",
            );
        } else {
            context.ledger.open(
                directive,
                "write `rewrite_location = true` in `proxy`, or let the application use Host and X-Forwarded-Proto",
            );
        }
    }
    for directive in scope.all("proxy_cookie_path").into_iter().chain(scope.all("proxy_cookie_domain")) {
        let is_prefix = directive.arg(1).starts_with('/') && !directive.arg(1).contains(';');
        if directive.arg(0) == "off" {
            context.ledger.translated(directive);
        } else if is_prefix && keys.iter().any(|(key, _)| key == "strip_prefix" || key == "add_prefix") {
            context.ledger.translated(directive);
            keys.push(("rewrite_cookies".to_owned(), true.into()));
        } else {
            context.ledger.open(directive, "let the application set the attributes of its cookies");
        }
    }
}

fn tls(keys: &mut Vec<(String, Value)>, scope: &Scope<'_>, context: &mut Context<'_>) {
    let verify = scope.find("proxy_ssl_verify");
    context.ledger.all_translated(verify);
    if verify.is_some_and(|verify| verify.arg(0) == "on") {
        if let Some(trusted) = scope.find("proxy_ssl_trusted_certificate") {
            context.ledger.translated(trusted);
            keys.push(("trusted_certificates".to_owned(), trusted.arg(0).into()));
        }
    } else {
        // The default of nginx.
        keys.push(("insecure_skip_verify".to_owned(), true.into()));
    }
    for (name, key) in
        [("proxy_ssl_certificate", "client_certificate"), ("proxy_ssl_certificate_key", "client_key")]
    {
        if let Some(file) = scope.find(name) {
            context.ledger.translated(file);
            keys.push((key.to_owned(), file.arg(0).into()));
        }
    }
}

/// The longest timeout of Rudy, in seconds.
const TIMEOUT_MAX: u64 = 86_400;

/// A timeout in Rudy's notation, at most a day. Rudy has none that ends at once.
pub(super) fn timeout(text: &str) -> Option<String> {
    let time = time(text)?;
    let end = time.find(|letter: char| !letter.is_ascii_digit())?;
    let number = time[..end].parse::<u64>().ok().filter(|number| *number > 0)?;
    let unit = match &time[end..] {
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => 1,
    };
    let is_long = !time.ends_with("ms") && number.saturating_mul(unit) > TIMEOUT_MAX;
    Some(if is_long { "1d".to_owned() } else { time })
}

/// A time in Rudy's notation: a number alone is in seconds.
pub(super) fn time(text: &str) -> Option<String> {
    if text.parse::<u64>().is_ok() {
        return Some(format!("{text}s"));
    }
    let end = text.find(|letter: char| !letter.is_ascii_digit())?;
    let number = text[..end].parse::<u64>().ok()?;
    let days = |days: u64| number.checked_mul(days).map(|days| format!("{days}d"));
    match &text[end..] {
        "w" => days(7),
        "M" => days(30),
        "y" => days(365),
        "ms" | "s" | "m" | "h" | "d" => Some(text.to_owned()),
        _ => None,
    }
}

/// A size in Rudy's notation; `None` for other texts.
pub(super) fn size(text: &str) -> Option<String> {
    let digits = text.trim_end_matches(['k', 'K', 'm', 'M', 'g', 'G']);
    let is_size =
        text.len() - digits.len() <= 1 && digits.parse::<u64>().is_ok_and(|number| number < 1 << 30);
    is_size.then(|| text.to_ascii_uppercase().replace('K', "k"))
}
