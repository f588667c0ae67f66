//! `http-request`, `http-response` and `redirect`.

use super::conditions::{Acls, condition, split};
use crate::chain::Step;
use crate::guard::Guard;
use crate::report::Ledger;
use crate::syntax::Directive;
use crate::toml::{Table, Value};

/// Fields that the server sets.
const FIXED: [&str; 5] = ["host", "connection", "content-length", "transfer-encoding", "date"];

/// The rules of a section as steps.
pub(super) fn steps(block: &[Directive], acls: &Acls<'_>, ledger: &mut Ledger) -> Vec<Step> {
    let mut steps = Vec::new();
    for acl in acls.values().flatten() {
        ledger.translated(acl);
    }
    for directive in block {
        match directive.name.as_str() {
            "http-request" | "http-response" | "http-after-response" | "redirect" => {
                rule(directive, acls, &mut steps, ledger);
            }
            "monitor-uri" => {
                ledger.translated(directive);
                steps.push(handler(
                    directive,
                    Guard::paths([directive.arg(0).to_owned()]),
                    "respond",
                    200_u64.into(),
                ));
            }
            "compression" if directive.arg(0) == "algo" => {
                ledger.translated(directive);
                steps.push(Step::Setting(Guard::default(), table("compression", true.into())));
            }
            _ => {}
        }
    }
    steps
}

fn table(key: &str, value: Value) -> Table {
    let mut table = Table::default();
    table.set(key, value);
    table
}

fn handler(directive: &Directive, guard: Guard, key: &str, value: Value) -> Step {
    let mut table = table(key, value);
    table.comments.insert(0, format!("{}  {}", directive.place, directive.summary()));
    Step::Handler(guard, table)
}

fn rule(directive: &Directive, acls: &Acls<'_>, steps: &mut Vec<Step>, ledger: &mut Ledger) {
    let (args, words) = split(&directive.args);
    let action = if directive.name == "redirect" { "redirect" } else { directive.arg(0) };
    let args = if directive.name == "redirect" { args } else { &args[1.min(args.len())..] };
    let is_closing = ["deny", "reject", "tarpit", "auth", "silent-drop"].contains(&action);
    let guards = match condition(words, acls) {
        Ok(guards) => guards,
        Err(why) if is_closing => {
            ledger.unprotected(
                directive,
                format!(
                    "{why}: write a route with `when` and `respond = 403`, or a `rate_limit` (docs/limits.md)"
                ),
            );
            return;
        }
        Err(why) => {
            ledger.open(directive, format!("{why}: write it by hand"));
            return;
        }
    };
    for guard in guards {
        match translated(directive, action, args, guard.clone()) {
            Ok(Some(step)) => {
                ledger.translated(directive);
                steps.push(step);
            }
            Ok(None) => ledger.different(directive, "Rudy does it without a rule"),
            Err(why) if is_closing => {
                ledger.open(directive, format!("{why}, so the paths are closed"));
                steps.push(Step::closed(guard, &directive.summary()));
            }
            Err(why) => ledger.open(directive, why),
        }
    }
}

fn translated(
    directive: &Directive,
    action: &str,
    args: &[String],
    guard: Guard,
) -> Result<Option<Step>, String> {
    let table_name = if directive.name == "http-request" { "request_headers" } else { "response_headers" };
    let setting = |name: &str, value: Value| {
        let pairs = Value::table([(name, value)]);
        Some(Step::Setting(guard.clone(), table(table_name, pairs)))
    };
    let name = args.first().map_or("", |name| name.trim_end_matches(':'));
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_field = !name.is_empty()
        && name.bytes().all(is_letter)
        && !FIXED.contains(&name.to_ascii_lowercase().as_str());
    if action.ends_with("-header") && !is_field {
        return Err("write it by hand: Rudy sets this field itself, or its name has a variable".to_owned());
    }
    let is_client = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-port"]
        .contains(&name.to_ascii_lowercase().as_str());
    match action {
        "deny" | "reject" | "tarpit" => {
            let at = args.iter().position(|arg| arg == "deny_status" || arg == "status");
            let status = at.and_then(|at| args.get(at + 1)).and_then(|status| status.parse::<u64>().ok());
            Ok(Some(handler(directive, guard, "respond", status.unwrap_or(403).into())))
        }
        "silent-drop" => Ok(Some(handler(directive, guard, "respond", 444_u64.into()))),
        "auth" => {
            Err("its users are in a `userlist`: write `basic_auth` with `rudy hash-password`".to_owned())
        }
        "redirect" => redirect(directive, args, guard).map(Some),
        "set-header" | "add-header" if is_client && table_name == "request_headers" => Ok(None),
        "set-header" => Ok(setting(name, value(&args[1..])?.into())),
        "add-header" => Ok(setting(name, Value::table([("add", value(&args[1..])?.into())]))),
        "del-header" => Ok(setting(name, false.into())),
        "return" => {
            let after = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1));
            let status = after("status").and_then(|status| status.parse::<u64>().ok()).unwrap_or(200);
            let mut keys: Vec<(&str, Value)> = vec![("status", status.into())];
            if let Some(text) = after("string").filter(|text| !text.contains('%')) {
                keys.push(("body", text.as_str().into()));
            } else if args
                .iter()
                .any(|arg| ["file", "lf-file", "lf-string", "errorfile"].contains(&arg.as_str()))
            {
                return Err("write `respond` with `body_file`".to_owned());
            }
            Ok(Some(handler(directive, guard, "respond", Value::table(keys))))
        }
        "set-path" => {
            let to = name
                .strip_suffix("%[path]")
                .filter(|prefix| prefix.starts_with('/') && !prefix.contains('%'));
            match to {
                Some(_) => Err("write `add_prefix` into `proxy`".to_owned()),
                None => Err("write `strip_prefix` into `proxy`, or a route with `rewrite`".to_owned()),
            }
        }
        "set-log-level" | "capture" | "set-var" | "set-mark" | "set-tos" | "set-nice" | "normalize-uri"
        | "use-service" => Err("there are no variables: write what uses it by hand".to_owned()),
        _ => Err("write it by hand".to_owned()),
    }
}

