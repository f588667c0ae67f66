//! Searches for the highest rate at which a server meets an objective.
//!
//! The rate is that of an open loop, because a closed loop slows down with the server and hides the limit.
//! The search doubles the rate until the objective fails, bisects (by ratios) between the highest passing and
//! the lowest failing rate, and confirms the result with a longer step, the hold. Single steps depend on
//! chance, so near the limit each rate is tried up to three times, and a limit that a single step found is put
//! to a vote.
//!
//! If the hold fails, short steps have shown too much. The search then goes down with holds until one passes,
//! and bisects with holds between the two.
//!
//! ```
//! use rudy_stats::search::{Cause, Next, Options, Search, StepResult};
//!
//! // A server that a closed loop has driven to 10,000 a second, and that meets the objective up to 7000.
//! let mut search = Search::new(Options::default(), 10_000.0);
//! let result = loop {
//!     match search.next() {
//!         Next::Step(step) if step.rate <= 7000.0 => search.report(StepResult::Passed),
//!         Next::Step(_) => search.report(StepResult::Failed(Cause::Latency)),
//!         Next::Done(result) => break result,
//!     }
//! };
//! let (passed, (failed, cause)) = (result.passed.unwrap(), result.failed.unwrap());
//! assert!(passed <= 7000.0 && 7000.0 < failed && failed <= passed * 1.05 && cause == Cause::Latency);
//! ```

#[cfg(test)]
mod tests;

use std::time::Duration;

/// Maximum number of short steps. A normal search needs about fifteen; this ends a search on an unstable
/// server.
pub const STEPS_MAX: u32 = 60;

/// Maximum number of holds. A search whose first hold fails needs about four more; this is enough for a server that
/// sustains only a tenth of what it does for a short time.
pub const HOLDS_MAX: u32 = 12;

/// The first rate is this fraction of the closed-loop throughput: low enough to pass as a rule, and three
/// doublings below the ceiling.
const FIRST: f64 = 1.0 / 8.0;

/// If the first rate fails, the next one is this fraction of it, because the limit is probably far lower.
const FIRST_DECREASE: f64 = 4.0;

/// Voting starts when the range is this multiple of the resolution.
const NEAR: f64 = 5.0;

/// Two of three votes decide.
const MAJORITY: u32 = 2;

/// The first hold after a failed one is lower by this fraction of the resolution, so that rounding does not
/// make the range larger than the resolution.
const HOLD_DECREASE: f64 = 0.9;

/// The settings of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// The lowest rate to try, in requests per second.
    pub lowest: f64,
    /// The highest rate to try.
    pub highest: f64,
    /// The maximum distance between the highest passing and the lowest failing rate, as a fraction of the
    /// rate; from [`Options::RESOLUTION_MIN`] to [`Options::RESOLUTION_MAX`].
    pub resolution: f64,
    /// The duration of a step.
    pub step: Duration,
    /// The duration of the step that confirms the result.
    pub hold: Duration,
    /// The minimum number of requests of a step. At a low rate, a step lasts longer, up to the hold.
    pub requests: f64,
}

impl Options {
    /// The noise of servers is larger than a lower value.
    pub const RESOLUTION_MIN: f64 = 0.01;
    /// A higher value would find nothing that doubling does not.
    pub const RESOLUTION_MAX: f64 = 0.5;

    /// The duration of a short step at this rate.
    fn step_at(&self, rate: f64) -> Duration {
        let needed = Duration::try_from_secs_f64(self.requests / rate).unwrap_or(self.hold);
        self.step.max(needed.min(self.hold))
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lowest: 1.0,
            highest: rudy_units::RATE_MAX,
            resolution: 0.05,
            step: Duration::from_secs(6),
            hold: Duration::from_secs(30),
            requests: 0.0,
        }
    }
}

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// Run this step.
    Step(Step),
    /// The search is complete.
    Done(SearchResult),
}

/// A step of the search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The purpose.
    pub kind: Kind,
    /// Total requests per second.
    pub rate: f64,
    /// The duration.
    pub time: Duration,
}

/// The purpose of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Find a passing and a failing rate.
    Bracket,
    /// Narrow the range.
    Bisect,
    /// Confirm a step near the limit.
    Vote,
    /// Confirm the result with a longer step.
    Hold,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepResult {
    /// The objective was met.
    Passed,
    /// The objective was not met, or the rate was not kept.
    Failed(Cause),
}

/// The cause of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A latency was too high.
    Latency,
    /// Too many requests failed.
    Errors,
    /// The server did not keep up: responses took longer and longer, or too long while all connections were busy.
    Backlog,
    /// Requests waited because all connections were busy, although the server responded in time to those that were sent.
    Connections,
    /// The client did not keep the rate although connections were free, so the server was not the limit.
    Client,
    /// There were too few requests to judge a percentile: it is neither met nor missed.
    TooFewRequests,
}

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchResult {
    /// The highest rate that passed; `None` if none did.
    pub passed: Option<f64>,
    /// The lowest failing rate above it, and the cause; `None` if none failed.
    pub failed: Option<(f64, Cause)>,
    /// The reason, if the result is less than promised: the two rates are further apart than the resolution, or no hold
    /// confirmed the passing one.
    pub incomplete: Option<Incomplete>,
}

