//! The state of a connection, which its task and the requests on it share.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use parking_lot::Mutex;
use rudy_client::Socket;
use rudy_http::h2::client::ClientConnection;
use rudy_http::h2::{ConnectionError, ErrorCode};
use rudy_runtime::{clock, is_planted};
use rudy_service::current_runtime;
use tokio::runtime::Id;
use tokio::sync::Notify;
use tokio::time::{timeout, timeout_at};

use super::stream::{Http2Stream, StreamState};
use super::{LIMITS, task};
use crate::failure::{Cause, HttpCause};

/// Encoded frames over which no body is encoded: several TLS records, so that a body waits for the socket and not in memory.
pub(super) const OUTPUT_BYTES: usize = 64 * 1024;

/// After this time without input, a connection must acknowledge a PING before it gets a request: firewalls and restarts drop idle
/// connections silently. gRPC servers count more frequent pings as an attack, unless they respond to a request after each.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(10);

/// How long the acknowledgement of a PING may take. A longer wait costs a request more than a new connection.
const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a connection is used, so that load balancers and changes of DNS can move it. The default of nginx.
pub(super) const AGE_MAX: Duration = Duration::from_hours(1);

/// A connection that many requests share.
#[derive(Debug)]
pub(crate) struct Http2Connection {
    state: Mutex<State>,
    /// Notified when anything is received, and at the end.
    received: Notify,
    pub(crate) address: Option<SocketAddr>,
    /// The runtime of its task.
    pub(super) runtime: Option<Id>,
    /// `http` or `https`.
    pub(super) scheme: &'static str,
    pub(super) opened: Instant,
}

/// The state behind the lock.
#[derive(Debug)]
pub(super) struct State {
    /// `None` after the end.
    pub(super) socket: Option<Socket>,
    pub(super) protocol: ClientConnection,
    /// The frames to send.
    pub(super) output: BytesMut,
    /// The requests by stream.
    pub(super) streams: BTreeMap<u32, StreamState>,
    /// Streams with a part of a body that wait for a window or for room in `output`, in this order.
    pub(super) blocked: VecDeque<u32>,
    /// Streams that requests are about to open.
    pub(super) reserved: u32,
    /// Whether it begins no more requests.
    pub(super) is_retired: bool,
    pub(super) end: Option<End>,
    /// Whether its end was announced because the upstream requires HTTP/1.1.
    pub(super) requires_http11: bool,
    /// When something was received.
    pub(super) last_received: Instant,
    /// When the last PING was sent that asks for a response: before or after `last_received`.
    pinged: Option<Instant>,
    /// When the last stream was closed.
    pub(super) idle_since: Instant,
    /// Whether it has had a stream.
    pub(super) has_served: bool,
    /// The waker of the task, if it waits.
    pub(super) task: Option<Waker>,
    /// Wakers to wake without the lock.
    pub(super) wakers: Vec<Waker>,
}

/// Why a connection has ended.
#[derive(Debug, Clone)]
pub(super) enum End {
    /// The upstream has closed it.
    Closed,
    Lost(io::ErrorKind, Arc<str>),
    /// The upstream has violated the protocol.
    Violation(ConnectionError),
}

impl End {
    pub(super) fn lost(error: &io::Error) -> Self {
        Self::Lost(error.kind(), error.to_string().into())
    }

    /// Returns the error for those who open a connection.
    fn error(&self) -> io::Error {
        match self {
            Self::Closed => io::Error::new(io::ErrorKind::UnexpectedEof, "closed by the other end"),
            Self::Lost(kind, text) => io::Error::new(*kind, text.to_string()),
            Self::Violation(error) => io::Error::other(*error),
        }
    }

    /// Returns the cause for the requests on it.
    pub(super) fn cause(&self) -> Cause {
        match self {
            Self::Violation(error) => HttpCause::Http2(*error).into(),
            lost => Cause::ConnectionLost(lost.error()),
        }
    }
}

impl Http2Connection {
    /// Starts HTTP/2 on a socket, and the task of the connection. It must get a request within `idle_timeout`.
    pub(crate) fn start(socket: Socket, scheme: &'static str, idle_timeout: Duration) -> Arc<Self> {
        let (now, mut output) = (clock::now(), BytesMut::new());
        let protocol = ClientConnection::new(now, &LIMITS, &mut output);
        let address = socket.address();
        let state = State {
            socket: Some(socket),
            protocol,
            output,
            streams: BTreeMap::new(),
            blocked: VecDeque::new(),
            reserved: 0,
            is_retired: false,
            end: None,
            requires_http11: false,
            last_received: now,
            pinged: None,
            idle_since: now,
            has_served: false,
            task: None,
            wakers: Vec::new(),
        };
        let connection = Arc::new(Self {
            state: Mutex::new(state),
            received: Notify::new(),
            address,
            runtime: current_runtime(),
            scheme,
            opened: now,
        });
        rudy_runtime::spawn(task::run(connection.clone(), idle_timeout));
        connection
    }

