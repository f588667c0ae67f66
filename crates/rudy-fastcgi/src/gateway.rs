//! The web server's end of a connection, which sends requests and reads responses.

#[cfg(test)]
mod tests;

use std::mem;

use bytes::BytesMut;

use crate::pairs::Pairs;
use crate::record::{BODY_BYTES, Header, Kind, encode_begin};
use crate::record_decoder::{Content, RecordDecoder, Step};
use crate::values::{Values, encode_query};
use crate::{Fault, Limits, ProtocolStatus, RequestId, Role};

/// The gateway's end of a connection, with one request in progress at a time. It numbers the requests and decodes the
/// records of the application.
///
/// It does not multiplex, because FastCGI has no flow control per request: a client that does not read its response would
/// block all others on the connection. To cancel a request, close the connection: php-fpm ignores `FCGI_ABORT_REQUEST`.
///
/// It has no buffer and allocates nothing. The caller stores the bytes that [`Self::decode`] leaves, and passes them again
/// with more appended. Streams are passed on as they arrive.
///
/// ```
/// use bytes::BytesMut;
/// use rudy_fastcgi::gateway::{Event, GatewayConnection};
/// use rudy_fastcgi::pairs::ParamsEncoder;
/// use rudy_fastcgi::record::{Kind, encode_end, encode_stream, encode_stream_end};
/// use rudy_fastcgi::{Limits, ProtocolStatus, Role};
///
/// let limits = Limits::default();
/// let mut connection = GatewayConnection::new();
/// let mut out = BytesMut::new();
/// let id = connection.begin(Role::Responder, true, &mut out);
/// let mut params = ParamsEncoder::new(id, &mut out);
/// params.push(b"REQUEST_METHOD", b"GET");
/// params.finish();
/// encode_stream_end(Kind::Stdin, id, &mut out);
///
/// // The application's response.
/// let mut response = BytesMut::new();
/// encode_stream(Kind::Stdout, id, b"Content-Type: text/plain\n\nhi", &mut response);
/// encode_end(id, 0, ProtocolStatus::RequestComplete, &mut response);
///
/// let mut input = &response[..];
/// loop {
///     let (used, event) = connection.decode(input, &limits)?;
///     input = &input[used..];
///     match event {
///         Event::Stdout(data) => assert!(data.ends_with(b"hi")),
///         Event::End { protocol_status, .. } => {
///             assert_eq!(protocol_status, ProtocolStatus::RequestComplete);
///             break;
///         }
///         Event::More => unreachable!("the input holds the whole response"),
///         _ => {}
///     }
/// }
/// assert!(connection.is_idle());
/// # Ok::<(), rudy_fastcgi::Fault>(())
/// ```
#[derive(Debug)]
pub struct GatewayConnection {
    decoder: RecordDecoder,
    current: Option<Request>,
    /// The request before the current one, whose late records are skipped.
    previous: Option<RequestId>,
    /// Queries for values that have no result yet.
    pending_queries: u16,
}

