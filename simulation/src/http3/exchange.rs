//! A request on a stream of HTTP/3, and its response.

use std::sync::Arc;
use std::time::Duration;

use rudy_quic::quinn_proto::{Dir, StreamId};
use rudy_quic::streams::{self, Part};
use tokio::time::Instant;

use super::carrier::Carrier;
use super::wire;
use crate::judge::Judge;
use crate::request::Request;
use crate::tls::SITE;

/// How a client sends a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behaviour {
    Follows,
    /// It pauses before each part of its body.
    UploadsSlowly(Duration),
    /// It reads nothing for this long, after the first part of the response.
    ReadsLate(Duration),
    /// It cancels the request after this time: both directions, or only the response.
    Cancels(Duration, bool),
    /// It ends the stream within the head.
    EndsInHead,
}

/// A request.
pub(super) struct Exchange {
    pub(super) request: Request,
    pub(super) behaviour: Behaviour,
    /// When the connection began, if the client follows the protocol on it and on this stream.
    pub(super) follows_since: Option<Instant>,
    /// Whether the network carries a cancellation.
    pub(super) is_carried: bool,
    /// The size of the parts of the body.
    pub(super) part: usize,
    /// When it begins.
    pub(super) begin: Instant,
    pub(super) judge: Arc<Judge>,
    pub(super) state: State,
}

/// What is done of an exchange.
#[derive(Default)]
pub(super) struct State {
    stream: Option<StreamId>,
    /// What is not written: the head, and then the number of bytes of the body.
    head: Vec<u8>,
    upload: usize,
    has_sent_all: bool,
    /// When the next part is sent or read.
    pause: Option<Instant>,
    /// What is not parsed.
    received: Vec<u8>,
    /// What is left of a frame with data.
    data_left: u64,
    status: Option<u16>,
    body: usize,
    /// Whether the stream has ended behind what was read.
    ends: bool,
    result: Option<Result<u16, Failure>>,
}

/// Why there is no complete response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// The server has reset the stream.
    Reset(u64),
    Cancelled,
    /// What the server has sent is no response; the judge knows.
    Nonsense,
}

impl Exchange {
    pub(super) fn result(&self) -> Option<Result<u16, Failure>> {
        self.state.result
    }

    pub(super) fn has_begun(&self) -> bool {
        self.state.stream.is_some()
    }

    /// Whether a head has arrived.
    pub(super) fn has_head(&self) -> bool {
        self.state.status.is_some()
    }

    /// Returns when it goes on, unless something arrives before.
    pub(super) fn due(&self) -> Option<Instant> {
        let cancel = match self.behaviour {
            Behaviour::Cancels(after, _) => Some(self.begin + after),
            _ => None,
        };
        let pause = self.state.pause.or((!self.has_begun()).then_some(self.begin));
        pause.into_iter().chain(cancel).filter(|_| self.state.result.is_none()).min()
    }

    /// Writes and reads as much as possible. `is_ending` is whether the server takes no new requests.
    pub(super) fn proceed(&mut self, carrier: &mut Carrier, is_ending: bool) {
        let now = Instant::now();
        if self.state.result.is_some() || now < self.begin {
            return;
        }
        if self.state.stream.is_none() {
            if is_ending || !carrier.is_connected {
                return;
            }
            self.state.stream = carrier.machine.streams().open(Dir::Bi);
            self.state.head = self.head();
            self.state.upload = self.request.upload;
        }
        let Some(stream) = self.state.stream else { return };
        if let Behaviour::Cancels(after, both) = self.behaviour
            && self.begin + after <= now
        {
            return self.cancel(carrier, stream, both);
        }
        if self.state.pause.is_some_and(|pause| pause > now) {
            return;
        }
        self.state.pause = None;
        self.write(carrier, stream);
        self.read(carrier, stream);
    }

    fn cancel(&mut self, carrier: &mut Carrier, stream: StreamId, both: bool) {
        let stream = streams::number(stream);
        if both {
            streams::reset(&mut carrier.machine, stream, wire::REQUEST_CANCELLED);
        } else {
            streams::stop(&mut carrier.machine, stream, wire::REQUEST_CANCELLED);
        }
        if self.is_carried {
            self.judge.cancels(self.request.id);
        }
        self.state.result = Some(Err(Failure::Cancelled));
    }

    fn head(&self) -> Vec<u8> {
        let Request { id, method, upload, .. } = self.request;
        let (path, id, upload) = (self.request.path(), id.to_string(), upload.to_string());
        let mut fields = vec![
            (":method", method),
            (":scheme", "https"),
            (":authority", SITE),
            (":path", &path),
            ("x-request", &id),
        ];
        if self.request.upload > 0 {
            fields.push(("content-length", &upload));
        }
        let mut head = wire::headers(&fields);
        if self.behaviour == Behaviour::EndsInHead {
            head.truncate(head.len() / 2);
        }
        head
    }

