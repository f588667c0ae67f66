//! The app's end of one connection: it is asked, and answers.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use bytes::BytesMut;

use crate::pairs::{Gathering, Pairs, Params};
use crate::record::{BODY_BYTES, FLAG_KEEP_CONNECTION, Header, Kind, encode_end};
use crate::records::{Content, Records, Step};
use crate::{Fault, Limits, ProtocolStatus, RequestId, Role};

/// The app's end of one connection: it says what the bytes amount to that come from a web server, and which requests are
/// open.
///
/// It has no buffer but for parameters, which it gathers: an app has to know them all before it can begin. Whoever reads
/// from the connection keeps what [`Self::decode`] leaves, and gives it again with more behind it. Bodies are handed out as
/// they come. What is to be answered is written with the functions of [`record`](crate::record), and a request ended with
/// [`Self::end`].
#[derive(Debug)]
pub struct ApplicationConnection {
    records: Records,
    open: BTreeMap<RequestId, Request>,
}

/// What bytes amount to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'a> {
    /// A request begins. Its parameters follow.
    Begin {
        /// Its number, until [`ApplicationConnection::end`].
        id: RequestId,
        /// What the app is asked to be.
        role: Role,
        /// Whether the connection is to be kept when it is over. Else the app has to close it then.
        keep_connection: bool,
    },
    /// A request begins that cannot be taken: it is not open. Answer it with [`encode_end`] and this status.
    Rejected {
        /// Its number.
        id: RequestId,
        /// Why.
        status: ProtocolStatus,
        /// Whether the connection is to be kept. Else the app has to close it behind its answer.
        keep_connection: bool,
    },
    /// The parameters of a request, all of them. Its body follows.
    Params {
        /// Of which request.
        id: RequestId,
        /// The parameters.
        params: Params,
    },
    /// A piece of a request's body, never empty.
    Stdin {
        /// Of which request.
        id: RequestId,
        /// The piece.
        data: &'a [u8],
    },
    /// There is no more of a request's body. Whether all of it came, `CONTENT_LENGTH` says (section 6.2).
    StdinEnd {
        /// Of which request.
        id: RequestId,
    },
    /// A piece of the file that is to be filtered, never empty.
    Data {
        /// Of which request.
        id: RequestId,
        /// The piece.
        data: &'a [u8],
    },
    /// There is no more of the file that is to be filtered. Whether all of it came, `FCGI_DATA_LENGTH` says (section 6.4).
    DataEnd {
        /// Of which request.
        id: RequestId,
    },
    /// The server does not want an answer any more. It is to be ended all the same, and soon (section 5.4).
    Abort {
        /// Of which request.
        id: RequestId,
    },
    /// The server asks for these: [`Values::encode_result`](crate::values::Values::encode_result).
    GetValues(Pairs<'a>),
    /// A record about the connection that nobody knows: answer it with
    /// [`encode_unknown_type`](crate::record::encode_unknown_type).
    UnknownType(u8),
    /// Everything was looked at; more has to come.
    More,
}

/// A request that is open.
#[derive(Debug)]
struct Request {
    role: Role,
    /// Until its end.
    params: Option<Gathering>,
    stdin_ended: bool,
    data_ended: bool,
}

impl ApplicationConnection {
    /// A connection that was just accepted.
    #[must_use]
    pub fn new() -> Self {
        Self { records: Records::new(), open: BTreeMap::new() }
    }

