//! `reverse_proxy`, `php_fastcgi` and `forward_auth`.

use super::text::{Use, time, translate};
use crate::report::Ledger;
use crate::site::extend;
use crate::syntax::Directive;
use crate::toml::{Table, VARIABLE, Value};

/// The URL of an upstream: `localhost:3000`, `:3000`, `https://host`, `h2c://host:1`, `unix//run/app.sock`.
pub(super) fn url(text: &str) -> Option<String> {
    if let Some(path) = text.strip_prefix("unix/").or_else(|| text.strip_prefix("unix+h2c/")) {
        return path.starts_with('/').then(|| format!("unix:{path}"));
    }
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    if !["http", "https", "h2c"].contains(&scheme) || rest.is_empty() || rest.contains(['{', '/', '@']) {
        return None;
    }
    let authority = if rest.starts_with(':') { format!("127.0.0.1{rest}") } else { rest.to_owned() };
    let last = authority.rsplit(':').next().unwrap_or_default();
    let is_range = last.contains('-') && last.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || ".-_:[]".contains(letter);
    (authority.contains(VARIABLE) || !is_range && authority.chars().all(is_letter))
        .then(|| format!("{scheme}://{authority}"))
}

/// Sets `proxy` of a route. An error is what to do instead.
pub(super) fn reverse_proxy(
    directive: &Directive,
    upstreams: &[String],
    strip: bool,
    add_prefix: Option<&str>,
    ledger: &mut Ledger,
) -> Result<Table, String> {
    let mut route = Table::default();
    let mut urls: Vec<Option<String>> = upstreams.iter().map(|upstream| url(upstream)).collect();
    let mut keys: Vec<(String, Value)> = Vec::new();
    for option in directive.children() {
        if option.name == "to" {
            ledger.translated(option);
            urls.extend(option.args.iter().map(|upstream| url(upstream)));
        } else {
            self::option(option, &mut route, &mut keys, ledger);
        }
    }
    let is_tls = keys.iter().any(|(key, _)| key == "tls");
    keys.retain(|(key, _)| key != "tls");
    let urls: Option<Vec<String>> = urls.into_iter().collect();
    let Some(urls) = urls.filter(|urls| !urls.is_empty()) else {
        return Err("write the URL of the upstream".to_owned());
    };
    let urls = urls.into_iter().map(|url| match url.strip_prefix("http://") {
        Some(rest) if is_tls => format!("https://{rest}"),
        _ => url,
    });
    let urls: Vec<String> = urls.collect();
    if strip {
        keys.push(("strip_prefix".to_owned(), true.into()));
    }
    if let Some(prefix) = add_prefix {
        keys.push(("add_prefix".to_owned(), prefix.into()));
    }
    if urls.len() > 1 && !keys.iter().any(|(key, _)| key == "choice" || key == "sticky") {
        ledger.different(
            directive,
            "the upstream with fewer requests of two is chosen, instead of one at random",
        );
    }
    keys.insert(0, ("upstreams".to_owned(), Value::texts(urls)));
    route.set("proxy", if keys.len() == 1 { keys.remove(0).1 } else { Value::Table(keys) });
    Ok(route)
}

fn option(option: &Directive, route: &mut Table, keys: &mut Vec<(String, Value)>, ledger: &mut Ledger) {
    let mut key = |name: &str, value: Value| keys.push((name.to_owned(), value));
    let first = option.arg(0);
    match option.name.as_str() {
        "lb_policy" => match (first, option.args.len()) {
            ("round_robin", _) => key("choice", "round-robin".into()),
            ("least_conn" | "random" | "random_choose", _) => key("choice", "least-busy".into()),
            ("ip_hash" | "client_ip_hash", _) => key("choice", "hash:address".into()),
            ("uri_hash", _) => key("choice", "hash:path".into()),
            ("header", 2) => key("choice", format!("hash:field:{}", option.arg(1)).into()),
            ("cookie", _) => {
                key("sticky", if option.arg(1).is_empty() { "lb" } else { option.arg(1) }.into());
            }
            ("first", _) => {
                ledger.open(option, "write `backup = true` into the upstreams after the first");
                return;
            }
            _ => {
                ledger.open(option, "write `choice` in `proxy`");
                return;
            }
        },
        "health_uri" if first.starts_with('/') => key("health_check", first.into()),
        "header_up" => return header(option, "request_headers", route, keys, ledger),
        "header_down" => return header(option, "response_headers", route, keys, ledger),
        "transport" => return transport(option, keys, ledger),
        "flush_interval"
        | "buffer_requests"
        | "buffer_responses"
        | "request_buffers"
        | "response_buffers"
        | "stream_timeout"
        | "stream_close_delay"
        | "lb_try_duration"
        | "lb_try_interval"
        | "lb_retries"
        | "fail_duration"
        | "max_fails"
        | "unhealthy_latency"
        | "unhealthy_request_count"
        | "verbose_logs"
        | "health_interval"
        | "health_timeout"
        | "health_port"
        | "health_body"
        | "health_status"
        | "health_headers"
        | "unhealthy_status"
        | "method" => {
            ledger.different(option, "Rudy passes responses on as they arrive, tries other upstreams, and has its own times of checks (docs/reverse-proxy.md)");
            return;
        }
        "trusted_proxies" => {
            ledger.open(option, "write `trusted_proxies` at the top of the file");
            return;
        }
        _ => {
            ledger.open(option, "write it by hand (docs/reverse-proxy.md)");
            return;
        }
    }
    ledger.translated(option);
}

