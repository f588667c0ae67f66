//! The servers, which do not respond.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use h2::server::{Builder, Connection, Handshake, SendResponse};
use http::{HeaderValue, Request, header};
use rudy_http::Limits;
use rudy_http::h2::{Event, HeadBuffers, ServerConnection};
use rudy_message::{BodyLength, RawTarget};

use super::pipe::{Pipe, add_reset, read_body};
use super::{HEAD_BYTES, MANY, Outcome, STREAMS, Side, describe_map, limits};

/// Marks a target that the crate `http`, which `h2` uses, cannot represent.
pub(super) const RAW: &str = " raw ";

/// Describes a request. The host is that of `:authority`, or of Host without it; `h2` leaves the parts of a cookie as they are.
fn describe<T>(stream: u32, request: &Request<T>, ends: bool) -> String {
    let fields = request.headers();
    let authority = request.uri().authority();
    let authority = authority.map(|authority| authority.as_str().as_bytes().escape_ascii().to_string());
    let host = fields.get(header::HOST).map(|host| host.as_bytes().escape_ascii().to_string());
    let raw = request.extensions().get::<RawTarget>().map_or("", |_| RAW);
    let target = request.uri().path_and_query().map_or("", |target| target.as_str());
    // Empty parts have no meaning, and some of them are lost in the joined field.
    let cookies = fields.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes);
    let cookies: Vec<_> = cookies.flat_map(|value| value.split(|byte| b"; ".contains(byte))).collect();
    let cookies: Vec<_> = cookies.into_iter().filter(|part| !part.is_empty()).collect();
    let mut others = describe_map(fields);
    others.retain(|(name, _)| name != "host" && name != "cookie");
    format!(
        "{stream} {} {target}{raw} {:?} {others:?} {} {ends}",
        request.method(),
        authority.or(host),
        cookies.join(&b"; "[..]).escape_ascii()
    )
}

/// The state machine of this project.
pub(super) struct Ours {
    connection: ServerConnection,
    limits: Limits,
    buffers: HeadBuffers,
    now: Instant,
    out: BytesMut,
}

impl Ours {
    pub(super) fn new() -> Self {
        let (now, limits, mut out) = (Instant::now(), limits(), BytesMut::new());
        let connection = ServerConnection::new(now, false, &limits, &mut out);
        Self { connection, limits, buffers: HeadBuffers::default(), now, out }
    }
}

impl Side for Ours {
    fn receive(&mut self, mut input: &[u8]) -> Outcome {
        let (mut outcome, connection) = (Outcome::default(), &mut self.connection);
        loop {
            let received =
                connection.receive(&mut input, &mut self.buffers, self.now, &self.limits, &mut self.out);
            match received {
                Ok(None) => return outcome,
                Err(error) => {
                    outcome.fail(&error.reason);
                    return outcome;
                }
                Ok(Some(event)) => {
                    if let Event::Data { stream, data, .. } = event {
                        connection.pass_on(stream, data.len(), &mut self.out);
                    }
                    add(event, &mut outcome);
                }
            }
        }
    }
}

fn add(event: Event<'_>, outcome: &mut Outcome) {
    match event {
        Event::Request { stream, head, .. } => {
            let request = head.into_request();
            let ends = *request.body() == BodyLength::Known(0);
            outcome.accepted.push(describe(stream, &request, ends));
        }
        Event::Rejected { rejection, .. } => outcome.refused = Some(format!("rejected: {rejection}")),
        Event::Reset { reason: Some(reason), .. } => outcome.refused = Some(reason.to_owned()),
        Event::Reset { stream, code, reason: None } => outcome.reset(stream, code.0),
        Event::Data { stream, data, ends } => {
            outcome.data(stream, data);
            if ends {
                outcome.end(stream, None);
            }
        }
        Event::End { stream, trailers } => outcome.end(stream, trailers.as_ref()),
        Event::Priority { .. } | Event::Window { .. } => {}
    }
}

enum State {
    Handshake(Handshake<Pipe, Bytes>),
    Open(Connection<Pipe, Bytes>),
}

/// A request: its body until that has ended, the response that is never sent, and whether the stream was reset.
type Exchange = (Option<RecvStream>, SendResponse<Bytes>, bool);

/// The server of the crate `h2`.
pub(super) struct Theirs {
    pipe: Pipe,
    state: State,
    exchanges: BTreeMap<u32, Exchange>,
}

impl Theirs {
    pub(super) fn new() -> Self {
        let (pipe, mut builder) = (Pipe::default(), Builder::new());
        builder
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(HEAD_BYTES)
            .initial_connection_window_size(1024 * 1024)
            .max_concurrent_reset_streams(MANY as usize)
            .max_pending_accept_reset_streams(MANY as usize)
            .max_local_error_reset_streams(None)
            .data_frame_budget(MANY as usize);
        let state = State::Handshake(builder.handshake(pipe.clone()));
        Self { pipe, state, exchanges: BTreeMap::new() }
    }

    fn accept(&mut self, context: &mut Context<'_>, outcome: &mut Outcome) {
        if let State::Handshake(handshake) = &mut self.state {
            match Pin::new(handshake).poll(context) {
                Poll::Ready(connection) => self.state = State::Open(connection.expect("a valid preface")),
                Poll::Pending => return,
            }
        }
        let State::Open(connection) = &mut self.state else { return };
        loop {
            match connection.poll_accept(context) {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    let (parts, body) = request.into_parts();
                    let (stream, ends) = (respond.stream_id().as_u32(), body.is_end_stream());
                    outcome.accepted.push(describe(stream, &Request::from_parts(parts, ()), ends));
                    self.exchanges.insert(stream, ((!ends).then_some(body), respond, false));
                }
                Poll::Ready(Some(Err(error))) => return outcome.fail(&error),
                Poll::Ready(None) => {
                    outcome.has_ended = true;
                    return;
                }
                Poll::Pending => return,
            }
        }
    }

    /// Reads what has arrived.
    fn read(&mut self, context: &mut Context<'_>, frame: &[u8], outcome: &mut Outcome) {
        for (stream, (body, respond, is_reset)) in &mut self.exchanges {
            if !*is_reset
                && !outcome.has_ended
                && let Poll::Ready(Ok(code)) = respond.poll_reset(context)
            {
                (*body, *is_reset) = (None, true);
                add_reset(frame, *stream, code, outcome);
            }
            read_body(*stream, body, context, outcome);
        }
    }
}

impl Side for Theirs {
    fn receive(&mut self, frame: &[u8]) -> Outcome {
        self.pipe.send(frame);
        let (mut outcome, mut context) = (Outcome::default(), Context::from_waker(Waker::noop()));
        // Windows are opened in the second round.
        for _ in 0..2 {
            self.accept(&mut context, &mut outcome);
            self.read(&mut context, frame, &mut outcome);
        }
        self.pipe.take_refusal(&mut outcome);
        outcome
    }
}
