//! The processes of an application that Rudy starts itself.
//!
//! Each process has its own listening socket, which exists before the process. So a connection can be made at once, it
//! reaches a known process, and it is known to be dead when that process ends. One task per application supervises them,
//! on a thread of its own: the kernel sends the parent-death signal when the *thread* that started a process ends, and a
//! program on a disk that hangs holds up no other application. What to do next is [decided](decide) by pure code.
//!
//! The processes end with the server. At a stop they get SIGTERM, and SIGKILL with all that they have started if they do not
//! end. If the server is killed, the kernel sends SIGTERM to each of them; processes that these have started may go on.
//! Under systemd, `KillMode=mixed` leaves the order to the server and kills what is left. A process that has left its group
//! (`setsid`) is not signalled.

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
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Instant;

use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, capabilities};
use tokio::runtime;
use tokio::sync::Notify;

pub(crate) use self::check::{only_root_starts_as, problems};
use self::decide::ProcessSet;
pub(crate) use self::decide::Rules;
use self::folder::SocketFolder;
use self::supervisor::{Over, Supervisor};
use super::output::AppOutput;
use crate::error_log::ErrorLog;
use crate::user::User;

/// What to start, and how many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProcessOptions {
    /// The name of the app in the log.
    pub(crate) name: String,
    /// The program, found in `PATH` if it has no slash, and its arguments. No shell reads them.
    pub(crate) command: Vec<String>,
    /// How many, and for how long.
    pub(crate) rules: Rules,
    /// The environment of the app, besides our own `PATH`, `LANG`, `LC_ALL`, `TZ` and `TMPDIR`, and the `HOME`, `USER` and
    /// `LOGNAME` of its user. Nothing else of ours is passed on.
    pub(crate) environment: BTreeMap<String, String>,
    /// The user that it runs as, with all groups of that user. To become another user needs root.
    pub(crate) user: Option<String>,
    /// Its working folder; ours if there is none.
    pub(crate) folder: Option<PathBuf>,
}

/// The number of the start of a process. It identifies the process to its users.
pub(crate) type MemberId = u64;

/// What happens to a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// It was started and can be connected to at this socket.
    Up(MemberId, PathBuf),
    /// It gets no more requests. When it has none in progress, [`Processes::drained`] must be called, perhaps at once. It ends
    /// then, or when [`Rules::retire_timeout`] is over.
    Retire(MemberId),
    /// It has ended, for this reason, and its connections are dead. If requests wait for a process, [`Processes::grow`] must be
    /// called.
    Down(MemberId, String),
    /// None runs, for this reason, and none is started for a time.
    Unavailable(String),
}

/// The users of the processes. All methods are called by the task that supervises the processes, and must not block.
pub(crate) trait Members: Send + Sync {
    /// Something has happened.
    fn handle(&self, event: Event);
    /// How many requests a process has served.
    fn requests(&self, id: MemberId) -> u64;
    /// Since when it has had no request in progress; `None` while it has one.
    fn idle_since(&self, id: MemberId) -> Option<Instant>;
}

/// The processes of an app. When this is dropped they end as by [`Processes::stop`], but the drop does not wait for it.
#[derive(Debug)]
pub(crate) struct Processes(Arc<Shared>);

/// What the supervisor shares with the users of the processes.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// The set has changed, so that there may be something to do.
    changed: Notify,
    over: Condvar,
}

#[derive(Debug)]
struct State {
    set: ProcessSet,
    failure: Option<Failure>,
    /// All processes have ended, and no other is started.
    is_over: bool,
}

/// Why no process runs.
#[derive(Debug)]
struct Failure {
    why: String,
    /// The time of the next try.
    next_start: Instant,
}

