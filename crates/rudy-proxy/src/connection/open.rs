//! Which connection a request gets, and when another one is opened.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use rudy_client::{Dial, SocketConnection as _, entry_of};
use rudy_service::current_runtime;
use rudy_tls::{ClientTls, same_error};
use tokio::runtime::Id;

use super::Connection;
use crate::http1::Http1Connection;
use crate::http2::{Http2Connection, Http2Stream};

/// The version of HTTP of an upstream.
#[derive(Debug, Clone)]
pub(crate) enum Speaks {
    Http1,
    /// Without TLS, known from its URL (RFC 9113 §3.3).
    Http2,
    /// What it chooses in the TLS handshake.
    Negotiated(ClientTls),
}

/// Connections by the id of the member, in whose order they shut down, and the runtime of the worker.
type ByWorker = BTreeMap<u64, HashMap<Option<Id>, Arc<WorkerConnections>>>;

/// The connections of a proxy to all its upstreams.
#[derive(Debug)]
pub(crate) struct Connections {
    /// By the [entry](entry_of) of the member.
    speaks: Vec<Speaks>,
    of_workers: Mutex<ByWorker>,
}

/// The connections of a worker to an upstream.
#[derive(Debug, Default)]
struct WorkerConnections {
    /// Held by the request that opens a connection, for which the others wait.
    gate: tokio::sync::Mutex<()>,
    state: Mutex<WorkerState>,
}

#[derive(Debug, Default)]
struct WorkerState {
    /// In the order in which they were opened. Requests use the first ones, so that the others become idle and close.
    connections: Vec<Arc<Http2Connection>>,
    /// How often the open connections were shut down. One that was being opened meanwhile serves a single request.
    shut_downs: u64,
    /// Whether the upstream has chosen HTTP/1.1. Then each request opens a connection, and does not wait.
    is_http1: bool,
    /// The number of failed attempts, and the error of the last one.
    failures: u64,
    error: Option<io::Error>,
}

impl Connections {
    /// `speaks` has the version of the members of each [entry](entry_of).
    pub(crate) fn new(speaks: Vec<Speaks>) -> Self {
        Self { speaks, of_workers: Mutex::default() }
    }

    /// Returns a stream of an open connection, or opens a connection.
    ///
    /// # Errors
    ///
    /// The upstream cannot be reached, or does not speak the protocol.
    pub(crate) async fn open(&self, dial: Dial<'_>) -> io::Result<Connection> {
        match self.speaks.get(entry_of(dial.member)) {
            Some(speaks @ (Speaks::Http2 | Speaks::Negotiated(_))) if !dial.is_exclusive => {
                self.of_worker(dial.member).open(dial, speaks).await
            }
            _ => Ok(Connection::Http1(Box::new(Http1Connection::new(dial.socket().await?)))),
        }
    }

    /// Sends no more requests on the open connections, which close after those in progress.
    pub(crate) fn shut_down(&self) {
        let of_workers = self.of_workers.lock();
        of_workers.values().flat_map(HashMap::values).for_each(|connections| connections.shut_down());
    }

    /// Sends no more requests to a member that does not exist any more.
    pub(crate) fn forget(&self, member: u64) {
        let forgotten = self.of_workers.lock().remove(&member);
        forgotten.iter().flat_map(HashMap::values).for_each(|connections| connections.shut_down());
    }

    fn of_worker(&self, member: u64) -> Arc<WorkerConnections> {
        let mut of_workers = self.of_workers.lock();
        of_workers.entry(member).or_default().entry(current_runtime()).or_default().clone()
    }
}

/// Connections of a configuration that is no longer in use close after their requests.
impl Drop for Connections {
    fn drop(&mut self) {
        self.shut_down();
    }
}

impl WorkerConnections {
    fn shut_down(&self) {
        let mut state = self.state.lock();
        state.shut_downs += 1;
        state.connections.drain(..).for_each(|connection| connection.shut_down());
    }

    async fn open(&self, dial: Dial<'_>, speaks: &Speaks) -> io::Result<Connection> {
        let failures = self.state.lock().failures;
        if let Some(stream) = self.reserve(&dial).await {
            return Ok(Connection::Http2(stream));
        }
        let is_http1 = self.state.lock().is_http1;
        let gate = if is_http1 { None } else { Some(self.gate.lock().await) };
        if gate.is_some() {
            if let Some(stream) = self.reserve(&dial).await {
                return Ok(Connection::Http2(stream));
            }
            // To repeat the attempt for each request that waited would take a timeout for each.
            if let Some(error) = self.failure_since(failures) {
                return Err(error);
            }
        }
        // The others need connections of their own as well.
        let _gate = gate.filter(|_| !self.state.lock().is_http1);
        let opened = self.connect(&dial, speaks).await;
        if let Err(error) = &opened {
            let mut state = self.state.lock();
            state.failures += 1;
            state.error = Some(same_error(error));
        }
        opened
    }

    /// Reserves a stream of an open connection. One that was silent must prove first that it is alive.
    async fn reserve(&self, dial: &Dial<'_>) -> Option<Http2Stream> {
        loop {
            let connection = self.first_with_room(dial)?;
            if connection.is_silent() {
                connection.confirm().await;
            }
            if let Some(stream) = connection.reserve() {
                return Some(stream);
            }
        }
    }

    /// Returns the first connection with room, and forgets those that ended or should not get further requests.
    fn first_with_room(&self, dial: &Dial<'_>) -> Option<Arc<Http2Connection>> {
        let mut state = self.state.lock();
        state.connections.retain(|connection| {
            let is_current = dial.still_has(connection.address) && !connection.is_old();
            if !is_current {
                connection.shut_down();
            }
            is_current && !connection.has_ended()
        });
        state.connections.iter().find(|connection| connection.has_room()).cloned()
    }

    fn failure_since(&self, failures: u64) -> Option<io::Error> {
        let state = self.state.lock();
        state.error.as_ref().filter(|_| state.failures > failures).map(same_error)
    }

    async fn connect(&self, dial: &Dial<'_>, speaks: &Speaks) -> io::Result<Connection> {
        let (tls, scheme) = match speaks {
            Speaks::Negotiated(tls) => (Some(tls), "https"),
            Speaks::Http1 | Speaks::Http2 => (None, "http"),
        };
        let shut_downs = self.state.lock().shut_downs;
        let socket = dial.socket_with(tls).await?;
        let is_http1 = tls.is_some() && !socket.has_chosen_http2();
        self.state.lock().is_http1 = is_http1;
        if is_http1 {
            return Ok(Connection::Http1(Box::new(Http1Connection::new(socket))));
        }
        let connection = Http2Connection::start(socket, scheme, dial.idle_timeout());
        connection.wait_for_settings(dial.timeout()).await?;
        let Some(stream) = connection.reserve() else {
            // The next request opens another one.
            connection.shut_down();
            let why = "it accepts no requests (SETTINGS_MAX_CONCURRENT_STREAMS is 0, or GOAWAY)";
            return Err(io::Error::other(why));
        };
        let mut state = self.state.lock();
        if state.shut_downs == shut_downs {
            state.connections.push(connection);
        }
        drop(state);
        Ok(Connection::Http2(stream))
    }
}
