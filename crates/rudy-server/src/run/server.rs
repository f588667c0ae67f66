//! The running server: start, signals, stop.

use std::env;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rudy_log::{ErrorLog, open_to_append};
use rudy_net::engine::{Engine, Stopped};
use rudy_net::listen::{InheritedSockets, Listener};
use rudy_service::listen_address::Endpoint;
use rudy_site_tls::acme::Renewals;
use rudy_socket::raise_descriptor_limit;
use rudy_system::admin::AdminSocket;
use rudy_system::openat2;
use rudy_system::state_dir::state_dir;
use rudy_system::watched_files::INTERVAL;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::check::inaccessible_to;
use super::context::Context;
use super::engines::{abort_engines, stop_engines};
use super::exit::{Exit, Failure};
use super::init::is_below_first;
use super::privileges::{RUNS_AS_ROOT, is_root_by_default};
use super::sandbox::Sandbox;
use super::service_manager::{self, State};
use super::serving::Serving;
use super::signals::{Action, Signals, Stop};
use super::upgrade::{CommandLine, Predecessor};
use super::{Options, announce, privileges, quic_keys, sandbox};
use crate::config::Config;

/// A running server.
pub(super) struct Server {
    pub(super) options: Options,
    pub(super) serving: Serving,
    /// The sandbox, if enabled.
    pub(super) sandbox: Option<Sandbox>,
    /// Engines that no longer accept connections and finish their own ones, each until its deadline.
    pub(super) retired: Vec<Box<dyn Engine>>,
    pub(super) signals: Signals,
    pub(super) command_line: CommandLine,
    pub(super) admin: Option<AdminSocket>,
    /// The tasks that renew certificates.
    pub(super) renewals: Renewals,
    pub(super) runtime: Runtime,
    /// The task that reads changed files again. It may hang with its file system.
    reading: Option<JoinHandle<()>>,
    /// The signal that stopped a reload, and stops the server next.
    pub(super) stopped: Option<Stop>,
    /// Whether stderr was a terminal at the start.
    has_terminal: bool,
}

impl Server {
    /// Starts the server: catches signals, does what needs root, builds the app, and accepts connections last.
    pub(super) fn start(options: Options) -> Result<Self, Failure> {
        let (runtime, signals) = event_loop()?;
        let predecessor = signals.predecessor().cloned();
        Self::start_with(options, runtime, signals).inspect_err(|failure| {
            if let Some(predecessor) = predecessor {
                predecessor.failed(failure);
            }
        })
    }

    fn start_with(options: Options, runtime: Runtime, signals: Signals) -> Result<Self, Failure> {
        let command_line =
            CommandLine::current().map_err(Failure::cannot("find the path of the running program"))?;
        let mut inherited = take_inherited()?;
        if let Some(predecessor) = signals.predecessor() {
            runtime.block_on(predecessor.receive_sockets(&mut inherited))?;
        }
        let (options, inherited) = (options.resolve_source()?, Arc::new(inherited));
        let config = options.config(&inherited)?;
        let placeholders = config.placeholders().clone();
        Self::start_configured(config, options, inherited, command_line, runtime, signals)
            .map_err(|failure| failure.masked(&placeholders))
    }

    fn start_configured(
        config: Config,
        options: Options,
        inherited: Arc<InheritedSockets>,
        command_line: CommandLine,
        runtime: Runtime,
        signals: Signals,
    ) -> Result<Self, Failure> {
        let descriptors = raise_descriptor_limit();
        let mut options_of_engine = config.engine.for_start().with_known_cores();
        let workers = options_of_engine.worker_count();
        // Binding may need root, and no other thread runs yet: see `privileges`.
        let bind = |address| Listener::bind_closed(address, workers, &inherited).map_err(Failure::Listen);
        let listeners = config.addresses().iter().map(bind).collect::<Result<Vec<_>, _>>()?;
        let key_log = options.tls_key_log.then(open_key_log).transpose()?;
        privileges::drop_root(&config)?;
        let sandbox = config.sandbox.then(|| Sandbox::enter(&config)).transpose()?;
        let folder = state_dir();
        let new_keys = || quic_keys::for_start(&config, folder.as_deref());
        options_of_engine.quic_keys = inherited.quic_keys.clone().or_else(new_keys);
        let context = Context::new(&config.error_log, workers, folder)
            .map_err(|error| Failure::Cannot(error.to_string()))?;
        report_panics(&context.errors);
        if let Some((path, file)) = key_log {
            context.write_key_log(&path, file);
        }
        if let Err(error) = descriptors {
            context.errors.error(&format!("cannot raise the limit of open descriptors: {error}"));
        }
        let apps = context.apps.clone();
        let serving =
            Serving::start(config, context, inherited, &listeners, &options_of_engine, Context::serve_admin)?;
        let has_terminal = io::stderr().is_terminal();
        let mut server = Self {
            options,
            serving,
            sandbox,
            retired: Vec::new(),
            signals,
            command_line,
            admin: None,
            renewals: Renewals::default(),
            runtime,
            reading: None,
            stopped: None,
            has_terminal,
        };
        // Wait until the started apps have ended, so that their socket folders are removed.
        server.open(listeners).inspect_err(|_| apps.stop())?;
        Ok(server)
    }

