//! Decides whether a report fails: `--fail-if-worse`.

use std::fmt;
use std::str::FromStr;

use rudy_load::Exit;
use rudy_stats::compare::Verdict;

use super::analysis::{Answer, Compared};

/// The allowed difference of a worse variant: 0.05 for `5%`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FailIfWorse(f64);

impl FromStr for FailIfWorse {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix('%').and_then(rudy_units::parse_decimal);
        let limit = number.filter(|percent| (0.0..=1000.0).contains(percent));
        limit.map(|percent| Self(percent / 100.0)).ok_or_else(|| "expected a percentage, as in 5%".to_owned())
    }
}

impl fmt::Display for FailIfWorse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0 * 100.0)
    }
}

impl FailIfWorse {
    /// The exit code of these comparisons, with a message unless they pass. A comparison fails if its verdict is "worse" and
    /// its ratio beyond the limit; without a verdict in any round, it is an error.
    pub(super) fn exit(self, comparisons: &[Compared]) -> (Exit, String) {
        let open: Vec<String> = comparisons
            .iter()
            .filter_map(|compared| Some(named(compared) + &compared.reason_without_verdict()?))
            .collect();
        let worse: Vec<String> = comparisons
            .iter()
            .filter(|compared| self.fails(compared))
            .map(|compared| compared.sentence.clone())
            .collect();
        if !worse.is_empty() {
            return (Exit::NotMet, format!("worse by more than {self}: {}", worse.join("; ")));
        }
        if open.is_empty() && !comparisons.is_empty() {
            return (Exit::Done, String::new());
        }
        let what = if comparisons.is_empty() { "there is no comparison".to_owned() } else { open.join("; ") };
        (Exit::CannotRun, format!("--fail-if-worse cannot be decided: {what}"))
    }

    fn fails(self, compared: &Compared) -> bool {
        let Answer::Evaluated(finding) = &compared.answer else { return false };
        // For a rate, worse is a ratio below 1.
        finding.verdict == Verdict::Worse && finding.ratio.max(1.0 / finding.ratio) > 1.0 + self.0
    }
}

fn named(compared: &Compared) -> String {
    format!(
        "{} / {} under {} in {}: ",
        compared.variant, compared.with, compared.workload, compared.metric.title
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{analysis, fixtures};

    /// The exit of a plan in which `b` has this factor of CPU and throughput.
    fn exit(rounds: usize, cpu: f64, rate: f64, limit: &str) -> (Exit, String) {
        let plan = format!(
            "rounds = {rounds}\n[[variant]]\nname = \"a\"\ncommand = [\"a\"]\n[[variant]]\nname = \"b\"\ncommand = [\"b\"]\n\
             [[workload]]\nname = \"1k\"\nkind = \"bench\"\n\
             [[compare]]\nvariant = \"b\"\nwith = \"a\"\nmetrics = [\"cpu_us_per_request\", \"requests_per_s\"]\n"
        );
        let metrics = |turn: &fixtures::Turn| {
            let factor = |factor| if turn.variant == "b" { factor } else { 1.0 };
            Some(vec![("cpu_us_per_request", 7.0 * factor(cpu)), ("requests_per_s", 100.0 * factor(rate))])
        };
        let made = [fixtures::experiment(&plan, metrics)];
        limit.parse::<FailIfWorse>().unwrap().exit(&analysis::analyse(&made).sections[0].comparisons)
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

    #[test]
    fn a_limit_is_a_percentage() {
        assert_eq!("2.5%".parse(), Ok(FailIfWorse(0.025)));
        for text in ["5", "-5%", "%", "x%", "inf%"] {
            assert!(text.parse::<FailIfWorse>().is_err(), "{text}");
        }
    }
}