    /// Works on the state with its lock, and wakes wakers after it.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock();
        let result = work(&mut state);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        result
    }

    /// Notifies those who wait for the upstream.
    pub(super) fn notify(&self) {
        self.received.notify_waiters();
    }

    /// Waits for the SETTINGS of the upstream, which say how many streams it accepts, and whether it accepts tunnels.
    pub(crate) async fn wait_for_settings(&self, time: Duration) -> io::Result<()> {
        let settings = async {
            loop {
                let received = self.received.notified();
                let settings = self.with(|state| match &state.end {
                    Some(end) => Some(Err(end.error())),
                    None => state.protocol.concurrent_streams().map(|_| Ok(())),
                });
                match settings {
                    Some(settings) => return settings,
                    None => received.await,
                }
            }
        };
        timeout(time, settings).await.unwrap_or_else(|_| {
            let why = format!("no SETTINGS of HTTP/2 within {time:?} (`connect_timeout`)");
            let error = io::Error::new(io::ErrorKind::TimedOut, why);
            self.with(|state| state.close(End::lost(&error)));
            Err(error)
        })
    }

    /// Reserves a stream. `None` if there is none, or if the upstream has closed the idle connection.
    pub(crate) fn reserve(self: &Arc<Self>) -> Option<Http2Stream> {
        let is_reserved = self.with(|state| {
            if state.is_idle() {
                state.receive_available();
            }
            state.reserve()
        });
        is_reserved.then(|| Http2Stream::reserved(self.clone()))
    }

    /// Returns whether another stream can be opened.
    pub(crate) fn has_room(&self) -> bool {
        self.with(|state| state.has_room())
    }

    /// Returns whether nothing was received for so long that the connection may be dead.
    pub(crate) fn is_silent(&self) -> bool {
        self.with(|state| clock::since(state.last_received) > SILENCE_MAX)
    }

    /// Finds out with a PING whether the upstream still responds. If it does not, the connection gets no further requests.
    pub(crate) async fn confirm(&self) {
        let received = self.received.notified();
        let sent = self.with(State::ping);
        if timeout_at((sent + PING_TIMEOUT).into(), received).await.is_err() {
            self.with(|state| {
                if state.last_received < sent {
                    state.abandon();
                }
            });
        }
    }

    /// Returns whether it should get no further requests, because it was opened long ago.
    pub(crate) fn is_old(&self) -> bool {
        clock::since(self.opened) >= AGE_MAX
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.with(|state| state.end.is_some())
    }

    /// Begins no more requests. Those in progress continue, and the task closes the connection after them.
    pub(crate) fn shut_down(&self) {
        self.with(State::shut_down);
    }
}

impl State {
    fn has_room(&self) -> bool {
        // Before its SETTINGS, the upstream might reject streams.
        let is_open = self.end.is_none() && !self.is_retired && self.protocol.concurrent_streams().is_some();
        is_open && self.protocol.available_streams() > self.reserved
    }

    pub(super) fn reserve(&mut self) -> bool {
        let has_room = self.has_room();
        self.reserved += u32::from(has_room);
        has_room
    }

    /// The task announces the end after the requests. An upstream that knows it may close the connection behind its last response, and
    /// whatever is sent to it then, such as a window, resets the connection and destroys the response.
    pub(super) fn shut_down(&mut self) {
        self.is_retired = true;
        if is_planted("an end that is announced before the last response") {
            self.protocol.shut_down(&mut self.output);
        }
        self.wake_task();
    }

    /// Sends a PING, unless one was sent since the last input. Returns when it was sent.
    fn ping(&mut self) -> Instant {
        if let Some(pinged) = self.pinged.filter(|pinged| *pinged > self.last_received) {
            return pinged;
        }
        let now = clock::now();
        self.protocol.ping(&mut self.output);
        self.wake_task();
        *self.pinged.insert(now)
    }

    /// Ends a connection whose upstream does not respond. It may be only slow: requests in progress end with their own timeouts.
    fn abandon(&mut self) {
        if self.streams.is_empty() {
            self.close(End::Lost(io::ErrorKind::TimedOut, "no acknowledgement of a PING".into()));
        } else {
            self.shut_down();
        }
    }

    /// Ends the connection with its requests.
    pub(super) fn close(&mut self, end: End) {
        // The socket closes when it is dropped.
        self.socket = None;
        for stream in self.streams.values_mut() {
            stream.fail(end.cause(), &mut self.wakers);
        }
        self.end.get_or_insert(end);
        self.wake_task();
    }

    pub(super) fn wake_task(&mut self) {
        self.wakers.extend(self.task.take());
    }

    /// Returns whether no request uses or will use it.
    pub(super) fn is_idle(&self) -> bool {
        self.streams.is_empty() && self.reserved == 0
    }

    /// Removes a stream whose request has ended. Cancels what is left of it.
    pub(super) fn remove(&mut self, stream: u32) {
        self.protocol.cancel(stream, &mut self.output);
        if self.streams.remove(&stream).is_some_and(|removed| removed.is_blocked) {
            self.blocked.retain(|blocked| *blocked != stream);
        }
        if self.streams.is_empty() {
            self.idle_since = clock::now();
        }
        self.wake_task();
    }

    /// Wakes the streams that can send, as long as there is room.
    pub(super) fn wake_blocked(&mut self) {
        if self.output.len() >= OUTPUT_BYTES || !self.protocol.has_window() {
            return;
        }
        for _ in 0..self.blocked.len() {
            let Some(id) = self.blocked.pop_front() else { return };
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            if self.protocol.window(id) > 0 {
                stream.is_blocked = false;
                self.wakers.extend(stream.waker.take());
            } else {
                self.blocked.push_back(id);
            }
        }
    }
}

/// Returns the failure of a stream that was reset, on a connection whose upstream may have announced its end.
pub(super) fn reset_cause(
    code: ErrorCode,
    reason: Option<&'static str>,
    is_going_away: bool,
    requires_http11: bool,
) -> HttpCause {
    match (reason, code) {
        (Some(reason), code) => HttpCause::Http2Stream(ConnectionError { code, reason }),
        (None, ErrorCode::HTTP_1_1_REQUIRED) => HttpCause::Http11Required,
        (None, ErrorCode::REFUSED_STREAM) if requires_http11 => HttpCause::Http11Required,
        (None, ErrorCode::REFUSED_STREAM) if is_going_away => HttpCause::GoneAway,
        (None, ErrorCode::REFUSED_STREAM) => HttpCause::Refused,
        (None, code) => HttpCause::Reset(code),
    }
}
