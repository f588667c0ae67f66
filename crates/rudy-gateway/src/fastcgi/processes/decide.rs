//! Decides what to do next with the processes of an app, from their states and the time. Pure: the
//! [supervisor](super::supervisor) executes each step and reports its result.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::MemberId;
use super::backoff::Backoff;

/// The shortest time between two checks whether busy processes have become idle.
const IDLE_POLL_MIN: Duration = Duration::from_millis(100);

/// The number of processes, and their timeouts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rules {
    /// The minimum number of processes. With 0, the first one is started on demand.
    pub min: usize,
    /// The maximum number of processes, including those that are ending: a new process may need a resource
    /// that its predecessor owns. At least 1.
    pub max: usize,
    /// A process that was idle for this long is stopped, as long as `min` are left.
    pub idle_timeout: Option<Duration>,
    /// How long a retired process may take to finish its requests.
    pub retire_timeout: Duration,
    /// How long a process may take to end after SIGTERM. Then it gets SIGKILL.
    pub stop_timeout: Duration,
}

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Start a process; then call [`ProcessSet::started`] or [`ProcessSet::cannot_start`].
    Start(MemberId),
    /// Pass no more requests to the process; when none is in progress, call [`ProcessSet::drained`].
    Retire(MemberId),
    /// Send SIGTERM.
    Terminate(MemberId),
    /// Send SIGKILL.
    Kill(MemberId),
    /// Wait for a change, at most until this time.
    Wait(Option<Instant>),
    /// Exit: a stop was requested, and all processes have ended.
    Exit,
}

/// The result of the end of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    /// How long it ran.
    pub(super) ran: Duration,
    /// Whether it was stopped, and did not end by itself.
    pub(super) was_stopped: bool,
    /// If it failed: no process is started before this time.
    pub(super) next_start: Option<Instant>,
}

/// The states of an app's processes.
#[derive(Debug)]
pub(super) struct ProcessSet {
    rules: Rules,
    members: BTreeMap<MemberId, Member>,
    next_id: MemberId,
    /// Whether one more process was requested.
    is_more_requested: bool,
    is_stopping: bool,
    /// Whether all processes must be killed.
    is_killing: bool,
    backoff: Backoff,
}

#[derive(Debug)]
struct Member {
    started: Instant,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It accepts requests.
    Serving,
    /// It accepts requests until it is replaced.
    WornOut,
    /// It finishes its requests and gets no more.
    Retiring { until: Instant },
    /// It has no request in progress.
    Drained,
    /// It got SIGTERM.
    Stopping { until: Instant },
    /// It got SIGKILL.
    Killed,
}

