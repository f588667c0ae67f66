//! The concurrency models: what the engines have in common, and what the rest of Rudy knows of them.
//!
//! An engine accepts connections, holds them to the limits that span connections, and has each served by the one
//! driver. Each engine decides on which threads.

mod accept;
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
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use addresses::AddressKey;
pub use descriptors::raise_descriptor_limit;
pub use model::{Model, UnknownModel};
pub(crate) use reject::UNAVAILABLE;
pub use report::{Problem, Report, Reporter};

use self::threads::Threads;
use crate::listen::{Address, BoundAddress, Listener};
use crate::{Service, Worker};

/// Says which service answers now. It is asked at each accept and at each request head, so a reload swaps what it returns
/// for all connections. An exchange in progress goes on with the service that it began with.
pub trait ServiceSource: Send + Sync + 'static {
    /// The service.
    type Service: Service;
    /// What lends it for one request: an `Arc`, or a guard that costs less.
    type Current: Deref<Target = Self::Service>;

    /// The service of now. Called for every request, on the thread of its connection: must be cheap, and must not block.
    fn current(&self) -> Self::Current;
}

/// What an engine is started with.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The concurrency model.
    pub model: Model,
    /// Threads that serve connections in `percore`, `task` and `mailbox`; `None` is one for each core that this process
    /// may use.
    pub cores: Option<NonZeroUsize>,
    /// Threads that `thread` has at most; `None` is [`THREADS_MAX`].
    pub threads_max: Option<NonZeroUsize>,
}

/// Threads that `thread` has at most unless told otherwise: what stays under the limits that a machine sets by default
/// (`kernel.threads-max`, a service's `TasksMax`), and more than are of use.
pub const THREADS_MAX: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

impl Options {
    /// The number of threads that these options mean here.
    #[must_use]
    pub fn core_count(&self) -> usize {
        self.cores.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get)
    }

    /// The same options with the number of threads written down: it comes from files of `/proc` and `/sys`, which a process
    /// that has confined itself may not read.
    #[must_use]
    pub fn with_known_cores(self) -> Self {
        Self { cores: NonZeroUsize::new(self.core_count()), ..self }
    }

    /// The number of workers of the engine. A [`Listener`] is bound for this number, which may be before the engine starts.
    #[must_use]
    pub fn worker_count(&self) -> usize {
        if self.model.has_thread_per_connection() { 1 } else { self.core_count() }
    }
}

/// Starts an engine. Nothing is accepted until it is given a listener.
///
/// Where the service sets no limit of connections it is what the descriptor limit of now leaves room for: call
/// [`raise_descriptor_limit`] first.
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

/// A running engine. Dropping it ends it at once, as [`Engine::stop_now`] does.
pub trait Engine: Send + Sync {
    /// Its workers: add up their counters.
    fn workers(&self) -> &[Arc<Worker>];

    /// The addresses that it accepts from, as they were asked for, each with where it is bound.
    fn listeners(&self) -> Vec<(Address, Vec<BoundAddress>)>;

    /// Accepts from one more listener. Each worker has a queue of its own if it was bound for as many as there are workers.
    fn listen(&self, listener: Listener) -> io::Result<()>;

    /// Stops accepting from an address: what the kernel has queued is accepted still, then the sockets are closed.
    /// Ready when they are; `false` where nothing listens there. The connections from there that are idle are closed; the
    /// others end with the next response. A connection on which no request has arrived yet may send one.
    fn stop_listening<'a>(&'a self, address: &'a Address) -> BoxFuture<'a, bool>;

    /// Copies of its listeners to be shared with another process, but for those of a service manager. A drop closes the copies alone.
    fn share_listeners(&self) -> io::Result<Vec<Listener>>;

    /// Listeners that are shared are this process's alone from now on: their end ends the sockets, and removes the files of Unix
    /// sockets.
    fn take_ownership(&self);

    /// Stops accepting and leaves all sockets, with what the kernel has queued, to the process that shares them. Ready when nothing
    /// is accepted any more. Each connection ends with its next response; those that are idle stay until [`Self::stop`], because
    /// their next request may be on its way.
    fn hand_over_listeners(&self) -> BoxFuture<'_, ()>;

    /// The source gives another service from now on: idle connections look at its limits, those that it allows no further
    /// request close.
    fn source_changed(&self);

    /// Stops accepting as [`Self::stop_listening`] does, asks every connection to end, and waits until all have or `grace` is
    /// over; then what is left is cut. Ready when everything has ended.
    fn stop(&self, grace: Duration) -> BoxFuture<'_, Stopped>;

    /// Cuts everything. [`Self::ended`], and a [`Self::stop`] under way, tell when it is done.
    fn stop_now(&self);

    /// Ready when the engine has ended.
    fn ended(&self) -> BoxFuture<'_, Stopped>;
}

/// The wait for an end. It is not bound to a runtime.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// How an engine ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// Connections that were cut because they had not ended by themselves.
    pub aborted: u64,
}