/// The value of a field with Rudy's placeholders.
fn value(args: &[String]) -> Result<String, String> {
    let text = args.join(" ");
    let known = [
        ("%[src]", "{client}"),
        ("%[method]", "{method}"),
        ("%[path]", "{path}"),
        ("%[req.hdr(host)]", "{header.Host}"),
        ("%[hdr(host)]", "{header.Host}"),
        ("%[req.hdr(Host)]", "{header.Host}"),
        ("%ci", "{client}"),
    ];
    let text = known.iter().fold(text, |text, (from, to)| text.replace(from, to));
    let text = text.replace("%%", "\u{1}");
    if text.contains('%') || text.contains('$') {
        return Err("write the field: its value has a variable".to_owned());
    }
    Ok(text.replace('\u{1}', "%"))
}

fn redirect(directive: &Directive, args: &[String], guard: Guard) -> Result<Step, String> {
    let after = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1));
    let status = after("code").and_then(|code| code.parse::<u64>().ok()).unwrap_or(302);
    let is_plain = |text: &&String| !text.contains(['%', '{', '$']);
    let to = if let Some(scheme) = after("scheme") {
        if scheme != "https" {
            return Err("write the redirect".to_owned());
        }
        "https://{host}{path}{query}".to_owned()
    } else if let Some(prefix) = after("prefix").filter(is_plain) {
        format!("{}{{path}}{{query}}", prefix.trim_end_matches('/'))
    } else if let Some(location) = after("location") {
        let known = [
            ("https://%[hdr(host)]", "https://{host}"),
            ("https://%[req.hdr(Host)]", "https://{host}"),
            ("%[capture.req.uri]", "{path}{query}"),
            ("%[path]", "{path}"),
        ];
        let text = known.iter().fold(location.clone(), |text, (from, to)| text.replace(from, to));
        Some(text)
            .filter(|text| !text.contains('%'))
            .ok_or("write the redirect: its target has a variable")?
    } else {
        return Err("write the redirect".to_owned());
    };
    let guard =
        if after("scheme").is_some() { guard.and(&Guard::condition("scheme", "http")) } else { guard };
    let value = Value::table([("to", to.into()), ("status", status.into())]);
    Ok(handler(directive, guard, "redirect", value))
}

/// Gives a directive that no translation has taken its verdict.
pub(super) fn verdict(directive: &Directive, ledger: &mut Ledger) {
    match directive.name.as_str() {
        "mode" | "default_backend" | "acl" | "server" | "balance" | "cookie" | "bind" | "http-check"
        | "use_backend" => {
            ledger.different(directive, "no frontend for HTTP uses it");
        }
        "log"
        | "option"
        | "maxconn"
        | "retries"
        | "timeout"
        | "default-server"
        | "fullconn"
        | "errorfile"
        | "log-format"
        | "unique-id-format"
        | "unique-id-header"
        | "id"
        | "description"
        | "no"
        | "backlog"
        | "load-server-state-from-file"
        | "http-reuse"
        | "errorfiles"
        | "hash-type"
        | "compression"
        | "capture"
        | "log-tag"
        | "errorloc" => {
            ledger.different(
                directive,
                "Rudy has its own logs, limits, fields and defaults (docs/reverse-proxy.md)",
            );
        }
        "stats" => ledger.different(
            directive,
            "write a route with `dashboard` or `metrics`, which `allow` limits (docs/metrics.md)",
        ),
        "stick-table" | "stick" | "tcp-request" | "tcp-response" | "filter" | "rate-limit" => {
            ledger.unprotected(
                directive,
                "write `rate_limit`, `concurrent_requests` or `sticky` (docs/limits.md)",
            );
        }
        _ => ledger.open(directive, "Rudy has no equivalent that is known: write it by hand"),
    }
}
