//! Access logs: lines of a `log_format`, or JSON.

use http::Method;

use super::{LINE_BYTES_MAX, Line, Pattern, SourceError, json};
use crate::request::is_target;
use crate::{Place, Request};

/// The format of an access log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// Found by the first line: JSON, combined or common.
    Detected,
    /// A `log_format` of nginx.
    Pattern(Pattern),
    /// JSON lines, of Caddy or Rudy.
    Json,
}

/// Reads the lines of an access log.
#[derive(Debug)]
pub struct Log {
    format: Format,
    lines: u64,
}

impl Log {
    /// A reader at the start of a log.
    #[must_use]
    pub fn new(format: Format) -> Self {
        Self { format, lines: 0 }
    }

    /// The request of the next line, which has no line end.
    ///
    /// # Errors
    ///
    /// The line does not have the format.
    pub fn line(&mut self, line: &[u8]) -> Result<Line, SourceError> {
        self.lines += 1;
        let place = Place(self.lines);
        if line.len() > LINE_BYTES_MAX {
            return Err(SourceError::at(place, format!("the line is longer than {LINE_BYTES_MAX} bytes")));
        }
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches('\r');
        if line.is_empty() {
            return Ok(Line::NoRequest);
        }
        if self.format == Format::Detected {
            self.format = detected(line).ok_or_else(|| SourceError::at(place, UNKNOWN))?;
        }
        match &self.format {
            Format::Pattern(pattern) => pattern_line(pattern, line, place),
            Format::Json | Format::Detected => json::line(line, place),
        }
    }
}

const UNKNOWN: &str = "expected the format combined or common, or JSON of Caddy or Rudy; \
                       name another one with --format and the text of its log_format";

fn detected(line: &str) -> Option<Format> {
    if line.starts_with('{') {
        return Some(Format::Json);
    }
    let patterns = [Pattern::combined(), Pattern::common()];
    patterns.into_iter().find(|pattern| pattern.values(line).is_some()).map(Format::Pattern)
}

fn pattern_line(pattern: &Pattern, line: &str, place: Place) -> Result<Line, SourceError> {
    let values = pattern.values(line).ok_or_else(|| {
        SourceError::at(place, "the line does not have the format of the log; name it with --format")
    })?;
    let value = |name: &str| {
        let value = values.iter().find(|(known, _)| *known == name);
        value.map(|(_, value)| value.as_str()).filter(|value| !matches!(*value, "" | "-"))
    };
    let (method, target) = match value("request") {
        Some(request) => match request_line(request) {
            Some(parts) => parts,
            None => return Ok(Line::NoRequest),
        },
        None => (value("request_method").unwrap_or("GET"), value("request_uri").unwrap_or_default()),
    };
    let host = value("host").or(value("http_host"));
    let fields = [("referer", value("http_referer")), ("user-agent", value("http_user_agent"))];
    Ok(request(place, method, target, host, &fields))
}

/// Method and target of a request line: it has a protocol, but for HTTP/0.9.
fn request_line(line: &str) -> Option<(&str, &str)> {
    let mut parts = line.split(' ');
    let (method, target, version) = (parts.next()?, parts.next()?, parts.next()?);
    (version.starts_with("HTTP/") && parts.next().is_none()).then_some((method, target))
}

/// The request of a line with these parts, if it can be sent.
pub(super) fn request(
    place: Place,
    method: &str,
    target: &str,
    host: Option<&str>,
    fields: &[(&str, Option<&str>)],
) -> Line {
    let Ok(method) = method.parse::<Method>() else { return Line::NoRequest };
    if !is_target(target) {
        return Line::NoRequest;
    }
    let mut request = Request { method, host: host.map(str::to_owned), ..Request::get(place, target) };
    for (name, value) in fields {
        if let Some(value) = value {
            request.add_field(name, value);
        }
    }
    Line::Request(Box::new(request))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMBINED: &str =
        r#"192.0.2.1 - - [30/Nov/2026:10:00:00 +0000] "GET /a?b=c HTTP/1.1" 200 12 "-" "Firefox""#;
    const COMMON: &str = r#"192.0.2.1 - ann [30/Nov/2026:10:00:00 +0000] "HEAD /d HTTP/2.0" 200 0"#;
    const CADDY: &str = r#"{"level":"info","ts":1.5,"request":{"method":"GET","host":"example.org","uri":"/e","headers":{"User-Agent":["curl"]}},"status":200}"#;
    const RUDY: &str =
        r#"{"time":"2026-11-30T10:00:00Z","method":"POST","target":"/f","host":"a.example","status":200}"#;

    fn summary(line: &Line) -> String {
        let Line::Request(request) = line else { return "none".to_owned() };
        let agent = request.fields.get("user-agent").map_or("-", |value| value.to_str().unwrap());
        format!("{} {} {} {agent}", request.method, request.target, request.host.as_deref().unwrap_or("-"))
    }

    #[test]
    fn the_format_is_that_of_the_first_line() {
        for (line, expected) in [
            (COMBINED, "GET /a?b=c - Firefox"),
            (COMMON, "HEAD /d - -"),
            (CADDY, "GET /e example.org curl"),
            (RUDY, "POST /f a.example -"),
        ] {
            let line = Log::new(Format::Detected).line(line.as_bytes()).unwrap();
            assert_eq!(summary(&line), expected);
        }
    }

    #[test]
    fn what_is_no_request_is_no_error() {
        let mut log = Log::new(Format::Detected);
        log.line(COMBINED.as_bytes()).unwrap();
        for request in [
            "-",
            "",
            r"\x16\x03\x01",
            "GET",
            "GET /",
            "GET / a HTTP/1.1",
            "OPTIONS * HTTP/1.1",
            "CONNECT a:443 HTTP/1.1",
            "GET http://a/ HTTP/1.1",
            r"GET /\xC3\xA4 HTTP/1.1",
        ] {
            let line = COMBINED.replace("GET /a?b=c HTTP/1.1", request);
            assert_eq!(log.line(line.as_bytes()), Ok(Line::NoRequest), "{request}");
        }
        assert_eq!(log.line(b""), Ok(Line::NoRequest));
    }

    #[test]
    fn a_line_of_another_format_is_an_error_with_its_number() {
        for (first, second) in
            [(COMBINED, "hello"), (COMBINED, CADDY), (RUDY, COMMON), (CADDY, r#"{"a":1}"#), (RUDY, "{")]
        {
            let mut log = Log::new(Format::Detected);
            log.line(first.as_bytes()).unwrap();
            let error = log.line(second.as_bytes()).unwrap_err();
            assert_eq!(error.place, Some(Place(2)), "{error}");
        }
        let error = Log::new(Format::Detected).line(b"hello").unwrap_err().to_string();
        assert!(error.starts_with("1: expected the format combined"), "{error}");
        let long = vec![b'a'; LINE_BYTES_MAX + 1];
        assert!(Log::new(Format::Json).line(&long).unwrap_err().problem.contains("longer than"));
    }

    #[test]
    fn a_log_format_may_have_method_and_host() {
        let pattern = "$host|$request_method|$request_uri|$http_user_agent".parse().unwrap();
        let mut log = Log::new(Format::Pattern(pattern));
        assert_eq!(summary(&log.line(b"a.example|PUT|/x|-").unwrap()), "PUT /x a.example -");
        assert_eq!(summary(&log.line(b"-|-|-|-").unwrap()), "none");
    }
}
