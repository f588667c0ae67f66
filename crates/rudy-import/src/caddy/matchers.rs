//! Matchers: which requests a directive is for.

use std::collections::BTreeMap;

use crate::guard::Guard;
use crate::regexes::{escaped, is_plain, path_pattern};
use crate::syntax::Directive;
use crate::toml::Value;

/// What a matcher means: a guard, which is wider than the matcher if it has a reason.
#[derive(Debug, Clone, Default)]
pub(super) struct Matched {
    pub(super) guard: Guard,
    pub(super) wider: Option<String>,
}

/// The named matchers of a site.
pub(super) type Named<'a> = BTreeMap<&'a str, &'a Directive>;

/// The pattern of a path matcher. With `strip`, the folder is removed from the path, so that the pattern has to be a folder.
pub(super) fn pattern(path: &str, prefix: &str) -> String {
    if path == "*" || path == "/*" || path.is_empty() {
        return if prefix.is_empty() { "/*".to_owned() } else { format!("{prefix}/*") };
    }
    let full = format!("{prefix}{path}");
    if !path.starts_with('/') {
        let inner = path.trim_start_matches('*');
        let is_suffix = path.starts_with('*') && !inner.contains(['*', '/']) && prefix.is_empty();
        let expression = path.split('*').map(escaped).collect::<Vec<_>>().join(".*");
        return if is_suffix {
            path.to_owned()
        } else {
            format!("regex:^{}.*{expression}$", escaped(prefix))
        };
    }
    match full.strip_suffix('*') {
        None if is_plain(&full) => full,
        Some(start) if start.ends_with('/') && is_plain(start) => format!("{start}**"),
        Some(start) if is_plain(start) => format!("{start}*/*"),
        _ => format!("regex:^{}$", full.split('*').map(escaped).collect::<Vec<_>>().join(".*")),
    }
}

/// The matcher of a directive, and the arguments after it.
pub(super) fn of<'a>(directive: &'a Directive, named: &Named<'_>, prefix: &str) -> (Matched, &'a [String]) {
    let Some(first) = directive.args.first() else { return (Matched::default(), &[]) };
    let rest = &directive.args[1..];
    if first.starts_with('@') {
        let undefined =
            || Matched { wider: Some(format!("the matcher {first} is not defined")), ..Matched::default() };
        let definition = named.get(first.as_str());
        return (
            definition.map_or_else(undefined, |definition| definition_of(definition, named, prefix)),
            rest,
        );
    }
    if first == "*" {
        return (Matched::default(), rest);
    }
    if first.starts_with('/') {
        let guard = Guard::paths([pattern(first, prefix)]);
        return (Matched { guard, wider: None }, rest);
    }
    (Matched::default(), &directive.args)
}

/// A condition of a matcher: its name, its arguments and its block.
type Condition<'a> = (String, Vec<String>, Option<&'a [Directive]>);

/// A named matcher: `@name path /a /b`, or a block with several conditions, all of which must be met.
fn definition_of(definition: &Directive, named: &Named<'_>, prefix: &str) -> Matched {
    let mut all = Matched::default();
    let mut conditions: Vec<Condition<'_>> = Vec::new();
    if let Some((name, args)) = definition.args.split_first() {
        // An expression alone needs no name.
        let (name, args) = if name.contains(['{', '(', ' ']) {
            ("expression".to_owned(), definition.args.clone())
        } else {
            (name.clone(), args.to_vec())
        };
        conditions.push((name, args, definition.block.as_deref()));
    } else {
        for condition in definition.children() {
            // Of several lines with one name, one has to be met.
            let same = conditions.iter_mut().find(|(name, ..)| {
                *name == condition.name && ["path", "method", "host", "remote_ip"].contains(&name.as_str())
            });
            match same {
                Some((_, args, _)) => args.extend(condition.args.iter().cloned()),
                None => conditions.push((
                    condition.name.clone(),
                    condition.args.clone(),
                    condition.block.as_deref(),
                )),
            }
        }
    }
    for (name, args, block) in conditions {
        match condition(&name, &args, block, named, prefix) {
            Ok(guard) => all.guard = all.guard.and(&guard),
            Err(why) => all.wider = Some(why),
        }
    }
    all
}

