//! A library for FastCGI apps on tokio: you write a handler, the library serves it.
//!
//! ```no_run
//! use http::{Request, Response, StatusCode};
//! use rudy_fastcgi_app::{Body, Concurrency, RequestExt, serve};
//!
//! async fn handle(request: Request<Body>) -> Response<Body> {
//!     let client = request.param("REMOTE_ADDR").unwrap_or("unknown client").to_owned();
//!     match (request.method().as_str(), request.uri().path()) {
//!         ("GET", "/") => Response::new(format!("Hello, {client}.\n").into()),
//!         // Streams the body back as it arrives, at any size.
//!         ("POST", "/echo") => Response::new(request.into_body()),
//!         _ => {
//!             let mut response = Response::new(Body::from("Page not found.\n"));
//!             *response.status_mut() = StatusCode::NOT_FOUND;
//!             response
//!         }
//!     }
//! }
//!
//! # async fn example() -> Result<(), rudy_fastcgi_app::ServeError> {
//! // Listens on the socket inherited from the web server, handles ten requests at once, and stops on SIGTERM.
//! serve(Concurrency::Tasks { at_most: 10 }, handle).await
//! # }
//! ```
//!
//! # Connections and requests
//!
//! A connection stays open if the web server requests this, and can carry several requests at once; the app reports this
//! in `FCGI_MPXS_CONNS`. Concurrent responses take turns on the connection, record by record. At most 64 KiB of a body are
//! buffered for the handler. Beyond that the connection is not read, which also blocks other requests on it. A handler
//! that does not need a body should drop it.
//!
//! [`Concurrency`] limits the number of requests that run at once. The others wait in the order of their arrival: their
//! parameters are read, their bodies are not. The app rejects a request with `FCGI_OVERLOADED` in three cases: its waiting
//! body would block other requests on the connection, the connection has more than [`Limits::open_requests`] requests, or
//! the app is stopping.
//!
//! A web server cancels a request with an abort record or by closing the connection. The handler is then dropped at its
//! next `await`; work that it has started elsewhere can watch the [`AbortSignal`]. An abort record that follows unread
//! parts of a body takes effect when the body is read or dropped. If a handler panics, the response is 500.
//!
//! At SIGTERM or SIGINT the app stops accepting connections, finishes requests in progress, and [`serve`] returns. At a
//! second signal it returns at once.

#![forbid(unsafe_code)]

mod address;
mod body;
mod connection;
mod context;
mod error;
mod exchange;
mod listen;
pub mod purge;
mod request;
mod shared;
#[cfg(test)]
mod tests;

pub use self::address::Listen;
pub use self::body::{Body, BodyError, BodySender};
pub use self::context::{AbortSignal, Log, RequestExt};
pub use self::error::ServeError;
pub use rudy_fastcgi::pairs::Params;
pub use rudy_fastcgi::{Limits, Role};

use std::fmt;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use bytes::Buf;
use http::{Request, Response};
use rudy_fastcgi::values::Values;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use self::exchange::Exchange;
use self::listen::Listener;

/// Compiles the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Guide;

/// Where handlers run, and how many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Concurrency {
    /// Each handler is a task of the runtime. It must not block, because a blocked thread delays other tasks.
    Tasks {
        /// Maximum number of concurrent requests.
        at_most: usize,
    },
    /// Each handler has an OS thread and may block. The threads are tokio's blocking threads, of which there are 512 by
    /// default (`max_blocking_threads`).
    Threads {
        /// Maximum number of concurrent requests.
        at_most: usize,
    },
}

/// A request handler: a function or closure `async fn(http::Request<Body>) -> http::Response<B>`.
pub trait Handler: Send + Sync + 'static {
    /// The body of its responses: [`Body`], a `String`, or any other type that implements the trait.
    type Body: http_body::Body<Data: Buf + Send, Error: fmt::Display + Send> + Send;

    /// Handles a request.
    fn call(&self, request: Request<Body>) -> impl Future<Output = Response<Self::Body>> + Send;
}

