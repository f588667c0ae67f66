//! The web server's end of one connection: it sends requests and reads their responses.

#[cfg(test)]
mod tests;

use std::mem;

use bytes::BytesMut;

use crate::pairs::Pairs;
use crate::record::{BODY_BYTES, Header, Kind, encode_begin};
use crate::records::{Content, Records, Step};
use crate::values::{Values, encode_query};
use crate::{Fault, Limits, ProtocolStatus, RequestId, Role};

/// The gateway's end of one connection, which has one request in progress at a time: it numbers the requests and decodes
/// what the application sends.
///
/// It does not multiplex, because FastCGI has no flow control per request: one client that does not read its response would
/// hold up all others on the connection. A request is cancelled by closing the connection; php-fpm ignores
/// `FCGI_ABORT_REQUEST`.
///
/// It has no buffer and allocates nothing. The caller keeps the bytes that [`Self::decode`] leaves, and passes them again
/// with more behind them. Streams are passed on as they come.
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
    records: Records,
    current: Option<Request>,
    /// The request before the current one. Its late records are skipped.
    previous: Option<RequestId>,
    /// Questions for values without an answer yet.
    pending_queries: u16,
}

/// What the application sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A piece of the response, its head included, never empty.
    Stdout(&'a [u8]),
    /// The response is complete. Many applications leave this out: [`Event::End`] implies it.
    StdoutEnd,
    /// A piece of what the application logs, never empty.
    Stderr(&'a [u8]),
    /// The application logs nothing more for this request.
    StderrEnd,
    /// The request is over, and the connection is idle. The application may not have read all of the request's body: if some
    /// of it is not sent yet, the connection cannot be kept.
    End {
        /// What a CGI program would have exited with.
        app_status: u32,
        /// Whether the application handled the request, or why it rejected it.
        protocol_status: ProtocolStatus,
    },
    /// The answer to [`GatewayConnection::query_values`].
    Values(Values),
    /// The application does not know records of this type.
    UnknownType(u8),
    /// All bytes are decoded. More have to come.
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
    /// A new connection.
    #[must_use]
    pub fn new() -> Self {
        Self { records: Records::new(), current: None, previous: None, pending_queries: 0 }
    }

    /// Begins a request and appends its first record. Its parameters follow
    /// ([`ParamsEncoder`](crate::pairs::ParamsEncoder)), then its body and the end of that
    /// ([`encode_stream`](crate::record::encode_stream), [`encode_stream_end`](crate::record::encode_stream_end)).
    ///
    /// Without `keep`, the application closes the connection after its response. Ids alternate between 1 and 2, so that late
    /// records of the previous request are told from those of this one.
    ///
    /// The connection has to be [idle](Self::is_idle). In a release build, a request in progress counts as over.
    pub fn begin(&mut self, role: Role, keep: bool, out: &mut BytesMut) -> RequestId {
        debug_assert!(self.is_idle(), "a connection has one request at a time");
        self.finish_current();
        let id = if self.previous == Some(FIRST) { SECOND } else { FIRST };
        self.current = Some(Request { id, stdout_ended: false, stderr_ended: false });
        encode_begin(id, role, keep, out);
        id
    }

    /// Asks the application for its capacity (section 4.1): [`Event::Values`]. Some applications answer that they do not know
    /// the question, close the connection, or send nothing.
    pub fn query_values(&mut self, out: &mut BytesMut) {
        self.pending_queries = self.pending_queries.saturating_add(1);
        encode_query(out);
    }

    /// Decodes what `bytes` begin with, and returns how many bytes that is. Call it again with the rest until it returns
    /// [`Event::More`]; then pass the rest with more behind it. The rest is never longer than [`Limits::management_bytes`]
    /// and a header, so that a buffer need not be larger.
    ///
    /// # Errors
    ///
    /// The application broke the protocol or a limit. Close the connection; nothing after a fault is decoded.
    pub fn decode<'a>(&mut self, bytes: &'a [u8], limits: &Limits) -> Result<(usize, Event<'a>), Fault> {
        let decoded = self.advance(bytes, limits);
        if decoded.is_err() {
            self.records.close();
        }
        decoded
    }

    /// The application closed its side. Call it after [`Self::decode`] has returned [`Event::More`] for all bytes.
    ///
    /// # Errors
    ///
    /// [`Fault::Closed`] if a request is in progress.
    pub fn end_of_input(&mut self) -> Result<(), Fault> {
        self.records.close();
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
            let event = match self.records.step(bytes, &mut used)? {
                Step::Begin(header) => {
                    let content = self.judge(header, limits)?;
                    self.records.read(header, content);
                    None
                }
                // The caller began the next request within a record of the previous one.
                Step::Piece(header, _) | Step::Whole(header, _) if self.is_stale(header) => None,
                Step::Piece(header, data) => self.take_piece(header, data),
                Step::Whole(header, content) => Some(self.take_whole(header, content)?),
                Step::More => Some(Event::More),
            };
            if let Some(event) = event {
                return Ok((used, event));
            }
        }
    }

    /// Whether a record is about a request, and not the current one.
    fn is_stale(&self, header: Header) -> bool {
        header.id.is_some() && header.id != self.current.as_ref().map(|request| request.id)
    }

    /// Whether a record may come now, and how to read its content.
    fn judge(&self, header: Header, limits: &Limits) -> Result<Content, Fault> {
        let Header { kind, id, content_bytes, .. } = header;
        match (kind, id) {
            (Kind::Stdout | Kind::Stderr | Kind::EndRequest, Some(id)) => match &self.current {
                Some(request) if request.id == id => request.judge(kind, content_bytes),
                // A thread of the application may log or write after another one has ended the request.
                _ if self.previous == Some(id) => Ok(Content::Skipped),
                _ => Err(Fault::UnknownRequest { kind, id }),
            },
            (Kind::GetValuesResult, None) if self.pending_queries == 0 => Err(Fault::UnrequestedValues),
            (Kind::GetValuesResult, None) if content_bytes > limits.management_bytes => {
                Err(Fault::ManagementTooLarge { kind, came: content_bytes, limit: limits.management_bytes })
            }
            (Kind::GetValuesResult, None) => Ok(Content::Whole),
            (Kind::UnknownType, None) => whole_body(kind, content_bytes),
            (
                Kind::Stdout | Kind::Stderr | Kind::EndRequest | Kind::GetValuesResult | Kind::UnknownType,
                id,
            ) => Err(Fault::MisplacedId { kind, id }),
            _ => Err(Fault::Unexpected { kind }),
        }
    }

    /// `None` if the end of a stream comes again.
    fn take_piece<'a>(&mut self, header: Header, data: &'a [u8]) -> Option<Event<'a>> {
        let request = self.current.as_mut()?;
        let is_first = |ended: &mut bool| !mem::replace(ended, true);
        match (header.kind, data.is_empty()) {
            (Kind::Stderr, false) => Some(Event::Stderr(data)),
            (Kind::Stderr, true) => is_first(&mut request.stderr_ended).then_some(Event::StderrEnd),
            (_, false) => Some(Event::Stdout(data)),
            (_, true) => is_first(&mut request.stdout_ended).then_some(Event::StdoutEnd),
        }
    }

    fn take_whole<'a>(&mut self, header: Header, content: &[u8]) -> Result<Event<'a>, Fault> {
        match (header.kind, header.id, content) {
            (Kind::EndRequest, Some(id), &[a, b, c, d, came, ..]) => {
                let protocol_status =
                    ProtocolStatus::from_number(came).ok_or(Fault::BadProtocolStatus { id, came })?;
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
    /// Whether a record of this request may come now, and how to read its content.
    fn judge(&self, kind: Kind, content_bytes: u16) -> Result<Content, Fault> {
        let has_ended = match kind {
            Kind::Stdout => self.stdout_ended,
            Kind::Stderr => self.stderr_ended,
            _ => return whole_body(kind, content_bytes),
        };
        // A second end of a stream does no harm.
        if has_ended && content_bytes > 0 {
            return Err(Fault::AfterEnd { kind, id: self.id });
        }
        Ok(Content::InPieces)
    }
}

/// `FCGI_END_REQUEST` and `FCGI_UNKNOWN_TYPE` have a content of fixed length (section 8).
fn whole_body(kind: Kind, content_bytes: u16) -> Result<Content, Fault> {
    match content_bytes {
        BODY_BYTES => Ok(Content::Whole),
        came => Err(Fault::WrongLength { kind, came, expected: BODY_BYTES }),
    }
}

/// Applications may count on low ids (section 3.3).
const FIRST: RequestId = RequestId::MIN;
const SECOND: RequestId = RequestId::MIN.saturating_add(1);
