//! The server's side of one HTTP/1.1 connection, from its first byte to its last.

use std::time::Instant;

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, Method, StatusCode, Version};

use super::answer::{AnswerHead, Framing, encode_chunk, encode_head_end, encode_last_chunk};
use super::chunked::{Chunked, Decoded};
use super::event::{Event, LengthError, Phase, Timeout};
use super::head::{BodyLength, Head};
use super::lines::Lines;
use super::{DateLine, Refusal};
use crate::Limits;

/// The server's side of one connection.
///
/// One request is under way at a time; what a client pipelines behind it waits in the order in which it came. An idle
/// connection holds no buffer.
///
/// ```
/// use std::time::{Instant, SystemTime};
/// use rudy_http::Limits;
/// use rudy_http::h1::{AnswerHead, DateLine, Event, ServerConnection};
/// # #[allow(clippy::disallowed_methods)] let now = Instant::now();
/// # let date = DateLine::new(SystemTime::UNIX_EPOCH);
///
/// let limits = Limits::default();
/// let mut connection = ServerConnection::new(now);
/// let event = connection.receive(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", now, &limits)?;
/// assert!(matches!(event, Some(Event::Request(request)) if request.uri().path() == "/"));
///
/// let mut out = bytes::BytesMut::new();
/// let head = AnswerHead::Fields(http::StatusCode::OK, &http::HeaderMap::new());
/// connection.begin(head, Some(2), &limits, &date, &mut out);
/// connection.piece(b"hi", &mut out)?;
/// connection.finish(None, now, &mut out)?;
/// assert!(out.ends_with(b"\r\n\r\nhi"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ServerConnection {
    /// Received, and not yet consumed. Empty while nothing is left over.
    pending: BytesMut,
    receiving: Receiving,
    sending: Sending,
    request: RequestFacts,
    /// Requests handed out so far.
    requests: u64,
    /// When the present wait began: for the next request, for the rest of a head, for the rest of an unwanted body.
    since: Instant,
}

/// What the request under way says about its answer.
#[derive(Debug, Clone, Copy)]
struct RequestFacts {
    version: Version,
    is_head: bool,
    keep_alive: bool,
    /// `100 Continue` is awaited and has not been sent.
    expects_continue: bool,
    /// The service will not read (the rest of) the body.
    body_is_unwanted: bool,
}

#[derive(Debug)]
enum Receiving {
    Head(Lines),
    Body(BodyDecoder),
    /// Nobody wants the body; bytes thrown away so far.
    Drain(BodyDecoder, u64),
    /// The whole request is there.
    Done,
}

#[derive(Debug)]
enum BodyDecoder {
    Length(u64),
    /// Boxed: few requests have chunks, every connection has room for the larger of the two.
    Chunked(Box<Chunked>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sending {
    /// No request is waiting for an answer.
    Nothing,
    /// A request is, and has none of it yet.
    Owed,
    Body(Framing),
    /// The connection ends once what is encoded has been sent.
    Close,
    Upgrade,
}

impl ServerConnection {
    /// A connection that was accepted just now.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self {
            pending: BytesMut::new(),
            receiving: Receiving::Head(Lines::default()),
            sending: Sending::Nothing,
            request: RequestFacts {
                version: Version::HTTP_11,
                is_head: false,
                keep_alive: true,
                expects_continue: false,
                body_is_unwanted: false,
            },
            requests: 0,
            since: now,
        }
    }

    /// Takes bytes that came from the peer, all of them, and returns the next event. Call it again with no bytes until it
    /// returns `None`, which it does while the connection is busy with something else, too.
    ///
    /// # Errors
    ///
    /// The peer broke the protocol or a limit. Pass the refusal to [`Self::refuse`], unless an answer has begun: then the
    /// connection has to be cut.
    pub fn receive(&mut self, input: &[u8], now: Instant, limits: &Limits) -> Result<Option<Event>, Refusal> {
        if matches!(self.sending, Sending::Close) {
            return Ok(None);
        }
        // The whole head is mostly in one read: parse it where it lies, and keep only what is left over.
        if self.pending.is_empty() {
            let (used, event) = self.advance(input, now, limits)?;
            self.pending.extend_from_slice(&input[used..]);
            return Ok(event);
        }
        self.pending.extend_from_slice(input);
        let mut pending = std::mem::take(&mut self.pending);
        let (used, event) = self.advance(&pending, now, limits)?;
        pending.advance(used);
        // An empty buffer is given back, so that an idle connection holds none.
        if !pending.is_empty() {
            self.pending = pending;
        }
        Ok(event)
    }

