//! SIGUSR2: replaces this process with a new one, which inherits the listening sockets.
//!
//! The old process accepts connections until the new one is ready, then finishes its requests, so no connection is lost. If the new
//! process ends before the old one, the old one accepts connections again. There are at most two processes: a new process can be replaced
//! only after the old one has ended. The old process forwards signals to the new one, because a service manager may still signal
//! the old process.

mod channel;
mod predecessor;
mod successor;
mod waiter;

use std::num::NonZeroUsize;
use std::pin::pin;
use std::time::{Duration, Instant};
use std::{mem, process};

use rudy_admin::RunningServer;
use rudy_net::engine::{self, Stopped};
use rudy_net::listen::Listener;
use rudy_runtime::clock;
use rudy_service::listen_address::{Address, Endpoint};
use rudy_system::admin::AdminSocket;
use tokio::time::{sleep, timeout};

pub(super) use self::predecessor::{Predecessor, Request, next_request_of};
pub(super) use self::successor::CommandLine;
use self::successor::Successor;
use self::waiter::{Waiter, Watch};
use super::engines::{abort_engines, finish_engines};
use super::exit::{Exit, Failure};
use super::outcome;
use super::server::Server;
use super::service_manager::State;
use super::serving::{Serving, start_engine};
use super::signals::{Action, Stop};

/// The environment variable with the id of the process to replace. If it is set, standard input is the channel to that process.
const PREDECESSOR_VARIABLE: &str = "RUDY_UPGRADE";

// Messages on the channel; some have an argument.
const SOCKET: &str = "socket";
const LISTENER: &str = "listener";
const DATAGRAMS: &str = "datagrams";
const RELAYS: &str = "relays";
const QUIC_SECRET: &str = "quic-secret";
const READS: &str = "reads";
const BEGIN: &str = "begin";
const READY: &str = "ready";
const TAKE_OWNERSHIP: &str = "yours";
const FAILED: &str = "failed";
const RELOAD: &str = "reload";
const REOPEN: &str = "reopen";
const UPGRADE: &str = "upgrade";
const STOP: &str = "stop";
const END: &str = "end";
const STOPPING: &str = "stopping";

/// The minimum lifetime of the old process after the new one is ready, so that it can take over if the new one fails. Idle
/// connections stay open for the same time, because their next request may already be in transit.
const TAKEOVER_PERIOD: Duration = Duration::from_secs(1);

/// The result of starting a new process.
enum Start {
    Ready(Box<Successor>, Vec<Address>),
    Failed(String),
    Stop(Stop),
}

impl Server {
    /// Requests an upgrade, which begins when the replaced process has ended.
    pub(super) fn request_upgrade(&mut self) {
        self.signals.request_upgrade();
        if let Some(predecessor) = self.signals.predecessor() {
            self.serving.context.errors.notice(&format!(
                "SIGUSR2: the upgrade begins when process {} has finished its requests and ended",
                predecessor.pid()
            ));
        }
    }

    /// Replaces this process with a new one. Returns the exit code, or the server if the upgrade fails.
    pub(super) fn upgrade(mut self) -> Result<Self, Exit> {
        self.notify_service_manager(State::Reloading);
        let mut pending = Vec::new();
        let started = match self.serving.engine.share_listeners() {
            Ok(listeners) => self.start_successor(&listeners, &mut pending).map(|start| (start, listeners)),
            Err(error) => Err(format!("cannot share the listening sockets: {error}")),
        };
        match started {
            Ok((Start::Ready(successor, reads), listeners)) => {
                return self.hand_over(*successor, listeners, &reads, &pending);
            }
            Ok((Start::Stop(stop), _)) => return Err(self.stop(stop)),
            Ok((Start::Failed(why), _)) | Err(why) => {
                let outcome = format!("upgrade failed: {why}; this process continues");
                self.serving.context.errors.error(&format!("SIGUSR2: {outcome}"));
                outcome::report(&self.signals, "SIGUSR2", Err(&self.serving.context.errors.masked(&outcome)));
                self.reopen_admin_socket();
            }
        }
        self.notify_service_manager(State::Ready);
        if pending.contains(&Action::Reload) {
            self.reload();
        } else if pending.contains(&Action::ReopenLog) {
            self.reopen_logs();
        }
        Ok(self)
    }

