//! Texts with variables of nginx, and what Rudy has instead of each.

use super::Context;
use super::scope::Scope;

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part<'a> {
    Text(&'a str),
    /// The name of a variable, without the dollar sign.
    Variable(&'a str),
}

/// Where a text is used: Rudy has fewer placeholders in the targets of redirects and rewrites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Target,
    Field,
}

/// Splits a text at its variables: `$name` and `${name}`.
pub(super) fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let after = &rest[at + 1..];
        let (name, len) = variable(after);
        if name.is_empty() {
            // A dollar sign alone is itself, as at the end of a regular expression.
            parts.push(Part::Text(&rest[..=at]));
            rest = after;
            continue;
        }
        if at > 0 {
            parts.push(Part::Text(&rest[..at]));
        }
        parts.push(Part::Variable(name));
        rest = &after[len..];
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest));
    }
    parts
}

/// The name of the variable at the start of a text, and its length with braces.
fn variable(text: &str) -> (&str, usize) {
    if let Some(inner) = text.strip_prefix('{') {
        return inner.split_once('}').map_or(("", 0), |(name, _)| (name, name.len() + 2));
    }
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let end = text.find(|letter| !is_name(letter)).unwrap_or(text.len());
    // The group of a regular expression has one digit.
    let end = if text.starts_with(|first: char| first.is_ascii_digit()) { 1 } else { end };
    (&text[..end], end)
}

/// Replaces variables that `set` gives one value, again and again: values can have variables themselves.
pub(super) fn substitute(text: &str, scope: &Scope<'_>) -> String {
    const DEPTH_MAX: usize = 5;
    const LENGTH_MAX: usize = 4096;
    let mut text = text.to_owned();
    for _ in 0..DEPTH_MAX {
        let replaced: String = parts(&text)
            .into_iter()
            .map(|part| match part {
                Part::Text(text) => text.to_owned(),
                Part::Variable(name) => constant(name, scope).unwrap_or_else(|| format!("${{{name}}}")),
            })
            .collect();
        if replaced == text || replaced.len() > LENGTH_MAX {
            break;
        }
        text = replaced;
    }
    text
}

/// The value that `set` gives a variable, if it has only this one.
fn constant(name: &str, scope: &Scope<'_>) -> Option<String> {
    let is_set = |set: &&crate::syntax::Directive| set.arg(0).strip_prefix('$') == Some(name);
    let set = scope.everywhere("set").filter(is_set).last()?;
    let is_conditional =
        |condition: &crate::syntax::Directive| condition.children().iter().any(|set| is_set(&set));
    let is_variable = scope.everywhere("if").any(is_conditional);
    (!is_variable && !is_in(set.arg(1), name)).then(|| set.arg(1).to_owned())
}

fn is_in(text: &str, name: &str) -> bool {
    parts(text).contains(&Part::Variable(name))
}

/// Translates a text with variables into one with placeholders. The error names the variable that Rudy has no placeholder for.
pub(super) fn translate(
    text: &str,
    place: Use,
    scope: &Scope<'_>,
    context: &mut Context<'_>,
) -> Result<String, String> {
    let mut text = substitute(text, scope);
    for query in QUERIES {
        text = text.replace(query, QUERY);
    }
    let mut result = String::new();
    for part in parts(&text) {
        match part {
            Part::Text(text) => result.push_str(text),
            Part::Variable(name) => {
                let unknown = || format!("Rudy has no placeholder for ${name} here");
                result.push_str(&placeholder(name, place, context).ok_or_else(unknown)?);
            }
        }
    }
    Ok(result.replace(QUERY, "{query}"))
}

/// The ways to add the query of the request, which `{query}` is with its question mark, or with `&` after another parameter.
const QUERIES: [&str; 6] = [
    "${is_args}${args}",
    "${is_args}${query_string}",
    "?${args}",
    "?${query_string}",
    "&${args}",
    "&${query_string}",
];

/// Means `{query}` while variables are replaced.
const QUERY: &str = "\u{1}";

/// What Rudy has instead of a variable.
fn placeholder(name: &str, place: Use, context: &mut Context<'_>) -> Option<String> {
    let text = match name {
        "uri" | "document_uri" => "{path}".to_owned(),
        "request_uri" => "{path}{query}".to_owned(),
        "is_args" | "args" | "query_string" => return None,
        "host" | "hostname" => "{host}".to_owned(),
        "server_name" => context.server_name.clone()?,
        _ if name.parse::<u8>().is_ok() => format!("{{{name}}}"),
        _ if context.groups.contains(name) => format!("{{{name}}}"),
        _ if context.host_groups.contains(name) => format!("{{host.{name}}}"),
        _ => match name.strip_prefix("arg_") {
            Some(parameter) => format!("{{query.{parameter}}}"),
            None if place == Use::Field => return field_placeholder(name, context),
            None if name == "http_host" => "{host}".to_owned(),
            None => return context.map(name),
        },
    };
    Some(text)
}

fn field_placeholder(name: &str, context: &mut Context<'_>) -> Option<String> {
    let text = match name {
        "scheme" => "{scheme}".to_owned(),
        "remote_addr" | "realip_remote_addr" | "proxy_protocol_addr" => "{client}".to_owned(),
        "request_method" => "{method}".to_owned(),
        "msec" => "{unix_time}".to_owned(),
        "request_id" => {
            context.request_id = true;
            "{header.X-Request-Id}".to_owned()
        }
        "remote_user" => "{header.Remote-User}".to_owned(),
        "proxy_add_x_forwarded_for" => "{header.X-Forwarded-For}".to_owned(),
        "http_host" => "{header.Host}".to_owned(),
        "server_port" => return context.port(),
        _ => match (name.strip_prefix("http_"), name.strip_prefix("cookie_")) {
            (Some(field), _) => format!("{{header.{}}}", field_name(field)),
            (_, Some(cookie)) => format!("{{cookie.{cookie}}}"),
            _ => return context.map(name),
        },
    };
    Some(text)
}

/// The name of a field in the usual spelling, from that of a variable: `user_agent`.
pub(super) fn field_name(variable: &str) -> String {
    let words = variable.split('_').map(|word| {
        let mut letters = word.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    });
    words.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_end_where_names_end() {
        let expected = [Part::Variable("a"), Part::Text("-"), Part::Variable("b"), Part::Text("c$")];
        assert_eq!(parts("$a-${b}c$"), expected);
        assert_eq!(parts("/$1mp3"), [Part::Text("/"), Part::Variable("1"), Part::Text("mp3")]);
    }
}
