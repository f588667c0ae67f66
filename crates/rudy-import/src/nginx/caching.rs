//! `proxy_cache` and `fastcgi_cache`.

use super::Context;
use super::proxy::time;
use super::scope::Scope;
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
        let Some(time) = time(time_at) else { continue };
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
    cookies(&mut keys, prefix, scope, context);
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

/// Requests with a session bypass the cache.
fn cookies(keys: &mut Vec<(String, Value)>, prefix: &str, scope: &Scope<'_>, context: &mut Context<'_>) {
    let mut cookies: Vec<String> = Vec::new();
    for name in ["cache_bypass", "no_cache"] {
        for directive in scope.all(&format!("{prefix}_{name}")) {
            for arg in &directive.args {
                match arg.strip_prefix("$cookie_") {
                    Some(cookie) if !cookies.iter().any(|known| known == cookie) => {
                        cookies.push(cookie.to_owned());
                    }
                    Some(_) => {}
                    None => {
                        context.ledger.open(
                            directive,
                            "write `bypass_cookies` in `cache` (docs/cache.md#sessions-and-users)",
                        );
                        continue;
                    }
                }
                context.ledger.translated(directive);
            }
        }
    }
    if !cookies.is_empty() {
        keys.push(("bypass_cookies".to_owned(), Value::texts(cookies)));
    }
}
