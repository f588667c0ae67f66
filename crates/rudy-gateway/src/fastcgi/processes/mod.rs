//! Manages the processes of an app that Rudy starts.
//!
//! Each process has its own listening socket, which exists before the process. So a connection can be opened
//! at once, and reaches a known process. The socket outlives a process that ends by itself, because requests may
//! wait in its backlog: the next process accepts them. It is closed when a process is stopped, which has no
//! request then, and when no process is started for long. One task per app
//! supervises its processes, on a separate thread. The kernel sends the parent-death signal when the *thread*
//! that started a process ends, and a program on a hanging disk delays no other app. Pure code
//! [decides](decide) what to do next.
//!
//! The processes end with the server. A stop sends them SIGTERM, and after a timeout SIGKILL to their process
//! groups. If the server is killed, the kernel sends SIGTERM to each process; their children may continue.
//! Under systemd, `KillMode=mixed` lets the server stop them in order and kills the rest. A process that has
//! left its group (`setsid`) gets no signal.

#![cfg_attr(
    not(test),
    expect(clippy::disallowed_methods, reason = "real processes are outside of a simulation")
)]

mod backoff;
mod check;
mod decide;
mod folder;
mod process;
mod spawn;
mod supervisor;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use rudy_log::ErrorLog;
use rudy_runtime::clock;
use rudy_system::admin::{AdminSocket, Responder};
use rudy_system::user::User;
use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, capabilities};
use tokio::runtime;
use tokio::sync::Notify;

pub use self::check::needs_root_to_start_as;
pub(crate) use self::check::problems;
use self::decide::ProcessSet;
pub(crate) use self::decide::Rules;
use self::folder::SocketFolder;
use self::supervisor::{EndGuard, Supervisor};
use super::output::AppOutput;

/// The command to start, and the number of processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProcessOptions {
    /// The name of the app in the log.
    pub name: String,
    /// The program and its arguments, without a shell. A program without a slash is searched in `PATH`.
    pub command: Vec<String>,
    /// The number of processes and their timeouts.
    pub rules: Rules,
    /// Additional environment variables. The app also gets Rudy's `PATH`, `LANG`, `LC_ALL`, `TZ` and
    /// `TMPDIR`, and the `HOME`, `USER` and `LOGNAME` of its user, but no other variables of Rudy.
    pub environment: BTreeMap<String, String>,
    /// The user of the processes, with all groups of that user. Changing the user requires root.
    pub user: Option<String>,
    /// The working folder; that of Rudy if absent.
    pub folder: Option<PathBuf>,
}

/// The environment variable with the path of the socket for purges.
const PURGE_SOCKET: &str = "RUDY_PURGE_SOCKET";

/// The number of a process, counted from the first start. It identifies the process to its pool.
pub(crate) type MemberId = u64;

/// An event of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// The process was started and accepts connections at this socket.
    Up(MemberId, PathBuf),
    /// The process must get no more requests. When none is in progress, the pool must call
    /// [`Processes::drained`], maybe at once. The process ends then, or after [`Rules::retire_timeout`].
    Retire(MemberId),
    /// The process has ended, for this reason, and the connections that it has accepted are dead. If requests
    /// wait, the pool must call [`Processes::grow`].
    Down(MemberId, String),
    /// No process runs, for this reason, and none will be started for a while.
    Unavailable(String),
}

/// The pool that connects to the processes. The supervisor task calls all methods; they must not block.
pub(crate) trait MemberPool: Send + Sync {
    /// Handles an event.
    fn handle(&self, event: Event);
    /// Returns the number of requests that a process has served.
    fn requests(&self, id: MemberId) -> u64;
    /// Returns since when a process has had no request in progress; `None` if it has one.
    fn idle_since(&self, id: MemberId) -> Option<Instant>;
}

/// The processes of an app. Dropping this stops them as [`Processes::stop`] does, but without waiting.
#[derive(Debug)]
pub(crate) struct Processes(Arc<Shared>);

/// The state that the supervisor shares with [`Processes`].
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Wakes the supervisor after a change of the set.
    changed: Notify,
    all_ended: Condvar,
}

#[derive(Debug)]
struct State {
    set: ProcessSet,
    failure: Option<Failure>,
    /// Whether all processes have ended and none will be started.
    has_ended: bool,
}

/// Why no process runs.
#[derive(Debug)]
struct Failure {
    why: String,
    /// The time of the next attempt.
    next_start: Instant,
}

