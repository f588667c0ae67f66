//! A running engine: its workers, its listeners, and the commands to the workers.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{io, mem};

use parking_lot::Mutex;
use rudy_quic::{Keys, Place};
use rudy_runtime::{clock, is_planted, spawn_on, watch};
use rudy_service::listen_address::{Address, Endpoint, Http3Offer};
use rudy_socket::file::SocketFile;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::accept::Acceptor;
use super::accept_quic::QuicAcceptor;
use super::spawner::Spawner;
use super::worker_runner::{Command, EngineShared, WorkerRunner};
use super::{BoxFuture, Engine, Reporter, ServiceSource, Stopped};
use crate::Worker;
use crate::driver::{ConnectionContext, ListenerState};
use crate::listen::{BoundAddress, DatagramSockets, Listener, Ownership, Socket, bind_datagrams};
use crate::quic::{Group, Relay};

/// How long before the end of its grace period [`Engine::finish`] ends live streams, so that their clients see a complete end.
const STREAMS_GRACE: Duration = Duration::from_secs(1);

/// Maximum grace period. A longer one is unlimited in practice, and could overflow the clock.
const GRACE_PERIOD_MAX: Duration = Duration::from_hours(24 * 365);

/// An engine whose connections `C` spawns.
pub(super) struct RunningEngine<S, C> {
    source: Arc<S>,
    spawner: C,
    shared: Arc<EngineShared>,
    workers: Vec<Arc<Worker>>,
    runners: Vec<(Arc<WorkerRunner>, Handle)>,
    /// `None` once the engine is stopping.
    listeners: Mutex<Option<Vec<OpenListener>>>,
    command: watch::Sender<Command>,
}

/// A worker to start, and the receiver of its commands.
pub(super) type NewRunner = (Arc<WorkerRunner>, watch::Receiver<Command>);

impl<S: ServiceSource, C: Spawner> RunningEngine<S, C> {
    /// Creates an engine with `worker_count` workers. `start` starts all of them and returns their runtimes. If it
    /// fails, the workers that have started end, because the sender of their commands is dropped.
    pub(super) fn start(
        worker_count: usize,
        spawner: C,
        source: Arc<S>,
        reporter: Arc<dyn Reporter>,
        start: impl FnOnce(Vec<NewRunner>) -> io::Result<Vec<Handle>>,
    ) -> io::Result<Self> {
        let shared = Arc::new(EngineShared::new(reporter, worker_count)?);
        let command = watch::Sender::new(Command::Serve);
        let runner = |worker: &Arc<Worker>| Arc::new(WorkerRunner::new(worker.clone(), shared.clone()));
        let runners: Vec<_> = shared.workers.iter().map(runner).collect();
        let new_runners = runners.iter().map(|runner| (runner.clone(), command.subscribe())).collect();
        let handles = start(new_runners)?;
        let workers = shared.workers.clone();
        let runners = runners.into_iter().zip(handles).collect();
        let listeners = Mutex::new(Some(Vec::new()));
        Ok(Self { source, spawner, shared, workers, runners, listeners, command })
    }
}

impl<S: ServiceSource, C: Spawner> RunningEngine<S, C> {
    /// Stops accepting, ends live streams at a time, and aborts what is left at another.
    fn drain(&self, streams_until: Instant, until: Instant) -> BoxFuture<'_, Stopped> {
        Box::pin(async move {
            let mut listeners = self.listeners.lock().take().unwrap_or_default();
            for listener in &mut listeners {
                listener.begin_close();
            }
            for listener in listeners {
                listener.close().await;
            }
            self.command.send_if_modified(|command| {
                let serving = *command == Command::Serve;
                if serving {
                    *command = Command::Drain { streams_until, until };
                }
                serving
            });
            self.shared.ended().await
        })
    }
}

/// A listener from which the workers accept.
struct OpenListener {
    address: Address,
    bound: Vec<BoundAddress>,
    /// Duplicates of the sockets, to share with another process.
    sockets: Vec<Socket>,
    /// Removes the socket file on drop.
    file: Option<SocketFile>,
    /// Whether this process closes the sockets for good. `false` for sockets of a service manager, and for
    /// sockets shared with another process.
    owns_sockets: Arc<AtomicBool>,
    closing: watch::Sender<bool>,
    /// The state of the listener, which its connections read.
    state: Arc<ListenerState>,
    acceptors: Vec<JoinHandle<()>>,
    /// Its HTTP/3.
    http3: Option<OpenHttp3>,
}