impl<F, A, B> Handler for F
where
    F: Fn(Request<Body>) -> A + Send + Sync + 'static,
    A: Future<Output = Response<B>> + Send,
    B: http_body::Body<Data: Buf + Send, Error: fmt::Display + Send> + Send,
{
    type Body = B;

    fn call(&self, request: Request<Body>) -> impl Future<Output = Response<B>> + Send {
        self(request)
    }
}

/// Serves an app on the socket on descriptor 0 until SIGTERM. Needs a tokio runtime with time and I/O enabled.
///
/// # Errors
///
/// See [`ServeError`].
pub async fn serve<H: Handler>(concurrency: Concurrency, handler: H) -> Result<(), ServeError> {
    Server::new(concurrency).bind()?.serve(handler).await
}

/// The configuration of an app's server, for more options than [`serve`].
#[derive(Debug, Clone)]
#[must_use = "call `bind`, then `serve`"]
pub struct Server {
    concurrency: Concurrency,
    listen: Listen,
    /// `None` for the defaults.
    limits: Option<Limits>,
    connections: usize,
    roles: Vec<Role>,
}

/// A server with a bound socket.
#[derive(Debug)]
#[must_use = "call `serve` to accept connections"]
pub struct BoundServer {
    server: Server,
    listener: Listener,
}

/// Default limit of connections. A web server may use one per request, so this also limits the number of waiting requests.
/// Each connection uses a descriptor, and a process is often limited to 1,024.
const CONNECTIONS: usize = 900;

/// How long to pause accepting when the process is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl Server {
    /// Returns a server for the socket on descriptor 0.
    pub fn new(concurrency: Concurrency) -> Self {
        Self {
            concurrency,
            listen: Listen::default(),
            limits: None,
            connections: CONNECTIONS,
            roles: vec![Role::Responder],
        }
    }

    /// Sets the address to listen on.
    pub fn listen(self, listen: Listen) -> Self {
        Self { listen, ..self }
    }

    /// Sets the limits. By default, a connection may have as many requests as run at once, but at least 128.
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits: Some(limits), ..self }
    }

    /// Sets the maximum number of connections. The default is 900. Others wait in the socket's backlog.
    pub fn connections(self, connections: usize) -> Self {
        Self { connections, ..self }
    }

    /// Accepts requests in another role. The handler then has to check [`RequestExt::role`]: a response of 200 from an
    /// authorizer allows a request.
    pub fn role(mut self, role: Role) -> Self {
        if !self.roles.contains(&role) {
            self.roles.push(role);
        }
        self
    }

    /// Binds the socket, or takes the inherited one.
    ///
    /// # Errors
    ///
    /// See [`ServeError`].
    pub fn bind(self) -> Result<BoundServer, ServeError> {
        if self.connections == 0 || self.concurrency.at_most() == 0 {
            return Err(ServeError::ZeroLimit);
        }
        let listener = Listener::bind(&self.listen)?;
        Ok(BoundServer { server: self, listener })
    }
}

impl BoundServer {
    /// Returns the listen address, or [`Listen::Descriptor`] if the inherited socket has no name.
    #[must_use]
    pub fn address(&self) -> Listen {
        self.listener.address()
    }

    /// Serves until SIGTERM or SIGINT, then finishes requests in progress. Returns at once at a second signal.
    ///
    /// # Errors
    ///
    /// See [`ServeError`].
    pub async fn serve<H: Handler>(self, handler: H) -> Result<(), ServeError> {
        let failed = |error| ServeError::CannotAccept { listen: self.server.listen.clone(), error };
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let (stop, mut stops) = watch::channel(0_u8);
        let signals = async {
            loop {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                stop.send_modify(|count| *count = count.saturating_add(1));
            }
        };
        let mut second = stops.clone();
        tokio::select! {
            never = signals => never,
            served = self.serve_until(handler, async move { drop(stops.wait_for(|count| *count >= 1).await) }) => served,
            _ = second.wait_for(|count| *count >= 2) => Ok(()),
        }
    }

