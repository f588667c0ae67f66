//! Decides whether a report fails: `--fail-if-worse` and `--require-not-worse`.

use std::fmt;

use rudy_command::Exit;
use rudy_stats::compare::{Better, Finding, PAIRS_MIN, Verdict};

use super::analysis::{ComparisonResult, Evaluation, better};

/// The condition under which a report fails, with the allowed difference: 0.05 for `5%`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Gate {
    /// A variant is shown to be worse, and its estimated ratio exceeds the difference.
    FailIfWorse(f64),
    /// It is not shown that each variant is worse by less than the difference.
    RequireNotWorse(f64),
}

impl fmt::Display for Gate {
    /// `--fail-if-worse 5%`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}%", self.flag(), self.difference() * 100.0)
    }
}

/// Parses a percentage.
fn difference(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(rudy_units::parse_decimal);
    let limit = number.filter(|percent| (0.0..=1000.0).contains(percent));
    limit.map(|percent| percent / 100.0).ok_or_else(|| "expected a percentage, as in 5%".to_owned())
}

impl Gate {
    /// Parses the value of `--fail-if-worse`.
    ///
    /// # Errors
    ///
    /// It is no percentage.
    pub fn fail_if_worse(text: &str) -> Result<Self, String> {
        difference(text).map(Self::FailIfWorse)
    }

    /// Parses the value of `--require-not-worse`.
    ///
    /// # Errors
    ///
    /// It is no percentage above 0: no interval excludes a difference that is arbitrarily small.
    pub fn require_not_worse(text: &str) -> Result<Self, String> {
        let above_zero = difference(text)?;
        if above_zero > 0.0 {
            Ok(Self::RequireNotWorse(above_zero))
        } else {
            Err("expected more than 0%".to_owned())
        }
    }

    fn flag(self) -> &'static str {
        match self {
            Self::FailIfWorse(_) => "--fail-if-worse",
            Self::RequireNotWorse(_) => "--require-not-worse",
        }
    }

    fn difference(self) -> f64 {
        match self {
            Self::FailIfWorse(difference) | Self::RequireNotWorse(difference) => difference,
        }
    }

    /// The exit code of these comparisons, with a message. Without a verdict, it is an error, and so is a run that did not do the work: a
    /// server that responds with errors is fast. If more requests failed, the report fails. An inconclusive comparison passes with
    /// `--fail-if-worse`, because it is not *worse*, and its interval decides with `--require-not-worse`.
    pub(super) fn exit(self, comparisons: &[ComparisonResult]) -> (Exit, String) {
        let (mut open, mut worse) = (Vec::new(), Vec::new());
        for compared in comparisons {
            let (list, text): (&mut Vec<String>, _) = match reason_without_verdict(compared) {
                Some(reason) => (&mut open, named(compared) + &reason),
                None if self.fails(compared) => (&mut worse, compared.sentence.clone()),
                None => continue,
            };
            list.push(text);
        }
        for compared in comparisons.iter().filter(|compared| self.has_more_errors(compared)) {
            let ComparisonResult { variant, with, workload, .. } = compared;
            let sentence = format!("{variant} has more failed requests than {with} under {workload}");
            if !worse.contains(&sentence) {
                worse.push(sentence);
            }
        }
        if !worse.is_empty() {
            return (Exit::NotMet, format!("{}: {}", self.failure(), worse.join("; ")));
        }
        if open.is_empty() && !comparisons.is_empty() {
            return (Exit::Done, self.inconclusive(comparisons));
        }
        let what = if comparisons.is_empty() { "there is no comparison".to_owned() } else { open.join("; ") };
        (Exit::CannotRun, format!("{} cannot be decided: {what}", self.flag()))
    }

    fn failure(self) -> String {
        let percent = self.difference() * 100.0;
        match self {
            Self::FailIfWorse(_) => format!("worse by more than {percent}%"),
            Self::RequireNotWorse(_) => format!("not shown to be less than {percent}% worse"),
        }
    }

    fn fails(self, compared: &ComparisonResult) -> bool {
        let Evaluation::Done(finding) = &compared.evaluation else { return false };
        let limit = 1.0 + self.difference();
        match self {
            // For a rate, worse is a ratio below 1.
            Self::FailIfWorse(_) => {
                finding.verdict == Verdict::Worse && finding.ratio.max(1.0 / finding.ratio) > limit
            }
            Self::RequireNotWorse(_) => worst(compared, finding) >= limit,
        }
    }

    /// Whether more than half of the runs of a variant have more failed requests than every run of the other one. In six rounds or more,
    /// chance has this result in less than 4 % of all cases: for six, C(6, 4) / C(12, 4). A single error is none.
    fn has_more_errors(self, compared: &ComparisonResult) -> bool {
        let [own, other] = &compared.failures.errors;
        let highest = other.iter().copied().fold(0.0, f64::max) * (1.0 + self.difference());
        let more = own.iter().filter(|errors| **errors > highest).count();
        let is_known = own.len().min(other.len()) >= PAIRS_MIN && compared.failures.reason.is_none();
        is_known && 2 * more > own.len()
    }

    /// A note about the comparisons that are inconclusive.
    fn inconclusive(self, comparisons: &[ComparisonResult]) -> String {
        let count = comparisons.iter().filter(|compared| !compared.is_decided()).count();
        if count == 0 || matches!(self, Self::RequireNotWorse(_)) {
            return String::new();
        }
        format!("{self}: {count} of {} comparisons inconclusive, which passes", comparisons.len())
    }
}

