//! The supervisor task of an app's processes. It executes the steps that [`decide`](super::decide) returns.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::process::ExitStatus;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::{Duration, Instant};

use rudy_log::ErrorLog;
use rudy_runtime::clock;
use rudy_system::admin::AdminSocket;
use rudy_system::user::User;
use rustix::process::Signal;
use tokio::task::{unconstrained, yield_now};
use tokio::time::sleep_until;

use super::decide::{Ended, Step};
use super::folder::SocketFolder;
use super::process::{Process, Socket, VacantSocket};
use super::{Event, Failure, MemberId, MemberPool, ProcessOptions, Shared};
use crate::fastcgi::output::AppOutput;

/// How long a connection may wait for the start of a process. If starts are paused for longer, after five
/// failures in a row, its request fails at once: a connection in the backlog has no timeout of its own.
const BACKLOG_PAUSE_MAX: Duration = Duration::from_secs(1);

/// The state of the supervisor.
#[derive(Debug)]
pub(super) struct Supervisor {
    pub(super) options: ProcessOptions,
    pub(super) user: Option<User>,
    /// Dropped before the folder that contains their sockets.
    pub(super) processes: BTreeMap<MemberId, Process>,
    /// The sockets of processes that have ended by themselves, for the next ones. With those of `processes`, they are
    /// at most [`Rules::max`](super::Rules::max).
    pub(super) vacant: Vec<VacantSocket>,
    /// Open while processes run.
    pub(super) _purge_socket: Option<AdminSocket>,
    pub(super) sockets: SocketFolder,
    pub(super) log: ErrorLog,
    pub(super) output: Arc<AppOutput>,
    /// The last logged reason for a failed start; `None` after a success.
    pub(super) logged: Option<String>,
    pub(super) members: Weak<dyn MemberPool>,
    /// The last field, so that it is dropped after all others.
    pub(super) shared: EndGuard,
}

/// Reports the end of the supervisor when dropped, also after a panic.
#[derive(Debug)]
pub(super) struct EndGuard(pub(super) Arc<Shared>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.state.lock().has_ended = true;
        self.0.all_ended.notify_all();
    }
}

impl Supervisor {
    /// Supervises the processes until a stop was requested and all have ended.
    pub(super) async fn run(mut self) {
        loop {
            self.reap_ended();
            match self.next_step() {
                Step::Start(id) => self.start(id),
                Step::Retire(id) => self.notify(Event::Retire(id)),
                Step::Terminate(id) => self.processes[&id].signal(Signal::TERM),
                Step::Kill(id) => self.kill(id),
                Step::Wait(until) => self.wait(until).await,
                Step::Exit => return,
            }
        }
    }

    fn next_step(&mut self) -> Step {
        // Declared before the lock, so it is dropped after it: dropping the last reference requests a stop,
        // which needs the lock.
        let members = self.members.upgrade();
        let idle_since = |id| members.as_ref()?.idle_since(id);
        let mut state = self.shared.0.state.lock();
        if state.set.is_ending() {
            self.vacant.clear();
        }
        if self.vacant.iter().any(VacantSocket::has_connection) {
            state.set.request_more();
        }
        state.set.next(clock::now(), &idle_since)
    }

    /// Waits for a change or until `until`.
    async fn wait(&mut self, until: Option<Instant>) {
        let processes = poll_fn(|context| {
            // Poll all: a process with constant output must not starve the others.
            let mut is_ready = false;
            for process in self.processes.values_mut() {
                is_ready |= process.poll(context).is_ready();
            }
            for socket in &mut self.vacant {
                is_ready |= socket.poll(context).is_ready();
            }
            if is_ready { Poll::Ready(()) } else { Poll::Pending }
        });
        tokio::select! {
            biased;
            // Without tokio's budget, which the first processes would use up. `yield_now` lets other tasks
            // run instead.
            () = unconstrained(processes) => yield_now().await,
            () = self.shared.0.changed.notified() => {}
            () = sleep_until(until.unwrap_or_else(clock::now).into()), if until.is_some() => {}
        }
    }

