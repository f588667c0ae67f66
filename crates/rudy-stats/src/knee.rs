//! Searches for the highest rate at which a server meets an objective.
//!
//! The rate is that of an open loop, because a closed loop slows down with the server and hides the limit.
//! The search doubles the rate until the objective fails, bisects (by ratios) between the highest passing and
//! the lowest failing rate, and confirms the result with a longer step. Single steps depend on chance, so
//! near the limit each rate is tried up to three times, and a limit that a single step found is put to a
//! vote.
//!
//! ```
//! use rudy_stats::knee::{Cause, Next, Options, Report, Search};
//!
//! // A server that a closed loop has driven to 10,000 a second, and that keeps its promise up to 7000.
//! let mut search = Search::new(Options::default(), 10_000.0);
//! let answer = loop {
//!     match search.next() {
//!         Next::Step(step) if step.rate <= 7000.0 => search.report(Report::Held),
//!         Next::Step(_) => search.report(Report::Broke(Cause::Latency)),
//!         Next::Done(answer) => break answer,
//!     }
//! };
//! let (held, (broke, cause)) = (answer.held.unwrap(), answer.broke.unwrap());
//! assert!(held <= 7000.0 && 7000.0 < broke && broke < held * 1.06 && cause == Cause::Latency);
//! ```

use std::time::Duration;

/// Maximum number of steps, without those that confirm the result. A normal search needs about fifteen; this
/// ends a search on an unstable server.
pub const STEPS_MAX: u32 = 60;

/// Maximum number of attempts to confirm a result.
pub const HOLDS_MAX: u32 = 5;

/// The first rate is this fraction of the closed-loop throughput: low enough to pass as a rule, and three
/// doublings below the ceiling.
const FIRST: f64 = 1.0 / 8.0;

/// If the first rate fails, the next one is this fraction of it, because the limit is probably far lower.
const RETREAT: f64 = 4.0;

/// Voting starts when the range is this multiple of the resolution.
const NEAR: f64 = 5.0;

/// Two of three votes decide.
const MAJORITY: u32 = 2;

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
}

impl Options {
    /// The noise of servers is larger than a lower value.
    pub const RESOLUTION_MIN: f64 = 0.01;
    /// A higher value would find nothing that doubling does not.
    pub const RESOLUTION_MAX: f64 = 0.5;
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lowest: 1.0,
            highest: rudy_units::RATE_MAX,
            resolution: 0.05,
            step: Duration::from_secs(6),
            hold: Duration::from_secs(30),
        }
    }
}

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// Run this step.
    Step(Step),
    /// The search is complete.
    Done(Answer),
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
pub enum Report {
    /// The objective was met.
    Held,
    /// The objective failed, or the rate was not kept.
    Broke(Cause),
}

/// The cause of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A latency was too high.
    Latency,
    /// Too many requests failed.
    Errors,
    /// The server did not keep up: requests waited because all connections were busy.
    Backlog,
    /// The generator did not keep the rate although connections were free, so the server was not the limit.
    Generator,
}

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// The highest rate that passed, including the longer step; `None` if none did.
    pub held: Option<f64>,
    /// The lowest failing rate above it, and the cause; `None` if none failed.
    pub broke: Option<(f64, Cause)>,
}

impl Answer {
    /// Whether the result is a lower bound, because the server was not the limit.
    #[must_use]
    pub fn is_at_least(&self) -> bool {
        matches!(self.broke, None | Some((_, Cause::Generator)))
    }
}

/// A search in progress: run the step from [`next`](Self::next), and [`report`](Self::report) its result.
#[derive(Clone, Debug)]
pub struct Search {
    options: Options,
    tried: Vec<Tried>,
    steps: u32,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Try(Kind, f64),
    /// The number of attempts to confirm, from 0.
    Hold(u32, f64),
    Done(Answer),
}

/// The results for a rate.
#[derive(Clone, Copy, Debug)]
struct Tried {
    rate: f64,
    held: u32,
    broke: u32,
    /// The cause of the last failure.
    cause: Option<Cause>,
}

impl Tried {
    fn holds(&self) -> bool {
        self.held > self.broke
    }

