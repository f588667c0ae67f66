//! ACLs and the conditions of rules, as alternatives of guards.

use std::collections::BTreeMap;

use crate::guard::Guard;
use crate::regexes::{escaped, is_plain, path_pattern, wildcards};
use crate::syntax::Directive;
use crate::toml::Value;

/// The most alternatives of a condition.
const ALTERNATIVES_MAX: usize = 32;

/// The ACLs of a section by name. Several lines with one name are alternatives.
pub(super) type Acls<'a> = BTreeMap<&'a str, Vec<&'a Directive>>;

/// The ACLs of sections.
pub(super) fn acls<'a>(blocks: &[&'a [Directive]]) -> Acls<'a> {
    let mut acls = Acls::new();
    for acl in blocks.iter().flat_map(|block| block.iter()).filter(|directive| directive.name == "acl") {
        acls.entry(acl.arg(0)).or_default().push(acl);
    }
    acls
}

/// Splits the arguments of a rule at its condition.
pub(super) fn split(args: &[String]) -> (&[String], &[String]) {
    let at = args.iter().position(|arg| arg == "if" || arg == "unless").unwrap_or(args.len());
    args.split_at(at)
}

/// The alternatives of a condition, such as `if api !internal or { path /x }`. The error is the part without a translation.
pub(super) fn condition(words: &[String], acls: &Acls<'_>) -> Result<Vec<Guard>, String> {
    let Some((kind, rest)) = words.split_first() else { return Ok(vec![Guard::default()]) };
    let mut alternatives = Vec::new();
    for part in rest.split(|word| word == "||" || word == "or") {
        alternatives.extend(all_of(part, acls)?);
    }
    if kind == "unless" { negated(&alternatives) } else { Ok(alternatives) }
}

/// Conditions that must all be met.
fn all_of(words: &[String], acls: &Acls<'_>) -> Result<Vec<Guard>, String> {
    let mut all = vec![Guard::default()];
    let mut rest = words;
    while let Some((first, after)) = rest.split_first() {
        let (is_not, name) = first.strip_prefix('!').map_or((false, first.as_str()), |name| (true, name));
        let (name, is_not, after) = match (name, after) {
            ("", [next, after @ ..]) => (next.as_str(), true, after),
            _ => (name, is_not, after),
        };
        let (found, left) = if name == "{" {
            let end = after.iter().position(|word| word == "}").ok_or("a `{` has no end")?;
            (criterion(&after[..end])?, &after[end + 1..])
        } else {
            (named(name, acls)?, after)
        };
        let found = if is_not { negated(&found)? } else { found };
        all = all.iter().flat_map(|one| found.iter().map(move |two| one.and(two))).collect();
        if all.len() > ALTERNATIVES_MAX {
            return Err("it has too many alternatives".to_owned());
        }
        rest = left;
    }
    Ok(all)
}

fn named(name: &str, acls: &Acls<'_>) -> Result<Vec<Guard>, String> {
    match name {
        "TRUE" => return Ok(vec![Guard::default()]),
        "METH_GET" => {
            return Ok(vec![Guard::condition("methods", Value::texts(["GET", "HEAD"].map(str::to_owned)))]);
        }
        "METH_POST" | "METH_OPTIONS" | "METH_DELETE" | "METH_PUT" => {
            return Ok(vec![Guard::condition("methods", &name[5..])]);
        }
        "LOCALHOST" => return Ok(vec![Guard::condition("clients", "127.0.0.0/8")]),
        _ => {}
    }
    let lines = acls.get(name).ok_or_else(|| format!("the ACL {name} is not here"))?;
    let mut alternatives = Vec::new();
    for line in lines {
        alternatives.extend(criterion(&line.args[1..])?);
    }
    Ok(alternatives)
}

fn negated(alternatives: &[Guard]) -> Result<Vec<Guard>, String> {
    let mut all = Guard::default();
    for guard in alternatives {
        all = all.and(&guard.negated().ok_or("a condition is negated twice")?);
    }
    Ok(vec![all])
}