    /// Serves until `stop` completes, then finishes requests in progress. Closes all connections if this future is dropped.
    ///
    /// # Errors
    ///
    /// See [`ServeError`].
    pub async fn serve_until<H: Handler>(
        self,
        handler: H,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let Self { server, listener } = self;
        let failed = |error| ServeError::CannotAccept { listen: server.listen.clone(), error };
        let acceptor = listener.start().map_err(failed)?;
        let slots = Arc::new(Semaphore::new(server.connections.min(Semaphore::MAX_PERMITS)));
        let app = Arc::new(App::new(&server, handler));
        let (stopping, stops) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut stop = std::pin::pin!(stop);
        loop {
            // Remove the results of connections that have ended.
            while connections.try_join_next().is_some() {}
            let next = async {
                // The semaphore is never closed.
                let slot = slots.clone().acquire_owned().await.ok();
                (slot, acceptor.accept().await)
            };
            tokio::select! {
                biased;
                () = &mut stop => break,
                (slot, accepted) = next => match accepted {
                    Ok(halves) => {
                        let (app, stops) = (app.clone(), stops.clone());
                        connections.spawn(async move {
                            connection::serve(halves, app, stops).await;
                            drop(slot);
                        });
                    }
                    Err(error) => retry_accept(error).await.map_err(failed)?,
                },
            }
        }
        drop(acceptor);
        stopping.send_replace(true);
        while connections.join_next().await.is_some() {}
        Ok(())
    }
}

impl Concurrency {
    fn at_most(self) -> usize {
        match self {
            Self::Tasks { at_most } | Self::Threads { at_most } => at_most,
        }
    }
}

/// The state that all connections share.
struct App<H> {
    handler: H,
    concurrency: Concurrency,
    permits: Arc<Semaphore>,
    limits: Limits,
    connections: usize,
    roles: Vec<Role>,
}

impl<H: Handler> App<H> {
    fn new(server: &Server, handler: H) -> Self {
        let limits = server.limits.clone().unwrap_or_else(|| {
            // A web server that queries the capacity may send this many requests on one connection.
            let at_once = u16::try_from(server.concurrency.at_most()).unwrap_or(u16::MAX);
            let limits = Limits::default();
            Limits { open_requests: limits.open_requests.max(at_once), ..limits }
        });
        Self {
            handler,
            concurrency: server.concurrency,
            permits: Arc::new(Semaphore::new(server.concurrency.at_most().min(Semaphore::MAX_PERMITS))),
            limits,
            connections: server.connections,
            roles: server.roles.clone(),
        }
    }

    /// Spawns a task in which the request waits for a permit and then runs.
    fn spawn(self: Arc<Self>, mut exchange: Exchange) {
        tokio::spawn(async move {
            let Some(permit) = exchange.wait(self.permits.clone()).await else {
                return exchange.abort().await;
            };
            exchange.begin();
            match self.concurrency {
                Concurrency::Tasks { .. } => exchange.run(&self.handler).await,
                Concurrency::Threads { .. } => {
                    let runtime = tokio::runtime::Handle::current();
                    let run = move || runtime.block_on(exchange.run(&self.handler));
                    // `run` catches panics of the handler.
                    let _ = tokio::task::spawn_blocking(run).await;
                }
            }
            drop(permit);
        });
    }
}

impl<H> App<H> {
    /// The capacity that the app reports.
    fn values(&self) -> Values {
        let number = |count: usize| Some(u32::try_from(count).unwrap_or(u32::MAX));
        Values {
            max_connections: number(self.connections),
            max_requests: number(self.concurrency.at_most()),
            multiplexes: Some(self.limits.open_requests > 1),
        }
    }
}

/// Returns `Ok` if accepting can continue after an error: the connection is gone, or descriptors become free later.
async fn retry_accept(error: io::Error) -> io::Result<()> {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    if matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted) {
        return Ok(());
    }
    // EMFILE and ENFILE have no `ErrorKind`.
    if matches!(error.raw_os_error(), Some(23 | 24)) {
        log(&format!("cannot accept connections at the moment: {error}"));
        tokio::time::sleep(ACCEPT_PAUSE).await;
        return Ok(());
    }
    Err(error)
}

/// Writes a line to stderr. Ignores errors, because there is no other log.
fn log(line: &str) {
    let _ = writeln!(io::stderr(), "rudy-fastcgi: {line}");
}
