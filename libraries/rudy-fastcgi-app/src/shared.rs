//! What the requests of a connection share: their list, and the writing side.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use rudy_fastcgi::application::ApplicationConnection;
use rudy_fastcgi::record::encode_end;
use rudy_fastcgi::{ProtocolStatus, RequestId, Role};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::Sender;
use tokio::sync::{Notify, watch};

use crate::body::Piece;
use crate::{Body, BodyError};

/// The state shared by the requests of one connection.
pub(super) struct Shared {
    state: Mutex<State>,
    /// The lock is fair, so responses take turns record by record.
    writer: tokio::sync::Mutex<Box<dyn AsyncWrite + Send + Unpin>>,
    /// Notified when a request has ended.
    pub(super) ended: Notify,
}

pub(super) struct State {
    pub(super) protocol: ApplicationConnection,
    pub(super) requests: BTreeMap<RequestId, OpenRequest>,
    /// Number of requests that have ended, but whose last output is not written yet.
    pub(super) unwritten: usize,
    /// Number of requests so far.
    pub(super) serial: u64,
    /// Whether a request without `keep_connection` has ended.
    pub(super) closes_when_idle: bool,
    /// Those of them whose bodies are incomplete. No more than may be open, because the state machine still decodes them.
    pub(super) draining: Vec<RequestId>,
    /// Whether a request without `keep_connection` was rejected. The state machine skips its body without an event, so
    /// only the web server's close or a timeout ends the wait. A flag, because the number of rejected requests has
    /// no limit.
    pub(super) drains_rejected: bool,
}

/// A request that has not ended.
pub(super) struct OpenRequest {
    pub(super) key: RequestKey,
    pub(super) keep_connection: bool,
    pub(super) role: Role,
    /// Whether the parameters are complete. If so, its exchange ends the request.
    pub(super) has_params: bool,
    /// Whether it is running.
    pub(super) has_permit: bool,
    pub(super) stdin_ended: bool,
    pub(super) stdin: Option<Sender<Piece>>,
    pub(super) data: Option<Sender<Piece>>,
    pub(super) abort: watch::Sender<bool>,
}

/// Identifies a request. The web server may reuse the id, but the serial number is unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestKey {
    id: RequestId,
    serial: u64,
}

impl RequestKey {
    pub(super) fn new(id: RequestId, serial: u64) -> Self {
        Self { id, serial }
    }

    pub(super) fn id(&self) -> RequestId {
        self.id
    }
}

/// A stream of input of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Stdin,
    Data,
}

impl Shared {
    pub(super) fn new(writer: Box<dyn AsyncWrite + Send + Unpin>) -> Self {
        let state = State {
            protocol: ApplicationConnection::new(),
            requests: BTreeMap::new(),
            unwritten: 0,
            serial: 0,
            closes_when_idle: false,
            draining: Vec::new(),
            drains_rejected: false,
        };
        Self { state: Mutex::new(state), writer: tokio::sync::Mutex::new(writer), ended: Notify::new() }
    }

    /// Writes complete records. If a write fails, all requests are cancelled.
    pub(super) async fn write(&self, out: &mut BytesMut) {
        if out.is_empty() {
            return;
        }
        if self.writer.lock().await.write_all(out).await.is_err() {
            self.state().abort_all();
        }
        out.clear();
    }

    /// Ends a request after its last output, `out`.
    pub(super) async fn end(&self, key: &RequestKey, app_status: u32, out: &mut BytesMut) {
        let is_open = {
            // End it before the write: the web server may reuse the id as soon as it has read the record.
            let mut state = self.state();
            let is_open = state.requests.get(&key.id).is_some_and(|open_request| open_request.key == *key);
            if is_open {
                state.end(key.id, app_status, ProtocolStatus::RequestComplete, out);
                state.unwritten += 1;
            } else {
                out.clear();
            }
            is_open
        };
        self.write(out).await;
        self.state().unwritten -= usize::from(is_open);
        self.ended.notify_one();
    }

    /// Marks a request as running.
    pub(super) fn begin(&self, key: &RequestKey) {
        if let Some(open_request) = self.state().requests.get_mut(&key.id)
            && open_request.key == *key
        {
            open_request.has_permit = true;
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Ends a request. If the connection will be closed, the request stays open in the state machine, which reports the
    /// end of its body: the connection has to be drained up to there.
    pub(super) fn end(&mut self, id: RequestId, app_status: u32, status: ProtocolStatus, out: &mut BytesMut) {
        let Some(open_request) = self.requests.remove(&id) else { return };
        if open_request.keep_connection {
            self.protocol.end(id, app_status, status, out);
            return;
        }
        encode_end(id, app_status, status, out);
        self.closes_when_idle = true;
        // An authorizer gets no body (section 6.3).
        if !open_request.stdin_ended && open_request.role != Role::Authorizer {
            self.draining.push(id);
        }
    }

    /// Cancels all requests.
    pub(super) fn abort_all(&mut self) {
        self.requests.retain(|_, open_request| {
            open_request.abort.send_replace(true);
            // Dropping the senders ends the bodies for their readers.
            open_request.stdin = None;
            open_request.data = None;
            open_request.has_params
        });
    }
}

impl OpenRequest {
    /// Opens a stream to the handler.
    pub(super) fn open_stream(&mut self, stream: Stream, expected: Option<u64>) -> Body {
        let (sender, body) = Body::pieces(expected, BodyError::Aborted);
        *self.stream(stream) = Some(sender);
        body
    }

    pub(super) fn stream(&mut self, stream: Stream) -> &mut Option<Sender<Piece>> {
        match stream {
            Stream::Stdin => &mut self.stdin,
            Stream::Data => &mut self.data,
        }
    }
}
