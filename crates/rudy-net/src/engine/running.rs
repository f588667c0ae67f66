//! A running engine: its lanes, its listeners, and the orders that they are given.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, mem};

use rudy_socket_file::SocketFile;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::accept::Acceptor;
use super::lane::{Lane, Order, Shared};
use super::spawner::Spawner;
use super::{Engine, Reporter, Source, Stopped, Wait};
use crate::Worker;
use crate::driver::ConnectionContext;
use crate::listen::{Address, Bound, Listener, Ownership, Socket};

/// A longer grace time is taken for this one: as good as for ever, and no clock overflows.
const GRACE_TIME_MAX: Duration = Duration::from_hours(24 * 365);

/// An engine whose connections are spawned by `C`.
pub(super) struct Running<S, C> {
    source: Arc<S>,
    spawner: C,
    shared: Arc<Shared>,
    workers: Vec<Arc<Worker>>,
    lanes: Vec<(Arc<Lane>, Handle)>,
    /// `None` once the engine is to stop.
    listeners: Mutex<Option<Vec<OpenListener>>>,
    order: watch::Sender<Order>,
}

/// A lane to be started, and the orders that it is to obey.
pub(super) type NewLane = (Arc<Lane>, watch::Receiver<Order>);

impl<S: Source, C: Spawner> Running<S, C> {
    /// An engine of so many lanes. `start` starts all of them and says on which runtime each runs; if it fails those that
    /// have started end, because nobody holds the sender of their orders any more.
    pub(super) fn start(
        lanes: usize,
        spawner: C,
        source: Arc<S>,
        reporter: Arc<dyn Reporter>,
        start: impl FnOnce(Vec<NewLane>) -> io::Result<Vec<Handle>>,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(reporter, lanes)?);
        let order = watch::Sender::new(Order::Serve);
        let lane = |worker: &Arc<Worker>| Arc::new(Lane::new(worker.clone(), shared.clone()));
        let lanes: Vec<_> = shared.workers.iter().map(lane).collect();
        let new = lanes.iter().map(|lane| (lane.clone(), order.subscribe())).collect();
        let handles = start(new)?;
        let workers = shared.workers.clone();
        let lanes = lanes.into_iter().zip(handles).collect();
        let listeners = Mutex::new(Some(Vec::new()));
        Ok(Self { source, spawner, shared, workers, lanes, listeners, order })
    }
}

/// A listener from which the lanes accept.
struct OpenListener {
    address: Address,
    bound: Vec<Bound>,
    /// Held for its drop, which removes the file.
    file: Option<SocketFile>,
    closing: watch::Sender<bool>,
    /// Told to its connections when the sockets are closed.
    is_closed: Arc<AtomicBool>,
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
        self.is_closed.store(true, Ordering::Release);
    }
}

impl<S: Source, C: Spawner> Running<S, C> {
    /// Has a lane accept from a socket until `closing` says otherwise.
    fn accept(
        &self,
        (lane, handle): &(Arc<Lane>, Handle),
        socket: Socket,
        (drains, proxy_protocol): (bool, bool),
        is_closed: &Arc<AtomicBool>,
        closing: watch::Receiver<bool>,
    ) -> io::Result<JoinHandle<()>> {
        // Registers the socket with the poller of that runtime.
        let _entered = handle.enter();
        let context = Arc::new(ConnectionContext {
            worker: lane.worker.clone(),
            source: self.source.clone(),
            is_listener_closed: is_closed.clone(),
            proxy_protocol,
        });
        let (lane, spawner) = (lane.clone(), self.spawner.clone());
        Ok(match socket {
            Socket::Tcp(socket) => {
                let listener = TcpListener::from_std(socket)?;
                handle.spawn(Acceptor { listener, context, lane, spawner, drains }.run(closing))
            }
            Socket::Unix(socket) => {
                let listener = UnixListener::from_std(socket)?;
                handle.spawn(Acceptor { listener, context, lane, spawner, drains }.run(closing))
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

impl<S: Source, C: Spawner> Engine for Running<S, C> {
    fn workers(&self) -> &[Arc<Worker>] {
        &self.workers
    }

    fn listening(&self) -> Vec<(Address, Vec<Bound>)> {
        let listeners = self.listeners();
        listeners.iter().flatten().map(|open| (open.address.clone(), open.bound.clone())).collect()
    }

    fn listen(&self, mut listener: Listener) -> io::Result<()> {
        if listener.cores.len() != self.lanes.len() {
            return Err(io::Error::other(
                "the listener was bound for another number of workers than the engine has",
            ));
        }
        // From here on the acceptors close what is theirs.
        let sockets = mem::take(&mut listener.cores);
        let (file, drains) = match mem::replace(&mut listener.ownership, Ownership::Inherited) {
            Ownership::Tcp => (None, true),
            Ownership::Unix(file) => (Some(file), true),
            Ownership::Inherited => (None, false),
        };
        let (closing, is_closed) = (watch::Sender::new(false), Arc::new(AtomicBool::new(false)));
        let mut acceptors = Vec::new();
        let options = (drains, listener.address.has_proxy_protocol());
        for (lane, sockets) in self.lanes.iter().zip(sockets) {
            for socket in sockets {
                acceptors.push(self.accept(lane, socket, options, &is_closed, closing.subscribe())?);
            }
        }
        let (address, bound) = (listener.address.clone(), listener.bound.clone());
        let mut listeners = self.listeners();
        let listeners = listeners.as_mut().ok_or_else(|| io::Error::other("the engine is stopping"))?;
        listeners.push(OpenListener { address, bound, file, closing, is_closed, acceptors });
        Ok(())
    }

    fn unlisten<'a>(&'a self, address: &'a Address) -> Wait<'a, bool> {
        Box::pin(async move {
            let Some(listener) = self.take_listener(address) else { return false };
            listener.close().await;
            self.source_changed();
            true
        })
    }

    fn source_changed(&self) {
        self.workers.iter().for_each(|worker| worker.wake_connections());
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