    fn is_voted(&self) -> bool {
        self.held.max(self.broke) >= MAJORITY
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
            tried: Vec::new(),
            steps: 0,
            state: State::Done(Answer { held: None, broke: None }),
        };
        search.state = search.explore(Kind::Bracket, ceiling * FIRST);
        search
    }

    /// The next action; the same one until its result is reported.
    #[must_use]
    pub fn next(&self) -> Next {
        match self.state {
            State::Try(kind, rate) => Next::Step(Step { kind, rate, time: self.options.step }),
            State::Hold(_, rate) => Next::Step(Step { kind: Kind::Hold, rate, time: self.options.hold }),
            State::Done(answer) => Next::Done(answer),
        }
    }

    /// Records the result of the step from [`next`](Self::next). Has no effect after the end.
    pub fn report(&mut self, report: Report) {
        self.state = match self.state {
            State::Try(kind, rate) => {
                self.steps += 1;
                let tried = self.write_down(rate, report);
                if kind == Kind::Vote && !tried.is_voted() && self.steps < STEPS_MAX {
                    State::Try(kind, rate)
                } else {
                    self.decide()
                }
            }
            State::Hold(attempt, rate) => match report {
                Report::Held => State::Done(Answer { held: Some(rate), ..self.bracket() }),
                Report::Broke(cause) => self.give_way(attempt, rate, cause),
            },
            State::Done(answer) => State::Done(answer),
        };
    }

    fn write_down(&mut self, rate: f64, report: Report) -> Tried {
        let known = self.tried.iter().position(|tried| same(tried.rate, rate));
        let index = known.unwrap_or_else(|| {
            self.tried.push(Tried { rate, held: 0, broke: 0, cause: None });
            self.tried.len() - 1
        });
        let tried = &mut self.tried[index];
        match report {
            Report::Held => tried.held += 1,
            Report::Broke(cause) => {
                tried.broke += 1;
                tried.cause = Some(cause);
            }
        }
        *tried
    }

    /// The lowest failing rate, and the highest passing one below it.
    fn edges(&self) -> (Option<Tried>, Option<Tried>) {
        let by_rate = |a: &&Tried, b: &&Tried| a.rate.total_cmp(&b.rate);
        let high = self.tried.iter().filter(|tried| !tried.holds()).min_by(by_rate).copied();
        let is_below = |tried: &&Tried| high.is_none_or(|high| tried.rate < high.rate);
        let low = self.tried.iter().filter(|tried| tried.holds()).filter(is_below).max_by(by_rate).copied();
        (low, high)
    }

    fn bracket(&self) -> Answer {
        let (low, high) = self.edges();
        Answer {
            held: low.map(|low| low.rate),
            broke: high.and_then(|high| high.cause.map(|cause| (high.rate, cause))),
        }
    }

    fn decide(&self) -> State {
        let Options { lowest, highest, resolution, .. } = self.options;
        match self.edges() {
            (None, None) => State::Done(self.bracket()),
            (Some(low), _) if self.steps >= STEPS_MAX => State::Hold(0, low.rate),
            (None, Some(_)) if self.steps >= STEPS_MAX => State::Done(self.bracket()),
            (Some(low), None) if low.rate >= highest => State::Hold(0, low.rate),
            (Some(low), None) => self.explore(Kind::Bracket, low.rate * 2.0),
            (None, Some(high)) if high.rate > lowest => self.explore(Kind::Bracket, high.rate / RETREAT),
            (None, Some(high)) if high.is_voted() => State::Done(self.bracket()),
            (None, Some(high)) => State::Try(Kind::Vote, high.rate),
            (Some(low), Some(high)) if high.rate > low.rate * (1.0 + resolution) => {
                let is_near = high.rate <= low.rate * (1.0 + NEAR * resolution);
                let kind = if is_near { Kind::Vote } else { Kind::Bisect };
                self.explore(kind, (low.rate * high.rate).sqrt())
            }
            (Some(_), Some(high)) if !high.is_voted() => State::Try(Kind::Vote, high.rate),
            (Some(low), Some(_)) if !low.is_voted() => State::Try(Kind::Vote, low.rate),
            (Some(low), Some(_)) => State::Hold(0, low.rate),
        }
    }

    /// Whether a rate was not tried before.
    fn explore(&self, kind: Kind, rate: f64) -> State {
        let Options { lowest, highest, .. } = self.options;
        State::Try(kind, rounded(rate).min(highest).max(lowest))
    }

    /// The result was not confirmed: continue with a lower rate, in doubling steps.
    fn give_way(&mut self, attempt: u32, rate: f64, cause: Cause) -> State {
        // That it passed a short step no longer counts.
        self.tried.retain(|tried| tried.rate < rate);
        self.tried.push(Tried { rate, held: 0, broke: MAJORITY, cause: Some(cause) });
        if attempt + 1 == HOLDS_MAX || rate <= self.options.lowest {
            return State::Done(Answer { held: None, ..self.bracket() });
        }
        let less = (self.options.resolution * f64::from(1 << attempt)).min(0.5);
        State::Hold(attempt + 1, rounded(rate * (1.0 - less)).max(self.options.lowest))
    }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BROKE: Report = Report::Broke(Cause::Latency);

    /// Runs a search on a simulated server: the result and the steps.
    fn search(
        options: Options,
        ceiling: f64,
        mut server: impl FnMut(Step) -> Report,
    ) -> (Answer, Vec<(Step, Report)>) {
        let mut search = Search::new(options, ceiling);
        let mut steps = Vec::new();
        loop {
            match search.next() {
                Next::Done(answer) => return (answer, steps),
                Next::Step(step) => {
                    assert!((options.lowest..=options.highest).contains(&step.rate), "{step:?}");
                    let report = server(step);
                    steps.push((step, report));
                    assert!(steps.len() <= (STEPS_MAX + HOLDS_MAX) as usize, "{steps:?}");
                    search.report(report);
                }
            }
        }
    }

    fn hard(knee: f64) -> impl FnMut(Step) -> Report {
        move |step| if step.rate <= knee { Report::Held } else { BROKE }
    }

    #[test]
    fn it_doubles_bisects_votes_and_holds() {
        let (answer, steps) = search(Options::default(), 16_000.0, hard(11_000.0));
        let seen: Vec<_> = steps.iter().map(|(step, _)| (step.kind, step.rate)).collect();
        assert_eq!(
            seen,
            [
                (Kind::Bracket, 2000.0),
                (Kind::Bracket, 4000.0),
                (Kind::Bracket, 8000.0),
                (Kind::Bracket, 16_000.0),
                (Kind::Bisect, 11_310.0),
                (Kind::Bisect, 9512.0),
                (Kind::Vote, 10_370.0),
                (Kind::Vote, 10_370.0),
                (Kind::Vote, 10_830.0),
                (Kind::Vote, 10_830.0),
                (Kind::Vote, 11_310.0),
                (Kind::Hold, 10_830.0),
            ]
        );
        assert_eq!(answer, Answer { held: Some(10_830.0), broke: Some((11_310.0, Cause::Latency)) });
        assert!(!answer.is_at_least());
    }

    #[test]
    fn one_unlucky_step_does_not_decide() {
        let mut is_first = true;
        let (answer, _) = search(Options::default(), 16_000.0, |step| {
            // The first step at 4000 is disturbed.
            if same(step.rate, 4000.0) && std::mem::take(&mut is_first) {
                return Report::Broke(Cause::Errors);
            }
            hard(11_000.0)(step)
        });
        assert!((10_400.0..=11_000.0).contains(&answer.held.unwrap()), "{answer:?}");
        assert_eq!(answer.broke.unwrap().1, Cause::Latency);
    }

    #[test]
    fn a_server_that_never_holds_is_tried_down_to_the_lowest_rate() {
        let options = Options { lowest: 10.0, ..Options::default() };
        let (answer, steps) = search(options, 16_000.0, |_| Report::Broke(Cause::Errors));
        assert_eq!(answer, Answer { held: None, broke: Some((10.0, Cause::Errors)) });
        assert_eq!(steps.len(), 6, "2000, 500, 125, 31.25, 10, and a vote: {steps:?}");
    }

    #[test]
    fn a_server_that_never_breaks_is_tried_up_to_the_highest_rate() {
        let options = Options { highest: 100_000.0, ..Options::default() };
        let (answer, steps) = search(options, 16_000.0, |_| Report::Held);
        assert_eq!(answer, Answer { held: Some(100_000.0), broke: None });
        assert!(answer.is_at_least());
        assert_eq!(steps.last().unwrap().0.kind, Kind::Hold);
    }

    #[test]
    fn where_the_generator_breaks_the_answer_is_a_lower_bound() {
        let (answer, _) = search(Options::default(), 16_000.0, |step| {
            if step.rate > 9000.0 { Report::Broke(Cause::Generator) } else { Report::Held }
        });
        assert!(answer.is_at_least() && answer.held.unwrap() <= 9000.0, "{answer:?}");
    }

    #[test]
    fn what_does_not_hold_for_long_gives_way_to_less() {
        // Short steps pass up to 11,000, long ones up to 9500: 5 and 10 % less.
        let server = |step: Step| {
            let knee = if step.kind == Kind::Hold { 9500.0 } else { 11_000.0 };
            hard(knee)(step)
        };
        let (answer, steps) = search(Options::default(), 16_000.0, server);
        assert_eq!(answer, Answer { held: Some(9261.0), broke: Some((10_290.0, Cause::Latency)) });
        assert_eq!(steps.iter().filter(|(step, _)| step.kind == Kind::Hold).count(), 3);
        // If no rate passes, there is no result.
        let never = |step: Step| if step.kind == Kind::Hold { BROKE } else { hard(11_000.0)(step) };
        assert_eq!(search(Options::default(), 16_000.0, never).0.held, None);
    }

    #[test]
    fn a_ceiling_of_nothing_begins_at_the_lowest_rate() {
        for ceiling in [0.0, f64::NAN, -1.0, f64::INFINITY] {
            let (answer, steps) = search(Options::default(), ceiling, hard(100.0));
            assert_eq!(steps[0].0.rate.to_bits(), 1.0_f64.to_bits());
            assert!(answer.held.unwrap() <= 100.0);
        }
    }

    /// The probability to pass falls from 98 % to 2 % between 0.9 and 1.1 of the limit. Returns the result
    /// relative to the limit.
    fn soft(ceiling: f64, seed: u64) -> f64 {
        let (knee, mut random) = (5000.0, seed);
        let (answer, _) = search(Options::default(), knee * ceiling, |step| {
            // Knuth's MMIX, of which the upper half is random enough.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let drawn = f64::from(u32::try_from(random >> 32).unwrap()) / f64::from(u32::MAX);
            let chance = 1.0 / (1.0 + (40.0 * (step.rate / knee).ln()).exp());
            if drawn < chance { Report::Held } else { BROKE }
        });
        let (held, (broke, _)) = (answer.held.unwrap(), answer.broke.unwrap());
        assert!(held < broke, "{answer:?}");
        held / knee
    }

    #[test]
    fn a_soft_knee_is_found_near_where_half_of_the_steps_hold() {
        let found: Vec<f64> = (0..1000_u32).map(|n| soft(0.5 + f64::from(n) / 250.0, n.into())).collect();
        let near = found.iter().filter(|found| (0.88..1.08).contains(*found)).count();
        assert!(near >= 950, "{near} of 1000");
        // In the others, the long step failed by chance.
        assert!(found.iter().all(|found| (0.4..1.2).contains(found)));
    }

    proptest! {
        #[test]
        fn a_hard_knee_is_bracketed_to_the_resolution(
            knee in 2.0..1e6_f64, ceiling in 1.0..1e7_f64, resolution in 0.01..0.5_f64,
        ) {
            let options = Options { resolution, ..Options::default() };
            let (answer, _) = search(options, ceiling, hard(knee));
            let (held, (broke, _)) = (answer.held.unwrap(), answer.broke.unwrap());
            prop_assert!(held <= knee && knee < broke, "{answer:?}");
            prop_assert!(broke <= held * (1.0 + resolution), "{answer:?}");
        }

        #[test]
        fn any_server_at_all_is_done_with_in_time(reports in prop::collection::vec(0..4_u8, 100), ceiling in 0.0..1e9_f64) {
            let mut reports = reports.into_iter();
            let (answer, steps) = search(Options::default(), ceiling, |_| match reports.next() {
                Some(0 | 1) => Report::Held,
                Some(2) => Report::Broke(Cause::Generator),
                _ => BROKE,
            });
            if let Some(held) = answer.held {
                let last = steps.last().unwrap();
                prop_assert_eq!((last.0.kind, last.1), (Kind::Hold, Report::Held));
                prop_assert!(same(last.0.rate, held));
                prop_assert!(answer.broke.is_none_or(|(broke, _)| held < broke));
            }
        }
    }
}