/// The HTTP/3 of a listener.
struct OpenHttp3 {
    group: Arc<Group>,
    /// The number of this process.
    generation: u8,
    closing: watch::Sender<bool>,
    state: Arc<ListenerState>,
    acceptors: Vec<JoinHandle<()>>,
}

impl OpenHttp3 {
    /// Accepts no further connections, or does so again. Those that are open learn of the end, and keep their sockets as long as they are.
    fn set_closing(&self, is_closing: bool) {
        self.state.is_closed.store(is_closing, Ordering::Release);
        self.closing.send_replace(is_closing);
    }

    /// Whether the sockets are open.
    fn is_open(&self) -> bool {
        !self.acceptors.iter().any(JoinHandle::is_finished)
    }
}

impl OpenListener {
    /// Stops accepting new connections; queued ones are still accepted.
    fn begin_close(&mut self) {
        // Removes the file first, because a client could still connect through it.
        drop(self.file.take());
        self.closing.send_replace(true);
        if let Some(http3) = &self.http3 {
            http3.set_closing(true);
        }
    }

    /// Makes this process the only owner of the sockets and the file.
    fn take_ownership(&mut self) {
        if self.owns_sockets.load(Ordering::Acquire)
            || matches!(self.address.endpoint, Endpoint::Inherited { .. })
        {
            return;
        }
        if let Endpoint::Unix { path, mode } = &self.address.endpoint {
            // If the file has been removed, there is nothing to adopt.
            self.file = SocketFile::adopt(path, *mode).ok();
        }
        self.owns_sockets.store(true, Ordering::Release);
    }

    /// Duplicates the listener for another process, without the sockets that no longer listen.
    fn duplicate(&self) -> io::Result<Listener> {
        let sockets = self.sockets.iter().filter(|socket| socket.is_listening());
        let sockets = sockets.map(Socket::try_clone).collect::<io::Result<_>>()?;
        let (address, bound) = (self.address.clone(), self.bound.clone());
        let mut listener = Listener::new(address, bound, sockets, Ownership::Shared);
        if let Some(http3) = self.http3.as_ref().filter(|http3| http3.is_open() && self.address.http3) {
            listener.datagrams = http3.group.share(http3.generation)?.unwrap_or_default();
        }
        Ok(listener)
    }

    /// Closes the listener. Ready when the sockets are closed.
    async fn close(mut self) {
        self.begin_close();
        self.wait_for_acceptors().await;
        self.state.is_closed.store(true, Ordering::Release);
    }

    /// Leaves the sockets and the file to the process that shares them, which also reads datagrams for this one if `is_read_elsewhere`.
    /// Ready when all acceptors have stopped.
    async fn hand_over(mut self, is_read_elsewhere: bool) {
        let is_kept = is_planted("a listener that an upgrade closes");
        self.owns_sockets.store(is_kept, Ordering::Release);
        if let Some(file) = self.file.take() {
            file.persist();
        }
        self.begin_close();
        if let Some(http3) = self.http3.as_ref().filter(|_| is_read_elsewhere) {
            http3.group.stop_reading();
        }
        self.wait_for_acceptors().await;
        self.state.is_handed_over.store(true, Ordering::Release);
    }

    async fn wait_for_acceptors(&mut self) {
        for acceptor in self.acceptors.drain(..) {
            // Fails only if the runtime ended first, which closes the socket, too.
            let _ = acceptor.await;
        }
    }
}

impl<S: ServiceSource, C: Spawner> RunningEngine<S, C> {
    /// Spawns a task that accepts from a socket until `closing` becomes true.
    fn accept(
        &self,
        (runner, handle): &(Arc<WorkerRunner>, Handle),
        socket: Socket,
        (owns_sockets, address): (&Arc<AtomicBool>, &Address),
        state: &Arc<ListenerState>,
        closing: watch::Receiver<bool>,
    ) -> io::Result<JoinHandle<()>> {
        // Registers the socket with the poller of that runtime.
        let _entered = handle.enter();
        let context = self.context(runner, address, state);
        let (runner, spawner, owns_sockets) = (runner.clone(), self.spawner.clone(), owns_sockets.clone());
        macro_rules! accept {
            ($listener:expr) => {
                Acceptor { listener: $listener, context, runner, spawner, owns_socket: owns_sockets }
                    .run(closing)
            };
        }
        Ok(match socket {
            Socket::Tcp(socket) => {
                let listener = TcpListener::from_std(socket)?;
                handle.spawn(accept!(listener))
            }
            Socket::Unix(socket) => {
                let listener = UnixListener::from_std(socket)?;
                handle.spawn(accept!(listener))
            }
            Socket::Other(_, listener) => spawn_on(handle, accept!(listener)),
        })
    }

