//! `proxy_cache` and `fastcgi_cache`.

use super::Context;
use super::proxy::time;
use super::scope::Scope;
use super::text::{Part, field_name, parts, substitute};
use crate::toml::{Table, Value};

/// Sets `cache` of a route.
pub(super) fn apply(route: &mut Table, prefix: &str, scope: &Scope<'_>, context: &mut Context<'_>) {
    let find = |name: &str| scope.find(&format!("{prefix}_{name}"));
    let Some(cache) = find("cache") else { return };
    context.ledger.translated(cache);
    if cache.arg(0) == "off" {
        return;
    }
    let mut keys = Vec::new();
    let mut freshness = Vec::new();
    for valid in scope.all(&format!("{prefix}_cache_valid")) {
        context.ledger.translated(valid);
        let (time_at, statuses) = match valid.args.split_last() {
            Some((time_at, [])) => (time_at, vec!["200".to_owned(), "301".to_owned(), "302".to_owned()]),
            Some((time_at, statuses)) => (time_at, statuses.to_vec()),
            None => continue,
        };
        let Some(time) = time(time_at) else {
            context.ledger.open(valid, "write the time into `default_freshness`");
            continue;
        };
        for status in statuses {
            if status.parse::<u16>().is_ok() {
                freshness.push((status, Value::from(time.as_str())));
            } else {
                context.ledger.different(valid, "write each status into `default_freshness`");
            }
        }
    }
    if !freshness.is_empty() {
        keys.push(("default_freshness".to_owned(), Value::Table(freshness)));
    }
    if let Some(stale) = find("cache_use_stale") {
        context.ledger.translated(stale);
        if stale.arg(0) != "off" {
            keys.push(("stale_if_error".to_owned(), "1d".into()));
        }
    }
    if let Err(why) =
        bypass(&mut keys, prefix, scope, context).and_then(|()| key(&mut keys, prefix, scope, context))
    {
        context.ledger.open(
            cache,
            format!("{why}, so nothing is cached: write `cache` (docs/cache.md#sessions-and-users)"),
        );
        return;
    }
    for ignore in scope.all(&format!("{prefix}_ignore_headers")) {
        context.ledger.translated(ignore);
        for field in &ignore.args {
            match field.to_ascii_lowercase().as_str() {
                "cache-control" => keys.push(("ignore_cache_control".to_owned(), true.into())),
                "set-cookie" => keys.push(("remove_set_cookie".to_owned(), true.into())),
                _ => {}
            }
        }
    }
    route.set("cache", if keys.is_empty() { Value::Bool(true) } else { Value::Table(keys) });
}

/// Requests with a session bypass the cache. The error is about a condition that Rudy does not have.
fn bypass(
    keys: &mut Vec<(String, Value)>,
    prefix: &str,
    scope: &Scope<'_>,
    context: &mut Context<'_>,
) -> Result<(), String> {
    let mut cookies: Vec<String> = Vec::new();
    for name in ["cache_bypass", "no_cache"] {
        for directive in scope.all(&format!("{prefix}_{name}")) {
            context.ledger.translated(directive);
            for arg in &directive.args {
                match arg.strip_prefix("$cookie_") {
                    Some(cookie) if !cookie.contains('$') => cookies.push(cookie.to_owned()),
                    _ if OF_CLIENT.contains(&arg.as_str()) => {
                        context.ledger.different(directive, "fields of the request count as RFC 9111 says");
                    }
                    _ => return Err(format!("{arg} decides what is cached")),
                }
            }
        }
    }
    cookies.dedup();
    if !cookies.is_empty() {
        keys.push(("bypass_cookies".to_owned(), Value::texts(cookies)));
    }
    Ok(())
}

/// Fields of requests that a cache of RFC 9111 obeys by itself.
const OF_CLIENT: [&str; 3] = ["$http_authorization", "$http_pragma", "$http_cache_control"];

/// Variables that are a part of the URL, or are the same for all requests.
const OF_URL: [&str; 12] = [
    "scheme",
    "host",
    "http_host",
    "server_name",
    "proxy_host",
    "request_method",
    "request_uri",
    "uri",
    "is_args",
    "args",
    "query_string",
    "document_uri",
];

/// What the key has besides the URL. The error is about a part that Rudy does not have.
fn key(
    keys: &mut Vec<(String, Value)>,
    prefix: &str,
    scope: &Scope<'_>,
    context: &mut Context<'_>,
) -> Result<(), String> {
    let Some(directive) = scope.find(&format!("{prefix}_cache_key")) else { return Ok(()) };
    context.ledger.translated(directive);
    let text = substitute(&directive.args.join(" "), scope);
    let (mut cookies, mut fields) = (Vec::new(), Vec::new());
    for part in parts(&text) {
        let Part::Variable(name) = part else { continue };
        match (name.strip_prefix("cookie_"), name.strip_prefix("http_")) {
            _ if OF_URL.contains(&name) => {}
            (Some(cookie), _) => cookies.push(cookie.to_owned()),
            (_, Some(field)) => fields.push(field_name(field)),
            _ => return Err(format!("${name} is a part of the key")),
        }
    }
    for (name, values) in [("key_cookies", cookies), ("key_headers", fields)] {
        if !values.is_empty() {
            keys.push((name.to_owned(), Value::texts(values)));
        }
    }
    Ok(())
}