    /// Starts the new process and waits until it is ready. Adds other actions to `pending`.
    fn start_successor(
        &mut self,
        listeners: &[Listener],
        pending: &mut Vec<Action>,
    ) -> Result<Start, String> {
        if self.sandbox.is_some() {
            return Err(
                "the sandbox does not allow starting programs; restart Rudy to run a new binary".to_owned()
            );
        }
        let Self {
            runtime,
            signals,
            serving: Serving { context, config, inherited, engine, .. },
            command_line,
            ..
        } = self;
        runtime.block_on(async {
            let mut successor = Successor::start(command_line)?;
            let pid = successor.pid();
            context.errors.notice(&format!("SIGUSR2: starting process {pid} to replace this one"));
            let start = {
                let ready = successor.wait_until_ready(listeners, inherited, engine.quic_keys());
                let mut ready = pin!(timeout(config.upgrade_timeout.0, ready));
                loop {
                    tokio::select! {
                        ready = &mut ready => break match ready {
                            Ok(Ok(reads)) => Ok(reads),
                            Ok(Err(why)) => Err(Start::Failed(format!("process {pid}: {why}"))),
                            Err(_) => Err(Start::Failed(format!(
                                "process {pid} was not ready after {} s (`upgrade_timeout`)",
                                config.upgrade_timeout.0.as_secs_f32()
                            ))),
                        },
                        action = signals.next() => match action {
                            Action::Stop(stop) => break Err(Start::Stop(stop)),
                            Action::Upgrade => context.errors.notice("SIGUSR2: ignored, an upgrade is in progress"),
                            action if pending.contains(&action) => {}
                            action => pending.push(action),
                        },
                    }
                }
            };
            let start = match start {
                Ok(reads) => return Ok(Start::Ready(successor.into(), reads)),
                Err(start) => start,
            };
            if !successor.has_ended() {
                context.errors.notice(&format!("terminating process {pid}"));
                successor.kill().await;
            }
            Ok(start)
        })
    }

    /// Hands the sockets over to the new process, and finishes the requests of this process. The new process reads the datagrams at the
    /// addresses `reads`.
    fn hand_over(
        mut self,
        successor: Successor,
        listeners: Vec<Listener>,
        reads: &[Address],
        pending: &[Action],
    ) -> Result<Self, Exit> {
        let (began, grace) = (clock::now(), self.serving.config.shutdown_timeout.0);
        self.runtime.block_on(self.serving.engine.hand_over_listeners(reads));
        let admin_socket = self.serving.config.admin_socket.as_ref().map(|socket| socket.0.clone());
        self.serving
            .context
            .release_caches(RunningServer { socket: admin_socket, pid: Some(successor.pid()) });
        successor.transfer_ownership();
        let outcome = format!("process {} has replaced process {}", successor.pid(), process::id());
        self.serving.context.errors.notice(&format!(
            "SIGUSR2: {outcome}; requests in progress here have {} s to finish",
            grace.as_secs_f32()
        ));
        outcome::report(&self.signals, "SIGUSR2", Ok(&outcome));
        self.notify_service_manager(State::Ready);
        for &action in pending {
            if action == Action::ReopenLog {
                self.reopen_logs();
            }
            successor.forward(action);
        }
        let mut watch = Watch::new(successor);
        match self.finish_connections(&mut watch, began + TAKEOVER_PERIOD.min(grace), began + grace) {
            Ok(stopped) => Err(self.end_old_process(watch, stopped)),
            Err(why) => {
                let pid = watch.successor.pid();
                let message = format!(
                    "process {pid} has ended: {why}; process {} accepts connections again",
                    process::id()
                );
                self.serving.context.errors.error(&message);
                self.serving.context.reclaim_caches();
                self.reopen_admin_socket();
                match self.accept_again(listeners) {
                    Ok(()) => Ok(self),
                    Err(failure) => {
                        self.serving.context.errors.error(&failure.summary());
                        let exit = self.end_apps(Exit::CannotRun);
                        Err(self.close(exit, Stopped { aborted: 0 }))
                    }
                }
            }
        }
    }

    /// Finishes the requests in progress by `deadline`, and keeps idle connections open until `idle_deadline`. Returns an error
    /// with the reason if the new process ends.
    fn finish_connections(
        &mut self,
        watch: &mut Watch,
        idle_deadline: Instant,
        deadline: Instant,
    ) -> Result<Stopped, String> {
        let Self { runtime, signals, serving, retired, .. } = self;
        let Serving { engine, context, access_logs, .. } = serving;
        let mut waiter = Waiter { watch, signals, errors: &context.errors, logs: access_logs.as_ref() };
        let remaining = |deadline: Instant| deadline.saturating_duration_since(clock::now());
        runtime.block_on(async {
            // After a stop signal no process takes over, so idle connections may close.
            waiter.run_until(pin!(sleep(remaining(idle_deadline)))).await?;
            let mut stop = pin!(finish_engines(&**engine, retired, remaining(deadline)));
            loop {
                if waiter.watch.both_stop {
                    engine.workers().iter().for_each(|worker| worker.end_streams());
                }
                if waiter.watch.second_stop.is_some() {
                    waiter.watch.successor.request_exit();
                    return Ok(abort_engines(&**engine, retired).await);
                }
                if let Some(stopped) = waiter.run_until(stop.as_mut()).await? {
                    return Ok(stopped);
                }
            }
        })
    }