    /// Serves HTTP/3 at these sockets, each at a worker. `None` without sockets, and if the engine has no HTTP/3.
    fn start_http3(&self, datagrams: DatagramSockets, address: &Address) -> io::Result<Option<OpenHttp3>> {
        let DatagramSockets { sockets, relays, generation } = datagrams;
        let Some(keys) = self.spawner.quic_keys().filter(|_| !sockets.is_empty()) else { return Ok(None) };
        let closing = watch::Sender::new(false);
        let state = Arc::<ListenerState>::default();
        let (group, mut endpoints, mut starting) = (Arc::<Group>::default(), Vec::new(), Vec::new());
        for ((number, socket), (runner, handle)) in
            (0..=u8::MAX).zip(sockets).zip(self.runners.iter().cycle())
        {
            let _entered = handle.enter();
            let context = self.context(runner, address, &state);
            let keys = (Place { generation, worker: number }, keys.clone());
            let acceptor = QuicAcceptor::new(socket, keys, group.clone(), context, runner.clone())?;
            endpoints.push(acceptor.endpoint());
            starting.push((handle, acceptor));
        }
        group.set(&endpoints);
        self.replace_older(&group, relays, generation)?;
        let acceptors = starting
            .into_iter()
            .map(|(handle, acceptor)| spawn_on(handle, acceptor.run(closing.subscribe())))
            .collect();
        address.offer.set(Http3Offer::New);
        Ok(Some(OpenHttp3 { group, generation, closing, state, acceptors }))
    }

    /// Sets the process that this one replaces, if there is one: each of its ways is read by the worker of an endpoint.
    fn replace_older(&self, group: &Group, relays: Vec<OwnedFd>, generation: u8) -> io::Result<()> {
        if relays.is_empty() {
            return Ok(());
        }
        let relay = |(end, (_, handle)): (OwnedFd, &(_, Handle))| {
            let _entered = handle.enter();
            Relay::new(end)
        };
        let relays =
            relays.into_iter().zip(self.runners.iter().cycle()).map(relay).collect::<io::Result<_>>()?;
        group.replace(generation.wrapping_sub(1), relays);
        Ok(())
    }

    fn context(
        &self,
        runner: &WorkerRunner,
        address: &Address,
        state: &Arc<ListenerState>,
    ) -> Arc<ConnectionContext<S>> {
        Arc::new(ConnectionContext {
            worker: runner.worker.clone(),
            source: self.source.clone(),
            listener: state.clone(),
            address: Arc::new(address.clone()),
        })
    }

    fn take_listener(&self, address: &Address) -> Option<OpenListener> {
        let mut listeners = self.listeners.lock();
        let listeners = listeners.as_mut()?;
        let index = listeners.iter().position(|listener| listener.address == *address)?;
        Some(listeners.swap_remove(index))
    }
}

impl<S: ServiceSource, C: Spawner> Engine for RunningEngine<S, C> {
    fn workers(&self) -> &[Arc<Worker>] {
        &self.workers
    }

    fn quic_keys(&self) -> Option<&Keys> {
        self.spawner.quic_keys()
    }

    fn listeners(&self) -> Vec<(Address, Vec<BoundAddress>)> {
        let listeners = self.listeners.lock();
        listeners.iter().flatten().map(|open| (open.address.clone(), open.bound.clone())).collect()
    }

