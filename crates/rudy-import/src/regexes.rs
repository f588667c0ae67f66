//! Regular expressions: those of PCRE that Rudy has, too.

use std::collections::BTreeSet;

use crate::guard::Guard;

/// A pattern of a path with Rudy's syntax, or why it has none.
pub(crate) fn path_pattern(expression: &str, ignore_case: bool) -> Result<String, String> {
    let expression = expression.replace("(?P<", "(?<");
    let flags = if ignore_case { "(?i)" } else { "" };
    let pattern = format!("{flags}{expression}");
    match regex::bytes::Regex::new(&pattern) {
        Ok(regex) => match regex.capture_names().flatten().find(|name| RESERVED.contains(name)) {
            Some(name) => Err(format!("a group cannot have the name `{name}`, which is a placeholder")),
            None => Ok(format!("regex:{pattern}")),
        },
        Err(_) => Err("Rudy's regular expressions have no look-around and no backreferences".to_owned()),
    }
}

/// Names of placeholders.
const RESERVED: [&str; 10] =
    ["path", "rest", "query", "host", "method", "scheme", "client", "unix_time", "header", "cookie"];

/// The names of groups.
pub(crate) fn groups(expression: &str) -> BTreeSet<String> {
    let Ok(regex) = regex::bytes::Regex::new(&expression.replace("(?P<", "(?<")) else {
        return BTreeSet::new();
    };
    regex.capture_names().flatten().map(str::to_owned).collect()
}

/// An expression without its look-arounds, which matches at least as much: for what it closes.
pub(crate) fn widened(expression: &str) -> String {
    let mut result = String::new();
    let mut rest = expression;
    while let Some(at) = ["(?!", "(?=", "(?<!", "(?<="].iter().filter_map(|begin| rest.find(begin)).min() {
        result.push_str(&rest[..at]);
        rest = after_group(&rest[at..]);
    }
    result + rest
}

/// The paths that a rule closes, and whether they are more than its own, because a part of the expression is left out.
pub(crate) fn closed(expression: &str, ignore_case: bool) -> Result<(Guard, bool), String> {
    if let Ok(pattern) = path_pattern(expression, ignore_case) {
        return Ok((Guard::paths([pattern]), false));
    }
    let guard = Guard::paths([path_pattern(&widened(expression), ignore_case)?]);
    // The usual exception: files that authorities and clients look for.
    let is_exception =
        ["(?!well-known", "(?!\\.well-known", "(?!/well-known"].iter().any(|part| expression.contains(part));
    let well_known = Guard::paths(["/.well-known/*".to_owned()]).negated().filter(|_| is_exception);
    Ok(well_known.map_or((guard.clone(), true), |except| (except.and(&guard), false)))
}

/// What follows the group at the start of a text.
fn after_group(text: &str) -> &str {
    let (mut depth, mut escaped) = (0_usize, false);
    for (at, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '(' => depth += 1,
            ')' if depth == 1 => return &text[at + 1..],
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    ""
}

/// The texts that an expression finds, as wildcards: `^(a|b)c` is `ac*` and `bc*`. `None` if it is more than that.
pub(crate) fn wildcards(expression: &str) -> Option<Vec<String>> {
    const ALTERNATIVES_MAX: usize = 100;
    let (starts, rest) = match expression.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, expression),
    };
    let (ends, rest) = match rest.strip_suffix('$') {
        Some(rest) if !rest.ends_with('\\') => (true, rest),
        _ => (false, rest),
    };
    let texts = alternatives(rest)?;
    if texts.len() > ALTERNATIVES_MAX || (starts || ends) && top_level_bar(rest) {
        return None;
    }
    let wildcard = |text: String| {
        let text = format!("{}{text}{}", if starts { "" } else { "*" }, if ends { "" } else { "*" });
        let mut text = text;
        while text.contains("**") {
            text = text.replace("**", "*");
        }
        text
    };
    Some(texts.into_iter().map(wildcard).collect())
}

/// Whether an expression has alternatives outside of groups, to which `^` and `$` belong separately.
fn top_level_bar(expression: &str) -> bool {
    let (mut depth, mut escaped) = (0_i32, false);
    expression.chars().any(|letter| {
        let is_bar = letter == '|' && depth == 0 && !escaped;
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        is_bar
    })
}

/// All texts of an expression that consists of characters, `.*`, and groups with alternatives.
fn alternatives(expression: &str) -> Option<Vec<String>> {
    let (texts, rest) = branch(expression, 0)?;
    rest.is_empty().then_some(texts)
}

/// The texts of alternatives up to a closing parenthesis, and what follows.
fn branch(text: &str, depth: usize) -> Option<(Vec<String>, &str)> {
    const DEPTH_MAX: usize = 10;
    const TEXTS_MAX: usize = 200;
    if depth > DEPTH_MAX {
        return None;
    }
    let (mut all, mut current, mut rest) = (Vec::new(), vec![String::new()], text);
    while let Some(letter) = rest.chars().next() {
        let after = &rest[letter.len_utf8()..];
        let (next, texts): (&str, Vec<String>) = match letter {
            ')' => break,
            '|' => {
                all.append(&mut current);
                current.push(String::new());
                rest = after;
                continue;
            }
            '(' => {
                let inner = after.strip_prefix("?:").unwrap_or(after);
                let (texts, after) = branch(inner, depth + 1)?;
                (after.strip_prefix(')')?, texts)
            }
            '.' => (after.strip_prefix('*').or_else(|| after.strip_prefix('+'))?, vec!["*".to_owned()]),
            '\\' => {
                let escaped = after.chars().next().filter(char::is_ascii_punctuation)?;
                (&after[1..], vec![escaped.to_string()])
            }
            '*' | '+' | '?' | '[' | ']' | '{' | '}' | '^' | '$' => return None,
            _ => (after, vec![letter.to_string()]),
        };
        if next.starts_with(['*', '+', '?', '{']) || current.len() * texts.len() > TEXTS_MAX {
            return None;
        }
        current =
            current.iter().flat_map(|start| texts.iter().map(move |text| format!("{start}{text}"))).collect();
        rest = next;
    }
    all.append(&mut current);
    Some((all, rest))
}

/// The characters with a meaning in patterns of paths.
const SPECIAL: [char; 4] = ['*', '?', '[', '{'];

/// Whether a path can be written as it is in a pattern of a path.
pub(crate) fn is_plain(path: &str) -> bool {
    path.starts_with('/')
        && !path.contains(SPECIAL)
        && !path.contains(['%', '\\', '}', ']'])
        && !path.contains("//")
        && !path.split('/').any(|part| part == "." || part == "..")
}

/// An expression for a text.
pub(crate) fn escaped(text: &str) -> String {
    regex::escape(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_expressions_are_wildcards() {
        let texts = |expression| wildcards(expression).map(|texts| texts.join(" "));
        assert_eq!(texts("bot").as_deref(), Some("*bot*"));
        assert_eq!(
            texts("^(www|blog)\\.example\\.org$").as_deref(),
            Some("www.example.org blog.example.org")
        );
        assert_eq!(texts("a|b").as_deref(), Some("*a* *b*"));
        assert_eq!(texts("^a|b"), None);
        assert_eq!(texts("[0-9]"), None);
    }

    #[test]
    fn look_arounds_are_left_out() {
        assert_eq!(widened("/\\.(?!well-known(/|$)).*"), "/\\..*");
        assert_eq!(widened("(?<!a)b"), "b");
    }
}
