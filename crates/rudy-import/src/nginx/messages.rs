//! Settings of responses: header fields, error pages, compression, logs, media types.

use super::Context;

use super::scope::{Scope, named};
use super::text::{Use, substitute, translate};
use crate::syntax::Directive;
use crate::toml::{Table, Value};

/// Sets what a block says about its responses.
pub(super) fn apply(route: &mut Table, scope: &Scope<'_>, context: &mut Context<'_>) {
    fields(route, scope, context);
    expires(route, scope, context);
    error_pages(route, scope, context);
    compression(route, scope, context);
    types(route, scope, context);
    if let Some(log) = scope.find("access_log") {
        let is_own = scope.own().iter().any(|own| std::ptr::eq(own, log));
        if log.arg(0) == "off" {
            context.ledger.translated(log);
            if is_own {
                route.set("access_log", false);
            }
        } else if is_own {
            context.ledger.different(log, "requests of a location are in the log of its site");
        }
    }
}

/// `add_header`. The fields of an inner block replace those of the outer one.
fn fields(route: &mut Table, scope: &Scope<'_>, context: &mut Context<'_>) {
    let is_app = ["proxy", "fastcgi"].iter().any(|handler| route.get(handler).is_some());
    let mut fields = match route.remove("response_headers") {
        Some(Value::Table(fields)) => fields,
        _ => Vec::new(),
    };
    for directive in scope.all("add_header").into_iter().chain(scope.all("more_set_headers")) {
        let (name, value) = match directive.arg(0).split_once(':') {
            Some((name, value)) if directive.name == "more_set_headers" => (name.trim(), value.trim()),
            _ => (directive.arg(0), directive.arg(1)),
        };
        let value = match translate(value, Use::Field, scope, context) {
            Ok(value) => value,
            Err(_) if value == "$upstream_cache_status" => {
                context.ledger.different(directive, "responses of the cache have Cache-Status");
                continue;
            }
            Err(why) => {
                context.ledger.open(directive, format!("{why}: write the field into `response_headers`"));
                continue;
            }
        };
        if value.is_empty() {
            context.ledger.translated(directive);
            continue;
        }
        if name.eq_ignore_ascii_case("alt-svc") {
            context.ledger.different(directive, "Rudy announces HTTP/3 by itself");
            continue;
        }
        context.ledger.translated(directive);
        let is_hidden = fields.iter().any(|(field, _)| field.eq_ignore_ascii_case(name));
        fields.retain(|(field, _)| !field.eq_ignore_ascii_case(name));
        let adds = is_app && !is_hidden && directive.name == "add_header";
        let value = if adds { Value::table([("add", value.into())]) } else { value.into() };
        fields.push((name.to_owned(), value));
    }
    if !fields.is_empty() {
        route.set("response_headers", Value::Table(fields));
    }
}

/// `proxy_hide_header`: fields of the application that clients do not get.
pub(super) fn hidden_fields(route: &mut Table, name: &str, scope: &Scope<'_>, context: &mut Context<'_>) {
    let mut fields: Vec<(String, Value)> = Vec::new();
    for directive in scope.all(name) {
        context.ledger.translated(directive);
        let field = directive.arg(0);
        if !fields.iter().any(|(known, _)| known.eq_ignore_ascii_case(field)) {
            fields.push((field.to_owned(), false.into()));
        }
    }
    if !fields.is_empty() {
        route.set("response_headers", Value::Table(fields));
    }
}

fn expires(route: &mut Table, scope: &Scope<'_>, context: &mut Context<'_>) {
    let Some(expires) = scope.find("expires") else { return };
    let text = expires.args.last().map(String::as_str).unwrap_or_default();
    let seconds = |text: &str| {
        let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
        let number = text[..end].parse::<u64>().ok()?;
        let unit = match &text[end..] {
            "" | "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            "w" => 604_800,
            "M" => 2_592_000,
            "y" => 31_536_000,
            _ => return None,
        };
        number.checked_mul(unit)
    };
    let value = match text {
        "off" => {
            context.ledger.translated(expires);
            return;
        }
        "max" => "max-age=315360000".to_owned(),
        "epoch" | "-1" => "no-cache".to_owned(),
        "0" => "max-age=0".to_owned(),
        _ => {
            if let Some(seconds) = seconds(text.trim_start_matches('+')) {
                format!("max-age={seconds}")
            } else {
                context.ledger.open(expires, "write `cache_control`");
                return;
            }
        }
    };
    context.ledger.translated(expires);
    // A `Cache-Control` of `add_header` is added to it.
    let mut added = None;
    if let Some(Value::Table(fields)) = route.get("response_headers") {
        added = fields.iter().find_map(|(field, value)| match value {
            Value::Text(text) if field.eq_ignore_ascii_case("cache-control") => Some(text.clone()),
            _ => None,
        });
    }
    match added {
        Some(added) => {
            if let Some(Value::Table(mut fields)) = route.remove("response_headers") {
                fields.retain(|(field, _)| !field.eq_ignore_ascii_case("cache-control"));
                if !fields.is_empty() {
                    route.set("response_headers", Value::Table(fields));
                }
            }
            route.set("cache_control", format!("{value}, {added}"));
        }
        None => route.set("cache_control", value),
    }
}

