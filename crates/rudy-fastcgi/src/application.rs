//! The app's end of a connection, which receives requests and sends responses.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use bytes::BytesMut;

use crate::pairs::{Pairs, Params, ParamsDecoder};
use crate::record::{BODY_BYTES, FLAG_KEEP_CONNECTION, Header, Kind, encode_end};
use crate::record_decoder::{Content, RecordDecoder, Step};
use crate::{Fault, Limits, ProtocolStatus, RequestId, Role};

/// The app's end of a connection. It decodes the records of a web server and tracks which requests are open.
///
/// It buffers only parameters, because an app needs all of them before it can begin. The caller stores the bytes that
/// [`Self::decode`] leaves, and passes them again with more appended. Bodies are passed on as they arrive. Encode a
/// response with the functions of [`record`](crate::record), and end the request with [`Self::end`].
#[derive(Debug)]
pub struct ApplicationConnection {
    decoder: RecordDecoder,
    open: BTreeMap<RequestId, Request>,
}

/// An event from the web server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'a> {
    /// A request begins. Its parameters follow.
    Begin {
        /// Its id, until [`ApplicationConnection::end`].
        id: RequestId,
        /// The role of the app for this request.
        role: Role,
        /// Whether to keep the connection open after this request. If not, the app has to close it.
        keep_connection: bool,
    },
    /// A request that exceeds a limit or has an unknown role. It is not open: send [`encode_end`] with this status.
    Rejected {
        /// Its id.
        id: RequestId,
        /// The reason.
        status: ProtocolStatus,
        /// Whether to keep the connection open. If not, the app has to close it after the response.
        keep_connection: bool,
    },
    /// All parameters of a request. Its body follows.
    Params {
        /// The request.
        id: RequestId,
        /// The parameters.
        params: Params,
    },
    /// A piece of a request's body. Never empty.
    Stdin {
        /// The request.
        id: RequestId,
        /// The piece.
        data: &'a [u8],
    },
    /// The end of a request's body. Compare its length with `CONTENT_LENGTH` to see if it is complete (section 6.2).
    StdinEnd {
        /// The request.
        id: RequestId,
    },
    /// A piece of the file to filter. Never empty.
    Data {
        /// The request.
        id: RequestId,
        /// The piece.
        data: &'a [u8],
    },
    /// The end of the file to filter. Compare its length with `FCGI_DATA_LENGTH` to see if it is complete (section 6.4).
    DataEnd {
        /// The request.
        id: RequestId,
    },
    /// The server cancels a request. The app still has to end it, and soon (section 5.4).
    Abort {
        /// The request.
        id: RequestId,
    },
    /// A query for the app's capacity. Reply with [`Values::encode_result`](crate::values::Values::encode_result).
    GetValues(Pairs<'a>),
    /// A management record of an unknown type. Reply with
    /// [`encode_unknown_type`](crate::record::encode_unknown_type).
    UnknownType(u8),
    /// All bytes are decoded, and more are needed.
    More,
}

/// An open request.
#[derive(Debug)]
struct Request {
    role: Role,
    /// `None` after the end of the parameters.
    params: Option<ParamsDecoder>,
    stdin_ended: bool,
    data_ended: bool,
}

impl ApplicationConnection {
    /// Returns a new connection.
    #[must_use]
    pub fn new() -> Self {
        Self { decoder: RecordDecoder::new(), open: BTreeMap::new() }
    }

