//! The thread that looks after the processes of an app: it does what was [decided](super::decide).

use std::collections::BTreeMap;
use std::io;
use std::process::ExitStatus;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;

use super::decide::{Crew, Ended, Rules, Step};
use super::folder::SocketFolder;
use super::process::Process;
use super::shared::{Asked, Failure, Shared};
use super::user::User;
use super::{MemberId, Members, ProcessOptions};
use crate::error_log::ErrorLog;
use crate::fastcgi::output::AppOutput;

/// How long to wait where the system does not let us wait for events.
const PAUSE: Duration = Duration::from_millis(100);

/// What the thread holds.
#[derive(Debug)]
pub(super) struct Supervisor {
    options: ProcessOptions,
    user: Option<User>,
    crew: Crew,
    /// Before the folder: their sockets are in it.
    processes: BTreeMap<MemberId, Process>,
    sockets: SocketFolder,
    log: ErrorLog,
    output: Arc<AppOutput>,
    /// Why the last start failed, as it was told; none since one succeeded.
    told: Option<String>,
    members: Weak<dyn Members>,
    shared: Arc<Shared>,
}

/// What poll(2) found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Bell,
    Output(MemberId),
    End(MemberId),
}

impl Supervisor {
    pub(super) fn new(
        options: ProcessOptions,
        user: Option<User>,
        sockets: SocketFolder,
        log: ErrorLog,
        output: Arc<AppOutput>,
        members: Weak<dyn Members>,
        shared: Arc<Shared>,
    ) -> Self {
        let count = |number| usize::try_from(number).unwrap_or(usize::MAX);
        let rules = Rules {
            min: count(options.min),
            max: count(options.max),
            idle_timeout: options.idle_timeout,
            retire_timeout: options.retire_timeout,
            stop_timeout: options.stop_timeout,
        };
        Self {
            options,
            user,
            crew: Crew::new(rules),
            processes: BTreeMap::new(),
            sockets,
            log,
            output,
            told: None,
            members,
            shared,
        }
    }

    /// Looks after the processes until they are to stop and have.
    pub(super) fn run(mut self) {
        loop {
            self.take_asked();
            let members = self.members.clone();
            let idle_since = |id| members.upgrade().and_then(|members| members.idle_since(id));
            match self.crew.next(Instant::now(), &idle_since) {
                Step::Start(id) => self.start(id),
                Step::Retire(id) => self.tell(|members| members.retire(id)),
                Step::Terminate(id) => self.terminate(id),
                Step::Kill(id) => self.kill(id),
                Step::Wait(until) => self.wait(until),
                Step::Over => return,
            }
        }
    }

    fn take_asked(&mut self) {
        for asked in self.shared.take_asked() {
            match asked {
                Asked::Grow => self.crew.want_more(),
                Asked::Replace(id) => self.crew.replace(id),
                Asked::Drained(id) => self.crew.drained(id),
                Asked::Stop => self.crew.stop(),
                Asked::Kill => self.crew.kill(),
            }
        }
    }

    fn start(&mut self, id: MemberId) {
        match Process::start(&self.options, self.user.as_ref(), self.sockets.socket(id)) {
            Ok(process) => {
                self.crew.started(Instant::now());
                if self.told.take().is_some() {
                    self.log.notice(&format!("{}: process {} runs", self.options.name, process.pid()));
                }
                self.shared.has_started();
                self.tell(|members| members.up(id, process.socket()));
                self.processes.insert(id, process);
            }
            Err(why) => {
                let next_start = self.crew.cannot_start(Instant::now());
                let why = format!("{}: {why}", self.options.name);
                if self.told.as_ref() != Some(&why) {
                    self.log.error(&format!("{why}; it is tried again, less and less often"));
                    self.told = Some(why.clone());
                }
                self.has_failed(&why, next_start);
            }
        }
    }

    /// Nothing is started before `next_start`.
    fn has_failed(&self, why: &str, next_start: Instant) {
        if self.crew.taking_requests() == 0 {
            self.shared.has_failed(Failure { why: why.to_owned(), next_start });
            self.tell(|members| members.unavailable(why));
        }
    }

    fn terminate(&self, id: MemberId) {
        if let Some(process) = self.processes.get(&id) {
            process.signal(Signal::TERM);
        }
    }