/// A criterion with its values.
fn criterion(words: &[String]) -> Result<Vec<Guard>, String> {
    let unknown = || format!("Rudy has no condition for `{}`", words.join(" "));
    let Some((name, mut rest)) = words.split_first() else { return Err(unknown()) };
    let (mut ignore_case, mut method) = (false, None);
    while let Some((flag, after)) = rest.split_first().filter(|(flag, _)| flag.starts_with('-')) {
        rest = after;
        match flag.as_str() {
            "-i" => ignore_case = true,
            "-m" => {
                method = rest.first().cloned();
                rest = &rest[1.min(rest.len())..];
            }
            "--" => break,
            _ => return Err(unknown()),
        }
    }
    let (name, converters) = name.split_once(',').unwrap_or((name, ""));
    if !["", "lower", "path"].contains(&converters) {
        return Err(unknown());
    }
    let name = name.strip_prefix("req.").unwrap_or(name);
    let (name, argument) = name.strip_suffix(')').and_then(|name| name.split_once('(')).unwrap_or((name, ""));
    let (name, suffix) = match name.rsplit_once('_') {
        Some((start, end @ ("beg" | "end" | "dir" | "sub" | "reg" | "dom" | "str"))) => (start, end),
        _ => (name, method.as_deref().unwrap_or("str")),
    };
    match (name, suffix) {
        ("path" | "url" | "capture.req.uri", _) => {
            let patterns: Result<Vec<String>, String> =
                rest.iter().map(|text| path(text, suffix, ignore_case)).collect();
            Ok(vec![Guard::paths(patterns.map_err(|_| unknown())?)])
        }
        ("hdr" | "hdr_ip" | "fhdr" | "ssl_fc_sni", "reg") => {
            let texts: Option<Vec<Vec<String>>> = rest.iter().map(|text| wildcards(text)).collect();
            let field = if argument.is_empty() { "host" } else { argument };
            Ok(vec![Guard::header(&field_name(field), Value::texts(texts.ok_or_else(unknown)?.concat()))])
        }
        ("hdr" | "fhdr" | "ssl_fc_sni", _) => {
            let field = if argument.is_empty() { "host" } else { argument };
            let field = field.split(',').next().unwrap_or(field);
            let texts = rest.iter().flat_map(|text| match suffix {
                "beg" => vec![format!("{text}*")],
                "end" => vec![format!("*{text}")],
                "sub" | "dir" => vec![format!("*{text}*")],
                "dom" => vec![text.clone(), format!("*.{text}"), format!("{text}.*"), format!("*.{text}.*")],
                "found" => vec!["*".to_owned()],
                _ => vec![text.clone()],
            });
            let texts: Vec<String> = if suffix == "found" { vec!["*".to_owned()] } else { texts.collect() };
            if texts.is_empty()
                || !field.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
            {
                return Err(unknown());
            }
            Ok(vec![Guard::header(&field_name(field), Value::texts(texts))])
        }
        ("method", _) => Ok(vec![Guard::condition("methods", Value::texts(rest.iter().cloned()))]),
        ("ssl_fc", _) => Ok(vec![Guard::condition("scheme", "https")]),
        ("dst_port", _) if rest == ["80"] => Ok(vec![Guard::condition("scheme", "http")]),
        ("dst_port", _) if rest == ["443"] => Ok(vec![Guard::condition("scheme", "https")]),
        ("src", _) => {
            let is_address = |text: &String| {
                text.split('/').next().is_some_and(|text| text.parse::<std::net::IpAddr>().is_ok())
            };
            rest.iter().all(is_address).then_some(()).ok_or_else(unknown)?;
            Ok(vec![Guard::condition("clients", Value::texts(rest.iter().cloned()))])
        }
        ("cook", _) if !argument.is_empty() && suffix == "str" => Ok(vec![Guard::condition(
            "cookies",
            Value::table([(argument, Value::texts(rest.iter().cloned()))]),
        )]),
        ("always_true", _) => Ok(vec![Guard::default()]),
        _ => Err(unknown()),
    }
}

/// The pattern of a path.
fn path(text: &str, suffix: &str, ignore_case: bool) -> Result<String, String> {
    let expression = match suffix {
        "reg" => text.to_owned(),
        _ if ignore_case => match suffix {
            "beg" => format!("^{}", escaped(text)),
            "end" => format!("{}$", escaped(text)),
            "sub" => escaped(text),
            "dir" => format!("/{}(/|$)", escaped(text.trim_matches('/'))),
            _ => format!("^{}$", escaped(text)),
        },
        "beg" if text == "/" => return Ok("/*".to_owned()),
        "beg" if is_plain(text) && text.ends_with('/') => return Ok(format!("{text}**")),
        "beg" if is_plain(text) => return Ok(format!("{text}*/*")),
        "beg" => format!("^{}", escaped(text)),
        "end" => format!("{}$", escaped(text)),
        "sub" => escaped(text),
        "dir" => format!("/{}(/|$)", escaped(text.trim_matches('/'))),
        _ if is_plain(text) => return Ok(text.to_owned()),
        _ => format!("^{}$", escaped(text)),
    };
    path_pattern(&expression, ignore_case)
}

/// The usual spelling of a field.
fn field_name(field: &str) -> String {
    let part = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    };
    field.split('-').map(part).collect::<Vec<_>>().join("-")
}
