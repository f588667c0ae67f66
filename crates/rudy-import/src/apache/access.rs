//! Who may request what: `Require`, `Order`, `Allow`, `Deny` and logins.

use crate::report::Ledger;
use crate::syntax::Directive;
use crate::toml::{Table, Value};

/// What the rules of a section mean.
#[derive(Debug, Default)]
struct Rules {
    all: Option<bool>,
    allow: Vec<String>,
    deny: Vec<String>,
    login: bool,
    closed: Option<String>,
}

/// Whether a directive is a rule of access.
pub(super) fn is_rule(name: &str) -> bool {
    ["require", "order", "allow", "deny", "satisfy", "<requireany", "<requireall", "<requirenone"]
        .contains(&name)
}

/// The settings of a section with rules; `None` if it has none. `outer` are the directives about logins of the sections around it.
pub(super) fn settings(block: &[Directive], outer: &[&Directive], ledger: &mut Ledger) -> Option<Table> {
    let names = |directive: &&Directive| is_rule(&directive.name.to_ascii_lowercase());
    let found: Vec<&Directive> = block.iter().filter(names).collect();
    if found.is_empty() {
        return None;
    }
    let mut rules = Rules::default();
    for directive in &found {
        rule(directive, &mut rules, false, ledger);
    }
    let is_alternative = rules.login && (!rules.allow.is_empty() || rules.all == Some(true));
    if is_alternative && rules.closed.is_none() {
        rules.closed = Some("addresses or logins, of which one is enough".to_owned());
        ledger.open(found[0], "clients or users, so the paths are closed: write a route with `when.clients` and one with `basic_auth`");
    }
    let mut table = Table::default();
    for key in ["access", "basic_auth"] {
        // Rules of an inner section replace those of the outer ones.
        table.set(key, false);
    }
    if let Some(why) = rules.closed {
        table.comment(format!("Closed: {why}"));
        table.set("access", closed());
        return Some(table);
    }
    if rules.login {
        match login(block, outer, ledger) {
            Ok(login) => table.set("basic_auth", login),
            Err(why) => {
                ledger.open(found[0], format!("{why}, so the paths are closed: write `basic_auth`"));
                table.comment(format!("Closed: {why}"));
                table.set("access", closed());
                return Some(table);
            }
        }
    }
    let rule = |key: &str, clients: &[String]| Value::table([(key, Value::texts(clients.iter().cloned()))]);
    let mut access = Vec::new();
    if !rules.deny.is_empty() {
        access.push(rule("deny", &rules.deny));
    }
    let is_open = rules.all == Some(true) || rules.login;
    if !rules.allow.is_empty() && !is_open {
        access.push(rule("allow", &rules.allow));
    } else if !is_open {
        access.push(rule("deny", &["anyone".to_owned()]));
    }
    if !access.is_empty() {
        table.set("access", Value::List(access));
    }
    Some(table)
}

/// Rules that reject everyone.
fn closed() -> Value {
    Value::List(vec![Value::table([("deny", Value::from("anyone"))])])
}

/// Whether settings reject everyone.
pub(super) fn is_closed(table: &Table) -> bool {
    table.get("access") == Some(&closed())
}

