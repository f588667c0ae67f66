//! An answer as a test looks at it. The reading is deliberately plain and shares nothing with the server's code.

use std::io::{BufRead, Read};

/// An answer that was read from the wire.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The status line and the fields as they came, each with its CRLF.
    pub head: String,
    /// The body, chunks joined.
    pub body: Vec<u8>,
}

impl Response {
    /// The value of the first field of this name, upper or lower case.
    #[must_use]
    pub fn field<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.fields(name).next()
    }

    /// The values of all fields of this name.
    pub fn fields<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.head.lines().skip(1).filter_map(move |line| {
            let (given, value) = line.split_once(':')?;
            given.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is UTF-8")
    }

    /// Reads an answer. `may_have_body` is false for the answer to HEAD.
    pub(crate) fn read(stream: &mut impl BufRead, may_have_body: bool) -> Self {
        let head = read_head(stream);
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let mut answer =
            Self { status: status.unwrap_or_else(|| panic!("no status: {head:?}")), head, body: Vec::new() };
        // RFC 9112 §6.3, rules 1 to 8 as far as they concern a client.
        if may_have_body && answer.status >= 200 && !matches!(answer.status, 204 | 304) {
            answer.body = answer.read_body(stream);
        }
        answer
    }

    fn read_body(&self, stream: &mut impl BufRead) -> Vec<u8> {
        let mut body = Vec::new();
        if self.field("transfer-encoding") == Some("chunked") {
            read_chunks(stream, &mut body);
        } else if let Some(length) = self.field("content-length") {
            body.resize(length.parse().expect("a length is a number"), 0);
            stream.read_exact(&mut body).expect("the length is right");
        } else {
            stream.read_to_end(&mut body).expect("the end comes");
        }
        body
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

fn read_chunks(stream: &mut impl BufRead, body: &mut Vec<u8>) {
    while read_chunk(stream, body) {}
}

/// Reads one chunk; false where it was the last.
pub(crate) fn read_chunk(stream: &mut impl BufRead, body: &mut Vec<u8>) -> bool {
    let mut line = String::new();
    stream.read_line(&mut line).expect("a chunk's size comes");
    let size = line.trim_end().split(';').next().unwrap_or_default();
    let size = u64::from_str_radix(size, 16).unwrap_or_else(|_| panic!("no size of a chunk: {line:?}"));
    if size == 0 {
        // Trailers, if any, and the empty line.
        read_head(stream);
        return false;
    }
    let taken = stream.by_ref().take(size).read_to_end(body).expect("the chunk comes");
    assert_eq!(taken as u64, size, "the chunk was cut");
    let mut end = [0; 2];
    stream.read_exact(&mut end).expect("CRLF after a chunk");
    assert_eq!(end, *b"\r\n");
    true
}
