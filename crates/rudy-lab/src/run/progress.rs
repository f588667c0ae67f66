//! Progress on stderr: the last result, the next run, and the remaining time.

use std::path::Path;
use std::time::Instant;

use rudy_command::print_line;
use rudy_experiment::plan::Plan;
use rudy_experiment::record::{Outcome, Run};
use rudy_stats::compare::rounds_needed;
use rudy_units::{Unit, counted, rough};

use super::schedule::ScheduledRun;

/// The message about processes that still run, if there are none.
pub(super) const NOTHING_LEFT: &str = "nothing is left running";

pub(super) struct Progress<'a> {
    plan: &'a Plan,
    folder: &'a Path,
    /// The number of runs of the experiment, and of this part of it.
    all: usize,
    left: usize,
    done: usize,
    failed: usize,
    begun: Instant,
}

impl<'a> Progress<'a> {
    pub(super) fn new(plan: &'a Plan, all: usize, left: usize, folder: &'a Path) -> Self {
        print_line(&format!(
            "{}: {left} runs, about {}; results in {}",
            plan.name,
            rough(plan.expected_time().mul_f64(share(left, all))),
            folder.display()
        ));
        if let Some(warning) = too_few_rounds(plan) {
            print_line(&warning);
        }
        Self { plan, folder, all, left, done: 0, failed: 0, begun: Instant::now() }
    }

    /// Reports a completed run.
    pub(super) fn print(&mut self, run: &Run, next: Option<&ScheduledRun>) {
        self.done += 1;
        let number = self.all - self.left + self.done;
        let again = if run.is_control { " again" } else { "" };
        let found = match &run.outcome {
            Outcome::Measured => metrics(run),
            Outcome::Failed { why } => {
                self.failed += 1;
                format!("FAILED: {why}")
            }
        };
        let Run { round, variant, workload, .. } = run;
        print_line(&format!(
            "{number}/{} round {} {workload} {variant}{again}: {found}",
            self.all,
            round + 1
        ));
        for warning in &run.warnings {
            print_line(&format!("    suspect: {}", warning.sentence));
        }
        for note in &run.notes {
            print_line(&format!("    {note}"));
        }
        if let Some(next) = next {
            let (variant, workload) =
                (&self.plan.variants[next.variant], &self.plan.workloads[next.workload]);
            let left = self.begun.elapsed().mul_f64(share(self.left - self.done, self.done));
            print_line(&format!("    next: {} {}; {} left", workload.name, variant.name, rough(left)));
        }
    }

    /// Reports a failure, with a message about processes that still run.
    pub(super) fn interrupted(&self, left_behind: Option<&str>) {
        let done = self.all - self.left + self.done;
        let (folder, left_behind) = (self.folder.display(), left_behind.unwrap_or(NOTHING_LEFT));
        print_line(&format!(
            "interrupted: {left_behind}; {done} of {} runs are complete. Continue with: rudy lab run --resume {folder}",
            self.all
        ));
    }

    pub(super) fn done(&self) {
        let failed =
            if self.failed > 0 { format!(", {} of them failed", self.failed) } else { String::new() };
        print_line(&format!("{} runs{failed}; results in {}", self.done, self.folder.display()));
    }
}

/// A message if no verdict is possible; `None` without comparisons.
fn too_few_rounds(plan: &Plan) -> Option<String> {
    let (comparisons, rounds) = (plan.comparison_count(), plan.rounds);
    let needed = rounds_needed(comparisons);
    (comparisons > 0 && rounds < needed).then(|| {
        format!(
            "a verdict needs {needed} rounds for {}; this run has {rounds}",
            counted(comparisons, "comparison")
        )
    })
}

/// The maximum length of a line.
fn metrics(run: &Run) -> String {
    let shown = [
        ("time_s", "all after ", ""),
        ("cpu_us_per_request", "", " of CPU per request"),
        ("requests_per_s", "", ""),
        ("max_rate_per_s", "held ", ""),
        ("p99_ns", "p99 ", ""),
        ("schedule_delay_p99_ns", "late p99 ", ""),
        ("private_bytes_per_connection", "", " per connection"),
        ("private_bytes", "", ""),
    ];
    let shown = shown.iter().filter_map(|(name, before, after)| {
        let (unit, factor, _) = Unit::of_key(name);
        Some(format!("{before}{}{after}", unit.text(run.metrics.get(*name)? * factor)))
    });
    let parts: Vec<_> = shown.collect();
    let errors = run.metrics.get("errors").copied().unwrap_or(0.0);
    let errors = if errors > 0.0 { format!(", {errors} errors") } else { String::new() };
    parts.join(", ") + &errors
}

#[expect(clippy::cast_precision_loss, reason = "numbers of runs")]
fn share(part: usize, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use rudy_experiment::plan::parse;

    use super::*;

    #[test]
    fn too_few_rounds_for_the_comparisons_are_a_warning() {
        let warning = |rounds, compare: &str| {
            let variant = |name| format!("[[variant]]\nname = \"{name}\"\ncommand = [\"a\"]\n");
            let workload = "[[workload]]\nname = \"l\"\nkind = \"bench\"\n";
            let plan = format!("rounds = {rounds}\n{}{}{workload}{compare}", variant("a"), variant("b"));
            too_few_rounds(&parse(&plan, "x", None).unwrap())
        };
        let compare = "[[compare]]\nvariant = \"a\"\nwith = \"b\"\nmetrics = [\"errors\", \"p50_ns\"]\n";
        let one = &compare.replace("\"errors\", ", "");
        assert_eq!((warning(1, ""), warning(6, one), warning(7, compare)), (None, None, None));
        let text = warning(5, one).unwrap();
        assert_eq!(text, "a verdict needs 6 rounds for 1 comparison; this run has 5");
        assert!(warning(6, compare).unwrap().contains("7 rounds for 2 comparisons"));
    }
}