    /// Ends this process after its last connection has closed. The new process continues, unless both were stopped.
    fn end_old_process(mut self, mut watch: Watch, stopped: Stopped) -> Exit {
        self.end_old_apps(&mut watch);
        let mut exit = watch.second_stop.map_or(Exit::Done, |stop| Exit::Signal(stop.number));
        let successor = &mut watch.successor;
        if watch.both_stop {
            // When this process ends, the service manager kills the remaining processes of the service, so wait for the new one.
            let Self { runtime, signals, .. } = &mut self;
            runtime.block_on(async {
                loop {
                    tokio::select! {
                        () = successor.wait() => break,
                        action = signals.next() => if let Action::Stop(stop) = action {
                            successor.request_exit();
                            exit = Exit::Signal(stop.number);
                        },
                    }
                }
            });
        } else if watch.successor_ended || successor.has_ended() {
            // This process cannot accept connections again. Its exit code makes a service manager restart the server.
            self.serving.context.errors.error(&format!("process {} has ended", successor.pid()));
            exit = Exit::CannotRun;
        } else {
            // The main process changes only now, because until here this process could have taken over.
            self.notify_service_manager(State::MainPid(successor.pid()));
        }
        self.close(exit, stopped)
    }

    /// Stops the app processes, and forwards signals until they have ended.
    fn end_old_apps(&mut self, watch: &mut Watch) {
        let Self { runtime, signals, serving: Serving { context, access_logs, .. }, .. } = self;
        let mut waiter = Waiter { watch, signals, errors: &context.errors, logs: access_logs.as_ref() };
        runtime.block_on(async {
            let apps = context.apps.clone();
            let mut ended = pin!(tokio::task::spawn_blocking(move || apps.stop()));
            while waiter.watch.second_stop.is_none() {
                if let Ok(Some(_)) = waiter.run_until(ended.as_mut()).await {
                    return;
                }
            }
            waiter.watch.successor.request_exit();
            context.apps.kill();
        });
    }

    /// Opens the admin socket again if the process that has failed had taken over its path.
    fn reopen_admin_socket(&mut self) {
        if self.admin.as_ref().is_none_or(AdminSocket::is_in_place) {
            return;
        }
        // The server also works without the socket.
        match self.open_admin_socket(&self.serving.config, None) {
            Ok(admin) => self.admin = admin,
            Err(failure) => self.serving.context.errors.error(&failure.summary()),
        }
    }

    /// Accepts connections again after the new process has ended.
    fn accept_again(&mut self, listeners: Vec<Listener>) -> Result<(), Failure> {
        if self.serving.engine.workers().iter().any(|worker| worker.is_stopping()) {
            // As many workers as before, for which the pools of connections were made.
            let cores = NonZeroUsize::new(self.serving.engine.workers().len());
            let quic_keys = self.serving.engine.quic_keys().cloned();
            let options = engine::Options { cores, quic_keys, ..self.serving.config.engine.for_start() };
            let engine = start_engine(&options, &self.serving.current_app, &self.serving.context)?;
            self.retired.retain(|engine| engine.workers().iter().any(|worker| worker.has_connections()));
            self.retired.push(mem::replace(&mut self.serving.engine, engine));
        }
        let mut from_service_manager = self.serving.config.addresses();
        from_service_manager.retain(|address| matches!(address.endpoint, Endpoint::Inherited { .. }));
        let listeners = listeners.into_iter().chain(self.serving.bind(&from_service_manager)?);
        for listener in listeners {
            if listener.is_listening() {
                self.serving.engine.listen(listener).map_err(Failure::cannot("accept connections"))?;
            } else {
                let message = format!(
                    "stopped listening on {}: the ended process had shut the socket down",
                    listener.address()
                );
                self.serving.context.errors.error(&message);
            }
        }
        self.serving.engine.take_ownership();
        Ok(())
    }

    /// Notifies the process that this one replaces, or else the service manager, that this process is ready.
    pub(super) fn report_ready(&self) {
        match self.signals.predecessor() {
            Some(predecessor) => predecessor.notify_ready(&self.serving.engine.read_for_older()),
            None => self.notify_service_manager(State::Ready),
        }
    }

    /// Takes ownership of the sockets, and closes those that this process does not use.
    pub(super) fn take_ownership(&self) {
        self.serving.engine.take_ownership();
        // The old process had the ports of UDP until now.
        self.serving.serve_http3();
        for listener in self.serving.inherited.take_unused() {
            let address = listener.address().clone();
            // Accept the connections that the kernel has queued first, as a reload does.
            if let Err(error) = self.serving.engine.listen(listener) {
                self.serving
                    .context
                    .errors
                    .error(&format!("cannot accept queued connections on {address}: {error}"));
                continue;
            }
            self.serving.engine.take_ownership();
            self.runtime.block_on(self.serving.engine.stop_listening(&address));
            self.serving.context.errors.notice(&format!("stopped listening on {address}"));
        }
    }
}