/// An event from the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A piece of the response, including its head. Never empty.
    Stdout(&'a [u8]),
    /// The response is complete. Optional: [`Event::End`] implies it.
    StdoutEnd,
    /// A piece of the application's log. Never empty.
    Stderr(&'a [u8]),
    /// The log of this request is complete.
    StderrEnd,
    /// The request has ended, and the connection is idle. The application may have left some of the request's body unread:
    /// if part of it is still unsent, the connection cannot be reused.
    End {
        /// The exit status of an equivalent CGI program.
        app_status: u32,
        /// Whether the application handled the request, or why it rejected it.
        protocol_status: ProtocolStatus,
    },
    /// The result of [`GatewayConnection::query_values`].
    Values(Values),
    /// The application does not know management records of this type.
    UnknownType(u8),
    /// All bytes are decoded, and more are needed.
    More,
}

/// The request in progress.
#[derive(Debug)]
struct Request {
    id: RequestId,
    stdout_ended: bool,
    stderr_ended: bool,
}

impl GatewayConnection {
    /// Returns a new connection.
    #[must_use]
    pub fn new() -> Self {
        Self { decoder: RecordDecoder::new(), current: None, previous: None, pending_queries: 0 }
    }

    /// Begins a request and appends its first record. Append its parameters next
    /// ([`ParamsEncoder`](crate::pairs::ParamsEncoder)), then its body and the end of the body
    /// ([`encode_stream`](crate::record::encode_stream), [`encode_stream_end`](crate::record::encode_stream_end)).
    ///
    /// Without `keep`, the application closes the connection after its response. Ids alternate between 1 and 2, which
    /// distinguishes late records of the previous request from those of this one.
    ///
    /// The connection must be [idle](Self::is_idle). In a release build, a request in progress counts as ended.
    pub fn begin(&mut self, role: Role, keep: bool, out: &mut BytesMut) -> RequestId {
        debug_assert!(self.is_idle(), "a connection has one request at a time");
        self.finish_current();
        let id = if self.previous == Some(FIRST) { SECOND } else { FIRST };
        self.current = Some(Request { id, stdout_ended: false, stderr_ended: false });
        encode_begin(id, role, keep, out);
        id
    }

    /// Appends a query for the application's capacity (section 4.1), which results in [`Event::Values`]. Some applications
    /// instead report an unknown type, close the connection, or send nothing.
    pub fn query_values(&mut self, out: &mut BytesMut) {
        self.pending_queries = self.pending_queries.saturating_add(1);
        encode_query(out);
    }

    /// Decodes one event from the start of `bytes`, and returns the number of bytes used. Call it with the rest until it
    /// returns [`Event::More`]; then append more bytes to the rest. The rest is never longer than
    /// [`Limits::management_bytes`] and a header, so the buffer need not be larger.
    ///
    /// # Errors
    ///
    /// The application violated the protocol or a limit. Close the connection: nothing after a fault is decoded.
    pub fn decode<'a>(&mut self, bytes: &'a [u8], limits: &Limits) -> Result<(usize, Event<'a>), Fault> {
        let decoded = self.advance(bytes, limits);
        if decoded.is_err() {
            self.decoder.close();
        }
        decoded
    }

    /// Handles the end of input. Call it after [`Self::decode`] has returned [`Event::More`] for all bytes.
    ///
    /// # Errors
    ///
    /// [`Fault::Closed`] if a request is in progress.
    pub fn end_of_input(&mut self) -> Result<(), Fault> {
        self.decoder.close();
        if self.is_idle() { Ok(()) } else { Err(Fault::Closed) }
    }

    /// Whether no request is in progress.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.current.is_none()
    }

    fn advance<'a>(&mut self, bytes: &'a [u8], limits: &Limits) -> Result<(usize, Event<'a>), Fault> {
        let mut used = 0;
        loop {
            let event = match self.decoder.step(bytes, &mut used)? {
                Step::Begin(header) => {
                    let content = self.validate(header, limits)?;
                    self.decoder.set_content(header, content);
                    None
                }
                // The caller has begun the next request within a record of the previous one.
                Step::Piece(header, _) | Step::Whole(header, _) if self.is_stale(header) => None,
                Step::Piece(header, data) => self.handle_piece(header, data),
                Step::Whole(header, content) => Some(self.handle_whole(header, content)?),
                Step::More => Some(Event::More),
            };
            if let Some(event) = event {
                return Ok((used, event));
            }
        }
    }

    /// Whether a record belongs to a request other than the current one.
    fn is_stale(&self, header: Header) -> bool {
        header.id.is_some() && header.id != self.current.as_ref().map(|request| request.id)
    }

    /// Checks whether a record is allowed now, and returns how to read its content.
    fn validate(&self, header: Header, limits: &Limits) -> Result<Content, Fault> {
        let Header { kind, id, content_bytes, .. } = header;
        match (kind, id) {
            (Kind::Stdout | Kind::Stderr | Kind::EndRequest, Some(id)) => match &self.current {
                Some(request) if request.id == id => request.validate(kind, content_bytes),
                // A thread of the application may write after another thread has ended the request.
                _ if self.previous == Some(id) => Ok(Content::Skipped),
                _ => Err(Fault::UnknownRequest { kind, id }),
            },
            (Kind::GetValuesResult, None) if self.pending_queries == 0 => Err(Fault::UnrequestedValues),
            (Kind::GetValuesResult, None) if content_bytes > limits.management_bytes => {
                Err(Fault::ManagementTooLarge {
                    kind,
                    received: content_bytes,
                    limit: limits.management_bytes,
                })
            }
            (Kind::GetValuesResult, None) => Ok(Content::Buffered),
            (Kind::UnknownType, None) => expect_body_length(kind, content_bytes),
            (
                Kind::Stdout | Kind::Stderr | Kind::EndRequest | Kind::GetValuesResult | Kind::UnknownType,
                id,
            ) => Err(Fault::MisplacedId { kind, id }),
            _ => Err(Fault::Unexpected { kind }),
        }
    }

    /// Returns `None` for a repeated end of a stream.
    fn handle_piece<'a>(&mut self, header: Header, data: &'a [u8]) -> Option<Event<'a>> {
        let request = self.current.as_mut()?;
        let is_first = |ended: &mut bool| !mem::replace(ended, true);
        match (header.kind, data.is_empty()) {
            (Kind::Stderr, false) => Some(Event::Stderr(data)),
            (Kind::Stderr, true) => is_first(&mut request.stderr_ended).then_some(Event::StderrEnd),
            (_, false) => Some(Event::Stdout(data)),
            (_, true) => is_first(&mut request.stdout_ended).then_some(Event::StdoutEnd),
        }
    }

    fn handle_whole<'a>(&mut self, header: Header, content: &[u8]) -> Result<Event<'a>, Fault> {
        match (header.kind, header.id, content) {
            (Kind::EndRequest, Some(id), &[a, b, c, d, received, ..]) => {
                let protocol_status =
                    ProtocolStatus::from_number(received).ok_or(Fault::BadProtocolStatus { id, received })?;
                self.finish_current();
                Ok(Event::End { app_status: u32::from_be_bytes([a, b, c, d]), protocol_status })
            }
            (Kind::UnknownType, _, &[number, ..]) => Ok(Event::UnknownType(number)),
            _ => {
                let values = Values::decode(&Pairs::whole(content)?);
                self.pending_queries = self.pending_queries.saturating_sub(1);
                Ok(Event::Values(values))
            }
        }
    }

    fn finish_current(&mut self) {
        if let Some(request) = self.current.take() {
            self.previous = Some(request.id);
        }
    }
}

impl Default for GatewayConnection {
    fn default() -> Self {
        Self::new()
    }
}

impl Request {
    /// Checks whether a record of this request is allowed now, and returns how to read its content.
    fn validate(&self, kind: Kind, content_bytes: u16) -> Result<Content, Fault> {
        let has_ended = match kind {
            Kind::Stdout => self.stdout_ended,
            Kind::Stderr => self.stderr_ended,
            _ => return expect_body_length(kind, content_bytes),
        };
        // A second end of a stream is harmless.
        if has_ended && content_bytes > 0 {
            return Err(Fault::AfterEnd { kind, id: self.id });
        }
        Ok(Content::Streamed)
    }
}

/// Checks the content length of `FCGI_END_REQUEST` and `FCGI_UNKNOWN_TYPE`, which is fixed (section 8).
fn expect_body_length(kind: Kind, content_bytes: u16) -> Result<Content, Fault> {
    match content_bytes {
        BODY_BYTES => Ok(Content::Buffered),
        received => Err(Fault::WrongLength { kind, received, expected: BODY_BYTES }),
    }
}

/// Low ids, because applications may use them as an index (section 3.3).
const FIRST: RequestId = RequestId::MIN;
const SECOND: RequestId = RequestId::MIN.saturating_add(1);
