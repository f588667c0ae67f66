//! Parses a response for tests. Deliberately simple and independent of the server's code.

use std::io::{BufRead, Read};

/// A response as received.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The status line and the fields as received, each with its CRLF.
    pub head: String,
    /// The body, decoded from chunks.
    pub body: Vec<u8>,
    /// The trailer lines of a chunked body.
    pub trailers: String,
}

impl Response {
    /// Returns the value of the first field of this name, ignoring case.
    pub fn field<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.fields(name).next()
    }

    /// Iterates over the values of all fields of this name.
    pub fn fields<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.head.lines().skip(1).filter_map(move |line| {
            let (given, value) = line.split_once(':')?;
            given.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    /// Returns the body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is UTF-8")
    }

    /// Returns the status and the body as text.
    pub fn status_and_text(&self) -> (u16, &str) {
        (self.status, self.text())
    }

    /// Reads a response. `may_have_body` is false for the response to HEAD.
    pub(crate) fn read(stream: &mut impl BufRead, may_have_body: bool) -> Self {
        let head = read_head(stream);
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let mut response = Self {
            status: status.unwrap_or_else(|| panic!("no status: {head:?}")),
            head,
            body: Vec::new(),
            trailers: String::new(),
        };
        // RFC 9112 §6.3, the parts of rules 1 to 8 for clients.
        if may_have_body && response.status >= 200 && !matches!(response.status, 204 | 304) {
            response.read_body(stream);
        }
        response
    }

    fn read_body(&mut self, stream: &mut impl BufRead) {
        let mut body = Vec::new();
        if self.field("transfer-encoding") == Some("chunked") {
            self.trailers = read_chunks(stream, &mut body);
        } else if let Some(length) = self.field("content-length") {
            body.resize(length.parse().expect("a length is a number"), 0);
            stream.read_exact(&mut body).expect("the length is right");
        } else {
            stream.read_to_end(&mut body).expect("the body ends");
        }
        self.body = body;
    }
}

fn read_head(stream: &mut impl BufRead) -> String {
    let mut head = String::new();
    loop {
        let before = head.len();
        let n = stream
            .read_line(&mut head)
            .unwrap_or_else(|error| panic!("reading a head: {error}; so far {head:?}"));
        assert!(n > 0, "closed before the end of a head: {head:?}");
        if head[before..] == *"\r\n" {
            head.truncate(before);
            return head;
        }
    }
}

/// Reads chunks up to the last one. Returns the trailer lines.
pub(crate) fn read_chunks(stream: &mut impl BufRead, body: &mut Vec<u8>) -> String {
    loop {
        if let Some(trailers) = read_chunk_or_trailers(stream, body) {
            return trailers;
        }
    }
}

/// Reads one chunk. Returns false for the last one.
pub(crate) fn read_chunk(stream: &mut impl BufRead, body: &mut Vec<u8>) -> bool {
    read_chunk_or_trailers(stream, body).is_none()
}

/// Reads one chunk. Returns the trailer lines for the last one.
pub(crate) fn read_chunk_or_trailers(stream: &mut impl BufRead, body: &mut Vec<u8>) -> Option<String> {
    let mut line = String::new();
    stream.read_line(&mut line).expect("the chunk has a size");
    let size = line.trim_end().split(';').next().unwrap_or_default();
    let size = u64::from_str_radix(size, 16).unwrap_or_else(|_| panic!("no size of a chunk: {line:?}"));
    if size == 0 {
        // The trailers, if any, and the empty line.
        return Some(read_head(stream));
    }
    let taken = stream.by_ref().take(size).read_to_end(body).expect("the chunk is complete");
    assert_eq!(taken as u64, size, "the chunk was cut");
    let mut end = [0; 2];
    stream.read_exact(&mut end).expect("CRLF after a chunk");
    assert_eq!(end, *b"\r\n");
    None
}