impl Processes {
    /// Starts the task that supervises the processes; it starts the first of them. A command that cannot be run is no error
    /// here: [`problems`] has rejected a configuration whose command is missing, so the command has gone since, during an
    /// upgrade for example. The log and [`Self::failure`] report it. What the processes write goes to `output`.
    ///
    /// # Errors
    ///
    /// The user does not exist or cannot be taken on, or there is no place for the sockets, no descriptor or no thread.
    pub(crate) fn start(
        options: ProcessOptions,
        log: &ErrorLog,
        output: Arc<AppOutput>,
        members: Weak<dyn Members>,
    ) -> io::Result<Self> {
        let user = options.user.as_deref().map(user_to_be).transpose()?.flatten();
        if options.user.is_none() && geteuid().is_root() {
            log.notice(&format!("{}: its processes run as root; give it a `user`", options.name));
        }
        let state = State { set: ProcessSet::new(options.rules.clone()), failure: None, is_over: false };
        let shared = Arc::new(Shared { state: state.into(), changed: Notify::new(), over: Condvar::new() });
        let thread_name = format!("rudy-app-{}", options.name.replace('\0', ""));
        let runtime = runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let supervisor = Supervisor {
            options,
            user,
            processes: BTreeMap::new(),
            sockets: SocketFolder::make()?,
            log: log.clone(),
            output,
            logged: None,
            members,
            shared: Over(shared.clone()),
        };
        thread::Builder::new().name(thread_name).spawn(move || runtime.block_on(supervisor.run()))?;
        Ok(Self(shared))
    }

    /// Requests one more process. Never waits. Does nothing if the maximum runs or one is being started; while nothing can be
    /// started, one request is kept.
    pub(crate) fn grow(&self) {
        self.0.change(ProcessSet::want_more);
    }

    /// Replaces a process, for instance because it has had its maximum of requests: it is [retired](Event::Retire), and
    /// another is started if `min` or [`Self::grow`] requires it.
    pub(crate) fn replace(&self, id: MemberId) {
        self.0.change(|set| set.replace(id));
    }

    /// A process that was [retired](Event::Retire) has no request in progress any more.
    pub(crate) fn drained(&self, id: MemberId) {
        self.0.change(|set| set.drained(id));
    }

    /// Why no process runs and none is started for a time: a sentence for the log. `None` if one runs, none is wanted, or it
    /// is time to try again by [`Self::grow`].
    pub(crate) fn failure(&self) -> Option<String> {
        let (state, now) = (self.0.lock(), Instant::now());
        let Failure { why, next_start } =
            state.failure.as_ref().filter(|failure| now < failure.next_start)?;
        Some(format!("{why}; next try in {:.1} s", (*next_start - now).as_secs_f32()))
    }

    /// Asks all processes to end, without waiting for it, so that several apps can end at the same time.
    pub(crate) fn begin_stop(&self) {
        self.0.change(ProcessSet::stop);
    }

    /// Kills all processes with what they have started, without waiting for it.
    pub(crate) fn begin_kill(&self) {
        self.0.change(ProcessSet::kill);
    }

    /// Waits for the end of a stop or a kill, but not beyond this time.
    pub(crate) fn wait_until(&self, time: Instant) {
        let left = time.saturating_duration_since(Instant::now());
        drop(self.0.over.wait_timeout_while(self.0.lock(), left, |state| !state.is_over));
    }

    /// Ends all processes and waits for it, a little longer than [`Rules::stop_timeout`] at most. Requests in progress are
    /// cut.
    pub(crate) fn stop(&self) {
        self.begin_stop();
        drop(self.0.over.wait_while(self.0.lock(), |state| !state.is_over));
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        // This may be on a worker's thread, which serves others, or on that of the supervisor.
        self.begin_stop();
    }
}

impl Shared {
    fn change(&self, change: impl FnOnce(&mut ProcessSet)) {
        change(&mut self.lock().set);
        self.changed.notify_one();
    }

    /// No change of the state can panic halfway.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The user to become; none if we are that user.
fn user_to_be(name: &str) -> io::Result<Option<User>> {
    let user = User::find(name)?;
    if user.is_current() {
        return Ok(None);
    }
    // Root has them unless somebody took them away. The last is needed to end what runs as somebody else.
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID | CapabilitySet::KILL;
    if capabilities(None)?.effective.contains(needed) {
        return Ok(Some(user));
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "only root can start processes as `{name}`: run Rudy as root or as `{name}`, or leave `user` out"
        ),
    ))
}

#[cfg(test)]
mod tests;