/// The worst ratio of costs that the interval includes. For a rate, worse is a ratio below 1.
fn worst(compared: &ComparisonResult, finding: &Finding) -> f64 {
    match better(&compared.metric.name) {
        Better::Lower => finding.interval.high,
        Better::Higher => 1.0 / finding.interval.low,
    }
}

/// The reason that nothing follows from a comparison.
fn reason_without_verdict(compared: &ComparisonResult) -> Option<String> {
    let missing = || {
        let ComparisonResult { rounds, rounds_run, .. } = compared;
        compared.misses_rounds().then(|| format!("only {rounds} of {rounds_run} rounds have it"))
    };
    compared.failures.reason.clone().or_else(|| compared.reason_without_verdict()).or_else(missing)
}

fn named(compared: &ComparisonResult) -> String {
    format!(
        "{} / {} under {} in {}: ",
        compared.variant, compared.with, compared.workload, compared.metric.title
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{FAILED_SHARE, Outcome, Run, Warning};
    use crate::report::{analysis, fixtures};

    /// The exit of a plan in which `b` has this factor of CPU and throughput.
    fn exit(rounds: usize, cpu: f64, rate: f64, limit: &str) -> (Exit, String) {
        let plan = format!(
            "rounds = {rounds}\n[[variant]]\nname = \"a\"\ncommand = [\"a\"]\n[[variant]]\nname = \"b\"\ncommand = [\"b\"]\n\
             [[workload]]\nname = \"1k\"\nkind = \"bench\"\n\
             [[compare]]\nvariant = \"b\"\nwith = \"a\"\nmetrics = [\"cpu_us_per_request\", \"requests_per_s\"]\n"
        );
        let metrics = |id: &fixtures::RunId| {
            let factor = |factor| if id.variant == "b" { factor } else { 1.0 };
            Some(vec![("cpu_us_per_request", 7.0 * factor(cpu)), ("requests_per_s", 100.0 * factor(rate))])
        };
        let made = [fixtures::experiment(&plan, metrics)];
        Gate::fail_if_worse(limit).unwrap().exit(&analysis::analyse(&made).sections[0].comparisons)
    }

    #[test]
    fn only_a_difference_beyond_the_limit_fails() {
        for (cpu, rate, limit, expected) in [
            (1.0, 1.0, "5%", Exit::Done),
            (1.2, 1.0, "5%", Exit::NotMet),
            (1.2, 1.0, "25%", Exit::Done),
            (0.5, 2.0, "5%", Exit::Done),
            (1.0, 0.8, "5%", Exit::NotMet),
            (1.0, 0.8, "30%", Exit::Done),
        ] {
            let (exit, why) = exit(10, cpu, rate, limit);
            assert_eq!(exit, expected, "{cpu} {rate} {limit}: {why}");
            assert_eq!(why.contains("worse by more than"), exit == Exit::NotMet, "{why}");
        }
    }

    #[test]
    fn too_few_rounds_are_an_error() {
        let (exit, why) = exit(3, 1.0, 1.0, "5%");
        assert_eq!(exit, Exit::CannotRun);
        assert!(why.contains("b / a under 1k in CPU per request: ") && why.contains("3 rounds"), "{why}");
    }

    /// Ten rounds in which `b` is faster, and its runs are changed.
    fn exit_with(change: impl Fn(&mut Run)) -> (Exit, String) {
        let plan = "rounds = 10\n[[variant]]\nname = \"a\"\ncommand = [\"a\"]\n[[variant]]\nname = \"b\"\ncommand = [\"b\"]\n\
             [[workload]]\nname = \"1k\"\nkind = \"bench\"\n\
             [[compare]]\nvariant = \"b\"\nwith = \"a\"\nmetrics = [\"cpu_us_per_request\"]\n";
        let metrics = |id: &fixtures::RunId| {
            let cpu = if id.variant == "b" { 3.0 } else { 7.0 };
            Some(vec![("cpu_us_per_request", cpu), ("requests_per_s", 1e4), ("errors", 0.0)])
        };
        let mut made = [fixtures::experiment(plan, metrics)];
        made[0].runs.iter_mut().filter(|run| run.variant == "b").for_each(change);
        Gate::FailIfWorse(0.05).exit(&analysis::analyse(&made).sections[0].comparisons)
    }

    type Change<'a> = &'a dyn Fn(&mut Run);

    #[test]
    fn a_run_that_did_not_do_the_work_is_no_verdict() {
        let set = |run: &mut Run, name: &str, value| {
            run.metrics.insert(name.to_owned(), value);
        };
        let kept = |run: &mut Run| {
            let concerns = vec!["requests_per_s".to_owned(), "errors".to_owned()];
            run.warnings.push(Warning { sentence: "97.0 % of the rate was kept".to_owned(), concerns });
        };
        let end = |run: &mut Run| run.outcome = Outcome::Failed { why: "it ended\nwith a signal".to_owned() };
        let cases: [(Change<'_>, &str); 5] = [
            (&|run| set(run, FAILED_SHARE, 1.0), "100 % of the requests failed"),
            (
                &|run| {
                    if run.round == 3 {
                        set(run, FAILED_SHARE, 0.002);
                    }
                },
                "in round 4: 0.200 %",
            ),
            (
                &|run| {
                    if run.round == 0 {
                        kept(run);
                    }
                },
                "97.0 % of the rate was kept",
            ),
            (
                &|run| {
                    if run.round == 9 {
                        end(run);
                    }
                },
                "b in round 10: it ended",
            ),
            (
                &|run| {
                    if run.round == 9 {
                        run.metrics.clear();
                    }
                },
                "only 9 of 10 rounds",
            ),
        ];
        for (change, expected) in cases {
            let (exit, why) = exit_with(change);
            assert!(exit == Exit::CannotRun && why.contains(expected), "{expected}: {exit:?} {why}");
        }
        assert_eq!(exit_with(|run| set(run, FAILED_SHARE, 0.001)), (Exit::Done, String::new()));
        // Other warnings are about how exact the metrics are: on two cores, there is always one.
        let waited = |run: &mut Run| {
            let concerns = vec!["cpu_us_per_request".to_owned()];
            run.warnings.push(Warning { sentence: "the client waited for a core".to_owned(), concerns });
        };
        assert_eq!(exit_with(waited).0, Exit::Done);
    }

    #[test]
    fn more_failed_requests_are_worse_and_a_single_one_is_not() {
        for (failing, expected) in [(10, Exit::NotMet), (6, Exit::NotMet), (5, Exit::Done), (1, Exit::Done)] {
            let (exit, why) = exit_with(|run| {
                if run.round < failing {
                    run.metrics.insert("errors".to_owned(), 1.0);
                }
            });
            assert_eq!(exit, expected, "{failing}: {why}");
            assert_eq!(
                why.contains("b has more failed requests than a under 1k"),
                exit == Exit::NotMet,
                "{why}"
            );
        }
    }

    #[test]
    fn an_inconclusive_comparison_passes_and_is_named() {
        let (exit, why) = exit_with(|run| {
            let cpu = if run.round.is_multiple_of(2) { 3.0 } else { 14.0 };
            run.metrics.insert("cpu_us_per_request".to_owned(), cpu);
        });
        assert_eq!(exit, Exit::Done, "{why}");
        assert!(why.contains("1 of 1 comparisons inconclusive, which passes"), "{why}");
    }

    #[test]
    fn a_variant_must_be_shown_to_be_not_worse_by_the_end_of_its_interval() {
        // Each round differs by up to 2 % in both directions, so the interval is about 2 % wide on each side.
        let exit = |cpu: f64, rate: f64| {
            let plan = "rounds = 10\n[[variant]]\nname = \"a\"\ncommand = [\"a\"]\n[[variant]]\nname = \"b\"\ncommand = [\"b\"]\n\
                 [[workload]]\nname = \"1k\"\nkind = \"bench\"\n[[compare]]\nvariant = \"b\"\nwith = \"a\"\n\
                 metrics = [\"cpu_us_per_request\", \"requests_per_s\"]\n";
            let metrics = |id: &fixtures::RunId| {
                let noise = [0.98, 1.01, 1.0, 0.99, 1.02, 1.0, 0.985, 1.015, 0.995, 1.005][id.round % 10];
                let (cpu, rate) = if id.variant == "b" { (cpu * noise, rate * noise) } else { (1.0, 1.0) };
                Some(vec![("cpu_us_per_request", 7.0 * cpu), ("requests_per_s", 100.0 * rate)])
            };
            let made = [fixtures::experiment(plan, metrics)];
            Gate::RequireNotWorse(0.05).exit(&analysis::analyse(&made).sections[0].comparisons)
        };
        for (cpu, rate, expected) in [
            (1.0, 1.0, Exit::Done),
            (0.5, 2.0, Exit::Done),
            // The ratio is below the limit, and the interval is not.
            (1.045, 1.0, Exit::NotMet),
            (1.0, 0.955, Exit::NotMet),
            (1.2, 1.0, Exit::NotMet),
        ] {
            let (exit, why) = exit(cpu, rate);
            assert_eq!(exit, expected, "{cpu} {rate}: {why}");
            assert_eq!(why.contains("not shown to be less than 5% worse"), exit == Exit::NotMet, "{why}");
        }
    }

    #[test]
    fn a_limit_is_a_percentage() {
        assert_eq!(Gate::fail_if_worse("2.5%"), Ok(Gate::FailIfWorse(0.025)));
        assert_eq!(Gate::require_not_worse("5%"), Ok(Gate::RequireNotWorse(0.05)));
        for text in ["5", "-5%", "%", "x%", "inf%"] {
            assert!(Gate::fail_if_worse(text).is_err() && Gate::require_not_worse(text).is_err(), "{text}");
        }
        assert!(Gate::fail_if_worse("0%").is_ok() && Gate::require_not_worse("0%").is_err());
    }
}
