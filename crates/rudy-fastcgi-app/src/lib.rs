//! The library to write `FastCGI` apps with, on tokio: a handler in, a served app out.
//!
//! ```no_run
//! use http::{Request, Response, StatusCode};
//! use rudy_fastcgi_app::{Body, Concurrency, RequestExt, serve};
//!
//! async fn answer(request: Request<Body>) -> Response<Body> {
//!     let client = request.param("REMOTE_ADDR").unwrap_or("somebody").to_owned();
//!     match (request.method().as_str(), request.uri().path()) {
//!         ("GET", "/") => Response::new(format!("Hello, {client}.\n").into()),
//!         // A body that goes back as it comes, however large it is.
//!         ("POST", "/echo") => Response::new(request.into_body()),
//!         _ => {
//!             let mut response = Response::new(Body::from("There is no such page.\n"));
//!             *response.status_mut() = StatusCode::NOT_FOUND;
//!             response
//!         }
//!     }
//! }
//!
//! # async fn example() -> Result<(), rudy_fastcgi_app::ServeError> {
//! // On the socket that the web server has started us with, ten requests at once, until SIGTERM.
//! serve(Concurrency::Tasks { at_most: 10 }, answer).await
//! # }
//! ```
//!
//! # What happens to a request
//!
//! Connections are kept where the web server asks for it, and may carry several requests at once: it is told so when it asks
//! (`FCGI_MPXS_CONNS`). Their answers take turns on the connection, record by record. What is read of a body and not taken by
//! the handler is 64 KiB at most; then the connection is not read on, which also holds up other requests on it: a handler that
//! does not want a body drops it.
//!
//! As many requests run at once as [`Concurrency`] says. Others wait for their turn in the order in which they came, their
//! parameters read, their bodies left in the connection. A request is refused with `FCGI_OVERLOADED` where its waiting body
//! would hold up others on its connection, where more than [`Limits::open_requests`] are on one connection, and when the app
//! is stopping.
//!
//! A web server that does not want an answer any more says so, or closes the connection. The handler is dropped then, where it
//! waits; what it has started elsewhere sees [`AbortSignal`]. (An abort that comes behind a body that nobody reads is heard when that
//! is read or dropped.) A handler that panics has answered 500.
//!
//! At SIGTERM or SIGINT no more connections are accepted, requests under way are answered, and [`serve`] returns; at the second
//! it returns at once.

#![forbid(unsafe_code)]

mod body;
mod connection;
mod context;
mod error;
mod exchange;
mod listen;
mod request;
#[cfg(test)]
mod tests;

pub use self::body::{Body, BodyError, BodySender};
pub use self::context::{AbortSignal, Log, RequestExt};
pub use self::error::ServeError;
pub use self::listen::Listen;
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

/// The guide's examples are compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/fastcgi-app.md")]
struct Guide;

/// On what handlers run, and how many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Concurrency {
    /// Each on a task of the runtime. They have to wait by `await`: one that blocks keeps a thread from all others.
    Tasks {
        /// So many at once.
        at_most: usize,
    },
    /// Each on an OS thread that is its own as long as it runs: they may block. The threads are the runtime's blocking ones, of
    /// which there are 512 if its builder does not say otherwise (`max_blocking_threads`).
    Threads {
        /// So many at once.
        at_most: usize,
    },
}

/// What answers requests: a function or closure `async fn(http::Request<Body>) -> http::Response<B>`.
pub trait Handler: Send + Sync + 'static {
    /// The body that it answers with: [`Body`], a `String`, or any other.
    type Body: http_body::Body<Data: Buf + Send, Error: fmt::Display + Send> + Send;

    /// Answers a request.
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

/// Serves an app on the socket on descriptor 0, until SIGTERM. It has to be called on a tokio runtime with time and I/O.
///
/// # Errors
///
/// See [`ServeError`].
pub async fn serve<H: Handler>(concurrency: Concurrency, handler: H) -> Result<(), ServeError> {
    Server::new(concurrency).bind()?.serve(handler).await
}

/// How an app is served, where [`serve`] does not do.
#[derive(Debug, Clone)]
#[must_use = "a server serves when it is bound"]
pub struct Server {
    concurrency: Concurrency,
    listen: Listen,
    /// `None` for the default ones.
    limits: Option<Limits>,
    connections: usize,
    roles: Vec<Role>,
}

/// A server that has its socket.
#[derive(Debug)]
#[must_use = "a server that is bound serves nobody yet"]
pub struct BoundServer {
    server: Server,
    listener: Listener,
}

/// Connections at once if nothing else is said. A web server has one for each request, so this is also how many requests can
/// wait; each takes a descriptor, of which a process often has 1,024.
const CONNECTIONS: usize = 900;