impl Processes {
    /// Starts the supervisor, which starts the first processes. The output of the processes goes to `output`; `purges` responds
    /// to their purges of the cache.
    /// A command that cannot be run is no error here: [`problems`] rejects a configuration with a missing
    /// command, so the command was removed since, for instance during an upgrade. The log and
    /// [`Self::failure`] report it.
    ///
    /// # Errors
    ///
    /// The user does not exist, Rudy may not become it, or the system has no folder for the sockets, no
    /// descriptor or no thread.
    pub(crate) fn start(
        mut options: ProcessOptions,
        log: &ErrorLog,
        output: Arc<AppOutput>,
        members: Weak<dyn MemberPool>,
        purges: Option<Responder>,
    ) -> io::Result<Self> {
        let user = options.user.as_deref().map(user_to_switch_to).transpose()?.flatten();
        if options.user.is_none() && geteuid().is_root() {
            log.notice(&format!("{}: its processes run as root; set `processes.user`", options.name));
        }
        let state = State { set: ProcessSet::new(options.rules.clone()), failure: None, has_ended: false };
        let shared =
            Arc::new(Shared { state: state.into(), changed: Notify::new(), all_ended: Condvar::new() });
        let thread_name = format!("rudy-app-{}", options.name.replace('\0', ""));
        let runtime = runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let sockets = SocketFolder::make(user.as_ref())?;
        let open = |purges| open_purge_socket(&sockets, user.as_ref(), &runtime, purges);
        let purge_socket = purges.map(open).transpose().unwrap_or_else(|error| {
            // An app also works without the socket.
            log.error(&format!("{}: cannot open a socket for purges: {error}", options.name));
            None
        });
        if let Some((path, _)) = &purge_socket {
            options.environment.entry(PURGE_SOCKET.to_owned()).or_insert_with(|| path.clone());
        }
        let supervisor = Supervisor {
            options,
            user,
            processes: BTreeMap::new(),
            vacant: Vec::new(),
            _purge_socket: purge_socket.map(|(_, socket)| socket),
            sockets,
            log: log.clone(),
            output,
            logged: None,
            members,
            shared: EndGuard(shared.clone()),
        };
        thread::Builder::new().name(thread_name).spawn(move || runtime.block_on(supervisor.run()))?;
        Ok(Self(shared))
    }

    /// Requests one more process without waiting. Does nothing if the maximum runs or one is being started.
    /// While starts are paused, one request is remembered.
    pub(crate) fn grow(&self) {
        self.0.change(ProcessSet::request_more);
    }

    /// Replaces a process, for instance after its maximum of requests: it is [retired](Event::Retire), and
    /// another is started if `min` or [`Self::grow`] requires it.
    pub(crate) fn replace(&self, id: MemberId) {
        self.0.change(|set| set.replace(id));
    }

    /// Reports that a [retired](Event::Retire) process has no request in progress.
    pub(crate) fn drained(&self, id: MemberId) {
        self.0.change(|set| set.drained(id));
    }

    /// Returns why no process runs and starts are paused: a sentence for the log. Returns `None` if a process
    /// runs, none is requested, or it is time to try again by [`Self::grow`].
    pub(crate) fn failure(&self) -> Option<String> {
        let (state, now) = (self.0.state.lock(), clock::now());
        let Failure { why, next_start } =
            state.failure.as_ref().filter(|failure| now < failure.next_start)?;
        Some(format!("{why}; next attempt in {:.1} s", (*next_start - now).as_secs_f32()))
    }

    /// Terminates all processes without waiting, so that several apps can end at the same time.
    pub(crate) fn begin_stop(&self) {
        self.0.change(ProcessSet::stop);
    }

    /// Kills all processes and their groups without waiting.
    pub(crate) fn begin_kill(&self) {
        self.0.change(ProcessSet::kill);
    }

    /// Waits until all processes have ended, at most until `time`.
    pub(crate) fn wait_until(&self, time: Instant) {
        let left = time.saturating_duration_since(clock::now());
        self.0.all_ended.wait_while_for(&mut self.0.state.lock(), |state| !state.has_ended, left);
    }

    /// Terminates all processes and waits for their end, a little longer than [`Rules::stop_timeout`] at
    /// most. Aborts requests in progress.
    pub(crate) fn stop(&self) {
        self.begin_stop();
        self.0.all_ended.wait_while(&mut self.0.state.lock(), |state| !state.has_ended);
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        // No wait: this may run on a worker thread or on the supervisor's.
        self.begin_stop();
    }
}

impl Shared {
    fn change(&self, change: impl FnOnce(&mut ProcessSet)) {
        change(&mut self.state.lock().set);
        self.changed.notify_one();
    }
}

/// Opens the socket for purges, and returns its path.
fn open_purge_socket(
    folder: &SocketFolder,
    user: Option<&User>,
    runtime: &runtime::Runtime,
    purges: Responder,
) -> io::Result<(String, AdminSocket)> {
    let path = folder.purge_socket(user)?;
    let socket = AdminSocket::open_for_app(&path, user, runtime, purges)?;
    Ok((path.to_string_lossy().into_owned(), socket))
}

/// Looks up the user to switch to. Returns `None` if it is the current user.
fn user_to_switch_to(name: &str) -> io::Result<Option<User>> {
    let user = User::find(name)?;
    if user.is_current() {
        return Ok(None);
    }
    // Root may lack these capabilities in a container. KILL is needed to signal processes of another user.
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID | CapabilitySet::KILL;
    if capabilities(None)?.effective.contains(needed) {
        return Ok(Some(user));
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "only root can start processes as `{name}`: run Rudy as root or as `{name}`, or remove `user`"
        ),
    ))
}

#[cfg(test)]
mod tests;
