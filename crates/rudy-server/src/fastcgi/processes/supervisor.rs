//! The task that supervises the processes of an app: it does what was [decided](super::decide).

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::process::ExitStatus;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Instant;

use rustix::process::Signal;
use tokio::task::{unconstrained, yield_now};
use tokio::time::sleep_until;

use super::decide::{Ended, Step};
use super::folder::SocketFolder;
use super::process::Process;
use super::{Event, Failure, MemberId, Members, ProcessOptions, Shared};
use crate::error_log::ErrorLog;
use crate::fastcgi::output::AppOutput;
use crate::user::User;

/// The state of the task.
#[derive(Debug)]
pub(super) struct Supervisor {
    pub(super) options: ProcessOptions,
    pub(super) user: Option<User>,
    /// Before the folder: their sockets are in it.
    pub(super) processes: BTreeMap<MemberId, Process>,
    pub(super) sockets: SocketFolder,
    pub(super) log: ErrorLog,
    pub(super) output: Arc<AppOutput>,
    /// Why the last start failed, as it was logged; none since one succeeded.
    pub(super) logged: Option<String>,
    pub(super) members: Weak<dyn Members>,
    /// Last, so that all else is dropped before.
    pub(super) shared: Over,
}

/// Reports the end of the supervisor when it is dropped, after a panic too.
#[derive(Debug)]
pub(super) struct Over(pub(super) Arc<Shared>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.over.notify_all();
    }
}

impl Supervisor {
    /// Supervises the processes until a stop is requested and all have ended.
    pub(super) async fn run(mut self) {
        loop {
            self.reap_ended();
            match self.next_step() {
                Step::Start(id) => self.start(id),
                Step::Retire(id) => self.tell(Event::Retire(id)),
                Step::Terminate(id) => self.processes[&id].signal(Signal::TERM),
                Step::Kill(id) => self.kill(id),
                Step::Wait(until) => self.wait(until).await,
                Step::Over => return,
            }
        }
    }

    fn next_step(&self) -> Step {
        // Dropped after the lock: the drop of the last reference requests a stop, which takes the lock.
        let members = self.members.upgrade();
        let idle_since = |id| members.as_ref()?.idle_since(id);
        let mut state = self.shared.0.lock();
        state.set.next(Instant::now(), &idle_since)
    }

    /// Waits until there may be something to do.
    async fn wait(&mut self, until: Option<Instant>) {
        let processes = poll_fn(|context| {
            // All of them: a process that always has output must not hide the others.
            let ready = self.processes.values_mut().map(|process| process.poll(context).is_ready());
            if ready.fold(false, |any, ready| any | ready) { Poll::Ready(()) } else { Poll::Pending }
        });
        tokio::select! {
            // Not bounded by a budget, which the first processes would spend. So the runtime gets its turn here.
            () = unconstrained(processes) => yield_now().await,
            () = self.shared.0.changed.notified() => {}
            () = sleep_until(until.unwrap_or_else(Instant::now).into()), if until.is_some() => {}
        }
    }

    fn start(&mut self, id: MemberId) {
        let socket = self.sockets.socket(id);
        match Process::start(&self.options, self.user.as_ref(), socket.clone(), self.output.clone()) {
            Ok(process) => {
                {
                    let mut state = self.shared.0.lock();
                    state.set.started(Instant::now());
                    state.failure = None;
                }
                if self.logged.take().is_some() {
                    self.log.notice(&format!("{}: process {} runs", self.options.name, process.pid()));
                }
                self.processes.insert(id, process);
                self.tell(Event::Up(id, socket));
            }
            Err(why) => {
                let next_start = self.shared.0.lock().set.cannot_start(Instant::now());
                let why = format!("{}: {why}", self.options.name);
                if self.logged.as_ref() != Some(&why) {
                    self.log.error(&format!("{why}; it is tried again, less and less often"));
                    self.logged = Some(why.clone());
                }
                self.has_failed(why, next_start);
            }
        }
    }

    /// Nothing is started before `next_start`.
    fn has_failed(&self, why: String, next_start: Instant) {
        {
            let mut state = self.shared.0.lock();
            if state.set.taking_requests() > 0 {
                return;
            }
            state.failure = Some(Failure { why: why.clone(), next_start });
        }
        self.tell(Event::Unavailable(why));
    }

    fn kill(&self, id: MemberId) {
        let process = &self.processes[&id];
        // If it has ended, only what it has started is left.
        if !process.has_ended() && !self.shared.0.lock().set.is_killing() {
            self.log.error(&format!(
                "{}: process {} did not end {} s after SIGTERM: it is killed",
                self.options.name,
                process.pid(),
                self.options.rules.stop_timeout.as_secs_f32()
            ));
        }
        process.signal(Signal::KILL);
    }

    /// Reaps the processes that have ended. At a stop, a shell may end before the app that it started: such a process is
    /// reaped when its output ends, so that no one is left in its group, or when it is killed.
    fn reap_ended(&mut self) {
        let state = self.shared.0.lock();
        let is_over = |id, process: &Process| {
            process.has_ended() && (process.is_silent() || !state.set.is_stopping(id))
        };
        let ended = self.processes.extract_if(.., |id, process| is_over(*id, process)).collect::<Vec<_>>();
        drop(state);
        for (id, process) in ended {
            self.reap(id, process);
        }
    }

    fn reap(&self, id: MemberId, mut process: Process) {
        let (pid, now) = (process.pid(), Instant::now());
        let status = process.reap();
        let has_worked = self.members.upgrade().is_some_and(|members| members.requests(id) > 0);
        let is_in_order = has_worked && status.as_ref().is_ok_and(ExitStatus::success);
        let Ended { ran, was_asked, next_start } = self.shared.0.lock().set.ended(id, now, is_in_order);
        let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        let name = &self.options.name;
        let why = format!("{name}: process {pid} ended after {:.1} s ({how})", ran.as_secs_f32());
        // Its socket is removed first.
        drop(process);
        self.tell(Event::Down(id, why.clone()));
        if !was_asked && !is_in_order {
            self.log
                .recurring_error(&format!("{name}: a process ended of itself"), &format!("{why} of itself"));
        }
        if let Some(next_start) = next_start {
            self.has_failed(why, next_start);
        }
    }

    /// Tells the users of the processes, if there are any left.
    fn tell(&self, event: Event) {
        if let Some(members) = self.members.upgrade() {
            members.handle(event);
        }
    }
}