    fn start(&mut self, id: MemberId) {
        let vacant = self.take_vacant();
        let socket = match vacant.map_or_else(|| Socket::bind(self.sockets.socket(id)), Ok) {
            Ok(socket) => socket,
            Err(why) => return self.cannot_start(&why),
        };
        let path = socket.path().to_owned();
        match Process::start(&self.options, self.user.as_ref(), socket, self.output.clone()) {
            Ok(process) => {
                {
                    let mut state = self.shared.0.state.lock();
                    state.set.started(clock::now());
                    state.failure = None;
                }
                if self.logged.take().is_some() {
                    self.log.notice(&format!("{}: process {} is running", self.options.name, process.pid()));
                }
                self.processes.insert(id, process);
                self.notify(Event::Up(id, path));
            }
            Err((why, socket)) => {
                self.vacant.extend(socket.map(VacantSocket::new));
                self.cannot_start(&why);
            }
        }
    }

    /// Takes the socket of a process that has ended, preferably one with a connection.
    fn take_vacant(&mut self) -> Option<Socket> {
        let index = self.vacant.iter().position(VacantSocket::has_connection).unwrap_or(0);
        (!self.vacant.is_empty()).then(|| self.vacant.swap_remove(index).into_socket())
    }

    fn cannot_start(&mut self, why: &str) {
        let next_start = self.shared.0.state.lock().set.cannot_start(clock::now());
        let why = format!("{}: {why}", self.options.name);
        if self.logged.as_ref() != Some(&why) {
            self.log.error(&format!("{why}; retrying with growing pauses"));
            self.logged = Some(why.clone());
        }
        self.report_failure(why, next_start);
    }

    /// Reports a failure if no process serves requests. None is started before `next_start`.
    fn report_failure(&mut self, why: String, next_start: Instant) {
        if next_start.saturating_duration_since(clock::now()) > BACKLOG_PAUSE_MAX {
            self.vacant.clear();
        }
        {
            let mut state = self.shared.0.state.lock();
            if state.set.serving() > 0 {
                return;
            }
            state.failure = Some(Failure { why: why.clone(), next_start });
        }
        self.notify(Event::Unavailable(why));
    }

    fn kill(&self, id: MemberId) {
        let process = &self.processes[&id];
        // If it has ended, only its children are left.
        if !process.has_ended() && !self.shared.0.state.lock().set.is_killing() {
            self.log.error(&format!(
                "{}: process {} did not end {} s after SIGTERM: sending SIGKILL",
                self.options.name,
                process.pid(),
                self.options.rules.stop_timeout.as_secs_f32()
            ));
        }
        process.signal(Signal::KILL);
    }

    /// Reaps processes that have ended. During a stop, a shell may end before the app that it started. It is
    /// reaped when its output ends, so that its group is empty, or when it is killed.
    fn reap_ended(&mut self) {
        let state = self.shared.0.state.lock();
        let can_reap = |id, process: &Process| {
            process.has_ended() && (process.is_silent() || !state.set.is_stopping(id))
        };
        let ended = self.processes.extract_if(.., |id, process| can_reap(*id, process)).collect::<Vec<_>>();
        drop(state);
        for (id, process) in ended {
            self.reap(id, process);
        }
    }

    fn reap(&mut self, id: MemberId, mut process: Process) {
        let (pid, now) = (process.pid(), clock::now());
        let status = process.reap();
        let requests = self.members.upgrade().map_or(0, |members| members.requests(id));
        let has_served = requests > 0 || process.has_emptied_backlog();
        let is_clean = has_served && status.as_ref().is_ok_and(ExitStatus::success);
        let Ended { ran, was_stopped, next_start } = self.shared.0.state.lock().set.ended(id, now, is_clean);
        let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        let name = &self.options.name;
        let why = format!("{name}: process {pid} ended after {:.1} s ({how})", ran.as_secs_f32());
        if !was_stopped {
            self.vacant.extend(process.take_socket().map(VacantSocket::new));
        }
        drop(process);
        self.notify(Event::Down(id, why.clone()));
        if !was_stopped && !is_clean {
            self.log.recurring_error(
                ("a process of an app ended unexpectedly", &**name),
                &format!("{why} unexpectedly"),
            );
        }
        if let Some(next_start) = next_start {
            self.report_failure(why, next_start);
        }
    }

    /// Passes an event to the pool, if it still exists.
    fn notify(&self, event: Event) {
        if let Some(members) = self.members.upgrade() {
            members.handle(event);
        }
    }
}
