//! Backends: servers as upstreams.

use crate::report::Ledger;
use crate::syntax::Directive;
use crate::toml::{Table, Value};

/// Translates the servers of blocks, the inner one last. The error is what to do instead.
pub(super) fn proxy(blocks: &[&[Directive]], ledger: &mut Ledger) -> Result<Table, String> {
    let mut upstreams: Vec<Value> = Vec::new();
    let mut keys: Vec<(String, Value)> = Vec::new();
    let mut set = |name: &str, value: Value| {
        keys.retain(|(known, _)| known != name);
        keys.push((name.to_owned(), value));
    };
    let mut has_check = false;
    for directive in blocks.iter().flat_map(|block| block.iter()) {
        let first = directive.arg(0);
        match (directive.name.as_str(), first) {
            ("server", _) => {
                let server = server(directive, &mut set)?;
                has_check |= directive.args.iter().any(|arg| arg == "check");
                upstreams.push(server);
            }
            ("balance", _) => {
                let Some(choice) = choice(first) else {
                    ledger.open(directive, "write `choice` in `proxy`");
                    continue;
                };
                set("choice", choice.into());
            }
            ("option", "httpchk") => {
                let path = directive.args.iter().skip(1).find(|arg| arg.starts_with('/'));
                set("health_check", path.map_or("/", String::as_str).into());
            }
            ("http-check", "send") => {
                let at = directive.args.iter().position(|arg| arg == "uri");
                let path = at.and_then(|at| directive.args.get(at + 1)).filter(|path| path.starts_with('/'));
                if let Some(path) = path {
                    set("health_check", path.as_str().into());
                }
            }
            ("cookie", name) => set("sticky", name.into()),
            ("timeout", "connect" | "server" | "queue" | "tunnel") => {
                let Some(time) = time(directive.arg(1)) else {
                    ledger.open(directive, "write the time into `proxy`");
                    continue;
                };
                let name = match first {
                    "connect" => "connect_timeout",
                    "server" => "response_timeout",
                    "queue" => "queue_timeout",
                    _ => "tunnel_idle_timeout",
                };
                set(name, time.into());
            }
            ("server-template" | "use-server", _) => {
                ledger.open(directive, "write the upstreams of `proxy`");
                continue;
            }
            _ => continue,
        }
        ledger.translated(directive);
    }
    if upstreams.is_empty() {
        return Err("write `proxy`: its servers are not here".to_owned());
    }
    if !has_check {
        keys.retain(|(key, _)| key != "health_check");
    }
    keys.insert(0, ("upstreams".to_owned(), Value::one_or_many(upstreams)));
    let mut table = Table::default();
    table.set("proxy", if keys.len() == 1 { keys.remove(0).1 } else { Value::Table(keys) });
    Ok(table)
}

fn server(directive: &Directive, set: &mut impl FnMut(&str, Value)) -> Result<Value, String> {
    let args = &directive.args;
    let has = |name: &str| args.iter().any(|arg| arg == name);
    let after = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1));
    let address = directive.arg(1).trim_start_matches("ipv4@").trim_start_matches("unix@");
    let scheme = if has("ssl") {
        "https"
    } else if after("proto").is_some_and(|proto| proto == "h2") {
        "h2c"
    } else {
        "http"
    };
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-._:[]".contains(letter);
    let url = if address.starts_with('/') {
        format!("unix:{address}")
    } else if address.is_empty() || !address.chars().all(is_letter) {
        return Err("write the URLs of the servers: an address has a variable".to_owned());
    } else {
        format!("{scheme}://{}", address.trim_start_matches(':'))
    };
    if has("ssl") {
        if after("verify").is_some_and(|verify| verify == "none") {
            set("insecure_skip_verify", true.into());
        } else if let Some(file) = after("ca-file").filter(|file| *file != "@system-ca") {
            set("trusted_certificates", file.as_str().into());
        }
    }
    if has("send-proxy-v2") {
        set("send_proxy_protocol", true.into());
    }
    let weight = after("weight")
        .and_then(|weight| weight.parse::<u64>().ok())
        .filter(|weight| (2..=1000).contains(weight));
    if weight.is_none() && !has("backup") {
        return Ok(url.into());
    }
    let mut keys = vec![("url", url.into())];
    keys.extend(weight.map(|weight| ("weight", weight.into())));
    if has("backup") {
        keys.push(("backup", true.into()));
    }
    Ok(Value::table(keys))
}

fn choice(balance: &str) -> Option<String> {
    Some(match balance {
        "roundrobin" | "static-rr" => "round-robin".to_owned(),
        "leastconn" | "random" => "least-busy".to_owned(),
        "source" => "hash:address".to_owned(),
        "uri" => "hash:path".to_owned(),
        _ => {
            let field = balance.strip_prefix("hdr(")?.strip_suffix(')')?;
            format!("hash:field:{field}")
        }
    })
}

/// A time in Rudy's notation: a number alone is in milliseconds.
fn time(text: &str) -> Option<String> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number = text[..end].parse::<u64>().ok().filter(|number| *number > 0)?;
    let milliseconds = match &text[end..] {
        "" | "ms" => number,
        "s" => number.checked_mul(1000)?,
        "m" => number.checked_mul(60_000)?,
        "h" => number.checked_mul(3_600_000)?,
        "d" => number.checked_mul(86_400_000)?,
        _ => return None,
    };
    // The longest time of Rudy is a day.
    let milliseconds = milliseconds.min(86_400_000);
    Some(if milliseconds % 1000 == 0 {
        format!("{}s", milliseconds / 1000)
    } else {
        format!("{milliseconds}ms")
    })
}