fn condition(
    name: &str,
    args: &[String],
    block: Option<&[Directive]>,
    named: &Named<'_>,
    prefix: &str,
) -> Result<Guard, String> {
    if args.iter().any(|arg| arg.contains('{')) && name != "path_regexp" && name != "expression" {
        return Err(format!("conditions have no placeholders: {name} {}", args.join(" ")));
    }
    let texts = || Value::texts(args.iter().cloned());
    match (name, args) {
        ("path", _) => Ok(Guard::paths(args.iter().map(|path| pattern(path, prefix)))),
        ("path_regexp", [.., expression]) if prefix.is_empty() => {
            Ok(Guard::paths([path_pattern(expression, false)?]))
        }
        ("method", _) => Ok(Guard::condition("methods", texts())),
        ("protocol", [scheme]) if scheme == "http" || scheme == "https" => {
            Ok(Guard::condition("scheme", scheme.as_str()))
        }
        ("host", _) => Ok(Guard::header("Host", texts())),
        ("remote_ip" | "client_ip", _) => clients(args).map(|clients| Guard::condition("clients", clients)),
        ("header", [field]) if field.starts_with('!') => {
            let guard = Guard::header(&field[1..], "*");
            guard.negated().ok_or_else(|| "it is negated twice".to_owned())
        }
        ("header", [field]) => Ok(Guard::header(field, "*")),
        ("header", [field, value]) => Ok(Guard::header(field, value.as_str())),
        ("query", _) => {
            let mut pairs: Vec<(String, Value)> = Vec::new();
            for arg in args {
                let (name, value) = arg.split_once('=').unwrap_or((arg, ""));
                pairs.push((name.to_owned(), value.into()));
            }
            if pairs.len() > 1 {
                return Err("write the parameters of `query`, of which one has to be met".to_owned());
            }
            Ok(Guard::condition("query", Value::Table(pairs)))
        }
        ("not", _) => {
            let inner = match (args, block) {
                ([], Some(block)) => Directive {
                    name: String::new(),
                    args: Vec::new(),
                    block: Some(block.to_vec()),
                    place: block.first().map(|first| first.place.clone()).ok_or("`not` is empty")?,
                },
                ([name, args @ ..], _) => {
                    let guard = condition(name, args, block, named, prefix)?;
                    return guard.negated().ok_or_else(|| "`not` of `not` has no translation".to_owned());
                }
                _ => return Err("`not` is empty".to_owned()),
            };
            let matched = definition_of(&inner, named, prefix);
            match matched.wider {
                Some(why) => Err(why),
                None => matched.guard.negated().ok_or_else(|| "`not` of `not` has no translation".to_owned()),
            }
        }
        _ => Err(format!("Rudy has no condition for `{name}`")),
    }
}

fn clients(args: &[String]) -> Result<Value, String> {
    const PRIVATE: [&str; 6] =
        ["192.168.0.0/16", "172.16.0.0/12", "10.0.0.0/8", "127.0.0.0/8", "fd00::/8", "::1/128"];
    let mut clients = Vec::new();
    for arg in args.iter().filter(|arg| *arg != "forwarded") {
        if arg == "private_ranges" {
            clients.extend(PRIVATE.map(str::to_owned));
        } else if is_network(arg) {
            clients.push(arg.clone());
        } else {
            return Err(format!("{arg} is no address"));
        }
    }
    Ok(Value::texts(clients))
}

/// Whether a text is an address or a network.
pub(super) fn is_network(text: &str) -> bool {
    let (address, bits) = text.split_once('/').unwrap_or((text, "0"));
    address.parse::<std::net::IpAddr>().is_ok() && bits.parse::<u8>().is_ok()
}
