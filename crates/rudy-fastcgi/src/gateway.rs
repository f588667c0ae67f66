//! The web server's end of one connection: it asks, and is answered.

mod open;
#[cfg(test)]
mod tests;

use bytes::BytesMut;

use self::open::{Open, Stream};
use crate::pairs::Pairs;
use crate::record::{BODY_BYTES, Header, Kind, encode_abort, encode_begin};
use crate::records::{Content, Records, Step};
use crate::values::{Values, encode_question};
use crate::{Fault, Limits, ProtocolStatus, RequestId, Role};

/// The gateway's end of one connection: it numbers the requests on it, and says what the bytes amount to that come back.
///
/// It has no buffer. Whoever reads from the connection keeps what [`Self::decode`] leaves, and gives it again with more
/// behind it. Streams are handed out as they come, never gathered. With one request at a time it allocates nothing; with
/// several, a byte for each number.
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
/// let id = connection.begin(Role::Responder, true, &limits, &mut out).expect("nothing else is open");
/// let mut params = ParamsEncoder::new(id, &mut out);
/// params.push(b"REQUEST_METHOD", b"GET");
/// params.finish();
/// encode_stream_end(Kind::Stdin, id, &mut out);
///
/// // What an app answers.
/// let mut answer = BytesMut::new();
/// encode_stream(Kind::Stdout, id, b"Content-Type: text/plain\n\nhi", &mut answer);
/// encode_end(id, 0, ProtocolStatus::RequestComplete, &mut answer);
///
/// let mut input = &answer[..];
/// loop {
///     let (used, event) = connection.decode(input, &limits)?;
///     input = &input[used..];
///     match event {
///         Event::Stdout { data, .. } => assert!(data.ends_with(b"hi")),
///         Event::End { protocol_status, .. } => {
///             assert_eq!(protocol_status, ProtocolStatus::RequestComplete);
///             break;
///         }
///         Event::More => unreachable!("the whole answer is there"),
///         _ => {}
///     }
/// }
/// assert_eq!(connection.open_requests(), 0);
/// # Ok::<(), rudy_fastcgi::Fault>(())
/// ```
#[derive(Debug)]
pub struct GatewayConnection {
    records: Records,
    open: Open,
    /// Questions for values that are not answered yet.
    questions: u16,
}

/// What bytes amount to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A piece of an answer, its head included, never empty.
    Stdout {
        /// Of which request.
        id: RequestId,
        /// The piece.
        data: &'a [u8],
    },
    /// There is no more of an answer. Many apps leave this out: [`Event::End`] says it as well.
    StdoutEnd {
        /// Of which request.
        id: RequestId,
    },
    /// A piece of what an app says for the log, never empty.
    Stderr {
        /// Of which request.
        id: RequestId,
        /// The piece.
        data: &'a [u8],
    },
    /// An app has no more to say for the log.
    StderrEnd {
        /// Of which request.
        id: RequestId,
    },
    /// A request is over, and its number may be another's. Whatever of its body was not sent need not be.
    End {
        /// Of which request.
        id: RequestId,
        /// What a CGI program would have exited with.
        app_status: u32,
        /// Whether it was handled, or why it was refused.
        protocol_status: ProtocolStatus,
    },
    /// What the app says of itself, after [`GatewayConnection::ask_values`].
    Values(Values),
    /// The app does not know records of this type.
    UnknownType(u8),
    /// Everything was looked at; more has to come.
    More,
}

impl GatewayConnection {
    /// A connection that was just opened.
    #[must_use]
    pub fn new() -> Self {
        Self { records: Records::new(), open: Open::default(), questions: 0 }
    }

    /// Begins a request and appends its first record. Its parameters follow
    /// ([`ParamsEncoder`](crate::pairs::ParamsEncoder)), then its body and the end of that
    /// ([`encode_stream`](crate::record::encode_stream), [`encode_stream_end`](crate::record::encode_stream_end)).
    ///
    /// Unless the app is to `keep` the connection, it closes it when the request is over. The number is the lowest that is
    /// free, because apps may count on that (section 3.3); `None` if so many are open as the limits allow.
    pub fn begin(
        &mut self,
        role: Role,
        keep: bool,
        limits: &Limits,
        out: &mut BytesMut,
    ) -> Option<RequestId> {
        let id = self.open.begin(limits.open_requests)?;
        encode_begin(id, role, keep, out);
        Some(id)
    }

    /// Asks the app to give a request up (section 5.4). It stays open until the app says that it is over, which may take as
    /// long as the app likes; what comes of it until then is handed out as before. Its number is not used again: Go's
    /// `net/http/fcgi` says that a request is over as soon as it is asked to give it up, and then goes on with it.
    pub fn abort(&mut self, id: RequestId, out: &mut BytesMut) {
        debug_assert!(self.is_open(id), "what is over cannot be given up");
        self.open.spend(id);
        encode_abort(id, out);
    }

    /// Asks the app what it takes at once (section 4.1): [`Event::Values`]. Apps answer that they do not know the question,
    /// close the connection, or say nothing at all.
    pub fn ask_values(&mut self, out: &mut BytesMut) {
        self.questions = self.questions.saturating_add(1);
        encode_question(out);
    }

