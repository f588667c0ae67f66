//! What to do next about the processes of an app, decided from their states and the time. This code touches no process and no
//! clock: the [supervisor](super::supervisor) takes each step and reports its result.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::MemberId;
use super::backoff::Backoff;

/// The shortest time between two checks whether busy processes have become idle.
const LOOK_TIME_MIN: Duration = Duration::from_millis(100);

/// How many processes run, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rules {
    /// This many run, whether they are needed or not; 0: the first is started when it is wanted.
    pub(crate) min: usize,
    /// No more than this many exist at a time, including those that are ending: what a process holds alone, its successor
    /// must find free. At least 1.
    pub(crate) max: usize,
    /// A process that was idle for this long ends, as long as `min` are left.
    pub(crate) idle_timeout: Option<Duration>,
    /// How long a process that gets no more requests may take for those in progress.
    pub(crate) retire_timeout: Duration,
    /// How long it may then take to end after SIGTERM. SIGKILL comes next.
    pub(crate) stop_timeout: Duration,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Start a process; then [`ProcessSet::started`] or [`ProcessSet::cannot_start`].
    Start(MemberId),
    /// Give it no more requests; then, when none is in progress, [`ProcessSet::drained`].
    Retire(MemberId),
    /// Ask it to end.
    Terminate(MemberId),
    /// End it.
    Kill(MemberId),
    /// Nothing, until something happens or this time has come.
    Wait(Option<Instant>),
    /// Nothing any more: all was to stop, and has.
    Over,
}

/// What the end of a process means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    /// How long it ran.
    pub(super) ran: Duration,
    /// It had been asked to end.
    pub(super) was_asked: bool,
    /// It ended soon and of itself. No other is started before this time.
    pub(super) next_start: Option<Instant>,
}

/// The processes of an app, as far as decisions need them.
#[derive(Debug)]
pub(super) struct ProcessSet {
    rules: Rules,
    members: BTreeMap<MemberId, Member>,
    next_id: MemberId,
    /// One more than there are is wanted.
    is_more_wanted: bool,
    is_stopping: bool,
    /// All are to be killed, whatever they are at.
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
    /// It takes requests.
    Serving,
    /// It takes requests, and is to be replaced.
    WornOut,
    /// It has requests in progress and gets no more.
    Retiring { until: Instant },
    /// It has no request in progress.
    Drained,
    /// It was asked to end.
    Stopping { until: Instant },
    /// It was ended, and that is yet to be seen.
    Killed,
}