    fn kill(&mut self, id: MemberId) {
        match self.processes.get(&id) {
            // Only what it has started is left of it.
            Some(process) if process.has_ended() => self.bury(id),
            Some(process) if self.crew.is_killing() => process.signal(Signal::KILL),
            Some(process) => {
                let seconds = self.options.stop_timeout.as_secs_f32();
                self.log.error(&format!(
                    "{}: process {} did not end {seconds} s after SIGTERM: it is killed",
                    self.options.name,
                    process.pid()
                ));
                process.signal(Signal::KILL);
            }
            None => {}
        }
    }

    /// Waits until something happens, and heeds it.
    fn wait(&mut self, until: Option<Instant>) {
        match self.poll(until) {
            Ok(events) => events.into_iter().for_each(|event| self.heed(event)),
            Err(Errno::INTR) => {}
            Err(errno) => {
                let what = format!("{}: cannot wait for its processes", self.options.name);
                self.log.repeated(&what, &format!("{what}: {}", io::Error::from(errno)));
                thread::sleep(PAUSE);
            }
        }
    }

    fn poll(&self, until: Option<Instant>) -> Result<Vec<Event>, Errno> {
        let mut events = vec![Event::Bell];
        let mut watched = vec![PollFd::from_borrowed_fd(self.shared.bell(), PollFlags::IN)];
        for (id, process) in &self.processes {
            // Output first: what a process says before it ends is logged before that it has ended.
            let descriptors = [(Event::Output(*id), process.output()), (Event::End(*id), process.end())];
            for (event, descriptor) in descriptors {
                if let Some(descriptor) = descriptor {
                    events.push(event);
                    watched.push(PollFd::from_borrowed_fd(descriptor, PollFlags::IN));
                }
            }
        }
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        // More than the system's clock can count is for ever.
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        poll(&mut watched, timeout.as_ref())?;
        let happened = events.into_iter().zip(&watched).filter(|(_, watched)| !watched.revents().is_empty());
        Ok(happened.map(|(event, _)| event).collect())
    }

    fn heed(&mut self, event: Event) {
        match event {
            // What was asked is taken before the next step.
            Event::Bell => {}
            Event::Output(id) => {
                let Some(process) = self.processes.get_mut(&id) else { return };
                let (pid, now) = (process.pid(), Instant::now());
                process.read(&mut |line| self.output.process_line(pid, line, now));
                if process.has_ended() && process.output().is_none() {
                    self.bury(id);
                }
            }
            Event::End(id) => {
                let Some(process) = self.processes.get_mut(&id) else { return };
                process.note_end();
                // A shell may have ended before the app that it started, which was asked to end too. That nobody is left
                // is seen by the end of the output.
                if !self.crew.is_stopping(id) || process.output().is_none() {
                    self.bury(id);
                }
            }
        }
    }

    /// A process has ended: reaps it, with what is left of its group, and tells those concerned.
    fn bury(&mut self, id: MemberId) {
        let Some(mut process) = self.processes.remove(&id) else { return };
        let (pid, now) = (process.pid(), Instant::now());
        let status = process.reap();
        process.read_last(&mut |line| self.output.process_line(pid, line, now));
        let has_worked = self.members.upgrade().is_some_and(|members| members.requests(id) > 0);
        let is_in_order = has_worked && status.as_ref().is_ok_and(ExitStatus::success);
        let ended = self.crew.ended(id, now, is_in_order);
        let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        let why = format!(
            "{}: process {pid} ended after {:.1} s ({how})",
            self.options.name,
            ended.ran.as_secs_f32()
        );
        // Its socket is gone before anybody is told.
        drop(process);
        self.tell(|members| members.down(id, &why));
        self.tell_end(ended, is_in_order, &why);
    }

    fn tell_end(&self, ended: Ended, is_in_order: bool, why: &str) {
        if !ended.was_asked && !is_in_order {
            let kind = format!("{}: a process ended of itself", self.options.name);
            self.log.repeated(&kind, &format!("{why} of itself"));
        }
        if let Some(next_start) = ended.next_start {
            self.has_failed(why, next_start);
        }
    }

    /// Tells those who use the processes; when they are gone, nobody cares.
    fn tell(&self, what: impl FnOnce(&dyn Members)) {
        if let Some(members) = self.members.upgrade() {
            what(&*members);
        }
    }
}