    /// Writes what QUIC accepts.
    fn write(&mut self, carrier: &mut Carrier, id: StreamId) {
        let mut stream = carrier.machine.send_stream(id);
        while !self.state.has_sent_all {
            if self.state.head.is_empty() {
                if self.state.upload == 0 || self.behaviour == Behaviour::EndsInHead {
                    // Fails if the server does not want the rest.
                    let _ = stream.finish();
                    self.state.has_sent_all = true;
                    return;
                }
                let part = self.state.upload.min(self.part);
                self.state.upload -= part;
                self.state.head = wire::frame(wire::DATA, &vec![b'u'; part]);
            }
            match stream.write(&self.state.head) {
                Ok(written) => drop(self.state.head.drain(..written)),
                Err(rudy_quic::quinn_proto::WriteError::Blocked) => return,
                // The server does not want it.
                Err(_) => self.state.has_sent_all = true,
            }
            if let Behaviour::UploadsSlowly(pause) = self.behaviour
                && self.state.head.is_empty()
                && self.state.upload > 0
            {
                self.state.pause = Some(Instant::now() + pause);
                return;
            }
        }
    }

    /// Reads what has arrived.
    fn read(&mut self, carrier: &mut Carrier, stream: StreamId) {
        if self.state.ends {
            self.end();
        }
        while self.state.result.is_none() {
            match streams::read(&mut carrier.machine, streams::number(stream)) {
                Part::Data(bytes, ends) => {
                    self.state.ends = ends;
                    let is_first = self.state.status.is_none();
                    self.state.received.extend_from_slice(&bytes);
                    if let Err(why) = self.parse() {
                        self.nonsense(&why);
                    }
                    if let Behaviour::ReadsLate(pause) = self.behaviour
                        && is_first
                        && self.state.status.is_some()
                    {
                        self.state.pause = Some(Instant::now() + pause);
                        return;
                    }
                    if ends && self.state.result.is_none() {
                        self.end();
                    }
                }
                Part::End => self.end(),
                Part::Reset(code) => self.state.result = Some(Err(Failure::Reset(code))),
                Part::Nothing => return,
            }
        }
    }

    fn nonsense(&mut self, why: &str) {
        self.judge.fault(format!("request {}: {why}", self.request.id));
        self.state.result = Some(Err(Failure::Nonsense));
    }

    /// Parses what has been received, as far as it is complete.
    fn parse(&mut self) -> Result<(), String> {
        loop {
            let state = &mut self.state;
            if state.data_left > 0 {
                let count = usize::try_from(state.data_left).map_or(usize::MAX, |left| left);
                let data: Vec<u8> = state.received.drain(..count.min(state.received.len())).collect();
                if data.is_empty() {
                    return Ok(());
                }
                state.data_left -= data.len() as u64;
                self.data(&data);
                continue;
            }
            let mut rest = &state.received[..];
            let Some((kind, length)) = wire::take_integer(&mut rest).zip(wire::take_integer(&mut rest))
            else {
                return Ok(());
            };
            let head = state.received.len() - rest.len();
            if kind == wire::DATA {
                state.data_left = length;
                state.received.drain(..head);
                if state.status.is_none() {
                    return Err("data before a head".to_owned());
                }
                continue;
            }
            let length = usize::try_from(length).map_err(|_| "an endless frame".to_owned())?;
            let Some(payload) = rest.get(..length).map(<[u8]>::to_vec) else { return Ok(()) };
            state.received.drain(..head + length);
            match kind {
                wire::HEADERS => self.section(&payload)?,
                wire::SETTINGS | wire::GOAWAY => return Err(format!("a frame of type {kind}")),
                // Types without a meaning (RFC 9114 §9).
                _ => {}
            }
        }
    }

    /// A head or trailers have arrived.
    fn section(&mut self, section: &[u8]) -> Result<(), String> {
        let head = wire::head(section).ok_or_else(|| format!("a section {section:02x?}"))?;
        if self.state.status.is_some() {
            return if head.status == 0 { Ok(()) } else { Err("a second head".to_owned()) };
        }
        if (100..200).contains(&head.status) {
            return Ok(());
        }
        self.state.status = Some(head.status);
        self.judge.check_head(self.request, head.status, head.request.as_deref(), self.follows_since);
        let expected = self.request.resource.length as u64;
        if head.status == 200 && head.length.is_some_and(|length| length != expected) {
            return Err(format!("a length of {:?} instead of {expected}", head.length));
        }
        Ok(())
    }

    fn data(&mut self, data: &[u8]) {
        let Request { id, resource, .. } = self.request;
        if self.state.status == Some(200) {
            self.judge.check_bytes(id, resource, self.state.body, data);
        }
        self.state.body += data.len();
    }

    /// The stream has ended.
    fn end(&mut self) {
        let State { status, body, .. } = self.state;
        let Some(status) = status.filter(|_| self.state.received.is_empty() && self.state.data_left == 0)
        else {
            return self.nonsense("a stream ends within a frame, or without a head");
        };
        if status == 200 && body != self.request.body_length() {
            return self.nonsense(&format!("{body} bytes of {:?} without an error", self.request.resource));
        }
        self.state.result = Some(Ok(status));
    }
}