/// The reason that a result is less than promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incomplete {
    /// The maximum number of steps or holds was reached: the server is not stable.
    StepsExhausted,
    /// The rate passed short steps, and no hold passed at any rate.
    Unconfirmed,
}

impl SearchResult {
    /// Whether the result is a lower bound, because the server was not the limit.
    #[must_use]
    pub fn is_lower_bound(&self) -> bool {
        let has_passed = self.passed.is_some() && self.incomplete != Some(Incomplete::Unconfirmed);
        has_passed && matches!(self.failed, None | Some((_, Cause::Client | Cause::Connections)))
    }
}

/// A search in progress: run the step from [`next`](Self::next), and [`report`](Self::report) its result.
#[derive(Clone, Debug)]
pub struct Search {
    options: Options,
    /// Short steps.
    tested: Vec<TestedRate>,
    /// Holds, one at each rate.
    holds: Vec<TestedRate>,
    steps: u32,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Try(Kind, f64),
    Hold(f64),
    Done(SearchResult),
}

/// The results for a rate.
#[derive(Clone, Copy, Debug)]
struct TestedRate {
    rate: f64,
    passed: u32,
    failed: u32,
    /// The cause of the last failure.
    cause: Option<Cause>,
}

impl TestedRate {
    fn passes(&self) -> bool {
        self.passed > self.failed
    }

    fn is_confirmed(&self) -> bool {
        self.passed.max(self.failed) >= MAJORITY
    }

    fn failure(self) -> Option<(f64, Cause)> {
        self.cause.map(|cause| (self.rate, cause))
    }
}

impl Search {
    /// Starts a search below `ceiling`, the requests per second of a closed loop. It is a starting point and
    /// not a bound: an open loop can sustain more or, usually, less.
    #[must_use]
    pub fn new(options: Options, ceiling: f64) -> Self {
        let resolution = options.resolution.clamp(Options::RESOLUTION_MIN, Options::RESOLUTION_MAX);
        let mut search = Self {
            options: Options { resolution, ..options },
            tested: Vec::new(),
            holds: Vec::new(),
            steps: 0,
            state: State::Hold(0.0),
        };
        search.state = search.test_new_rate(Kind::Bracket, ceiling * FIRST);
        search
    }

    /// The next action; the same one until its result is reported.
    #[must_use]
    pub fn next(&self) -> Next {
        match self.state {
            State::Try(kind, rate) => Next::Step(Step { kind, rate, time: self.options.step_at(rate) }),
            State::Hold(rate) => Next::Step(Step { kind: Kind::Hold, rate, time: self.options.hold }),
            State::Done(result) => Next::Done(result),
        }
    }

    /// Records the result of the step from [`next`](Self::next). Has no effect after the end.
    pub fn report(&mut self, result: StepResult) {
        self.state = match self.state {
            State::Try(kind, rate) => {
                self.steps += 1;
                let tested = record(&mut self.tested, rate, result);
                if kind == Kind::Vote && !tested.is_confirmed() && self.steps < STEPS_MAX {
                    State::Try(kind, rate)
                } else {
                    self.decide()
                }
            }
            State::Hold(rate) => {
                record(&mut self.holds, rate, result);
                self.decide_by_holds()
            }
            State::Done(result) => State::Done(result),
        };
    }

    /// The next step while only short ones were run.
    fn decide(&self) -> State {
        let Options { lowest, highest, resolution, .. } = self.options;
        match bracket(&self.tested) {
            (Some(low), _) if self.steps >= STEPS_MAX => State::Hold(low.rate),
            (None, _) if self.steps >= STEPS_MAX => self.unconfirmed_result(),
            (Some(low), None) if low.rate >= highest => State::Hold(low.rate),
            (Some(low), None) => self.test_new_rate(Kind::Bracket, low.rate * 2.0),
            (None, Some(high)) if high.rate > lowest => {
                self.test_new_rate(Kind::Bracket, high.rate / FIRST_DECREASE)
            }
            (None, Some(high)) if !high.is_confirmed() => State::Try(Kind::Vote, high.rate),
            (None, _) => self.unconfirmed_result(),
            (Some(low), Some(high)) if high.rate > low.rate * (1.0 + resolution) => {
                let is_near = high.rate <= low.rate * (1.0 + NEAR * resolution);
                let kind = if is_near { Kind::Vote } else { Kind::Bisect };
                self.test_new_rate(kind, (low.rate * high.rate).sqrt())
            }
            (Some(_), Some(high)) if !high.is_confirmed() => State::Try(Kind::Vote, high.rate),
            (Some(low), Some(_)) if !low.is_confirmed() => State::Try(Kind::Vote, low.rate),
            (Some(low), Some(_)) => State::Hold(low.rate),
        }
    }

