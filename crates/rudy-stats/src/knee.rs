//! The search for the highest rate at which a server holds an objective.
//!
//! What is asked is a rate of an open loop: a closed loop asks a slow server less, and finds no edge. The search doubles
//! the rate until it breaks, halves the distance (in ratios) between the highest that held and the lowest that broke, and
//! holds the answer for longer at the end. Chance decides single steps, so near the edge each rate is tried up to three
//! times, and an edge that one step alone has found is voted on before it is believed.
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

/// Steps of one search at most, those that hold the answer aside. A search of one knee takes some fifteen; this ends one
/// whose server changes its mind.
pub const STEPS_MAX: u32 = 60;

/// Attempts to hold an answer.
pub const HOLDS_MAX: u32 = 5;

/// The first rate is this part of what a closed loop got: low enough to hold as a rule, three doublings from the ceiling.
const FIRST: f64 = 1.0 / 8.0;

/// Where the first rate breaks, the next is this much lower: what broke it so far below the ceiling is rarely near.
const RETREAT: f64 = 4.0;

/// Steps are voted on where the edge is known to so many times the resolution.
const NEAR: f64 = 5.0;

/// Of three votes two decide.
const MAJORITY: u32 = 2;

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// No lower rate is tried, in requests per second.
    pub lowest: f64,
    /// No higher rate is tried.
    pub highest: f64,
    /// How near to each other the highest rate that held and the lowest that broke must come, as a part of the rate;
    /// from [`Options::RESOLUTION_MIN`] to [`Options::RESOLUTION_MAX`].
    pub resolution: f64,
    /// How long a rate is tried.
    pub step: Duration,
    /// How long the answer must hold.
    pub hold: Duration,
}

impl Options {
    /// Below this the noise of any server is larger.
    pub const RESOLUTION_MIN: f64 = 0.01;
    /// Above this nothing is found that doubling has not.
    pub const RESOLUTION_MAX: f64 = 0.5;
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lowest: 1.0,
            highest: crate::schedule::RATE_MAX,
            resolution: 0.05,
            step: Duration::from_secs(6),
            hold: Duration::from_secs(30),
        }
    }
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// Try this.
    Step(Step),
    /// Nothing more.
    Done(Answer),
}

/// A rate to try.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Why.
    pub kind: Kind,
    /// Requests per second, in all.
    pub rate: f64,
    /// For how long.
    pub time: Duration,
}

/// Why a rate is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// To find a rate that holds and one that breaks.
    Bracket,
    /// To bring them nearer to each other.
    Bisect,
    /// To be sure of one, near the edge.
    Vote,
    /// To see whether the answer holds for longer.
    Hold,
}

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// The objective held.
    Held,
    /// It did not, or the rate was not kept.
    Broke(Cause),
}

/// What broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A time was longer than it may be.
    Latency,
    /// Too many requests were not answered rightly.
    Errors,
    /// Requests waited for connections, which all were busy with the server: it did not keep up.
    Backlog,
    /// The generator did not keep the rate, with connections free: nothing is known of the server.
    Generator,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// The highest rate that held, to the end of the long step; nothing where none did.
    pub held: Option<f64>,
    /// The lowest rate above it that broke, and what did; nothing where none broke.
    pub broke: Option<(f64, Cause)>,
}

impl Answer {
    /// Whether the server may hold more: it was not the server that broke.
    #[must_use]
    pub fn is_at_least(&self) -> bool {
        matches!(self.broke, None | Some((_, Cause::Generator)))
    }
}

/// A search under way: do what [`next`](Self::next) says, and [`report`](Self::report) what came of it.
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
    /// The so-manieth attempt, from 0.
    Hold(u32, f64),
    Done(Answer),
}

/// What is known of a rate.
#[derive(Clone, Copy, Debug)]
struct Tried {
    rate: f64,
    held: u32,
    broke: u32,
    /// What broke last.
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
    /// A search that begins below `ceiling`: the requests per second that a closed loop got. It is where to look, and no
    /// bound: an open loop may hold more than it or, as a rule, less.
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

    /// What is to be done now; the same until it is reported.
    #[must_use]
    pub fn next(&self) -> Next {
        match self.state {
            State::Try(kind, rate) => Next::Step(Step { kind, rate, time: self.options.step }),
            State::Hold(_, rate) => Next::Step(Step { kind: Kind::Hold, rate, time: self.options.hold }),
            State::Done(answer) => Next::Done(answer),
        }
    }

    /// Takes in what came of the step that [`next`](Self::next) said. After the end it changes nothing.
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

    /// The lowest rate that breaks, and the highest below it that holds.
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

    /// A rate that was not tried before.
    fn explore(&self, kind: Kind, rate: f64) -> State {
        let Options { lowest, highest, .. } = self.options;
        State::Try(kind, rounded(rate).min(highest).max(lowest))
    }

    /// The answer has not held: a lower one, by twice as much each time.
    fn give_way(&mut self, attempt: u32, rate: f64, cause: Cause) -> State {
        // That it held for a short time counts no more.
        self.tried.retain(|tried| tried.rate < rate);
        self.tried.push(Tried { rate, held: 0, broke: MAJORITY, cause: Some(cause) });
        if attempt + 1 == HOLDS_MAX || rate <= self.options.lowest {
            return State::Done(Answer { held: None, ..self.bracket() });
        }
        let less = (self.options.resolution * f64::from(1 << attempt)).min(0.5);
        State::Hold(attempt + 1, rounded(rate * (1.0 - less)).max(self.options.lowest))
    }
}

/// To four digits: a rate that a person can give again, and no coarser than any resolution.
fn rounded(rate: f64) -> f64 {
    if !(rate.is_finite() && rate > 0.0) {
        return 0.0;
    }
    let digits = 3.0 - rate.log10().floor();
    // Powers of ten are exact, their inverses are not.
    let scale = 10_f64.powf(digits.abs());
    if digits >= 0.0 { (rate * scale).round() / scale } else { (rate / scale).round() * scale }
}

/// Rates are four digits of their own making.
fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= a * 1e-9
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BROKE: Report = Report::Broke(Cause::Latency);

    /// Searches a server to the end: the answer, and the steps.
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
            // The first time that 4000 is asked, something else has the machine.
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
        // Short steps hold up to 11,000, long ones up to 9500: by 5 and by 10 % less.
        let server = |step: Step| {
            let knee = if step.kind == Kind::Hold { 9500.0 } else { 11_000.0 };
            hard(knee)(step)
        };
        let (answer, steps) = search(Options::default(), 16_000.0, server);
        assert_eq!(answer, Answer { held: Some(9261.0), broke: Some((10_290.0, Cause::Latency)) });
        assert_eq!(steps.iter().filter(|(step, _)| step.kind == Kind::Hold).count(), 3);
        // And where it never does, none is said to hold.
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

    /// The chance to hold falls from 98 % to 2 % between 0.9 and 1.1 of the knee: where of it the answer lies.
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
        // The others are those whose long step failed by chance.
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
