//! Sends a spelling and describes the responses.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::generate::Spelling;
use super::site::{APP_VARIABLES, MARKER};
use crate::PATIENCE;

/// The response of a server to a spelling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseSummary {
    /// The response, as comparable text: `400`, `200 file`, `200 app script=/app.php info=/x ...`.
    pub first: String,
    /// The next responses on the connection: `200 marker` if the server kept it open.
    pub then: Vec<String>,
    /// Whether the server has closed the connection.
    pub is_closed: bool,
}

/// The resources that no response may show: closed files, files outside of the site, the source of a script, a response to the
/// body of a request, an injected field.
const FORBIDDEN: [&str; 5] = ["closed", "outside", "source", "smuggled", "injected"];

impl ResponseSummary {
    /// Returns a description of a response that no server may send, if there is one.
    pub fn violation(&self) -> Option<String> {
        let names = || [&self.first].into_iter().chain(&self.then);
        let shown = FORBIDDEN.iter().find(|word| names().any(|name| name.ends_with(*word)));
        let is_own_error =
            |name: &&String| name.starts_with('5') && !name.starts_with("501") && !name.starts_with("505");
        if let Some(word) = shown {
            Some(format!("the response shows a forbidden resource ({word}): {}", self.text()))
        } else if let Some(error) = names().find(is_own_error) {
            Some(format!("the response is the error {error}"))
        } else if self.then.len() > 1 {
            Some(format!("more than two responses: {}", self.text()))
        } else if !self.is_closed {
            Some("the server neither responds nor closes the connection".to_owned())
        } else {
            None
        }
    }

    /// Returns a description of a variable that Rudy must not send to an application, if there is one.
    ///
    /// `REQUEST_URI` is the original path and query, `QUERY_STRING` the part after the first question mark, and `PATH_INFO` has
    /// no `..` segment, which an application could resolve. Other servers may differ.
    pub fn wrong_variable(&self, spelling: &Spelling) -> Option<String> {
        let text = &self.first[self.first.find(" app ")?..];
        let value = |name: &str| {
            let value = text.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            value.unwrap_or_default()
        };
        let sent = &spelling.path_and_query;
        let query = sent.iter().position(|&byte| byte == b'?').map_or(&[][..], |at| &sent[at + 1..]);
        let is_as_sent = value("uri") == "as-sent" && sent == &spelling.target;
        if !is_as_sent && value("uri") != encode_but_slashes(sent) {
            Some(format!("REQUEST_URI is not {}: {text}", sent.escape_ascii()))
        } else if value("query") != encode_but_slashes(query) {
            Some(format!("QUERY_STRING is not {}: {text}", query.escape_ascii()))
        } else if value("info").split('/').any(|segment| segment == "..") {
            Some(format!("PATH_INFO has a `..` segment: {text}"))
        } else {
            None
        }
    }

    /// Returns all responses as text.
    pub fn text(&self) -> String {
        let names: Vec<&str> = [&self.first].into_iter().chain(&self.then).map(String::as_str).collect();
        names.join(" + ")
    }
}

/// Sends each spelling on its own connection, followed by the request for the marker, on `connections` connections at once.
pub fn send_all(address: SocketAddr, spellings: &[Spelling], connections: usize) -> Vec<ResponseSummary> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut seen = Vec::new();
        while let Some((index, spelling)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|index| Some((index, spellings.get(index)?)))
        {
            seen.push((index, send(address, spelling)));
        }
        seen
    };
    let mut all: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..connections).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("sending does not panic")).collect()
    });
    all.sort_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, seen)| seen).collect()
}

/// Sends one spelling. Both requests are sent together, so that a wrong end of the first body changes the second response.
pub fn send(address: SocketAddr, spelling: &Spelling) -> ResponseSummary {
    let mut stream = TcpStream::connect(address).expect("the server accepts connections");
    stream.set_read_timeout(Some(PATIENCE)).expect("the time is not zero");
    stream.set_write_timeout(Some(PATIENCE)).expect("the time is not zero");
    // The server may already have closed the connection after its response.
    let _ = stream.write_all(&[&spelling.bytes[..], MARKER.as_bytes()].concat());
    let mut received = Vec::new();
    let is_closed = match stream.read_to_end(&mut received) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    };
    describe_all(&received, spelling, is_closed)
}

