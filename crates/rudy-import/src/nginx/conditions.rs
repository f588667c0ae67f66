//! The conditions of `if`.

use super::locations::{Match, exact_pattern};
use super::scope::Scope;
use super::text::{field_name, substitute};
use crate::regexes::{path_pattern, wildcards};
use crate::syntax::Directive;
use crate::toml::Value;

/// A condition: what is compared, how, and with what.
struct Condition {
    variable: String,
    operator: String,
    value: String,
}

impl Condition {
    fn of(directive: &Directive) -> Option<Self> {
        let mut words = directive.args.clone();
        let first = words.first_mut()?;
        *first = first.strip_prefix('(')?.to_owned();
        let last = words.last_mut()?;
        *last = last.strip_suffix(')')?.to_owned();
        words.retain(|word| !word.is_empty() || directive.args.contains(word));
        match &mut words[..] {
            [variable] => Some(Self {
                variable: std::mem::take(variable),
                operator: String::new(),
                value: String::new(),
            }),
            [one, other] if one.starts_with(['-', '!']) => Some(Self {
                variable: std::mem::take(other),
                operator: std::mem::take(one),
                value: String::new(),
            }),
            [variable, operator, rest @ ..] => Some(Self {
                variable: std::mem::take(variable),
                operator: std::mem::take(operator),
                value: rest.join(" "),
            }),
            _ => None,
        }
    }

    /// Whether it is about what does not match.
    fn is_negative(&self) -> bool {
        self.operator.starts_with('!')
    }

    /// The same for a host, which clients send in lower case.
    fn without_case(&self) -> Self {
        let operator = self.operator.replace("~*", "~");
        Self { variable: self.variable.clone(), operator, value: self.value.to_lowercase() }
    }

    /// The texts that match, as patterns with `*`.
    fn patterns(&self) -> Result<Vec<String>, String> {
        match self.operator.trim_start_matches('!') {
            "" => Ok(vec!["*".to_owned()]),
            "=" if self.value.contains('*') => Err("an asterisk cannot be compared".to_owned()),
            "=" => Ok(vec![self.value.clone()]),
            "~" => wildcards(&self.value).ok_or_else(too_much),
            "~*" => {
                let patterns = wildcards(&self.value).ok_or_else(too_much)?;
                let has_letters =
                    patterns.iter().any(|pattern| pattern.contains(|c: char| c.is_alphabetic()));
                if has_letters {
                    Err("conditions distinguish upper and lower case".to_owned())
                } else {
                    Ok(patterns)
                }
            }
            _ => Err("there is no such condition".to_owned()),
        }
    }
}

fn too_much() -> String {
    "conditions have patterns with `*`, and no regular expressions".to_owned()
}

/// Whether a directive rejects the request.
pub(super) fn is_rejection(directive: &Directive) -> bool {
    let is_error = |status: &str| status.starts_with('4') && status.len() == 3;
    directive.name == "return" && is_error(directive.arg(0)) || directive.name == "deny"
}

/// Whether a condition is about the method.
pub(super) fn is_about_methods(directive: &Directive) -> bool {
    Condition::of(directive).is_some_and(|condition| condition.variable == "$request_method")
}

/// Whether an `if` rejects scripts that do not exist, which Rudy does by itself.
pub(super) fn is_script_check(directive: &Directive) -> bool {
    let is_missing = directive.children().iter().any(|child| child.name == "return" && child.arg(0) == "404");
    Condition::of(directive).is_some_and(|condition| {
        condition.operator == "!-f" && condition.variable.contains("$fastcgi_script_name") && is_missing
    })
}

/// The file that switches maintenance on, if an `if` is about it.
pub(super) fn maintenance_file(directive: &Directive, scope: &Scope<'_>) -> Option<String> {
    let condition = Condition::of(directive)?;
    let is_maintenance =
        directive.children().iter().any(|child| child.name == "return" && child.arg(0) == "503");
    let root = scope.find("root").map(|root| substitute(root.arg(0), scope)).unwrap_or_default();
    let file = substitute(&condition.variable, scope).replace("${document_root}", &root);
    let is_file =
        ["-f", "-e"].contains(&condition.operator.as_str()) && file.starts_with('/') && !file.contains('$');
    (is_maintenance && is_file).then_some(file)
}