    /// Decodes one event from the start of `bytes`, and returns the number of bytes used. Call it with the rest until it
    /// returns [`Event::More`]; then append more bytes to the rest. The rest is never longer than
    /// [`Limits::management_bytes`] and a header, so the buffer need not be larger.
    ///
    /// Some events need a reply. Send replies before reading more, or the server decides how many are queued.
    ///
    /// # Errors
    ///
    /// The server violated the protocol or a limit. Close the connection: nothing after a fault is decoded.
    pub fn decode<'a>(&mut self, bytes: &'a [u8], limits: &Limits) -> Result<(usize, Event<'a>), Fault> {
        let decoded = self.advance(bytes, limits);
        if decoded.is_err() {
            self.decoder.close();
        }
        decoded
    }

    /// Ends a request and appends `FCGI_END_REQUEST` (section 5.5). End its streams first. Its late records are skipped.
    /// Appends nothing if the request is not open.
    pub fn end(
        &mut self,
        id: RequestId,
        app_status: u32,
        protocol_status: ProtocolStatus,
        out: &mut BytesMut,
    ) {
        if self.open.remove(&id).is_some() {
            encode_end(id, app_status, protocol_status, out);
        }
    }

    /// Handles the end of input. Call it after [`Self::decode`] has returned [`Event::More`] for all bytes. A server that
    /// closed only its sending side can still receive the responses to complete requests.
    ///
    /// # Errors
    ///
    /// [`Fault::Closed`] if requests are open.
    pub fn end_of_input(&mut self) -> Result<(), Fault> {
        self.decoder.close();
        if self.open.is_empty() { Ok(()) } else { Err(Fault::Closed) }
    }

    /// Number of open requests.
    #[must_use]
    pub fn open_requests(&self) -> usize {
        self.open.len()
    }

    fn advance<'a>(&mut self, bytes: &'a [u8], limits: &Limits) -> Result<(usize, Event<'a>), Fault> {
        let mut used = 0;
        loop {
            let event = match self.decoder.step(bytes, &mut used)? {
                Step::Begin(header) => {
                    let content = self.validate(header, limits)?;
                    self.decoder.set_content(header, content);
                    match (header.kind, header.id) {
                        (Kind::Other(number), None) => Some(Event::UnknownType(number)),
                        _ => None,
                    }
                }
                Step::Piece(header, data) => self.handle_piece(header, data, limits)?,
                Step::Whole(header, content) => self.handle_whole(header, content, limits)?,
                Step::More => Some(Event::More),
            };
            if let Some(event) = event {
                return Ok((used, event));
            }
        }
    }

    /// Checks whether a record is allowed now, and returns how to read its content.
    fn validate(&self, header: Header, limits: &Limits) -> Result<Content, Fault> {
        let Header { kind, id, content_bytes, .. } = header;
        let exactly = |expected| {
            let is_right = content_bytes == expected;
            is_right.then_some(Content::Buffered).ok_or(Fault::WrongLength {
                kind,
                received: content_bytes,
                expected,
            })
        };
        match (kind, id) {
            (Kind::BeginRequest, Some(id)) if self.open.contains_key(&id) => Err(Fault::AlreadyOpen { id }),
            (Kind::BeginRequest, Some(_)) => exactly(BODY_BYTES),
            (Kind::AbortRequest, Some(_)) => exactly(0),
            (Kind::Params | Kind::Stdin | Kind::Data, Some(id)) => match self.open.get(&id) {
                Some(request) => request.validate_stream(kind, id, content_bytes),
                // Section 3.3: the server may send more until it learns that the request has ended.
                None => Ok(Content::Skipped),
            },
            (Kind::GetValues, None) if content_bytes > limits.management_bytes => {
                Err(Fault::ManagementTooLarge {
                    kind,
                    received: content_bytes,
                    limit: limits.management_bytes,
                })
            }
            (Kind::GetValues, None) => Ok(Content::Buffered),
            // Section 4.2: its type is enough for the reply.
            (Kind::Other(_), None) => Ok(Content::Skipped),
            (
                Kind::BeginRequest
                | Kind::AbortRequest
                | Kind::Params
                | Kind::Stdin
                | Kind::Data
                | Kind::GetValues,
                id,
            ) => Err(Fault::MisplacedId { kind, id }),
            _ => Err(Fault::Unexpected { kind }),
        }
    }

    /// Returns `None` if the piece completes no event.
    fn handle_piece<'a>(
        &mut self,
        header: Header,
        data: &'a [u8],
        limits: &Limits,
    ) -> Result<Option<Event<'a>>, Fault> {
        // The app may have ended the request since its record began.
        let Some((id, request)) = header.id.and_then(|id| Some((id, self.open.get_mut(&id)?))) else {
            return Ok(None);
        };
        let is_end = data.is_empty();
        Ok(match header.kind {
            Kind::Params => match &mut request.params {
                Some(gathering) if !is_end => {
                    gathering.push(data, limits)?;
                    None
                }
                params => match params.take() {
                    Some(gathering) => Some(Event::Params { id, params: gathering.finish()? }),
                    None => None,
                },
            },
            Kind::Data if is_end => {
                (!std::mem::replace(&mut request.data_ended, true)).then_some(Event::DataEnd { id })
            }
            Kind::Data => Some(Event::Data { id, data }),
            _ if is_end => {
                (!std::mem::replace(&mut request.stdin_ended, true)).then_some(Event::StdinEnd { id })
            }
            _ => Some(Event::Stdin { id, data }),
        })
    }

    fn handle_whole<'a>(
        &mut self,
        header: Header,
        content: &'a [u8],
        limits: &Limits,
    ) -> Result<Option<Event<'a>>, Fault> {
        Ok(match (header.kind, header.id, content) {
            (Kind::BeginRequest, Some(id), &[role_high, role_low, flags, ..]) => {
                let keep_connection = flags & FLAG_KEEP_CONNECTION != 0;
                let role = Role::from_number(u16::from_be_bytes([role_high, role_low]));
                Some(match self.open_request(id, role, limits) {
                    Ok(role) => Event::Begin { id, role, keep_connection },
                    Err(status) => Event::Rejected { id, status, keep_connection },
                })
            }
            // An abort of an ended request has no effect.
            (Kind::AbortRequest, Some(id), _) => self.open.contains_key(&id).then_some(Event::Abort { id }),
            _ => Some(Event::GetValues(Pairs::whole(content)?)),
        })
    }

    /// Opens a request, or returns the reason to reject it.
    fn open_request(
        &mut self,
        id: RequestId,
        role: Option<Role>,
        limits: &Limits,
    ) -> Result<Role, ProtocolStatus> {
        let role = role.ok_or(ProtocolStatus::UnknownRole)?;
        if self.open.len() >= usize::from(limits.open_requests) {
            return Err(match limits.open_requests {
                1 => ProtocolStatus::CannotMultiplex,
                _ => ProtocolStatus::Overloaded,
            });
        }
        let request =
            Request { role, params: Some(ParamsDecoder::default()), stdin_ended: false, data_ended: false };
        self.open.insert(id, request);
        Ok(role)
    }
}

impl Default for ApplicationConnection {
    fn default() -> Self {
        Self::new()
    }
}

impl Request {
    /// Checks whether a record of one of the request's streams is allowed now.
    fn validate_stream(&self, kind: Kind, id: RequestId, content_bytes: u16) -> Result<Content, Fault> {
        let has_ended = match kind {
            Kind::Params => self.params.is_none(),
            Kind::Data => self.data_ended,
            _ => self.stdin_ended,
        };
        if kind == Kind::Data && self.role != Role::Filter {
            return Err(Fault::DataWithoutFilterRole { id });
        }
        if kind != Kind::Params && self.params.is_some() {
            return Err(Fault::BeforeParams { kind, id });
        }
        // A second end of a stream is harmless.
        if has_ended && content_bytes > 0 {
            return Err(Fault::AfterEnd { kind, id });
        }
        Ok(Content::Streamed)
    }
}
