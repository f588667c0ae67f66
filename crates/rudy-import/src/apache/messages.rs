//! Header fields, error pages and lifetimes.

use crate::chain::Step;
use crate::guard::Guard;
use crate::report::Ledger;
use crate::syntax::Directive;
use crate::toml::{Table, Value};

/// The settings of a block about responses.
pub(super) fn steps(block: &[Directive], guard: &Guard, ledger: &mut Ledger) -> Vec<Step> {
    let (mut response, mut request, mut pages) = (Vec::new(), Vec::new(), Vec::new());
    let mut lifetimes: Vec<Value> = Vec::new();
    let mut table = Table::default();
    for directive in block {
        let name = directive.name.to_ascii_lowercase();
        let outcome = match name.as_str() {
            "header" => header(directive).map(|pair| push(&mut response, pair)),
            "requestheader" => request_header(directive, &mut request),
            "errordocument" => error_page(directive).map(|pair| push(&mut pages, pair)),
            "expiresbytype" => expires(directive).map(|values| lifetimes.extend(values)),
            "limitrequestbody" => match directive.arg(0).parse::<u64>() {
                Ok(size) if size > 0 => {
                    table.set("body_bytes", size);
                    Ok(())
                }
                _ => Err("write `body_bytes`".to_owned()),
            },
            _ => continue,
        };
        match outcome {
            Ok(()) => ledger.translated(directive),
            Err(why) if why.starts_with("Rudy ") => ledger.different(directive, why),
            Err(why) => ledger.open(directive, why),
        }
    }
    for (key, pairs) in [("response_headers", response), ("request_headers", request), ("error_pages", pages)]
    {
        if !pairs.is_empty() {
            table.set(key, Value::Table(pairs));
        }
    }
    if !lifetimes.is_empty() {
        table.set("cache_control", Value::List(lifetimes));
    }
    if table.keys().is_empty() { Vec::new() } else { vec![Step::Setting(guard.clone(), table)] }
}

fn push(pairs: &mut Vec<(String, Value)>, pair: (String, Value)) {
    pairs.retain(|(name, _)| !name.eq_ignore_ascii_case(&pair.0));
    pairs.push(pair);
}

/// `Header [always] set Name value`.
fn header(directive: &Directive) -> Result<(String, Value), String> {
    let args: Vec<&str> = directive.args.iter().map(String::as_str).collect();
    let args = match args.split_first() {
        Some((first, rest))
            if first.eq_ignore_ascii_case("always") || first.eq_ignore_ascii_case("onsuccess") =>
        {
            rest
        }
        _ => &args[..],
    };
    let name = args.get(1).copied().unwrap_or_default();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_name) {
        return Err("write the field into `response_headers`".to_owned());
    }
    let action = args[0].to_ascii_lowercase();
    let is_conditional = args.get(3).is_some();
    let value = args.get(2).copied().unwrap_or_default();
    if is_conditional && action != "unset" {
        return Err("it has a condition: write the field into `response_headers` of a route".to_owned());
    }
    if name.eq_ignore_ascii_case("etag") || name.eq_ignore_ascii_case("connection") {
        return Err("Rudy sets this field itself".to_owned());
    }
    if value.contains('%') || value.starts_with("expr=") {
        return Err("write the field into `response_headers`: its value has a variable".to_owned());
    }
    let value = match action.as_str() {
        "set" => value.into(),
        "add" | "append" | "merge" => Value::table([("add", value.into())]),
        "setifempty" => Value::table([("default", value.into())]),
        "unset" => false.into(),
        _ => return Err("write the field into `response_headers`".to_owned()),
    };
    Ok((name.to_owned(), value))
}

fn request_header(directive: &Directive, pairs: &mut Vec<(String, Value)>) -> Result<(), String> {
    let name = directive.arg(1);
    if name.to_ascii_lowercase().starts_with("x-forwarded-") {
        return Err("Rudy sets the fields about the client".to_owned());
    }
    let value = directive.arg(2).replace("%{REMOTE_ADDR}s", "{client}");
    match directive.arg(0).to_ascii_lowercase().as_str() {
        "unset" => push(pairs, (name.to_owned(), false.into())),
        "set" if directive.args.len() == 3 && !value.contains('%') && !value.starts_with("expr=") => {
            push(pairs, (name.to_owned(), value.into()));
        }
        _ => return Err("write the field into `request_headers`".to_owned()),
    }
    Ok(())
}