/// Adds the condition of an `if` to those of a location. The error says why Rudy cannot have it.
pub(super) fn add(directive: &Directive, matched: &Match) -> Result<Match, String> {
    let condition = Condition::of(directive).ok_or("the condition cannot be read")?;
    let mut matched = matched.clone();
    let variable = condition.variable.trim_start_matches('$').trim_matches(['{', '}']).to_owned();
    if ["uri", "request_uri", "document_uri"].contains(&variable.as_str()) {
        return path(&condition, matched);
    }
    let (key, value) = match variable.as_str() {
        "request_method" => ("methods", Value::texts(methods(&condition.patterns()?)?)),
        "scheme" => ("scheme", one(condition.patterns()?)?),
        "https" if condition.value == "on" => ("scheme", "https".into()),
        "remote_addr" if condition.operator.ends_with('=') => ("clients", condition.value.as_str().into()),
        "host" | "http_host" => {
            ("headers", Value::table([("Host", hosts(condition.without_case().patterns()?))]))
        }
        "http_upgrade" if condition.value.eq_ignore_ascii_case("websocket") => {
            ("headers", Value::table([("Upgrade", "websocket".into())]))
        }
        "ssl_client_verify" if condition.value == "SUCCESS" => ("certificate", "*".into()),
        _ => part(&variable, &condition)?,
    };
    // A comparison with nothing is that it is missing.
    let is_missing = condition.operator.ends_with('=') && condition.value.is_empty();
    let list = if condition.is_negative() == is_missing { &mut matched.conditions } else { &mut matched.not };
    list.push((key.to_owned(), value));
    Ok(matched)
}

fn one(mut patterns: Vec<String>) -> Result<Value, String> {
    if patterns.len() == 1 { Ok(patterns.remove(0).into()) } else { Err("there is one scheme".to_owned()) }
}

/// The names of methods: none is a part of another.
fn methods(patterns: &[String]) -> Result<Vec<String>, String> {
    let is_name =
        |method: &String| !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
    let methods: Vec<_> = patterns.iter().map(|pattern| pattern.trim_matches('*').to_owned()).collect();
    if methods.iter().all(is_name) { Ok(methods) } else { Err(too_much()) }
}

/// The field `Host` may have a port.
fn hosts(patterns: Vec<String>) -> Value {
    let with_port = |pattern: String| {
        let port = (!pattern.ends_with('*')).then(|| format!("{pattern}:*"));
        std::iter::once(pattern).chain(port)
    };
    Value::texts(patterns.into_iter().flat_map(with_port))
}

/// A condition on the path is the path of the route.
fn path(condition: &Condition, mut matched: Match) -> Result<Match, String> {
    let pattern = match condition.operator.as_str() {
        "~" => path_pattern(&condition.value, false)?,
        "~*" => path_pattern(&condition.value, true)?,
        "=" => exact_pattern(&condition.value),
        "!~" => {
            matched.except.push(path_pattern(&condition.value, false)?);
            return Ok(matched);
        }
        "!=" => {
            matched.except.push(exact_pattern(&condition.value));
            return Ok(matched);
        }
        _ => return Err("there is no such condition on the path".to_owned()),
    };
    if condition.variable.contains("request_uri") && condition.value.contains('?') {
        return Err("a condition on the path is without the query".to_owned());
    }
    Ok(matched.and_regex(&pattern))
}

/// A condition on a header field, a cookie or a parameter.
fn part(variable: &str, condition: &Condition) -> Result<(&'static str, Value), String> {
    let (key, name) = if let Some(field) = variable.strip_prefix("http_") {
        ("headers", field_name(field))
    } else if let Some(cookie) = variable.strip_prefix("cookie_") {
        ("cookies", cookie.to_owned())
    } else if let Some(parameter) = variable.strip_prefix("arg_") {
        ("query", parameter.to_owned())
    } else {
        return Err(format!("Rudy has no condition on ${variable}"));
    };
    let is_missing = condition.operator.ends_with('=') && condition.value.is_empty();
    let patterns = if is_missing { vec!["*".to_owned()] } else { condition.patterns()? };
    Ok((key, Value::table([(name, Value::texts(patterns))])))
}