impl ProcessSet {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            rules,
            members: BTreeMap::new(),
            next_id: 1,
            is_more_requested: false,
            is_stopping: false,
            is_killing: false,
            backoff: Backoff::default(),
        }
    }

    /// Returns the next step. `idle_since` returns since when a process has had no request in progress.
    pub(super) fn next(&mut self, now: Instant, idle_since: &dyn Fn(MemberId) -> Option<Instant>) -> Step {
        if self.is_stopping && self.members.is_empty() {
            return Step::Exit;
        }
        let due = self.members.iter().find_map(|(id, member)| Some((*id, self.due(member.state, now)?)));
        if let Some((id, state)) = due {
            return self.enter(id, state);
        }
        if self.needs_start() && self.backoff.allows(now) {
            return Step::Start(self.next_id);
        }
        if let Some((id, since)) = self.longest_idle(idle_since)
            && self.rules.idle_timeout.is_some_and(|idle_timeout| now >= since + idle_timeout)
        {
            return self.enter(id, self.retiring(now));
        }
        Step::Wait(self.wake_at(now, idle_since))
    }

    /// Records a successful start.
    pub(super) fn started(&mut self, now: Instant) {
        self.members.insert(self.next_id, Member { started: now, state: State::Serving });
        self.next_id += 1;
        self.is_more_requested = false;
    }

    /// Records a failed start. Returns the time of the next attempt.
    pub(super) fn cannot_start(&mut self, now: Instant) -> Instant {
        self.is_more_requested = false;
        self.backoff.fail(now)
    }

    /// Records the end of a process. `is_clean` if it has served requests and exited with success: some apps
    /// exit after a number of requests.
    pub(super) fn ended(&mut self, id: MemberId, now: Instant, is_clean: bool) -> Ended {
        let member = self.members.remove(&id);
        let ran =
            member.as_ref().map_or(Duration::ZERO, |member| now.saturating_duration_since(member.started));
        let was_stopped =
            member.is_some_and(|member| matches!(member.state, State::Stopping { .. } | State::Killed));
        let has_failed = self.backoff.ended(ran, was_stopped || is_clean, now);
        Ended { ran, was_stopped, next_start: has_failed }
    }

    /// Requests one more process, unless the maximum runs.
    pub(super) fn request_more(&mut self) {
        self.is_more_requested = self.is_more_requested || self.serving() < self.rules.max;
    }

    /// Replaces a process when it has no request in progress.
    pub(super) fn replace(&mut self, id: MemberId) {
        if self.state(id) == Some(State::Serving) {
            self.set(id, State::WornOut);
        }
    }

    /// Records that a retired process has no request in progress.
    pub(super) fn drained(&mut self, id: MemberId) {
        if matches!(self.state(id), Some(State::Retiring { .. })) {
            self.set(id, State::Drained);
        }
    }

    /// Stops all processes.
    pub(super) fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// Kills all processes.
    pub(super) fn kill(&mut self) {
        self.is_stopping = true;
        self.is_killing = true;
    }

    /// Returns whether all processes must be killed.
    pub(super) fn is_killing(&self) -> bool {
        self.is_killing
    }

    /// Returns whether all processes end, and none is started any more.
    pub(super) fn is_ending(&self) -> bool {
        self.is_stopping
    }

    /// Returns whether a process got SIGTERM.
    pub(super) fn is_stopping(&self, id: MemberId) -> bool {
        matches!(self.state(id), Some(State::Stopping { .. }))
    }

    /// Returns the number of processes that accept requests.
    pub(super) fn serving(&self) -> usize {
        self.members.values().filter(|member| member.state.accepts_requests()).count()
    }

    fn state(&self, id: MemberId) -> Option<State> {
        self.members.get(&id).map(|member| member.state)
    }

    fn set(&mut self, id: MemberId, state: State) {
        if let Some(member) = self.members.get_mut(&id) {
            member.state = state;
        }
    }

    /// Changes the state of a process, and returns the step for that.
    fn enter(&mut self, id: MemberId, state: State) -> Step {
        self.set(id, state);
        match state {
            State::Serving | State::WornOut | State::Retiring { .. } => Step::Retire(id),
            State::Drained | State::Stopping { .. } => Step::Terminate(id),
            State::Killed => Step::Kill(id),
        }
    }

    /// Returns the state that a process must enter now, regardless of the others.
    fn due(&self, state: State, now: Instant) -> Option<State> {
        match state {
            State::Killed => None,
            _ if self.is_killing => Some(State::Killed),
            State::Stopping { until } if now >= until => Some(State::Killed),
            State::Stopping { .. } => None,
            State::WornOut => Some(self.retiring(now)),
            State::Serving => self.is_stopping.then(|| self.retiring(now)),
            State::Retiring { until } if now < until && !self.is_stopping => None,
            State::Retiring { .. } | State::Drained => {
                Some(State::Stopping { until: now + self.rules.stop_timeout })
            }
        }
    }

    fn retiring(&self, now: Instant) -> State {
        State::Retiring { until: now + self.rules.retire_timeout }
    }

    fn needs_start(&self) -> bool {
        let is_needed = self.is_more_requested || self.serving() < self.rules.min;
        is_needed && self.members.len() < self.rules.max && !self.is_stopping
    }

    /// Returns the process that has been idle for longest, if one may be stopped.
    fn longest_idle(&self, idle_since: &dyn Fn(MemberId) -> Option<Instant>) -> Option<(MemberId, Instant)> {
        if self.serving() <= self.rules.min {
            return None;
        }
        let candidates = self.members.iter().filter(|(_, member)| member.state == State::Serving);
        candidates.filter_map(|(id, _)| Some((*id, idle_since(*id)?))).min_by_key(|(_, since)| *since)
    }

    /// Returns when the next timeout is due.
    fn wake_at(&self, now: Instant, idle_since: &dyn Fn(MemberId) -> Option<Instant>) -> Option<Instant> {
        let members = self.members.values().filter_map(|member| match member.state {
            State::Stopping { until } | State::Retiring { until } => Some(until),
            _ => None,
        });
        let start = self.backoff.until().filter(|_| self.needs_start());
        let idle = self.rules.idle_timeout.filter(|_| self.serving() > self.rules.min).map(|idle_timeout| {
            match self.longest_idle(idle_since) {
                Some((_, since)) => since + idle_timeout,
                // A busy process cannot have been idle for long enough before this time.
                None => now + idle_timeout.max(IDLE_POLL_MIN),
            }
        });
        members.chain(start).chain(idle).min()
    }
}

impl State {
    fn accepts_requests(self) -> bool {
        matches!(self, Self::Serving | Self::WornOut)
    }
}

#[cfg(test)]
mod tests;