fn error_page(directive: &Directive) -> Result<(String, Value), String> {
    let (status, page) = (directive.arg(0), directive.arg(1));
    if !status.starts_with(['4', '5']) || status.len() != 3 {
        return Err("write `error_pages`".to_owned());
    }
    if !page.starts_with('/') || page.contains(['%', '?']) {
        return Err("write a page into `error_pages`: a text or another site is none".to_owned());
    }
    Ok((status.to_owned(), page.into()))
}

/// `ExpiresByType image/png "access plus 1 month"`, by the extensions of the media type.
fn expires(directive: &Directive) -> Result<Vec<Value>, String> {
    let text = directive.args[1.min(directive.args.len())..].join(" ").to_ascii_lowercase();
    let words: Vec<&str> =
        text.split_whitespace().filter(|word| !["access", "now", "plus"].contains(word)).collect();
    let mut seconds = 0_u64;
    let parts = match words[..] {
        [compact] if compact.starts_with('a') => {
            seconds = compact[1..].parse().map_err(|_| "write `cache_control`".to_owned())?;
            &[][..]
        }
        _ => &words[..],
    };
    for pair in parts.chunks(2) {
        let (Some(number), Some(unit)) = (pair[0].parse::<u64>().ok(), pair.get(1)) else {
            return Err("write `cache_control`".to_owned());
        };
        let unit = match unit.trim_end_matches('s') {
            "second" => 1,
            "minute" => 60,
            "hour" => 3600,
            "day" => 86_400,
            "week" => 604_800,
            "month" => 2_592_000,
            "year" => 31_536_000,
            _ => return Err("write `cache_control`".to_owned()),
        };
        seconds = seconds.saturating_add(number.saturating_mul(unit));
    }
    let extensions =
        TYPES.iter().find(|(kind, _)| *kind == directive.arg(0)).map(|(_, extensions)| extensions);
    let extensions =
        extensions.ok_or("Rudy sets it by extension, and knows none for this type: write `cache_control`")?;
    let value = format!("max-age={seconds}");
    let rule = |extension: &str| {
        Value::table([("pattern", format!("*.{extension}").into()), ("value", value.as_str().into())])
    };
    Ok(extensions.split(' ').map(rule).collect())
}

/// Media types with their extensions.
const TYPES: &[(&str, &str)] = &[
    ("text/css", "css"),
    ("text/html", "html htm"),
    ("text/javascript", "js mjs"),
    ("application/javascript", "js mjs"),
    ("application/x-javascript", "js mjs"),
    ("application/json", "json"),
    ("application/pdf", "pdf"),
    ("application/xml", "xml"),
    ("text/xml", "xml"),
    ("image/png", "png"),
    ("image/jpeg", "jpg jpeg"),
    ("image/jpg", "jpg jpeg"),
    ("image/gif", "gif"),
    ("image/webp", "webp"),
    ("image/avif", "avif"),
    ("image/svg+xml", "svg svgz"),
    ("image/x-icon", "ico"),
    ("image/vnd.microsoft.icon", "ico"),
    ("font/woff", "woff"),
    ("font/woff2", "woff2"),
    ("font/ttf", "ttf"),
    ("font/otf", "otf"),
    ("application/font-woff", "woff"),
    ("application/font-woff2", "woff2"),
    ("application/manifest+json", "webmanifest"),
    ("application/wasm", "wasm"),
    ("application/rss+xml", "rss"),
    ("application/atom+xml", "atom"),
    ("application/vnd.ms-fontobject", "eot"),
    ("font/eot", "eot"),
    ("font/collection", "ttc"),
    ("image/bmp", "bmp"),
    ("text/calendar", "ics"),
    ("text/markdown", "md"),
    ("audio/ogg", "ogg oga"),
    ("video/ogg", "ogv"),
    ("video/mp4", "mp4"),
    ("video/webm", "webm"),
    ("audio/mpeg", "mp3"),
];
