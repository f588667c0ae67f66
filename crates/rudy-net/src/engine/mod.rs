//! The engines, which implement the concurrency models.
//!
//! An engine accepts connections, applies the limits that span connections, and runs the driver for each
//! connection. Engines differ in the threads on which they do so.

mod accept;
mod accept_quic;
mod addresses;
mod admission;
mod descriptors;
mod mailbox;
mod model;
mod percore;
mod reject;
mod report;
mod running;
mod spawner;
mod task;
mod threads;
mod worker_runner;

use std::io;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rudy_quic::Keys;
use rudy_service::ServiceSource;
use rudy_service::listen_address::Address;

use self::threads::Threads;
use crate::listen::{BoundAddress, Listener};
use crate::worker::Worker;
pub use model::{Model, UnknownModel};
pub use report::{Problem, Report, Reporter};

/// The options of an engine.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The concurrency model.
    pub model: Model,
    /// Number of threads that serve connections in `percore`, `task` and `mailbox`; `None` means one for each
    /// core that this process may use.
    pub cores: Option<NonZeroUsize>,
    /// Maximum number of threads of `thread`; `None` means [`THREADS_MAX`].
    pub threads_max: Option<NonZeroUsize>,
    /// The secrets of QUIC, which processes that replace each other share; `None` means new ones.
    pub quic_keys: Option<Keys>,
}

/// Default maximum number of threads of `thread`. It is below the usual limits of a machine
/// (`kernel.threads-max`, a service's `TasksMax`), and more threads are not useful.
pub const THREADS_MAX: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

impl Options {
    /// Returns the number of cores to use on this machine.
    #[must_use]
    pub fn core_count(&self) -> usize {
        self.cores.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get)
    }

    /// Returns the same options with the number of cores filled in. Determining it needs files of `/proc` and
    /// `/sys`, which a sandboxed process cannot read.
    #[must_use]
    pub fn with_known_cores(self) -> Self {
        Self { cores: NonZeroUsize::new(self.core_count()), ..self }
    }

    /// Returns the number of workers of the engine. A [`Listener`] is bound for this number, which may happen
    /// before the engine starts.
    #[must_use]
    pub fn worker_count(&self) -> usize {
        if self.model.has_thread_per_connection() { 1 } else { self.core_count() }
    }
}

/// Starts an engine. It accepts nothing before [`Engine::listen`].
///
/// If the service sets no limit of connections, the current descriptor limit determines it: call
/// [`rudy_socket::raise_descriptor_limit`] first.
pub fn start<S: ServiceSource>(
    options: &Options,
    source: Arc<S>,
    reporter: Arc<dyn Reporter>,
) -> io::Result<Box<dyn Engine>> {
    match options.model {
        Model::PerCore => percore::start(options, source, reporter),
        Model::Task => task::start(options, source, reporter),
        Model::Mailbox => mailbox::start(options, source, reporter),
        Model::Serial => threads::start(Threads::pool(1)?, source, reporter),
        Model::Pool(threads) => threads::start(Threads::pool(threads.get())?, source, reporter),
        Model::Thread => {
            let limit = options.threads_max.unwrap_or(THREADS_MAX);
            threads::start(Threads::per_connection(limit.get()), source, reporter)
        }
    }
}

/// A running engine. Dropping it has the effect of [`Engine::stop_now`].
pub trait Engine: Send + Sync {
    /// Returns the workers, each with its counters.
    fn workers(&self) -> &[Arc<Worker>];

    /// Returns the secrets of QUIC, for a process that replaces this one. `None` if the engine has no HTTP/3.
    fn quic_keys(&self) -> Option<&Keys>;

    /// Returns the configured address of each listener, with the addresses it is bound to.
    fn listeners(&self) -> Vec<(Address, Vec<BoundAddress>)>;

    /// Accepts connections from a listener. Each worker has its own queue if the listener was bound for the
    /// engine's number of workers.
    fn listen(&self, listener: Listener) -> io::Result<()>;

    /// Begins or ends the HTTP/3 of an address that it listens on, as [`Address::http3`] says. Connections over TCP are not affected; those
    /// over QUIC learn of the end, and finish their requests.
    ///
    /// # Errors
    ///
    /// The sockets cannot be bound.
    fn serve_http3(&self, address: &Address) -> io::Result<()>;

    /// Stops accepting from an address: accepts what the kernel has queued, then closes the sockets. Ready
    /// when they are closed; `false` if no listener has the address.
    ///
    /// Idle connections of the listener close, the others close with their next response. A connection that
    /// has not sent a request yet may still send one.
    fn stop_listening<'a>(&'a self, address: &'a Address) -> BoxFuture<'a, bool>;

    /// Duplicates the listeners, to share them with another process. Sockets of a service manager are
    /// excluded. Dropping a duplicate does not affect the original.
    fn share_listeners(&self) -> io::Result<Vec<Listener>>;

    /// Makes this process the owner of shared listeners: closing a listener now also ends its sockets for the
    /// other process, and removes Unix socket files.
    fn take_ownership(&self);

    /// Returns the addresses whose datagrams are read here for the process that this one replaces, and passed on to it.
    fn read_for_older(&self) -> Vec<Address>;

    /// Stops accepting, and leaves the sockets and their queued connections to the process that shares them.
    /// Ready when nothing is accepted any more. Each connection closes with its next response. Idle
    /// connections stay until [`Self::stop`], because a request may be on its way. At the addresses `read_elsewhere`, the other process
    /// reads the datagrams of HTTP/3, and passes on what is for this one.
    fn hand_over_listeners<'a>(&'a self, read_elsewhere: &'a [Address]) -> BoxFuture<'a, ()>;

    /// Notifies the connections of a new service. Idle connections check its limits, and close if they may
    /// send no further request.
    fn source_changed(&self);

    /// Stops accepting as [`Self::stop_listening`] does, closes connections as they become idle, and aborts
    /// the rest after `grace`. Ready when all have ended.
    fn stop(&self, grace: Duration) -> BoxFuture<'_, Stopped>;

    /// Stops as [`Self::stop`] does, but live streams and connections in another protocol go on until the last second of `grace`.
    fn finish(&self, grace: Duration) -> BoxFuture<'_, Stopped>;

    /// Aborts all connections. To wait for the end, use [`Self::ended`].
    fn stop_now(&self);

    /// Ready when the engine has ended.
    fn ended(&self) -> BoxFuture<'_, Stopped>;
}

/// A boxed future that needs no particular runtime.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The result of stopping an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// Number of connections that were aborted because they did not end within the grace period.
    pub aborted: u64,
}