fn header(
    option: &Directive,
    table: &str,
    route: &mut Table,
    keys: &mut Vec<(String, Value)>,
    ledger: &mut Ledger,
) {
    let name = option.arg(0).trim_start_matches(['+', '>', '?']);
    let is_request = table == "request_headers";
    let value = option.arg(1);
    let is_own = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"]
        .contains(&name.trim_start_matches('-').to_ascii_lowercase().as_str());
    if is_request && is_own {
        ledger.different(option, "Rudy sets the fields about the client");
        return;
    }
    if is_request && name.eq_ignore_ascii_case("host") {
        match value {
            "{upstream_hostport}" | "{http.reverse_proxy.upstream.hostport}" | "{upstream_host}" => {
                keys.push(("host".to_owned(), "upstream".into()));
                ledger.translated(option);
            }
            "{host}" | "{hostport}" | "{http.request.host}" | "{http.request.hostport}" => {
                ledger.translated(option);
            }
            _ => ledger.open(option, "write `host = \"upstream\"` if it is that of the upstream"),
        }
        return;
    }
    match field_change(option.arg(0), &option.args[1.min(option.args.len())..]) {
        Ok(pair) => {
            ledger.translated(option);
            extend(route, table, vec![pair]);
        }
        Err(why) => ledger.open(option, why),
    }
}

