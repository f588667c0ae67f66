//! Drives the client state machine, and records its events.

use rudy_http::Limits;
use rudy_http::h1::client::{ClientConnection, Fault, ResponseEvent};
use rudy_message::Framing;
use rudy_message::client::{RequestInfo, ResponseHead};

/// Decodes responses in one piece, byte by byte and in pieces of `piece_bytes`. All must give the same result.
pub(crate) fn read_at_splits(request: RequestInfo, bytes: &[u8], piece_bytes: usize, limits: &Limits) {
    let whole = read(request, [bytes], limits);
    assert_eq!(read(request, bytes.chunks(1), limits), whole, "byte by byte");
    assert_eq!(read(request, bytes.chunks(piece_bytes.max(1)), limits), whole, "in pieces of {piece_bytes}");
}

/// Decodes responses that arrive in `pieces`, then the end of the input.
fn read<'a>(
    request: RequestInfo,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    limits: &Limits,
) -> Vec<String> {
    let mut driver = Driver { connection: ClientConnection::new(), seen: Vec::new(), body: Vec::new() };
    driver.connection.expect_response(request);
    let mut pending = Vec::new();
    for piece in pieces {
        pending.extend_from_slice(piece);
        match driver.decode(&pending, request, limits) {
            Ok(used) => drop(pending.drain(..used)),
            Err(fault) => {
                driver.seen.push(format!("fault {}", name(&fault)));
                assert!(!driver.connection.can_be_reused() && !fault.is_early_close());
                let after = driver.connection.decode(&pending, limits);
                assert!(
                    matches!(after, Ok((0, ResponseEvent::NeedData))),
                    "nothing is decoded after a fault"
                );
                break;
            }
        }
    }
    let end = driver.connection.end_of_input();
    driver.seen.push(format!(
        "{} {}",
        driver.body.escape_ascii(),
        end.map_or_else(|fault| fault.to_string(), |end| format!("{end:?}"))
    ));
    driver.seen
}

struct Driver {
    connection: ClientConnection,
    seen: Vec<String>,
    body: Vec<u8>,
}

impl Driver {
    /// Decodes all events, and returns the number of used bytes. Expects another response if the connection can be reused.
    fn decode(&mut self, bytes: &[u8], request: RequestInfo, limits: &Limits) -> Result<usize, Fault> {
        let mut used = 0;
        loop {
            let (more, event) = self.connection.decode(&bytes[used..], limits)?;
            used += more;
            match event {
                ResponseEvent::Informational(head) | ResponseEvent::Head(head) => {
                    self.seen.push(describe(&head));
                }
                ResponseEvent::Data(data) => {
                    assert!(!data.is_empty(), "a piece is not empty");
                    self.body.extend_from_slice(data);
                    assert!(self.body.len() as u64 <= limits.body_bytes, "a body exceeds its limit");
                }
                ResponseEvent::End(trailers) => {
                    self.seen.push(format!("{} {trailers:?}", self.body.escape_ascii()));
                    self.body.clear();
                    if self.connection.can_be_reused() {
                        self.connection.expect_response(request);
                    }
                }
                ResponseEvent::NeedData => return Ok(used),
            }
        }
    }
}

/// Describes a head, and checks its parts against its bytes.
fn describe(head: &ResponseHead<'_>) -> String {
    let raw = head.raw();
    assert!(raw.starts_with(b"HTTP/1.") && (raw.ends_with(b"\n\r\n") || raw.ends_with(b"\n\n")));
    assert!((100..=999).contains(&head.status()));
    let lines = raw.split(|byte| *byte == b'\n').count() - 1;
    assert_eq!(head.fields().count(), lines - 2, "each line except the first and the last is a field");
    for (name, value) in head.fields() {
        assert!(head.get(&name.to_ascii_uppercase()).is_some());
        assert!(!name.is_empty() && name.trim_ascii() == name && value.trim_ascii() == value);
    }
    if let Framing::Length(length) = head.framing() {
        let value = head.get("content-length").and_then(|value| std::str::from_utf8(value).ok());
        assert_eq!(value.map(str::parse), Some(Ok(length)));
    }
    format!("{} {:?} {:?} {}", head.status(), head.version(), head.framing(), head.reason().escape_ascii())
}

/// Returns the name of a fault without its excerpt, which depends on the bytes available.
fn name(fault: &Fault) -> String {
    let text = format!("{fault:?}");
    text.split('(').next().unwrap_or_default().to_owned()
}