fn error_pages(route: &mut Table, scope: &Scope<'_>, context: &mut Context<'_>) {
    let mut pages: Vec<(String, Value)> = Vec::new();
    for page in scope.all("error_page") {
        let Some((to, rest)) = page.args.split_last() else { continue };
        let is_changed = rest.last().is_some_and(|last| last.starts_with('='));
        let statuses = rest.iter().filter(|status| !status.starts_with('='));
        let is_login =
            rest.first().is_some_and(|status| status == "401") && scope.find("auth_request").is_some();
        if is_login {
            continue;
        }
        let to = substitute(to, scope);
        let is_path = to.starts_with('/') && !to.contains('$');
        let value = match (is_path, is_changed) {
            (true, false) => Value::from(to),
            (true, true) => Value::table([("rewrite", to.into())]),
            (false, _) => {
                context.ledger.open(page, "an error page is a path of the site: write `error_pages`");
                continue;
            }
        };
        context.ledger.translated(page);
        for status in statuses {
            // Statuses of nginx alone, such as 497.
            if status
                .parse::<u16>()
                .is_ok_and(|status| (400..600).contains(&status) && !(494..=499).contains(&status))
            {
                pages.retain(|(known, _)| known != status);
                pages.push((status.clone(), value.clone()));
            }
        }
    }
    if !pages.is_empty() {
        route.set("error_pages", Value::Table(pages));
    }
    for name in ["proxy_intercept_errors", "fastcgi_intercept_errors"] {
        let Some(intercept) = scope.find(name) else { continue };
        context.ledger.translated(intercept);
        if intercept.arg(0) == "on" && route.get(name.split('_').next().unwrap_or_default()).is_some() {
            route.set("intercept_errors", true);
        }
    }
}

fn compression(route: &mut Table, scope: &Scope<'_>, context: &mut Context<'_>) {
    let (gzip, brotli) = (scope.find("gzip"), scope.find("brotli"));
    let Some(first) = brotli.or(gzip) else { return };
    context.ledger.all_translated([gzip, brotli].into_iter().flatten());
    if first.arg(0) == "off" && gzip.is_none_or(|gzip| gzip.arg(0) == "off") {
        route.set("compression", false);
        return;
    }
    let mut keys = Vec::new();
    let mut types: Vec<String> = Vec::new();
    for name in ["gzip_types", "brotli_types"] {
        for directive in scope.all(name) {
            context.ledger.translated(directive);
            for kind in std::iter::once("text/html").chain(directive.args.iter().map(String::as_str)) {
                let is_type =
                    kind == "*" || kind.split_once('/').is_some_and(|(a, b)| !a.is_empty() && !b.is_empty());
                if is_type && !types.iter().any(|known| known == kind) {
                    types.push(kind.to_owned());
                }
            }
        }
    }
    if !types.is_empty() {
        keys.push(("media_types", Value::texts(types)));
    }
    if let Some(length) = scope.find("gzip_min_length").or_else(|| scope.find("brotli_min_length")) {
        context.ledger.translated(length);
        keys.extend(super::proxy::size(length.arg(0)).map(|size| ("size_min", size.into())));
    }
    for (name, key) in [("gzip_comp_level", "gzip"), ("brotli_comp_level", "br")] {
        let Some(level) = scope.find(name) else { continue };
        context.ledger.translated(level);
        if let Ok(level) = level.arg(0).parse::<u64>() {
            keys.push((key, level.clamp(1, 9).into()));
        }
    }
    route.set("compression", if keys.is_empty() { Value::Bool(true) } else { Value::table(keys) });
}

fn types(route: &mut Table, scope: &Scope<'_>, context: &mut Context<'_>) {
    let is_files = route.get("files").is_some();
    let mut types: Vec<(String, Value)> = Vec::new();
    for block in scope.all("types") {
        context.ledger.translated(block);
        for line in block.children() {
            types.extend(line.args.iter().map(|extension| (extension.clone(), line.name.as_str().into())));
        }
    }
    let default = named(scope.own(), "default_type").last();
    if let Some(default) = default.filter(|default| is_files && default.arg(0).contains('/')) {
        context.ledger.translated(default);
        types.push(("*".to_owned(), default.arg(0).into()));
    }
    if is_files && !types.is_empty() {
        route.set("media_types", Value::Table(types));
    }
    let Some(charset) = scope.find("charset") else { return };
    context.ledger.translated(charset);
    match charset.arg(0).to_lowercase().as_str() {
        "utf-8" => {}
        "off" => route.set("charset", false),
        text if text.contains('$') => context.ledger.open(charset, "write `charset`"),
        charset if is_files => route.set("charset", charset),
        _ => {}
    }
}

/// The access log of a block, for a site or the whole server.
pub(super) fn access_log(table: &mut Table, own: &[Directive], all: &Scope<'_>, context: &mut Context<'_>) {
    let logs: Vec<_> = named(own, "access_log").collect();
    let Some(log) = logs.first() else { return };
    for further in &logs[1..] {
        context.ledger.open(further, "a site has one access log");
    }
    if log.arg(0) == "off" {
        context.ledger.translated(log);
        table.set("access_log", false);
        return;
    }
    let path = match log.arg(0) {
        "/dev/stdout" | "/dev/stderr" | "/proc/self/fd/1" => "-",
        path => path,
    };
    if path.starts_with("syslog:") || path.contains('$') {
        context.ledger.open(log, "write `access_log` (docs/logs.md)");
        return;
    }
    let format = all.everywhere("log_format").find(|format| format.arg(0) == log.arg(1));
    match format {
        Some(format) => {
            let reason = "the format is `combined`: write another into `access_log` (docs/logs.md#formats)";
            context.ledger.different(format, reason);
            context.ledger.different(log, reason);
        }
        None => context.ledger.translated(log),
    }
    if log.args.iter().any(|arg| arg.starts_with("if=")) {
        context
            .ledger
            .different(log, "all requests are logged: `except_paths` and `statuses` leave out some");
    }
    table.set("access_log", path);
}