/// A change of a field: `Name value`, `+Name value`, `-Name`, `?Name value`, `Name find replace`.
pub(super) fn field_change(name: &str, args: &[String]) -> Result<(String, Value), String> {
    let (kind, name) = match name.chars().next() {
        Some(kind @ ('+' | '-' | '?' | '>')) => (kind, &name[1..]),
        _ => (' ', name),
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let is_fixed =
        ["host", "connection", "content-length", "date"].contains(&name.to_ascii_lowercase().as_str());
    if name.is_empty() || is_fixed || !name.bytes().all(is_name) {
        return Err(
            "write the fields by hand: Rudy sets this one itself, or its name has a pattern".to_owned()
        );
    }
    let value = match (kind, args) {
        ('-', _) => Value::Bool(false),
        (_, [value]) => {
            let value = translate(value, Use::Field)?;
            match kind {
                '+' => Value::table([("add", value.into())]),
                '?' => Value::table([("default", value.into())]),
                _ => value.into(),
            }
        }
        (_, [_, _]) => {
            return Err("write `{ replace = ..., with = ... }`: Caddy has an expression there".to_owned());
        }
        _ => return Err("write the value of the field".to_owned()),
    };
    Ok((name.to_owned(), value))
}

fn transport(transport: &Directive, keys: &mut Vec<(String, Value)>, ledger: &mut Ledger) {
    if transport.arg(0) != "http" {
        ledger.open(transport, "write `fastcgi` instead of `proxy`");
        return;
    }
    ledger.translated(transport);
    for option in transport.children() {
        let mut timeout = |name: &str| match time(option.arg(0)) {
            Some(time) => {
                keys.push((name.to_owned(), time.into()));
                ledger.translated(option);
            }
            None => ledger.open(option, "write the time"),
        };
        match option.name.as_str() {
            "dial_timeout" => timeout("connect_timeout"),
            "response_header_timeout" => timeout("response_timeout"),
            "read_timeout" => timeout("stall_timeout"),
            "tls" => {
                ledger.translated(option);
                keys.push(("tls".to_owned(), true.into()));
            }
            "tls_insecure_skip_verify" => {
                ledger.translated(option);
                keys.push(("tls".to_owned(), true.into()));
                keys.push(("insecure_skip_verify".to_owned(), true.into()));
            }
            "tls_trusted_ca_certs" if option.args.len() == 1 => {
                ledger.translated(option);
                keys.push(("trusted_certificates".to_owned(), option.arg(0).into()));
            }
            "tls_client_auth" if option.args.len() == 2 => {
                ledger.translated(option);
                keys.push(("client_certificate".to_owned(), option.arg(0).into()));
                keys.push(("client_key".to_owned(), option.arg(1).into()));
            }
            "versions"
            | "keepalive"
            | "keepalive_interval"
            | "keepalive_idle_conns"
            | "max_conns_per_host"
            | "compression"
            | "write_timeout"
            | "read_buffer"
            | "write_buffer"
            | "expect_continue_timeout"
            | "max_response_header"
            | "keepalive_idle_conns_per_host" => {
                ledger.different(option, "Rudy has its own connections to upstreams (docs/reverse-proxy.md)");
            }
            _ => ledger.open(option, "write it into `proxy` by hand (docs/reverse-proxy.md)"),
        }
    }
}

/// `php_fastcgi`: scripts, and `index.php` for paths without a file.
pub(super) fn php(
    directive: &Directive,
    addresses: &[String],
    root: Option<&str>,
    ledger: &mut Ledger,
) -> Result<Table, String> {
    let mut root = root.map(str::to_owned);
    let mut keys: Vec<(String, Value)> = Vec::new();
    for option in directive.children() {
        match option.name.as_str() {
            "root" => {
                ledger.translated(option);
                // The folder as the app sees it.
                if root.is_some() {
                    keys.push(("upstream_root".to_owned(), option.arg(0).into()));
                } else {
                    root = Some(option.arg(0).to_owned());
                }
            }
            "env" if option.args.len() == 2 && !option.arg(1).contains('{') => {
                ledger.translated(option);
                let pair = (option.arg(0).to_owned(), option.arg(1).into());
                match keys.iter_mut().find(|(key, _)| key == "params") {
                    Some((_, Value::Table(params))) => params.push(pair),
                    _ => keys.push(("params".to_owned(), Value::Table(vec![pair]))),
                }
            }
            "dial_timeout" | "read_timeout" if time(option.arg(0)).is_some() => {
                ledger.translated(option);
                let key = if option.name == "dial_timeout" { "connect_timeout" } else { "response_timeout" };
                keys.push((key.to_owned(), time(option.arg(0)).unwrap_or_default().into()));
            }
            "index" if option.arg(0) == "index.php" => ledger.translated(option),
            "split" if option.arg(0) == ".php" => ledger.translated(option),
            "resolve_root_symlink" | "write_timeout" | "capture_stderr" => {
                ledger.different(option, "Rudy has it without a setting (docs/php.md)");
            }
            _ => ledger.open(option, "write it into `php` by hand (docs/php.md)"),
        }
    }
    let address = |text: &String| match text.strip_prefix("unix/") {
        Some(path) => path.starts_with('/').then(|| format!("unix:{path}")),
        None => Some(text.strip_prefix("php_fastcgi://").unwrap_or(text).to_owned())
            .filter(|text| !text.contains('{')),
    };
    let addresses: Option<Vec<String>> = addresses.iter().map(address).collect();
    let (Some(addresses), Some(root)) = (addresses.filter(|all| !all.is_empty()), root) else {
        return Err("write `php` with its folder and its address".to_owned());
    };
    let mut all = vec![("root".to_owned(), root.into()), ("address".to_owned(), Value::texts(addresses))];
    all.append(&mut keys);
    let mut route = Table::default();
    route.set("php", Value::Table(all));
    Ok(route)
}

/// `forward_auth`: the URL of the authorizer and the fields that are copied.
pub(super) fn forward_auth(
    directive: &Directive,
    args: &[String],
    ledger: &mut Ledger,
) -> Result<Value, String> {
    let url = args.first().and_then(|upstream| url(upstream)).filter(|_| args.len() == 1);
    let url = url.ok_or("write the URL of the authorizer")?;
    let (mut path, mut copy) = (None, Vec::new());
    for option in directive.children() {
        match option.name.as_str() {
            "uri" => path = Some(option.arg(0).to_owned()).filter(|path| !path.contains('{')),
            "copy_headers" => {
                let names = option.args.iter().cloned();
                copy.extend(names.chain(option.children().iter().map(|name| name.name.clone())));
                for name in option.children() {
                    ledger.translated(name);
                }
            }
            "header_up" if option.arg(0).eq_ignore_ascii_case("host") => {}
            _ => return Err(format!("`{}` of its authorizer has no translation", option.name)),
        }
        ledger.translated(option);
    }
    if copy.iter().any(|name| name.contains('>')) {
        return Err("write the names of the fields that are copied".to_owned());
    }
    let path = path.ok_or("write the path of the authorizer")?;
    let separator = if url.starts_with("unix:") { ":" } else { "" };
    let mut keys = vec![("url".to_owned(), format!("{url}{separator}{path}").into())];
    if !copy.is_empty() {
        keys.push(("copy".to_owned(), Value::texts(copy)));
    }
    Ok(Value::Table(keys))
}
