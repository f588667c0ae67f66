//! The `log_format` of nginx, as a pattern of lines.

use std::fmt;

/// The format `combined` of nginx and Apache.
const COMBINED: &str = r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent""#;

/// The format `common`.
const COMMON: &str = r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent"#;

/// Maximum number of variables in a format.
const VARIABLES_MAX: usize = 200;

/// A format: variables, each with the text that follows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// The text before the first variable.
    start: String,
    variables: Vec<(String, String)>,
}

/// The error of a format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternError(String);

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (expected the text of a log_format, such as '{COMMON}')", self.0)
    }
}

impl std::error::Error for PatternError {}

impl Pattern {
    /// The format `combined`.
    #[must_use]
    pub fn combined() -> Self {
        Self::known(COMBINED)
    }

    /// The format `common`.
    #[must_use]
    pub fn common() -> Self {
        Self::known(COMMON)
    }

    fn known(text: &str) -> Self {
        text.parse().expect("a test parses it")
    }

    /// The values of the variables in a line, if it has this format.
    pub(crate) fn values<'a>(&'a self, line: &'a str) -> Option<Vec<(&'a str, String)>> {
        let mut rest = line.strip_prefix(self.start.as_str())?;
        let mut values = Vec::with_capacity(self.variables.len());
        for (index, (name, text)) in self.variables.iter().enumerate() {
            let is_last = index + 1 == self.variables.len();
            let end = if is_last {
                rest.len().checked_sub(text.len()).filter(|_| rest.ends_with(text.as_str()))?
            } else {
                find(rest, text)?
            };
            values.push((name.as_str(), unescaped(&rest[..end])));
            rest = &rest[end + text.len()..];
        }
        Some(values)
    }

    fn has(&self, variable: &str) -> bool {
        self.variables.iter().any(|(name, _)| name == variable)
    }
}

/// The place of `text` that a backslash does not escape.
fn find(rest: &str, text: &str) -> Option<usize> {
    let mut places = rest.match_indices(text).map(|(at, _)| at);
    places.find(|at| {
        let backslashes = rest[..*at].bytes().rev().take_while(|byte| *byte == b'\\').count();
        backslashes % 2 == 0
    })
}

/// Undoes the escapes of nginx (`\x22`) and Apache (`\"`, `\\`).
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after) {
            (b'\\', [b'x', high, low, after @ ..]) => {
                let digits = [*high, *low];
                match std::str::from_utf8(&digits).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
                    Some(value) => {
                        bytes.push(value);
                        rest = after;
                    }
                    None => bytes.push(b'\\'),
                }
            }
            (b'\\', [escaped @ (b'"' | b'\\'), after @ ..]) => {
                bytes.push(*escaped);
                rest = after;
            }
            _ => bytes.push(*byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl std::str::FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let error = |problem: String| Err(PatternError(problem));
        let mut parts = text.split('$');
        let start = parts.next().unwrap_or_default().to_owned();
        let variables: Vec<_> = parts.map(variable).collect::<Result<_, _>>()?;
        if variables.len() > VARIABLES_MAX {
            return error(format!("the format has more than {VARIABLES_MAX} variables"));
        }
        let count = variables.len();
        for (index, (name, text)) in variables.iter().enumerate() {
            if text.is_empty() && index + 1 < count {
                return error(format!("no text separates ${name} from the next variable"));
            }
        }
        let pattern = Self { start, variables };
        if !pattern.has("request") && !pattern.has("request_uri") {
            return error("the format has neither $request nor $request_uri".to_owned());
        }
        Ok(pattern)
    }
}

/// The name at the start of `part`, also in braces, and the text after it.
fn variable(part: &str) -> Result<(String, String), PatternError> {
    if let Some((name, text)) = part.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
        return Ok((name.to_owned(), text.to_owned()));
    }
    let end = part.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(part.len());
    if end == 0 {
        return Err(PatternError("a `$` has no name of a variable after it".to_owned()));
    }
    Ok((part[..end].to_owned(), part[end..].to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(pattern: &str, line: &str, name: &str) -> Option<String> {
        let pattern: Pattern = pattern.parse().unwrap();
        let values = pattern.values(line)?;
        values.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    #[test]
    fn variables_end_at_the_text_that_follows() {
        assert_eq!((Pattern::combined().variables.len(), Pattern::common().variables.len()), (8, 6));
        for (pattern, line, name, expected) in [
            ("$request", "GET / HTTP/1.1", "request", Some("GET / HTTP/1.1")),
            (r#""$request""#, r#""GET /a\x22b HTTP/1.1""#, "request", Some(r#"GET /a"b HTTP/1.1"#)),
            (r#""$request" "$a""#, r#""GET /\" \" HTTP/1.1" "x""#, "request", Some("GET /\" \" HTTP/1.1")),
            (r#""$request" "$a""#, r#""GET /\\" "x""#, "request", Some(r"GET /\")),
            (r#""$request" "$a""#, r#""GET /\xZZ" "x""#, "request", Some(r"GET /\xZZ")),
            ("${request_uri}z$b", "/azc", "request_uri", Some("/a")),
            ("[$request] $b", "GET / x", "request", None),
            ("[$request] $b.", "[GET /] x", "request", None),
        ] {
            assert_eq!(value(pattern, line, name).as_deref(), expected, "{pattern} {line}");
        }
    }

    #[test]
    fn a_format_without_a_request_is_an_error() {
        for (pattern, problem) in [
            ("", "neither $request nor $request_uri"),
            ("$remote_addr", "neither $request nor $request_uri"),
            ("$request$status", "no text separates $request"),
            ("$request $", "has no name"),
        ] {
            let error = pattern.parse::<Pattern>().unwrap_err().to_string();
            assert!(error.contains(problem), "{pattern}: {error}");
        }
    }
}