    /// Says what `bytes` begin with, and how many of them that is. The rest is to be given again, with more behind it; call
    /// it until it answers [`Event::More`]. It never leaves more than [`Limits::management_bytes`] and a header then, so
    /// that a buffer need not be larger.
    ///
    /// Some events have to be answered. Whoever reads on without waiting until the answers are sent lets the server decide
    /// how many wait.
    ///
    /// # Errors
    ///
    /// The server broke the protocol or a limit. The connection has to be closed; nothing is read behind a fault.
    pub fn decode<'a>(&mut self, bytes: &'a [u8], limits: &Limits) -> Result<(usize, Event<'a>), Fault> {
        let decoded = self.advance(bytes, limits);
        if decoded.is_err() {
            self.records.close();
        }
        decoded
    }

    /// Ends a request and appends the record that says so (section 5.5); the ends of its streams come before. Whatever still
    /// comes of it is passed over. Nothing is appended if it is not open.
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

    /// The server will send nothing more; call it when [`Self::decode`] has been given everything. Requests whose body has
    /// come as a whole can still be answered by those that do not look for it.
    ///
    /// # Errors
    ///
    /// Requests were open.
    pub fn end_of_input(&mut self) -> Result<(), Fault> {
        self.records.close();
        if self.open.is_empty() { Ok(()) } else { Err(Fault::Closed) }
    }

    /// Requests that are not over.
    #[must_use]
    pub fn open_requests(&self) -> usize {
        self.open.len()
    }

    fn advance<'a>(&mut self, bytes: &'a [u8], limits: &Limits) -> Result<(usize, Event<'a>), Fault> {
        let mut used = 0;
        loop {
            let event = match self.records.step(bytes, &mut used)? {
                Step::Begin(header) => {
                    let content = self.judge(header, limits)?;
                    self.records.read(header, content);
                    match (header.kind, header.id) {
                        (Kind::Other(number), None) => Some(Event::UnknownType(number)),
                        _ => None,
                    }
                }
                Step::Piece(header, data) => self.take_piece(header, data, limits)?,
                Step::Whole(header, content) => self.take_whole(header, content, limits)?,
                Step::More => Some(Event::More),
            };
            if let Some(event) = event {
                return Ok((used, event));
            }
        }
    }

    /// Whether a record may come that begins so, and how its content is to come.
    fn judge(&self, header: Header, limits: &Limits) -> Result<Content, Fault> {
        let Header { kind, id, content_bytes, .. } = header;
        let exactly = |expected| {
            let is_right = content_bytes == expected;
            is_right.then_some(Content::Whole).ok_or(Fault::WrongLength {
                kind,
                came: content_bytes,
                expected,
            })
        };
        match (kind, id) {
            (Kind::BeginRequest, Some(id)) if self.open.contains_key(&id) => Err(Fault::AlreadyOpen { id }),
            (Kind::BeginRequest, Some(_)) => exactly(BODY_BYTES),
            (Kind::AbortRequest, Some(_)) => exactly(0),
            (Kind::Params | Kind::Stdin | Kind::Data, Some(id)) => match self.open.get(&id) {
                Some(request) => request.judge_stream(kind, id, content_bytes),
                // Section 3.3: it has been answered, and the server did not know yet.
                None => Ok(Content::Skipped),
            },
            (Kind::GetValues, None) if content_bytes > limits.management_bytes => {
                Err(Fault::ManagementTooLarge { kind, came: content_bytes, limit: limits.management_bytes })
            }
            (Kind::GetValues, None) => Ok(Content::Whole),
            // Section 4.2: it is answered, whatever is in it.
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

    /// `None` if there is nothing to tell yet.
    fn take_piece<'a>(
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

    fn take_whole<'a>(
        &mut self,
        header: Header,
        content: &'a [u8],
        limits: &Limits,
    ) -> Result<Option<Event<'a>>, Fault> {
        Ok(match (header.kind, header.id, content) {
            (Kind::BeginRequest, Some(id), &[role_high, role_low, flags, ..]) => {
                let keep_connection = flags & FLAG_KEEP_CONNECTION != 0;
                let role = Role::from_number(u16::from_be_bytes([role_high, role_low]));
                Some(match self.admit(id, role, limits) {
                    Ok(role) => Event::Begin { id, role, keep_connection },
                    Err(status) => Event::Rejected { id, status, keep_connection },
                })
            }
            // What is over already needs no giving up.
            (Kind::AbortRequest, Some(id), _) => self.open.contains_key(&id).then_some(Event::Abort { id }),
            _ => Some(Event::GetValues(Pairs::whole(content)?)),
        })
    }

    /// Opens a request, or says why it cannot be taken.
    fn admit(&mut self, id: RequestId, role: Option<Role>, limits: &Limits) -> Result<Role, ProtocolStatus> {
        let role = role.ok_or(ProtocolStatus::UnknownRole)?;
        if self.open.len() >= usize::from(limits.open_requests) {
            return Err(match limits.open_requests {
                1 => ProtocolStatus::CannotMultiplex,
                _ => ProtocolStatus::Overloaded,
            });
        }
        let request =
            Request { role, params: Some(Gathering::default()), stdin_ended: false, data_ended: false };
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
    /// Whether a record of one of its streams may come.
    fn judge_stream(&self, kind: Kind, id: RequestId, content_bytes: u16) -> Result<Content, Fault> {
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
        // Saying twice that a stream has ended harms nobody.
        if has_ended && content_bytes > 0 {
            return Err(Fault::AfterEnd { kind, id });
        }
        Ok(Content::InPieces)
    }
}