impl ProcessSet {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            rules,
            members: BTreeMap::new(),
            next_id: 1,
            is_more_wanted: false,
            is_stopping: false,
            is_killing: false,
            backoff: Backoff::default(),
        }
    }

    /// The next thing to do. `idle_since` says since when a member has had no request in progress.
    pub(super) fn next(&mut self, now: Instant, idle_since: &dyn Fn(MemberId) -> Option<Instant>) -> Step {
        if self.is_stopping && self.members.is_empty() {
            return Step::Over;
        }
        let due = self.members.iter().find_map(|(id, member)| Some((*id, self.due(member.state, now)?)));
        if let Some((id, state)) = due {
            return self.enter(id, state);
        }
        if self.is_start_wanted() && self.backoff.allows(now) {
            return Step::Start(self.next_id);
        }
        if let Some((id, since)) = self.longest_idle(idle_since)
            && self.rules.idle_timeout.is_some_and(|idle_timeout| now >= since + idle_timeout)
        {
            return self.enter(id, self.retiring(now));
        }
        Step::Wait(self.wake_at(now, idle_since))
    }

    /// The process that was to be started runs.
    pub(super) fn started(&mut self, now: Instant) {
        self.members.insert(self.next_id, Member { started: now, state: State::Serving });
        self.next_id += 1;
        self.is_more_wanted = false;
    }

    /// It could not be started, and is not tried again before the time returned.
    pub(super) fn cannot_start(&mut self, now: Instant) -> Instant {
        self.is_more_wanted = false;
        self.backoff.fail(now)
    }

    /// A process has ended. `is_in_order` if it had done work and says that all is well: one that ends itself after a
    /// number of requests.
    pub(super) fn ended(&mut self, id: MemberId, now: Instant, is_in_order: bool) -> Ended {
        let member = self.members.remove(&id);
        let ran =
            member.as_ref().map_or(Duration::ZERO, |member| now.saturating_duration_since(member.started));
        let was_asked =
            member.is_some_and(|member| matches!(member.state, State::Stopping { .. } | State::Killed));
        let has_failed = self.backoff.ended(ran, was_asked || is_in_order, now);
        Ended { ran, was_asked, next_start: has_failed }
    }

    /// One more process could be used, if there may be one.
    pub(super) fn want_more(&mut self) {
        self.is_more_wanted = self.is_more_wanted || self.taking_requests() < self.rules.max;
    }

    /// Replaces a member when it has no request in progress.
    pub(super) fn replace(&mut self, id: MemberId) {
        if self.state(id) == Some(State::Serving) {
            self.set(id, State::WornOut);
        }
    }

    /// A member that was retired has no request in progress.
    pub(super) fn drained(&mut self, id: MemberId) {
        if matches!(self.state(id), Some(State::Retiring { .. })) {
            self.set(id, State::Drained);
        }
    }

    /// All are to end.
    pub(super) fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// All are to be killed.
    pub(super) fn kill(&mut self) {
        self.is_stopping = true;
        self.is_killing = true;
    }

    /// Whether all are to be killed.
    pub(super) fn is_killing(&self) -> bool {
        self.is_killing
    }

    /// Whether a member was asked to end.
    pub(super) fn is_stopping(&self, id: MemberId) -> bool {
        matches!(self.state(id), Some(State::Stopping { .. }))
    }

    /// How many take requests.
    pub(super) fn taking_requests(&self) -> usize {
        self.members.values().filter(|member| member.state.takes_requests()).count()
    }

    fn state(&self, id: MemberId) -> Option<State> {
        self.members.get(&id).map(|member| member.state)
    }

    fn set(&mut self, id: MemberId, state: State) {
        if let Some(member) = self.members.get_mut(&id) {
            member.state = state;
        }
    }

    /// Puts a member into a state, and returns the step that this takes.
    fn enter(&mut self, id: MemberId, state: State) -> Step {
        self.set(id, state);
        match state {
            State::Serving | State::WornOut | State::Retiring { .. } => Step::Retire(id),
            State::Drained | State::Stopping { .. } => Step::Terminate(id),
            State::Killed => Step::Kill(id),
        }
    }

    /// The state that a member must enter now, whatever the others do.
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

    fn is_start_wanted(&self) -> bool {
        let is_wanted = self.is_more_wanted || self.taking_requests() < self.rules.min;
        is_wanted && self.members.len() < self.rules.max && !self.is_stopping
    }

    /// Of those that may end for want of work, the one that has had none for longest.
    fn longest_idle(&self, idle_since: &dyn Fn(MemberId) -> Option<Instant>) -> Option<(MemberId, Instant)> {
        if self.taking_requests() <= self.rules.min {
            return None;
        }
        let serving = self.members.iter().filter(|(_, member)| member.state == State::Serving);
        serving.filter_map(|(id, _)| Some((*id, idle_since(*id)?))).min_by_key(|(_, since)| *since)
    }

    /// When something is due that time alone brings about.
    fn wake_at(&self, now: Instant, idle_since: &dyn Fn(MemberId) -> Option<Instant>) -> Option<Instant> {
        let members = self.members.values().filter_map(|member| match member.state {
            State::Stopping { until } | State::Retiring { until } => Some(until),
            _ => None,
        });
        let start = self.backoff.until().filter(|_| self.is_start_wanted());
        let idle =
            self.rules.idle_timeout.filter(|_| self.taking_requests() > self.rules.min).map(|idle_timeout| {
                match self.longest_idle(idle_since) {
                    Some((_, since)) => since + idle_timeout,
                    // One that has work now cannot be idle for long enough before that time has passed from now on.
                    None => now + idle_timeout.max(LOOK_TIME_MIN),
                }
            });
        members.chain(start).chain(idle).min()
    }
}

impl State {
    fn takes_requests(self) -> bool {
        matches!(self, Self::Serving | Self::WornOut)
    }
}

#[cfg(test)]
mod tests;