    /// Whether more bytes are welcome: a client that pipelines far ahead has to wait until its answers are on the way.
    #[must_use]
    pub fn wants_input(&self, limits: &Limits) -> bool {
        self.pending.len() < limits.head_bytes
    }

    /// Whether [`Self::receive`] may find another event in what it already has.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether the whole request is there and its answer is not finished: what comes now belongs to later requests, and is
    /// only kept.
    #[must_use]
    pub fn awaits_answer_only(&self) -> bool {
        matches!(self.receiving, Receiving::Done) && matches!(self.sending, Sending::Owed | Sending::Body(_))
    }

    /// The peer will send nothing more. True if that is in order: between requests, or with a whole request waiting for
    /// its answer, after which the connection is closed.
    pub fn end_of_input(&mut self) -> bool {
        self.request.keep_alive = false;
        match self.receiving {
            Receiving::Head(_) => self.pending.is_empty(),
            Receiving::Done => true,
            Receiving::Body(_) | Receiving::Drain(..) => false,
        }
    }

    /// What the connection is at.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match (&self.sending, &self.receiving) {
            (Sending::Close, _) => Phase::Close,
            (Sending::Upgrade, _) => Phase::Upgrade,
            (Sending::Owed | Sending::Body(_), _) => Phase::Exchange,
            (Sending::Nothing, Receiving::Head(_)) if self.pending.is_empty() => Phase::Idle,
            (Sending::Nothing, Receiving::Head(_)) => Phase::Head,
            (Sending::Nothing, _) => Phase::Drain,
        }
    }

    /// Until when to wait for the peer's next bytes. `None` during an exchange, whose pace the caller measures with
    /// [`super::Pace`], because only the caller knows who is waiting for whom.
    #[must_use]
    pub fn deadline(&self, limits: &Limits) -> Option<Instant> {
        let wait = match self.phase() {
            Phase::Idle => limits.idle_time,
            Phase::Head | Phase::Drain => limits.head_time,
            Phase::Exchange | Phase::Close | Phase::Upgrade => return None,
        };
        self.since.checked_add(wait)
    }

    /// What to do about the deadline, at this time.
    #[must_use]
    pub fn timeout(&self, now: Instant, limits: &Limits) -> Timeout {
        if self.deadline(limits).is_none_or(|deadline| now < deadline) {
            return Timeout::NotYet;
        }
        match self.phase() {
            Phase::Head => Timeout::Refuse(Refusal::HeadTooSlow),
            _ => Timeout::Silent,
        }
    }

    /// The connection ends after the answer under way, or at once if there is none.
    pub fn close_after_answer(&mut self) {
        self.request.keep_alive = false;
        if matches!(self.phase(), Phase::Idle | Phase::Drain) {
            self.sending = Sending::Close;
        }
    }

    /// The service wants the request's body: tells a client that waits for that (RFC 9110 §10.1.1).
    pub fn want_body(&mut self, out: &mut BytesMut) {
        if std::mem::take(&mut self.request.expects_continue) && self.sending == Sending::Owed {
            out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
    }

    /// The service will not read the rest of the request's body. Said before [`Self::begin`], the answer tells the client
    /// whether the connection goes on after it.
    pub fn ignore_body(&mut self) {
        self.request.body_is_unwanted = true;
    }

    /// Encodes the head of the answer. `length` is the body's, if it is known; for HEAD it is what GET would have got.
    pub fn begin(
        &mut self,
        head: AnswerHead<'_>,
        length: Option<u64>,
        limits: &Limits,
        date: &DateLine,
        out: &mut BytesMut,
    ) {
        debug_assert_eq!(self.sending, Sending::Owed, "one answer to each request");
        let status = head.status();
        let framing = self.framing(status, length);
        self.decide_keep_alive(framing, limits);
        head.encode(out);
        let connection = match (status, self.request.keep_alive, self.request.version) {
            (StatusCode::SWITCHING_PROTOCOLS, ..) => Some("upgrade"),
            (_, false, _) => Some("close"),
            (_, true, Version::HTTP_10) => Some("keep-alive"),
            (_, true, _) => None,
        };
        // RFC 9110 §8.6: no Content-Length with 1xx and 204. With 304 it would have to be that of the 200, which the
        // service does not always know.
        let told = if has_no_content(status) { None } else { length };
        encode_head_end(framing, told, connection, date, out);
        self.sending = Sending::Body(framing);
        if status == StatusCode::SWITCHING_PROTOCOLS {
            self.sending = Sending::Upgrade;
        }
    }

    /// Whether the body of the answer that has begun goes on the wire at all.
    #[must_use]
    pub fn sends_body(&self) -> bool {
        !matches!(self.sending, Sending::Body(Framing::None))
    }

    /// Encodes a piece of the body.
    ///
    /// # Errors
    ///
    /// The body is longer than its head promised.
    pub fn piece(&mut self, data: &[u8], out: &mut BytesMut) -> Result<(), LengthError> {
        match &mut self.sending {
            Sending::Body(Framing::Chunked) => encode_chunk(data, out),
            Sending::Body(Framing::UntilClose) => out.extend_from_slice(data),
            Sending::Body(Framing::Length(_)) => {
                self.bare(data.len() as u64)?;
                out.extend_from_slice(data);
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether pieces of the body go on the wire as they are, so that the caller may send them itself, past
    /// [`Self::piece`], and only say with [`Self::bare`] how many bytes they were.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        matches!(self.sending, Sending::Body(Framing::Length(_) | Framing::UntilClose))
    }

    /// The caller sends `length` bytes of the body by itself.
    ///
    /// # Errors
    ///
    /// The body is longer than its head promised.
    pub fn bare(&mut self, length: u64) -> Result<(), LengthError> {
        if let Sending::Body(Framing::Length(remaining)) = &mut self.sending {
            *remaining = remaining.checked_sub(length).ok_or(LengthError)?;
        }
        Ok(())
    }

    /// Ends the answer's body, with its trailers where there are chunks to carry them.
    ///
    /// # Errors
    ///
    /// The body is shorter than its head promised.
    pub fn finish(
        &mut self,
        trailers: Option<&HeaderMap>,
        now: Instant,
        out: &mut BytesMut,
    ) -> Result<(), LengthError> {
        match self.sending {
            Sending::Body(Framing::Length(1..)) => return Err(LengthError),
            Sending::Body(Framing::Chunked) => encode_last_chunk(trailers, out),
            Sending::Upgrade => return Ok(()),
            _ => {}
        }
        self.sending = if self.request.keep_alive { Sending::Nothing } else { Sending::Close };
        self.since = now;
        self.receiving = match std::mem::replace(&mut self.receiving, Receiving::Done) {
            Receiving::Body(decoder) => Receiving::Drain(decoder, 0),
            _ => Receiving::Head(Lines::default()),
        };
        Ok(())
    }

    /// Encodes the answer to a peer that is refused, after which the connection closes.
    pub fn refuse(&mut self, refusal: Refusal, date: &DateLine, out: &mut BytesMut) {
        let text = format!("{}: {refusal}\n", refusal.status());
        let mut headers = HeaderMap::new();
        headers
            .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("text/plain; charset=utf-8"));
        let length = text.len() as u64;
        AnswerHead::Fields(refusal.status(), &headers).encode(out);
        encode_head_end(Framing::Length(length), Some(length), Some("close"), date, out);
        if !self.request.is_head || self.sending != Sending::Owed {
            out.extend_from_slice(text.as_bytes());
        }
        self.request.keep_alive = false;
        self.sending = Sending::Close;
    }

    /// What the peer had sent beyond the request that made it switch protocols.
    #[must_use]
    pub fn into_unread(self) -> Bytes {
        self.pending.freeze()
    }

    /// Moves on as far as `bytes` allow; says how many were used.
    fn advance(
        &mut self,
        bytes: &[u8],
        now: Instant,
        limits: &Limits,
    ) -> Result<(usize, Option<Event>), Refusal> {
        let mut used = 0;
        if let Receiving::Drain(decoder, drained) = &mut self.receiving {
            let end = decoder.discard(bytes, drained, limits)?;
            used = end.0;
            if *drained > limits.drain_bytes {
                self.sending = Sending::Close;
                return Ok((bytes.len(), None));
            }
            if !end.1 {
                return Ok((used, None));
            }
            self.receiving = Receiving::Head(Lines::default());
            self.since = now;
        }
        let rest = &bytes[used..];
        let (more, event) = match &mut self.receiving {
            Receiving::Head(_) if self.sending != Sending::Nothing || rest.is_empty() => (0, None),
            Receiving::Head(_) => self.advance_head(rest, now, limits)?,
            Receiving::Body(decoder) => {
                let (more, decoded) = decoder.decode(rest, limits)?;
                match decoded {
                    Decoded::Data(data) => (more, Some(Event::Body(data))),
                    Decoded::More => (more, None),
                    Decoded::End(trailers) => {
                        self.receiving = Receiving::Done;
                        (more, Some(Event::BodyEnd(trailers)))
                    }
                }
            }
            Receiving::Drain(..) | Receiving::Done => (0, None),
        };
        Ok((used + more, event))
    }

    fn advance_head(
        &mut self,
        bytes: &[u8],
        now: Instant,
        limits: &Limits,
    ) -> Result<(usize, Option<Event>), Refusal> {
        let Receiving::Head(lines) = &mut self.receiving else { return Ok((0, None)) };
        if lines.is_untouched() {
            self.since = now;
        }
        let Some(section) = lines.find_head(bytes, limits)? else { return Ok((0, None)) };
        let head = Head::parse(&bytes[..section.length], &section, limits)?;
        self.request = RequestFacts {
            version: head.request.version(),
            is_head: head.request.method() == Method::HEAD,
            keep_alive: head.keep_alive,
            expects_continue: head.expects_continue && *head.request.body() != BodyLength::Known(0),
            body_is_unwanted: false,
        };
        self.receiving = match *head.request.body() {
            BodyLength::Known(0) => Receiving::Done,
            BodyLength::Known(length) => Receiving::Body(BodyDecoder::Length(length)),
            BodyLength::Chunked => Receiving::Body(BodyDecoder::Chunked(Box::new(Chunked::new()))),
        };
        self.sending = Sending::Owed;
        self.requests += 1;
        Ok((section.length, Some(Event::Request(head.request))))
    }

    /// RFC 9112 §6.3, for the answer to this request.
    fn framing(&self, status: StatusCode, length: Option<u64>) -> Framing {
        match length {
            _ if self.request.is_head || has_no_content(status) => Framing::None,
            Some(length) => Framing::Length(length),
            None if self.request.version == Version::HTTP_10 => Framing::UntilClose,
            None => Framing::Chunked,
        }
    }

    /// RFC 9112 §9.3: the connection goes on only if both sides know where this exchange ends.
    fn decide_keep_alive(&mut self, framing: Framing, limits: &Limits) {
        let body_is_in_reach = match &self.receiving {
            // The client may or may not send the body it was never asked for (RFC 9110 §10.1.1).
            Receiving::Body(_) if self.request.expects_continue => false,
            Receiving::Body(BodyDecoder::Length(remaining)) if self.request.body_is_unwanted => {
                *remaining <= limits.drain_bytes
            }
            _ => true,
        };
        let was_last = limits.requests_per_connection.is_some_and(|most| self.requests >= most);
        self.request.keep_alive &= body_is_in_reach && !was_last && framing != Framing::UntilClose;
    }
}

impl BodyDecoder {
    fn decode(&mut self, bytes: &[u8], limits: &Limits) -> Result<(usize, Decoded), Refusal> {
        match self {
            Self::Chunked(chunked) => chunked.decode(bytes, limits),
            Self::Length(0) => Ok((0, Decoded::End(None))),
            Self::Length(_) if bytes.is_empty() => Ok((0, Decoded::More)),
            Self::Length(remaining) => {
                let length = usize::try_from(*remaining).map_or(bytes.len(), |left| left.min(bytes.len()));
                *remaining -= length as u64;
                Ok((length, Decoded::Data(Bytes::copy_from_slice(&bytes[..length]))))
            }
        }
    }

    /// Throws the body away as far as it is in `bytes`: bytes used, and whether that was the end.
    fn discard(
        &mut self,
        bytes: &[u8],
        drained: &mut u64,
        limits: &Limits,
    ) -> Result<(usize, bool), Refusal> {
        let mut used = 0;
        loop {
            let (more, decoded) = self.decode(&bytes[used..], limits)?;
            used += more;
            *drained += more as u64;
            match decoded {
                Decoded::Data(_) if *drained <= limits.drain_bytes => {}
                Decoded::Data(_) | Decoded::More => return Ok((used, false)),
                Decoded::End(_) => return Ok((used, true)),
            }
        }
    }
}

/// RFC 9110 §6.4.1.
fn has_no_content(status: StatusCode) -> bool {
    status.is_informational() || status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED
}