fn describe_all(received: &[u8], spelling: &Spelling, is_closed: bool) -> ResponseSummary {
    let mut names = Vec::new();
    let mut rest = received;
    while !rest.is_empty() {
        let is_head = spelling.is_head && names.is_empty();
        let (response, after) = Response::split(rest, is_head);
        rest = after;
        if !(100..200).contains(&response.status) {
            names.push(response.name(spelling));
        }
    }
    if names.is_empty() {
        return ResponseSummary { first: "nothing".to_owned(), then: Vec::new(), is_closed };
    }
    ResponseSummary { first: names.remove(0), then: names, is_closed }
}

/// A parsed response. The status is 0 if it has no head, as in HTTP/0.9.
struct Response<'r> {
    status: u16,
    head: &'r str,
    body: Vec<u8>,
}

impl<'r> Response<'r> {
    /// Splits off the first response. Other bytes are the body of a response without a head.
    fn split(bytes: &'r [u8], is_head: bool) -> (Self, &'r [u8]) {
        let without_head = || (Self { status: 0, head: "", body: bytes.to_vec() }, &bytes[bytes.len()..]);
        let Some(end) = find(bytes, b"\r\n\r\n").filter(|_| bytes.starts_with(b"HTTP/1.")) else {
            return without_head();
        };
        let Ok(head) = std::str::from_utf8(&bytes[..end]) else { return without_head() };
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
        let mut response = Self { status, head, body: Vec::new() };
        let rest = &bytes[end + 4..];
        if is_head || status < 200 || matches!(status, 204 | 304) {
            return (response, rest);
        }
        let rest = if response.field("transfer-encoding") == Some("chunked") {
            response.read_chunks(rest)
        } else {
            let length = response.field("content-length").and_then(|length| length.parse().ok());
            let (body, rest) = rest.split_at(length.unwrap_or(rest.len()).min(rest.len()));
            response.body = body.to_vec();
            rest
        };
        (response, rest)
    }

    fn read_chunks<'b>(&mut self, mut rest: &'b [u8]) -> &'b [u8] {
        while let Some(end) = find(rest, b"\r\n") {
            let size =
                std::str::from_utf8(&rest[..end]).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
            let Some(size) = size else { break };
            rest = &rest[end + 2..];
            let chunk = &rest[..size.min(rest.len())];
            self.body.extend_from_slice(chunk);
            rest = rest.get(size + 2..).unwrap_or_default();
            if size == 0 {
                return rest;
            }
        }
        rest
    }

    fn field(&self, name: &str) -> Option<&'r str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find_map(|(given, value)| given.eq_ignore_ascii_case(name).then_some(value.trim()))
    }

    /// Describes the status, the resource and an injected field.
    fn name(&self, spelling: &Spelling) -> String {
        let status = if self.status == 0 { "bare".to_owned() } else { self.status.to_string() };
        let injected = if self.field("x-injected").is_some() { " injected" } else { "" };
        let location = self.field("location").map(|to| format!(" to {}", path_of(to))).unwrap_or_default();
        format!("{status}{}{location}{injected}", self.resource(spelling))
    }

    fn resource(&self, spelling: &Spelling) -> String {
        let text = String::from_utf8_lossy(&self.body);
        if text.contains("<?php") {
            return " source".to_owned();
        }
        let Some((_, named)) = text.split_once("@@") else { return String::new() };
        let name = named.lines().next().unwrap_or_default();
        if name != "app" {
            return format!(" {name}");
        }
        let value = |name: &str| {
            let line = named.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            line.unwrap_or_default().replace("%2F", "/")
        };
        let [script, info, query, uri, host] = APP_VARIABLES.map(value);
        let sent = encode_but_slashes(&spelling.target);
        let uri = if uri == sent { "as-sent" } else { uri.as_str() };
        let body = value("BODY");
        format!(" app script={script} info={info} query={query} uri={uri} host={host} body={body}")
    }
}

/// Returns a location without the name of the server, whose port differs.
fn path_of(location: &str) -> &str {
    let Some((_, rest)) = location.split_once("://") else { return location };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.split(':').next().unwrap_or_default();
    if host.eq_ignore_ascii_case(super::HOST) || host == "127.0.0.1" { path } else { location }
}