/// How long nothing is accepted when the process has run out of descriptors: some connection may end meanwhile.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl Server {
    /// A server on descriptor 0.
    pub fn new(concurrency: Concurrency) -> Self {
        Self {
            concurrency,
            listen: Listen::default(),
            limits: None,
            connections: CONNECTIONS,
            roles: vec![Role::Responder],
        }
    }

    /// Listens elsewhere than on descriptor 0.
    pub fn listen(self, listen: Listen) -> Self {
        Self { listen, ..self }
    }

    /// Has other limits than the default ones, with which as many requests may be on one connection as run at once, or 128 if
    /// that is more.
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits: Some(limits), ..self }
    }

    /// Accepts so many connections at once, instead of 900. Others wait in the socket's backlog.
    pub fn connections(self, connections: usize) -> Self {
        Self { connections, ..self }
    }

    /// Is asked in this role as well. The handler has to look at [`RequestExt::role`] then: an authorizer that answers
    /// 200 has let a request pass.
    pub fn role(mut self, role: Role) -> Self {
        if !self.roles.contains(&role) {
            self.roles.push(role);
        }
        self
    }

    /// Takes the socket, or makes it.
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
    /// Where it listens, if that is known: what is inherited may have no name.
    #[must_use]
    pub fn address(&self) -> Listen {
        self.listener.address()
    }

    /// Serves until SIGTERM or SIGINT, and answers then what is under way; a second signal ends that, too.
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

    /// Serves until `stop` is over, and answers then what is under way. If this future is dropped, connections are closed where
    /// they are.
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
        let responder = Arc::new(Responder::new(&server, handler));
        let (stopping, stops) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut stop = std::pin::pin!(stop);
        loop {
            // One that has ended leaves nothing behind.
            while connections.try_join_next().is_some() {}
            let next = async {
                // Nobody closes it.
                let slot = slots.clone().acquire_owned().await.ok();
                (slot, acceptor.accept().await)
            };
            tokio::select! {
                biased;
                () = &mut stop => break,
                (slot, accepted) = next => match accepted {
                    Ok(halves) => {
                        let (responder, stops) = (responder.clone(), stops.clone());
                        connections.spawn(async move {
                            connection::serve(halves, responder, stops).await;
                            drop(slot);
                        });
                    }
                    Err(error) => survive(error).await.map_err(failed)?,
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

/// What all connections share.
struct Responder<H> {
    handler: H,
    concurrency: Concurrency,
    turns: Arc<Semaphore>,
    limits: Limits,
    connections: usize,
    roles: Vec<Role>,
}

impl<H: Handler> Responder<H> {
    fn new(server: &Server, handler: H) -> Self {
        let limits = server.limits.clone().unwrap_or_else(|| {
            // A web server that is told how many run at once may send so many on one connection.
            let at_once = u16::try_from(server.concurrency.at_most()).unwrap_or(u16::MAX);
            let limits = Limits::default();
            Limits { open_requests: limits.open_requests.max(at_once), ..limits }
        });
        Self {
            handler,
            concurrency: server.concurrency,
            turns: Arc::new(Semaphore::new(server.concurrency.at_most().min(Semaphore::MAX_PERMITS))),
            limits,
            connections: server.connections,
            roles: server.roles.clone(),
        }
    }

    /// Has a request wait for its turn, and run then.
    fn spawn(self: Arc<Self>, mut exchange: Exchange) {
        tokio::spawn(async move {
            let Some(turn) = exchange.wait(self.turns.clone()).await else {
                return exchange.give_up().await;
            };
            exchange.begin();
            match self.concurrency {
                Concurrency::Tasks { .. } => exchange.run(&self.handler).await,
                Concurrency::Threads { .. } => {
                    let runtime = tokio::runtime::Handle::current();
                    let run = move || runtime.block_on(exchange.run(&self.handler));
                    // Panics of handlers are caught in there.
                    let _ = tokio::task::spawn_blocking(run).await;
                }
            }
            drop(turn);
        });
    }
}

impl<H> Responder<H> {
    /// What the app says of itself.
    fn values(&self) -> Values {
        let number = |count: usize| Some(u32::try_from(count).unwrap_or(u32::MAX));
        Values {
            max_connections: number(self.connections),
            max_requests: number(self.concurrency.at_most()),
            multiplexes: Some(self.limits.open_requests > 1),
        }
    }
}

/// Whether accepting may go on after an error: a connection that was gone already concerns nobody, and descriptors come back.
async fn survive(error: io::Error) -> io::Result<()> {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    if matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted) {
        return Ok(());
    }
    // EMFILE and ENFILE have no names there.
    if matches!(error.raw_os_error(), Some(23 | 24)) {
        say(&format!("cannot accept for the moment: {error}"));
        tokio::time::sleep(ACCEPT_PAUSE).await;
        return Ok(());
    }
    Err(error)
}

/// Says something where the app's own log is. If that is closed there is nobody to tell.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "rudy-fastcgi: {line}");
}