    /// Accepts connections and prints the addresses.
    fn open(&mut self, listeners: Vec<Listener>) -> Result<(), Failure> {
        let replaces = self.signals.predecessor().map(Predecessor::pid);
        self.admin = self.open_admin_socket(&self.serving.config, replaces)?;
        for listener in listeners {
            self.serving.report_http3(&listener);
            self.serving.engine.listen(listener).map_err(Failure::cannot("accept connections"))?;
        }
        let listening = self.serving.engine.listeners();
        self.log_notices();
        if self.sandbox.as_ref().is_some_and(Sandbox::is_partial) {
            self.serving.context.errors.notice(sandbox::PARTIAL);
        }
        if let Some(notice) = openat2::notice() {
            self.serving.context.errors.notice(&notice);
        }
        if is_root_by_default(&self.serving.config) {
            self.serving.context.errors.notice(RUNS_AS_ROOT);
        }
        if !self.serving.inherited.is_empty()
            && !self
                .serving
                .config
                .addresses()
                .iter()
                .any(|a| matches!(a.endpoint, Endpoint::Inherited { .. }))
        {
            let unused =
                "sockets passed by the service manager are not used: no `listen` address is `systemd`";
            self.serving.context.errors.notice(unused);
        }
        // Written at once, so that no line of the log is in the middle of another. A failure to print is not a reason to stop.
        let mut text = Vec::new();
        let _ = announce::announce(&mut text, &self.options, &self.serving.config, &listening)
            .and_then(|()| io::stderr().write_all(&text));
        self.report_ready();
        self.serving.context.renew(&mut self.renewals, &self.serving.config);
        Ok(())
    }

    /// Opens the admin socket. `replaces` is the process that this one replaces, and from which it takes over the socket.
    pub(super) fn open_admin_socket(
        &self,
        config: &Config,
        replaces: Option<u32>,
    ) -> Result<Option<AdminSocket>, Failure> {
        let (path, responder) =
            (config.admin_socket.as_deref(), self.serving.context.responder(&self.serving.current_app));
        let what = format!("open the admin socket {}", path.unwrap_or(Path::new("")).display());
        let socket =
            AdminSocket::open(path, replaces, &self.runtime, responder).map_err(Failure::cannot(&what))?;
        if socket.is_some() {
            self.serving.context.activity.turn_on();
        }
        Ok(socket)
    }

    /// Handles signals until one stops the server.
    pub(super) fn run(mut self) -> Exit {
        loop {
            if let Some(stop) = self.stopped.take() {
                return self.stop(stop);
            }
            let watches = self.serving.context.watches_files(&self.serving.config);
            let action = self.runtime.block_on(async {
                tokio::select! {
                    action = self.signals.next() => Some(action),
                    never = self.serving.context.watch_files(&mut self.reading), if watches => match never {},
                    _ = self.serving.engine.ended() => None,
                }
            });
            let Some(action) = action else {
                self.serving.context.errors.bug("all worker threads have ended");
                self.close_logs();
                // Do not wait for a file system that hangs.
                self.runtime.shutdown_background();
                return Exit::CannotRun;
            };
            match action {
                Action::Stop(stop) => return self.stop(stop),
                // The terminal was closed, so the server could no longer be stopped from it.
                Action::Reload if self.has_terminal && !io::stderr().is_terminal() => {
                    return self.stop(Stop { name: "SIGHUP", number: 1 });
                }
                Action::Reload => self.reload(),
                Action::TakeOwnership => self.take_ownership(),
                Action::Upgrade => self.request_upgrade(),
                Action::ReopenLog => {
                    self.reopen_logs();
                    self.serving.context.errors.notice("SIGUSR1: the access log was reopened");
                }
            }
            if self.signals.take_upgrade() {
                match self.upgrade() {
                    Ok(server) => self = server,
                    Err(exit) => return exit,
                }
            }
        }
    }

    pub(super) fn log_notices(&self) {
        let lost = self.serving.config.user.as_ref().map(|user| inaccessible_to(&self.serving.config, user));
        self.serving
            .config
            .notices()
            .iter()
            .chain(lost.iter().flatten())
            .for_each(|notice| self.serving.context.errors.notice(notice));
        self.serving.context.log_notices();
    }

    /// Stops accepting connections, finishes requests in progress, and stops the app processes, until `shutdown_timeout` or a
    /// second signal.
    pub(super) fn stop(mut self, first: Stop) -> Exit {
        self.notify_service_manager(State::Stopping);
        if let Some(predecessor) = self.signals.predecessor() {
            predecessor.stopping();
        }
        let grace = self.serving.config.shutdown_timeout.0;
        self.serving.context.errors.notice(&format!(
            "{}: stopping; requests in progress have {} s to finish, a second signal stops at once",
            first.name,
            grace.as_secs_f32()
        ));
        let (exit, stopped) = self.runtime.block_on(async {
            tokio::select! {
                stopped = stop_engines(&*self.serving.engine, &self.retired, grace) => (Exit::Done, stopped),
                second = second_stop(&mut self.signals, &self.serving.context.errors) => {
                    (Exit::Signal(second.number), abort_engines(&*self.serving.engine, &self.retired).await)
                }
            }
        });
        let exit = self.end_apps(exit);
        self.close(exit, stopped)
    }