    /// Says what `bytes` begin with, and how many of them that is. The rest is to be given again, with more behind it; call
    /// it until it answers [`Event::More`]. It never leaves more than [`Limits::management_bytes`] and a header then, so
    /// that a buffer need not be larger.
    ///
    /// # Errors
    ///
    /// The app broke the protocol or a limit. The connection has to be closed; nothing is read behind a fault.
    pub fn decode<'a>(&mut self, bytes: &'a [u8], limits: &Limits) -> Result<(usize, Event<'a>), Fault> {
        let decoded = self.advance(bytes, limits);
        if decoded.is_err() {
            self.records.close();
        }
        decoded
    }

    /// The app will send nothing more; call it when [`Self::decode`] has been given everything.
    ///
    /// # Errors
    ///
    /// Requests were open.
    pub fn end_of_input(&mut self) -> Result<(), Fault> {
        self.records.close();
        match self.open_requests() {
            0 => Ok(()),
            open => Err(Fault::Closed { open }),
        }
    }

    /// Requests that are not over.
    #[must_use]
    pub fn open_requests(&self) -> usize {
        self.open.count()
    }

    /// Whether one more may begin.
    #[must_use]
    pub fn has_room(&self, limits: &Limits) -> bool {
        self.open.has_room(limits.open_requests)
    }

    /// Whether this request is not over.
    #[must_use]
    pub fn is_open(&self, id: RequestId) -> bool {
        self.open.is_open(id)
    }

    fn advance<'a>(&mut self, bytes: &'a [u8], limits: &Limits) -> Result<(usize, Event<'a>), Fault> {
        let mut used = 0;
        loop {
            match self.records.step(bytes, &mut used)? {
                Step::Begin(header) => {
                    let content = self.judge(header, limits)?;
                    self.records.read(header, content);
                }
                Step::Piece(header, data) => {
                    if let Some(event) = self.take_piece(header, data) {
                        return Ok((used, event));
                    }
                }
                Step::Whole(header, content) => return Ok((used, self.take_whole(header, content)?)),
                Step::More => return Ok((used, Event::More)),
            }
        }
    }

    /// Whether a record may come that begins so, and how its content is to come.
    fn judge(&self, header: Header, limits: &Limits) -> Result<Content, Fault> {
        let Header { kind, id, content_bytes, .. } = header;
        match (kind, id) {
            // The app goes on with what it has said to be over, having been asked to give it up.
            (Kind::Stdout | Kind::Stderr | Kind::EndRequest, Some(id)) if self.open.is_over_for_good(id) => {
                Ok(Content::Skipped)
            }
            (Kind::Stdout | Kind::Stderr | Kind::EndRequest, Some(id)) if !self.is_open(id) => {
                Err(Fault::NotOpen { kind, id })
            }
            (Kind::Stdout | Kind::Stderr, Some(id)) => {
                let is_over = self.open.has_ended(id, stream(kind));
                // Saying twice that a stream has ended harms nobody.
                if is_over && content_bytes > 0 {
                    return Err(Fault::AfterEnd { kind, id });
                }
                Ok(Content::InPieces)
            }
            (Kind::GetValuesResult, None) if self.questions == 0 => Err(Fault::UnaskedValues),
            (Kind::GetValuesResult, None) if content_bytes > limits.management_bytes => {
                Err(Fault::ManagementTooLarge { kind, came: content_bytes, limit: limits.management_bytes })
            }
            (Kind::GetValuesResult, None) => Ok(Content::Whole),
            (Kind::EndRequest, Some(_)) | (Kind::UnknownType, None) if content_bytes == BODY_BYTES => {
                Ok(Content::Whole)
            }
            (Kind::EndRequest, Some(_)) | (Kind::UnknownType, None) => {
                Err(Fault::WrongLength { kind, came: content_bytes, expected: BODY_BYTES })
            }
            (
                Kind::Stdout | Kind::Stderr | Kind::EndRequest | Kind::GetValuesResult | Kind::UnknownType,
                id,
            ) => Err(Fault::MisplacedId { kind, id }),
            _ => Err(Fault::Unexpected { kind }),
        }
    }

    /// `None` if the end of a stream comes again.
    fn take_piece<'a>(&mut self, header: Header, data: &'a [u8]) -> Option<Event<'a>> {
        let id = header.id?;
        let stream = stream(header.kind);
        if data.is_empty() && !self.open.end(id, stream) {
            return None;
        }
        Some(match (stream, data.is_empty()) {
            (Stream::Stdout, false) => Event::Stdout { id, data },
            (Stream::Stdout, true) => Event::StdoutEnd { id },
            (Stream::Stderr, false) => Event::Stderr { id, data },
            (Stream::Stderr, true) => Event::StderrEnd { id },
        })
    }

    fn take_whole<'a>(&mut self, header: Header, content: &[u8]) -> Result<Event<'a>, Fault> {
        match (header.kind, header.id, content) {
            (Kind::EndRequest, Some(id), &[a, b, c, d, came, ..]) => {
                let protocol_status =
                    ProtocolStatus::from_number(came).ok_or(Fault::BadProtocolStatus { id, came })?;
                self.open.close(id);
                Ok(Event::End { id, app_status: u32::from_be_bytes([a, b, c, d]), protocol_status })
            }
            (Kind::UnknownType, _, &[number, ..]) => Ok(Event::UnknownType(number)),
            _ => {
                let values = Values::decode(&Pairs::whole(content)?);
                self.questions = self.questions.saturating_sub(1);
                Ok(Event::Values(values))
            }
        }
    }
}

impl Default for GatewayConnection {
    fn default() -> Self {
        Self::new()
    }
}

/// Which of an app's two streams; only these come in pieces.
fn stream(kind: Kind) -> Stream {
    match kind {
        Kind::Stderr => Stream::Stderr,
        _ => Stream::Stdout,
    }
}