/// Percent-encodes bytes like PHP's `rawurlencode` (RFC 3986 §2.3).
pub fn percent_encode(bytes: &[u8]) -> String {
    let encode = |&byte: &u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    bytes.iter().map(encode).collect()
}

/// Percent-encodes bytes except slashes, so that paths are readable.
fn encode_but_slashes(bytes: &[u8]) -> String {
    percent_encode(bytes).replace("%2F", "/")
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelling() -> Spelling {
        let target = b"/app.php/x".to_vec();
        let path_and_query = target.clone();
        Spelling { tags: Vec::new(), bytes: Vec::new(), target, path_and_query, is_head: false }
    }

    fn seen(received: &str) -> ResponseSummary {
        describe_all(received.as_bytes(), &spelling(), true)
    }

    #[test]
    fn responses_are_described_by_status_and_resource() {
        let file = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n@@file\n";
        let marker = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n@@marker\n\r\n0\r\n\r\n";
        let both = seen(&format!("HTTP/1.1 100 Continue\r\n\r\n{file}{marker}"));
        assert_eq!((both.first.as_str(), both.then), ("200 file", vec!["200 marker".to_owned()]));
        assert_eq!(seen("").first, "nothing");
        assert_eq!(seen("@@file\n").first, "bare file");
        let moved =
            "HTTP/1.1 301 Moved\r\nLocation: http://example.test:81/docs/\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(seen(moved).first, "301 to /docs/");
        assert_eq!(seen("HTTP/1.1 200 OK\r\n\r\n<?php echo '@@app';").first, "200 source");
    }

    #[test]
    fn forbidden_responses_are_found() {
        let file = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n@@file\n";
        assert_eq!(seen(&file.repeat(2)).violation(), None);
        let closed = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n@@closed\n";
        let failed = "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n";
        for (wrong, reason) in
            [(format!("{file}{closed}"), "closed"), (failed.to_owned(), "502"), (file.repeat(3), "more than")]
        {
            let violation = seen(&wrong).violation();
            assert!(violation.as_ref().is_some_and(|text| text.contains(reason)), "{violation:?}");
        }
    }

    #[test]
    fn wrong_variables_are_found() {
        let absolute = Spelling { target: b"http://h/app.php/x?a?b".to_vec(), ..spelling() };
        let absolute = Spelling { path_and_query: b"/app.php/x?a?b".to_vec(), ..absolute };
        for (spelling, info, query, uri, reason) in [
            (&spelling(), "/x", "", "as-sent", None),
            (&absolute, "/x", "a%3Fb", "/app.php/x%3Fa%3Fb", None),
            (&absolute, "/x", "a%3Fb", "as-sent", Some("REQUEST_URI")),
            (&absolute, "/x", "b", "/app.php/x%3Fa%3Fb", Some("QUERY_STRING")),
            (&spelling(), "/x", "q", "as-sent", Some("QUERY_STRING")),
            (&spelling(), "/x", "", "/app.php/X", Some("REQUEST_URI")),
            (&spelling(), "/x/../y", "", "as-sent", Some("PATH_INFO")),
        ] {
            let first = format!("200 app script=/app.php info={info} query={query} uri={uri} host=h body=0");
            let wrong = ResponseSummary { first, then: Vec::new(), is_closed: true }.wrong_variable(spelling);
            assert_eq!(wrong.is_some(), reason.is_some(), "{wrong:?}");
            assert!(wrong.is_none_or(|text| text.starts_with(reason.unwrap_or_default())));
        }
        assert_eq!(seen("HTTP/1.1 200 OK\r\n\r\n@@file\n").wrong_variable(&spelling()), None);
    }

    #[test]
    fn the_variables_of_an_app_are_described() {
        let body = "@@app\nSCRIPT_NAME=%2Fapp.php\nPATH_INFO=%2Fx\nQUERY_STRING=\nREQUEST_URI=%2Fapp.php%2Fx\nHTTP_HOST=h\nBODY=3\n";
        let seen = seen(&format!("HTTP/1.1 200 OK\r\n\r\n{body}"));
        assert_eq!(seen.first, "200 app script=/app.php info=/x query= uri=as-sent host=h body=3");
    }
}
