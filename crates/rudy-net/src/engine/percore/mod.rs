//! The default engine: for each core a thread with a runtime of its own. A connection stays on the core that accepted
//! it, so that nothing of it is ever shared with another.

mod accept;
mod thread;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::accept::Acceptor;
use self::thread::{Core, Order, Shared};
use crate::Worker;
use crate::engine::{Engine, Options, Reporter, Source, Stopped, Wait};
use crate::listen::{Address, Bound, Listener, Ownership, Socket, SocketFile};

/// A longer grace time is taken for this one: as good as for ever, and no clock overflows.
const GRACE_TIME_MAX: Duration = Duration::from_hours(24 * 365);

/// A running `percore` engine.
pub struct PerCore<S> {
    source: Arc<S>,
    shared: Arc<Shared>,
    workers: Vec<Arc<Worker>>,
    cores: Vec<(Arc<Core>, Handle)>,
    /// `None` once the engine is to stop.
    listeners: Mutex<Option<Vec<OpenListener>>>,
    order: watch::Sender<Order>,
}

/// Starts the threads. Nothing is accepted until the engine is given a listener.
///
/// Where the service sets no limit of connections it is what the descriptor limit of now leaves room for: call
/// [`raise_descriptor_limit`](crate::engine::raise_descriptor_limit) first.
pub fn start<S: Source>(
    options: &Options,
    source: Arc<S>,
    reporter: Arc<dyn Reporter>,
) -> io::Result<PerCore<S>> {
    let count = options.core_count();
    let shared = Arc::new(Shared::new(reporter, count));
    let order = watch::Sender::new(Order::Serve);
    let mut cores = Vec::with_capacity(count);
    for index in 0..count {
        let core = Arc::new(Core::new(shared.clone())?);
        // When a later one fails, `order` is dropped, and those that have started end.
        let handle = thread::spawn(index, core.clone(), order.subscribe())?;
        cores.push((core, handle));
    }
    let workers = cores.iter().map(|(core, _)| core.worker.clone()).collect();
    Ok(PerCore { source, shared, workers, cores, listeners: Mutex::new(Some(Vec::new())), order })
}

/// A listener from which the cores accept.
struct OpenListener {
    address: Address,
    bound: Vec<Bound>,
    /// Held for its drop, which removes the file.
    file: Option<SocketFile>,
    closing: watch::Sender<bool>,
    acceptors: Vec<JoinHandle<()>>,
}

impl OpenListener {
    /// Lets nobody new in; those who wait are accepted.
    fn begin_close(&mut self) {
        // The file first: whoever finds it could still connect.
        drop(self.file.take());
        self.closing.send_replace(true);
    }

    /// Ready when the sockets are closed.
    async fn close(mut self) {
        self.begin_close();
        for acceptor in self.acceptors {
            // It fails only where the runtime has ended before it: then it is closed as well.
            let _ = acceptor.await;
        }
    }
}

impl<S: Source> PerCore<S> {
    /// Has a core accept from a socket until `closing` says otherwise.
    fn accept(
        &self,
        (core, handle): &(Arc<Core>, Handle),
        socket: Socket,
        drains: bool,
        closing: watch::Receiver<bool>,
    ) -> io::Result<JoinHandle<()>> {
        // Registers the socket with the poller of that core.
        let _entered = handle.enter();
        let (source, core) = (self.source.clone(), core.clone());
        Ok(match socket {
            Socket::Tcp(socket) => {
                let listener = TcpListener::from_std(socket)?;
                handle.spawn(Acceptor { listener, source, core, drains }.run(closing))
            }
            Socket::Unix(socket) => {
                let listener = UnixListener::from_std(socket)?;
                handle.spawn(Acceptor { listener, source, core, drains }.run(closing))
            }
        })
    }

    /// A list of listeners is changed in one step, so a panic elsewhere leaves nothing half done.
    fn listeners(&self) -> MutexGuard<'_, Option<Vec<OpenListener>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_listener(&self, address: &Address) -> Option<OpenListener> {
        let mut listeners = self.listeners();
        let listeners = listeners.as_mut()?;
        let index = listeners.iter().position(|listener| listener.address == *address)?;
        Some(listeners.swap_remove(index))
    }
}

impl<S: Source> Engine for PerCore<S> {
    fn workers(&self) -> &[Arc<Worker>] {
        &self.workers
    }

    fn listening(&self) -> Vec<(Address, Vec<Bound>)> {
        let listeners = self.listeners();
        listeners.iter().flatten().map(|open| (open.address.clone(), open.bound.clone())).collect()
    }

    fn listen(&self, listener: Listener) -> io::Result<()> {
        if listener.cores.len() != self.cores.len() {
            return Err(io::Error::other(
                "the listener was bound for another number of cores than the engine has",
            ));
        }
        let (file, drains) = match listener.ownership {
            Ownership::Tcp => (None, true),
            Ownership::Unix(file) => (Some(file), true),
            Ownership::Inherited => (None, false),
        };
        let closing = watch::Sender::new(false);
        let mut acceptors = Vec::new();
        for (core, sockets) in self.cores.iter().zip(listener.cores) {
            for socket in sockets {
                acceptors.push(self.accept(core, socket, drains, closing.subscribe())?);
            }
        }
        let (address, bound) = (listener.address, listener.bound);
        let mut listeners = self.listeners();
        let listeners = listeners.as_mut().ok_or_else(|| io::Error::other("the engine is stopping"))?;
        listeners.push(OpenListener { address, bound, file, closing, acceptors });
        Ok(())
    }

    fn unlisten<'a>(&'a self, address: &'a Address) -> Wait<'a, bool> {
        Box::pin(async move {
            let Some(listener) = self.take_listener(address) else { return false };
            listener.close().await;
            true
        })
    }

    fn stop(&self, grace: Duration) -> Wait<'_, Stopped> {
        let by = Instant::now() + grace.min(GRACE_TIME_MAX);
        Box::pin(async move {
            let mut listeners = self.listeners().take().unwrap_or_default();
            for listener in &mut listeners {
                listener.begin_close();
            }
            for listener in listeners {
                listener.close().await;
            }
            self.order.send_if_modified(|order| {
                let serving = *order == Order::Serve;
                if serving {
                    *order = Order::Finish { by };
                }
                serving
            });
            self.ended().await
        })
    }

    fn stop_now(&self) {
        self.order.send_replace(Order::End);
    }

    fn ended(&self) -> Wait<'_, Stopped> {
        Box::pin(self.shared.ended())
    }
}