fn rule(directive: &Directive, rules: &mut Rules, is_not: bool, ledger: &mut Ledger) {
    let close = |rules: &mut Rules, ledger: &mut Ledger| {
        ledger.open(directive, "Rudy has no such rule, so the paths are closed: see docs/access.md");
        rules.closed = Some(directive.summary());
    };
    let args: Vec<String> = directive.args.iter().map(|arg| arg.to_ascii_lowercase()).collect();
    match directive.name.to_ascii_lowercase().as_str() {
        "<requireany" | "<requireall" | "<requirenone" => {
            let is_none = directive.name.eq_ignore_ascii_case("<RequireNone");
            let is_all = directive.name.eq_ignore_ascii_case("<RequireAll");
            ledger.translated(directive);
            let kinds = directive
                .children()
                .iter()
                .filter(|inner| !inner.args.iter().any(|arg| arg == "not" || arg == "granted"));
            // Several rules that hold together are more than a list of clients.
            if is_all && kinds.count() > 1 {
                directive.children().iter().for_each(|inner| ledger.translated(inner));
                return close(rules, ledger);
            }
            directive.children().iter().for_each(|inner| rule(inner, rules, is_none, ledger));
            return;
        }
        "require" => {
            let (is_not, args) = match args.split_first() {
                Some((not, rest)) if not == "not" => (!is_not, rest.to_vec()),
                _ => (is_not, args),
            };
            match args.first().map(String::as_str) {
                Some("all") => {
                    let granted = (args.get(1).map(String::as_str) == Some("granted")) != is_not;
                    // Of several rules, one is enough.
                    rules.all = Some(rules.all == Some(true) || granted);
                }
                Some("local") if !is_not => rules.allow.push("loopback".to_owned()),
                Some("ip") => {
                    let networks: Option<Vec<String>> = args[1..].iter().map(|arg| network(arg)).collect();
                    match networks {
                        Some(networks) if is_not => rules.deny.extend(networks),
                        Some(networks) => rules.allow.extend(networks),
                        None => return close(rules, ledger),
                    }
                }
                Some("valid-user") if !is_not => rules.login = true,
                _ => return close(rules, ledger),
            }
        }
        "order" => {}
        "allow" | "deny" => {
            let is_allow = directive.name.eq_ignore_ascii_case("allow");
            for arg in args.iter().skip(1) {
                match (arg.as_str(), network(arg)) {
                    ("all", _) if is_allow => rules.all = Some(true),
                    ("all", _) => rules.all = Some(rules.all.unwrap_or(false)),
                    (_, Some(network)) if is_allow => rules.allow.push(network),
                    (_, Some(network)) => rules.deny.push(network),
                    _ => return close(rules, ledger),
                }
            }
        }
        "satisfy" if args.first().is_some_and(|arg| arg == "all") => {}
        _ => return close(rules, ledger),
    }
    ledger.translated(directive);
}

/// A network: `10.1` is `10.1.0.0/16`.
fn network(text: &str) -> Option<String> {
    let (address, bits) = text.split_once('/').unwrap_or((text, ""));
    if address.parse::<std::net::IpAddr>().is_ok() {
        return (bits.is_empty() || bits.parse::<u8>().is_ok()).then(|| text.to_owned());
    }
    let parts: Vec<&str> = address.trim_end_matches('.').split('.').collect();
    let is_part = |part: &&str| part.parse::<u8>().is_ok();
    if parts.len() > 3 || !bits.is_empty() || !parts.iter().all(is_part) {
        return None;
    }
    let zeros = ".0".repeat(4 - parts.len());
    Some(format!("{}{zeros}/{}", parts.join("."), parts.len() * 8))
}

fn login(block: &[Directive], outer: &[&Directive], ledger: &mut Ledger) -> Result<Value, String> {
    let mut find = |name: &str| {
        let own = block.iter().rev().find(|directive| directive.name.eq_ignore_ascii_case(name));
        let found = own.or_else(|| {
            outer.iter().rev().copied().find(|directive| directive.name.eq_ignore_ascii_case(name))
        })?;
        ledger.translated(found);
        Some(found)
    };
    if !find("AuthType").is_some_and(|kind| kind.arg(0).eq_ignore_ascii_case("basic")) {
        return Err("its `AuthType` is not Basic".to_owned());
    }
    if find("AuthBasicProvider").is_some_and(|provider| !provider.args.iter().all(|arg| arg == "file")) {
        return Err("its users are not in a file".to_owned());
    }
    let file = find("AuthUserFile").ok_or("its `AuthUserFile` is missing")?;
    let mut keys = vec![("file", file.arg(0).into())];
    if let Some(realm) = find("AuthName").filter(|name| name.arg(0).is_ascii()) {
        keys.push(("realm", realm.arg(0).into()));
    }
    Ok(Value::table(keys))
}