    /// The next step after a hold. Rates above a failed hold are not tried again.
    fn decide_by_holds(&self) -> State {
        let Options { lowest, resolution, .. } = self.options;
        let are_holds_exhausted = self.holds.len() >= HOLDS_MAX as usize;
        match bracket(&self.holds) {
            // The first hold passed.
            (Some(low), None) => {
                let failed = bracket(&self.tested).1.and_then(TestedRate::failure);
                self.finished(low.rate, failed)
            }
            (Some(low), Some(high)) if are_holds_exhausted || high.rate <= low.rate * (1.0 + resolution) => {
                self.finished(low.rate, high.failure())
            }
            (Some(low), Some(high)) => State::Hold(rounded((low.rate * high.rate).sqrt())),
            (None, Some(high)) if !are_holds_exhausted && high.rate > lowest => {
                let doubled = resolution * HOLD_DECREASE * 2.0_f64.powi(exponent(self.holds.len()));
                State::Hold(rounded(high.rate / (1.0 + doubled.min(1.0))).max(lowest))
            }
            (None, _) => self.unconfirmed_result(),
        }
    }

    fn finished(&self, passed: f64, failed: Option<(f64, Cause)>) -> State {
        let is_wide = failed.is_some_and(|(failed, _)| failed > passed * (1.0 + self.options.resolution));
        let incomplete = is_wide.then_some(Incomplete::StepsExhausted);
        State::Done(SearchResult { passed: Some(passed), failed, incomplete })
    }

    /// The result if no hold passed: the highest rate that passed short steps, below the lowest failing one. If
    /// only rates above a failing one passed, the server is unstable, and the lowest of them is the result.
    fn unconfirmed_result(&self) -> State {
        let failed = lowest_failure(&self.holds).or_else(|| lowest_failure(&self.tested));
        let has_failed_hold =
            |rate: f64| self.holds.iter().any(|hold| same(hold.rate, rate) && !hold.passes());
        let passing = self.tested.iter().filter(|tested| tested.passes()).map(|tested| tested.rate);
        let passing = passing.filter(|rate| !has_failed_hold(*rate));
        let is_below = |rate: &f64| failed.is_none_or(|failed| *rate < failed.rate);
        let below = passing.clone().filter(is_below).max_by(f64::total_cmp);
        let passed = below.or_else(|| passing.min_by(f64::total_cmp));
        let is_above = |failed: &TestedRate| passed.is_none_or(|passed| passed < failed.rate);
        State::Done(SearchResult {
            passed,
            failed: failed.filter(is_above).and_then(TestedRate::failure),
            incomplete: passed.is_some().then_some(Incomplete::Unconfirmed),
        })
    }

    /// A step at a rate that was not tried before.
    fn test_new_rate(&self, kind: Kind, rate: f64) -> State {
        let Options { lowest, highest, .. } = self.options;
        State::Try(kind, rounded(rate).min(highest).max(lowest))
    }
}

fn record(all: &mut Vec<TestedRate>, rate: f64, result: StepResult) -> TestedRate {
    let known = all.iter().position(|tested| same(tested.rate, rate));
    let index = known.unwrap_or_else(|| {
        all.push(TestedRate { rate, passed: 0, failed: 0, cause: None });
        all.len() - 1
    });
    let tested = &mut all[index];
    match result {
        StepResult::Passed => tested.passed += 1,
        StepResult::Failed(cause) => {
            tested.failed += 1;
            tested.cause = Some(cause);
        }
    }
    *tested
}

fn lowest_failure(all: &[TestedRate]) -> Option<TestedRate> {
    all.iter().filter(|tested| !tested.passes()).min_by(|a, b| a.rate.total_cmp(&b.rate)).copied()
}

/// The highest passing rate below the lowest failing one, and the latter.
fn bracket(all: &[TestedRate]) -> (Option<TestedRate>, Option<TestedRate>) {
    let high = lowest_failure(all);
    let is_below = |tested: &&TestedRate| high.is_none_or(|high| tested.rate < high.rate);
    let passing = all.iter().filter(|tested| tested.passes()).filter(is_below);
    (passing.max_by(|a, b| a.rate.total_cmp(&b.rate)).copied(), high)
}

/// The exponent of the next retreat: 0 after the first failed hold.
fn exponent(holds: usize) -> i32 {
    i32::try_from(holds.saturating_sub(1)).unwrap_or(i32::MAX)
}

/// Rounds to four digits: short enough to type, and finer than any resolution.
fn rounded(rate: f64) -> f64 {
    if !(rate.is_finite() && rate > 0.0) {
        return 0.0;
    }
    let digits = 3.0 - rate.log10().floor();
    // Powers of ten are exact, their inverses are not.
    let scale = 10_f64.powf(digits.abs());
    if digits >= 0.0 { (rate * scale).round() / scale } else { (rate / scale).round() * scale }
}

/// Rates were rounded to four digits, so they can be compared exactly.
fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= a * 1e-9
}