    /// Stops the app processes, after their requests have finished or were aborted.
    pub(super) fn end_apps(&mut self, exit: Exit) -> Exit {
        if matches!(exit, Exit::Signal(_)) {
            self.serving.context.apps.kill();
            return exit;
        }
        match self.stop_apps() {
            Exit::Done => exit,
            by_signal => by_signal,
        }
    }

    /// Logs the result, closes the logs and returns the exit code.
    pub(super) fn close(self, exit: Exit, stopped: Stopped) -> Exit {
        match stopped.aborted {
            0 => self.serving.context.errors.notice("stopped"),
            1 => self.serving.context.errors.notice("stopped; 1 connection was aborted"),
            cut => self.serving.context.errors.notice(&format!("stopped; {cut} connections were aborted")),
        }
        self.close_logs();
        // Do not wait for a process that does not end even after SIGKILL, or for a file system that hangs.
        self.runtime.shutdown_background();
        exit
    }

    /// Stops the app processes and waits until they have ended. A second signal kills them.
    fn stop_apps(&mut self) -> Exit {
        let apps = self.serving.context.apps.clone();
        let stopping = self.runtime.spawn_blocking(move || apps.stop());
        let second = self.runtime.block_on(async {
            tokio::select! {
                // An error means a panic, which is logged.
                _ = stopping => None,
                second = second_stop(&mut self.signals, &self.serving.context.errors) => Some(second),
            }
        });
        second.map_or(Exit::Done, |second| {
            self.serving.context.apps.kill();
            Exit::Signal(second.number)
        })
    }

    /// Sends the spans that wait, and flushes the logs. The error log comes last, because the errors of the others go there.
    fn close_logs(&self) {
        self.serving.context.close_exporters(self.serving.config.shutdown_timeout.0);
        if let Some(logs) = &self.serving.access_logs {
            logs.close();
        }
        self.serving.context.errors.close();
    }

    pub(super) fn notify_service_manager(&self, state: State) {
        if matches!(state, State::MainPid(_)) && is_below_first() {
            return;
        }
        if let Err(error) = service_manager::notify(state) {
            self.serving.context.errors.recurring_error(
                "cannot notify the service manager",
                &format!("cannot notify the service manager (NOTIFY_SOCKET): {error}"),
            );
        }
    }
}

/// Creates the event loop of the main thread and its signal handlers.
fn event_loop() -> Result<(Runtime, Signals), Failure> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    // The pool wakes its idle threads in turn: the job that looks for changed files would keep alive all threads of a burst of reports.
    builder.enable_all().thread_keep_alive(INTERVAL / 2);
    let runtime = builder.build();
    let runtime = runtime.map_err(Failure::cannot("start the event loop"))?;
    let entered = runtime.enter();
    let mut signals = Signals::catch().map_err(Failure::cannot("catch signals"))?;
    signals.set_predecessor(Predecessor::find()?);
    drop(entered);
    Ok((runtime, signals))
}

/// Waits for another signal to stop, and ignores other signals.
async fn second_stop(signals: &mut Signals, errors: &ErrorLog) -> Stop {
    loop {
        match signals.next().await {
            Action::Stop(stop) => return stop,
            Action::Reload => errors.notice("SIGHUP: ignored, the server is stopping"),
            Action::ReopenLog => errors.notice("SIGUSR1: ignored, the server is stopping"),
            Action::Upgrade => errors.notice("SIGUSR2: ignored, the server is stopping"),
            Action::TakeOwnership => {}
        }
    }
}

/// Opens the file that `SSLKEYLOGFILE` names, for this user only.
fn open_key_log() -> Result<(PathBuf, File), Failure> {
    let Some(path) = env::var_os("SSLKEYLOGFILE").map(PathBuf::from) else {
        let why = "write the secrets of TLS sessions (--tls-key-log): the variable SSLKEYLOGFILE is not set";
        return Err(Failure::Cannot(why.to_owned()));
    };
    let file = open_to_append(&path, 0o600);
    let what = format!("open {} (--tls-key-log)", path.display());
    file.map(|file| (path, file)).map_err(Failure::cannot(&what))
}

fn take_inherited() -> Result<InheritedSockets, Failure> {
    let [pid, count, names] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"].map(|name| env::var(name).ok());
    InheritedSockets::from_env(pid.as_deref(), count.as_deref(), names.as_deref()).map_err(Failure::Listen)
}

/// Logs each panic on one line, because a panic ends only its connection.
fn report_panics(errors: &ErrorLog) {
    let errors = errors.clone();
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map_or_else(|| "an unknown location".to_owned(), ToString::to_string);
        let message = panic.payload_as_str().unwrap_or("no message");
        errors.bug(&format!("panicked at {place}: {message}"));
        // A panic of the main thread ends the process.
        if std::thread::current().name() == Some("main") {
            errors.close();
        }
    }));
}