    fn listen(&self, mut listener: Listener) -> io::Result<()> {
        let for_workers = listener.for_workers(self.runners.len())?;
        // From here on the acceptors close the sockets that this process owns.
        let (owns_sockets, file) = match mem::replace(&mut listener.ownership, Ownership::Inherited) {
            Ownership::Tcp => (true, None),
            Ownership::Unix(file) => (true, Some(file)),
            Ownership::Inherited | Ownership::Shared => (false, None),
        };
        let owns_sockets = Arc::new(AtomicBool::new(owns_sockets));
        let (closing, state) = (watch::Sender::new(false), Arc::<ListenerState>::default());
        let mut acceptors = Vec::new();
        for (runner, sockets) in self.runners.iter().zip(for_workers) {
            for socket in sockets {
                let options = (&owns_sockets, &listener.address);
                acceptors.push(self.accept(runner, socket, options, &state, closing.subscribe())?);
            }
        }
        let http3 = self.start_http3(mem::take(&mut listener.datagrams), &listener.address)?;
        let sockets = mem::take(&mut listener.sockets);
        let (address, bound) = (listener.address.clone(), listener.bound.clone());
        let mut listeners = self.listeners.lock();
        let listeners = listeners.as_mut().ok_or_else(|| io::Error::other("the engine is stopping"))?;
        listeners.push(OpenListener {
            address,
            bound,
            sockets,
            file,
            owns_sockets,
            closing,
            state,
            acceptors,
            http3,
        });
        Ok(())
    }

    fn serve_http3(&self, address: &Address) -> io::Result<()> {
        let mut listeners = self.listeners.lock();
        let open = listeners.iter_mut().flatten().find(|open| open.address == *address);
        let has_it = |open: &OpenListener| open.http3.as_ref().is_some_and(OpenHttp3::is_open);
        let is_right =
            |open: &OpenListener| open.address.http3 == address.http3 && (has_it(open) || !address.http3);
        let Some(open) = open.filter(|open| !is_right(open)) else { return Ok(()) };
        if let Some(http3) = open.http3.as_ref().filter(|http3| http3.is_open()) {
            http3.set_closing(!address.http3);
            open.address.offer.set(if address.http3 { Http3Offer::New } else { Http3Offer::Withdrawn });
        } else if address.http3 && self.spawner.quic_keys().is_some() {
            let datagrams = bind_datagrams(address, &open.bound, self.runners.len())?;
            open.http3 = self.start_http3(datagrams, &open.address)?;
        }
        open.address.http3 = address.http3;
        drop(listeners);
        // Its connections learn of the end.
        self.source_changed();
        Ok(())
    }

    fn stop_listening<'a>(&'a self, address: &'a Address) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let Some(listener) = self.take_listener(address) else { return false };
            listener.close().await;
            self.source_changed();
            true
        })
    }

    fn share_listeners(&self) -> io::Result<Vec<Listener>> {
        let listeners = self.listeners.lock();
        let own = listeners
            .iter()
            .flatten()
            .filter(|open| !matches!(open.address.endpoint, Endpoint::Inherited { .. }));
        let shared: io::Result<Vec<_>> = own.map(OpenListener::duplicate).collect();
        shared
            .map(|listeners| listeners.into_iter().filter(|listener| !listener.sockets.is_empty()).collect())
    }

    fn take_ownership(&self) {
        self.listeners.lock().iter_mut().flatten().for_each(OpenListener::take_ownership);
    }

    fn read_for_older(&self) -> Vec<Address> {
        let listeners = self.listeners.lock();
        let reads =
            |open: &&OpenListener| open.http3.as_ref().is_some_and(|http3| http3.group.reads_for_older());
        listeners.iter().flatten().filter(reads).map(|open| open.address.clone()).collect()
    }

    fn hand_over_listeners<'a>(&'a self, read_elsewhere: &'a [Address]) -> BoxFuture<'a, ()> {
        let listeners = self.listeners.lock().as_mut().map(mem::take).unwrap_or_default();
        Box::pin(async move {
            for listener in listeners {
                let is_read_elsewhere = read_elsewhere.contains(&listener.address);
                listener.hand_over(is_read_elsewhere).await;
            }
        })
    }

    fn source_changed(&self) {
        self.workers.iter().for_each(|worker| worker.wake_connections());
    }

    fn stop(&self, grace: Duration) -> BoxFuture<'_, Stopped> {
        let now = clock::now();
        self.drain(now, now + grace.min(GRACE_PERIOD_MAX))
    }

    fn finish(&self, grace: Duration) -> BoxFuture<'_, Stopped> {
        let until = clock::now() + grace.min(GRACE_PERIOD_MAX);
        let streams_until = until.checked_sub(STREAMS_GRACE).unwrap_or(until);
        self.drain(streams_until, until)
    }

    fn stop_now(&self) {
        self.command.send_replace(Command::Stop);
    }

    fn ended(&self) -> BoxFuture<'_, Stopped> {
        Box::pin(self.shared.ended())
    }
}
