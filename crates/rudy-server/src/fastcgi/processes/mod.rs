//! The processes of an app that Rudy starts itself.
//!
//! Every process has a listening socket of its own, which is there before the process is: so a connection can be made at
//! once, one to a certain process and to no other, and when the process dies its connections are known to be dead. All
//! processes of an app are looked after by one thread; it sleeps until one ends or writes, something is asked of it, or
//! something is due. What it does next is [decided](decide) without touching a process.
//!
//! They end with the server. When it ends in order they are asked to end and, if they do not, killed with all that they
//! have started. When it is killed, the kernel asks each to end by SIGTERM; what one has started is then left to it. Under
//! systemd, `KillMode=mixed` leaves the order to the server and ends whatever is left. A process that has left its group
//! (`setsid`) is its own affair.

mod backoff;
mod check;
mod decide;
mod folder;
mod process;
mod shared;
mod spawn;
mod supervisor;
mod user;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, capabilities};

pub(crate) use self::check::{only_root_starts_as, problems};
use self::folder::SocketFolder;
use self::shared::{Asked, Shared};
use self::supervisor::Supervisor;
use self::user::User;
use super::output::AppOutput;
use crate::error_log::ErrorLog;

/// What to start, and how many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProcessOptions {
    /// What the app is called in the log.
    pub(crate) name: String,
    /// The program, found in `PATH` if it has no slash, and its arguments. No shell reads them.
    pub(crate) command: Vec<String>,
    /// So many run, whether they are needed or not; 0: the first is started when it is wanted.
    pub(crate) min: u32,
    /// No more than so many exist at a time, the ending ones among them; at least 1.
    pub(crate) max: u32,
    /// What the app finds in its environment beside `PATH`, `LANG`, `LC_ALL`, `TZ` and `TMPDIR` as we have them, and the
    /// `HOME`, `USER` and `LOGNAME` of its user. Nothing else of ours is passed on.
    pub(crate) environment: BTreeMap<String, String>,
    /// Whom it runs as, with all groups of that user. To become another one needs root.
    pub(crate) user: Option<String>,
    /// Where it runs; ours if there is none.
    pub(crate) folder: Option<PathBuf>,
    /// One that had nothing to do for so long ends, as long as `min` are left.
    pub(crate) idle_timeout: Option<Duration>,
    /// How long a process that is to end may take for the requests under way.
    pub(crate) retire_timeout: Duration,
    /// How long it may then take to end after SIGTERM. SIGKILL comes next.
    pub(crate) stop_timeout: Duration,
}

/// A process, as those who use it know it: the number of its start.
pub(crate) type MemberId = u64;

/// Those who use the processes: they are told which there are, and asked how much they have to do.
///
/// All is called on the thread that looks after the processes; whoever waits there keeps them waiting.
pub(crate) trait Members: Send + Sync {
    /// A process was started and can be connected to.
    fn up(&self, id: MemberId, socket: &Path);
    /// No more requests to this one. When none is under way there, [`Processes::drained`] is to be called; that may be at
    /// once. It ends then, or when [`ProcessOptions::retire_timeout`] is over.
    fn retire(&self, id: MemberId);
    /// It has ended, and its connections are dead. If work waits for a process, [`Processes::grow`] is to be called.
    fn down(&self, id: MemberId, why: &str);
    /// None runs, and none is started for a time: whoever waits for one waits in vain.
    fn unavailable(&self, why: &str);
    /// How many requests it has answered.
    fn requests(&self, id: MemberId) -> u64;
    /// Since when nothing has been under way there; `None` while something is.
    fn idle_since(&self, id: MemberId) -> Option<Instant>;
}

/// The processes of an app. When this is dropped they end as by [`Processes::stop`], only that nobody waits for it.
#[derive(Debug)]
pub(crate) struct Processes {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Processes {
    /// Starts the thread that looks after the processes; it starts the first of them. A command that cannot be run is no
    /// error here: [`problems`] has rejected a configuration whose command is missing, so the command has gone since, during
    /// an upgrade for example. The log says so, and [`Self::failure`]. What the processes write goes to `output`.
    ///
    /// # Errors
    ///
    /// The user is not there or cannot be taken on, or there is no place for the sockets, no descriptor or no thread.
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
        let shared = Arc::new(Shared::new()?);
        let thread_name = format!("rudy-app-{}", options.name.replace('\0', ""));
        let sockets = SocketFolder::make()?;
        let supervisor =
            Supervisor::new(options, user, sockets, log.clone(), output, members, shared.clone());
        let over = shared.clone();
        let thread = thread::Builder::new().name(thread_name).spawn(move || {
            supervisor.run();
            over.is_over();
        })?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// One more process could be used. Never waits. Does nothing when there are as many as may be or one is being started;
    /// while nothing can be started for a time it is remembered, once.
    pub(crate) fn grow(&self) {
        self.shared.ask(Asked::Grow);
    }

    /// A process is to be replaced, for instance because it has had as many requests as it may: it is
    /// [retired](Members::retire), and another started as far as `min` says or [`Self::grow`] asks.
    pub(crate) fn replace(&self, id: MemberId) {
        self.shared.ask(Asked::Replace(id));
    }

    /// Nothing is under way any more at a process that was [retired](Members::retire).
    pub(crate) fn drained(&self, id: MemberId) {
        self.shared.ask(Asked::Drained(id));
    }

    /// Why no process runs and none is started for a time: a sentence for the log. Nothing when one runs, none is wanted, or
    /// it is time to try again by [`Self::grow`].
    pub(crate) fn failure(&self) -> Option<String> {
        self.shared.failure(Instant::now())
    }

    /// Asks all processes to end, and does not wait for it: so that several apps can end at the same time.
    pub(crate) fn begin_stop(&self) {
        self.shared.ask(Asked::Stop);
    }

    /// Kills all processes with what they have started, and does not wait for it.
    pub(crate) fn begin_kill(&self) {
        self.shared.ask(Asked::Kill);
    }

    /// Waits for the end of a stop or a kill, but not beyond this time.
    pub(crate) fn wait_until(&self, time: Instant) {
        self.shared.wait_until_over(time);
    }

    /// Ends all processes and waits for it, a little longer than [`ProcessOptions::stop_timeout`] at most. What is under way
    /// there is cut.
    pub(crate) fn stop(&self) {
        self.begin_stop();
        // The last user may be dropped on that very thread, where it has just been told something.
        let is_other = |thread: &JoinHandle<()>| thread.thread().id() != thread::current().id();
        if let Some(thread) = lock(&self.thread).take().filter(is_other) {
            // If it has panicked, that is in the log, and its processes went with what it held.
            let _ = thread.join();
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        // This may be on an engine's thread, which has others to serve.
        self.begin_stop();
    }
}

/// The user to become; none if we are that user.
fn user_to_be(name: &str) -> io::Result<Option<User>> {
    let user = User::find(name)?;
    if geteuid() == user.uid {
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

fn lock<T: fmt::Debug>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
