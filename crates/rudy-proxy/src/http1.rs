//! A connection to an upstream over HTTP/1.1. It carries one request at a time.

use std::sync::LazyLock;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rudy_client::{READ_BYTES, Socket, SocketConnection, poll_decode};
use rudy_http::Limits;
use rudy_http::h1::client::{ClientConnection, Fault, InputEnd, ResponseEvent};
use rudy_message::client::RequestInfo;
use rudy_runtime::is_planted;
use rudy_service::{Piped, poll_time};

use super::failure::{Cause, HttpCause};
use super::fields::ResponseFields;

/// How much of a body is copied before the rest passes through a pipe: a short one would not save what the pipe costs.
const PIPED_AFTER_BYTES: u64 = 64 * 1024;

/// How long before the end that the upstream has announced an idle connection is not used any more, unless it lives less than twice as long.
const KEEP_ALIVE_MARGIN: Duration = Duration::from_secs(1);

/// The limits of a response.
pub(super) static LIMITS: LazyLock<Limits> = LazyLock::new(Limits::for_responses);

/// A socket with its protocol state. It has no buffer between requests.
#[derive(Debug)]
pub(super) struct Http1Connection {
    socket: Socket,
    protocol: ClientConnection,
    /// Received bytes that are part of an incomplete head or chunk line, or follow the response.
    unused: Vec<u8>,
    /// When the upstream may close the connection if it gets no request, if it has said so.
    usable_until: Option<Instant>,
}

impl SocketConnection for Http1Connection {
    fn new(socket: Socket) -> Self {
        Self { socket, protocol: ClientConnection::new(), unused: Vec::new(), usable_until: None }
    }

    fn socket(&mut self) -> &mut Socket {
        &mut self.socket
    }
}

impl Http1Connection {
    /// Expects the response to a request.
    pub(super) fn begin(&mut self, request: RequestInfo) {
        self.protocol.expect_response(request);
    }

    /// Reads once, and passes the decoded events to `on_event`, with the fields of the head that is being received.
    pub(super) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        fields: &mut ResponseFields,
        mut on_event: impl FnMut(ResponseEvent<'_>, &mut ResponseFields) -> Result<(), Cause>,
    ) -> Poll<Result<(), Cause>> {
        // Of an incomplete head, chunk line or trailer section, which have lower limits.
        self.unused.truncate(LIMITS.head_bytes);
        let Self { socket, protocol, unused, .. } = self;
        poll_decode(cx, socket, unused, READ_BYTES, |bytes| {
            let Some(mut bytes) = bytes else {
                if is_planted("a body that is complete when its connection ends") {
                    return on_event(ResponseEvent::End(None), fields).map(|()| &[][..]);
                }
                return match protocol.end_of_input().map_err(HttpCause::Fault)? {
                    InputEnd::ResponseComplete => {
                        on_event(ResponseEvent::End(None), fields).map(|()| &[][..])
                    }
                    InputEnd::BetweenResponses => Err(HttpCause::Fault(Fault::ClosedBeforeResponse).into()),
                };
            };
            while !protocol.is_idle() {
                let decoded = protocol.decode_with(bytes, &LIMITS, |line| fields.push(line));
                let (used, event) = decoded.map_err(HttpCause::Fault)?;
                bytes = &bytes[used..];
                match event {
                    ResponseEvent::NeedData => break,
                    event => on_event(event, fields)?,
                }
            }
            Ok(bytes)
        })
    }

    /// Moves received bytes of a long body with a length into a pipe, except the last one, which ends the response.
    pub(super) fn take_piped(&mut self, max: u64) -> Option<Piped> {
        let (received, missing) = self.protocol.body_progress()?;
        if received < PIPED_AFTER_BYTES || missing < 2 || !self.unused.is_empty() {
            return None;
        }
        // After an error, the body is shorter than its length.
        let piped = self.socket.take_piped(max.min(missing - 1)).ok()??;
        self.protocol.bypass(piped.length());
        Some(piped)
    }

    /// Notes how long the upstream keeps the connection open without another request. A request on the way must not meet the close, so
    /// the last second is not used.
    pub(super) fn keep_for(&mut self, time: Option<Duration>) {
        let usable = |time: Duration| time.saturating_sub(KEEP_ALIVE_MARGIN.min(time / 2));
        self.usable_until = time.and_then(|time| poll_time().checked_add(usable(time)));
    }

    /// Returns whether another request can be sent on the idle connection.
    pub(super) fn is_usable(&mut self, check_kernel: bool) -> bool {
        self.usable_until.is_none_or(|end| poll_time() < end) && self.socket.is_usable(check_kernel)
    }

    /// Returns whether the upstream has changed to another protocol.
    pub(super) fn has_switched(&self) -> bool {
        self.protocol.has_switched()
    }

    /// Whether bytes of a pipe can be sent as they are.
    pub(super) fn accepts_piped(&self) -> bool {
        self.socket.accepts_piped()
    }

    /// Takes the received bytes that follow the response.
    pub(super) fn take_unused(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.unused)
    }

    /// Returns whether another request can be sent: the response is complete, and nothing follows it.
    pub(super) fn can_be_reused(&self) -> bool {
        self.protocol.can_be_reused() && self.unused.is_empty()
    }
}
