//! Steps of a task: run in order, timed against a budget, with a table at the end.

use std::thread::JoinHandle;
use std::time::Instant;

use crate::Outcome;

/// A step, its budget on two quiet cores, and the remedy if it fails.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) budget_s: u32,
    pub(crate) run: fn(&mut Run) -> Outcome,
    pub(crate) remedy: &'static str,
}

/// How many of the slowest tests the table shows.
const SLOWEST: usize = 10;

/// The state of a task, and the results of its tests.
#[derive(Default)]
pub(crate) struct Run {
    pub(crate) passed: u64,
    failed: u64,
    /// Skipped tests and steps with the reason.
    pub(crate) skipped: Vec<String>,
    /// Whether the long checks run too.
    pub(crate) is_nightly: bool,
    /// The installation of programs, beside the first steps.
    pub(crate) setup: Option<JoinHandle<Outcome>>,
    /// Seconds and names of tests.
    tests: Vec<(f64, String)>,
    /// Lines of the table.
    times: Vec<String>,
}

impl Run {
    /// Creates the state before the first step. The long checks run if `is_nightly`.
    pub(crate) fn new(is_nightly: bool) -> Self {
        Self { is_nightly, ..Self::default() }
    }

    /// Runs the steps and stops at the first failure.
    pub(crate) fn all<'a>(&mut self, steps: impl IntoIterator<Item = &'a Step>) -> Outcome {
        let start = Instant::now();
        let outcome = steps.into_iter().try_for_each(|step| self.one(step));
        self.finish(start);
        outcome
    }

    /// Runs all steps. The error names those that failed.
    pub(crate) fn each<'a>(&mut self, steps: impl IntoIterator<Item = &'a Step>) -> Outcome {
        let start = Instant::now();
        let failures: Vec<_> = steps.into_iter().filter_map(|step| self.one(step).err()).collect();
        self.finish(start);
        if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
    }

    fn one(&mut self, step: &Step) -> Outcome {
        println!("\n== {}", step.name);
        let start = Instant::now();
        let outcome = (step.run)(self);
        let seconds = start.elapsed().as_secs_f64();
        let mark = match &outcome {
            Err(_) => "  failed",
            Ok(()) if seconds > f64::from(step.budget_s) => "  over its budget",
            Ok(()) => "",
        };
        self.times.push(format!("{:20} {seconds:8.1} s {:8} s{mark}", step.name, step.budget_s));
        outcome.map_err(|failure| {
            // A failed step counts as at least one failure, even without a failed test.
            self.failed = self.failed.max(1);
            format!("{} failed: {failure}\nWhat to do: {}", step.name, step.remedy)
        })
    }

    /// Prints the table, the slowest tests, and the counts.
    fn finish(&mut self, start: Instant) {
        println!("\n{:20} {:>10} {:>10}", "step", "time", "budget");
        for line in &self.times {
            println!("{line}");
        }
        println!("{:20} {:8.1} s", "in all", start.elapsed().as_secs_f64());
        self.tests.sort_by(|a, b| b.0.total_cmp(&a.0));
        if !self.tests.is_empty() {
            println!("\nslowest tests");
        }
        for (seconds, name) in self.tests.iter().take(SLOWEST) {
            println!("{seconds:8.1} s  {name}");
        }
        println!();
        for what in &self.skipped {
            println!("skipped: {what}");
        }
        println!("{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped.len());
    }

    /// Records a step that cannot run on this machine.
    pub(crate) fn skip(&mut self, what: &str, reason: &str) {
        println!("skipped: {what}: {reason}");
        self.skipped.push(format!("{what}: {reason}"));
    }

    /// Adds the counts of a line such as `test result: ok. 12 passed; 0 failed; 1 ignored; …` of cargo, or `Summary [0.3s] 14
    /// tests run: 11 passed (1 slow), 2 failed, 1 timed out, 1 skipped` of nextest, and the time of a test of nextest.
    pub(crate) fn read(&mut self, line: &str) {
        self.tests.extend(test_time(line));
        let of_nextest = || Some(line.trim_start().strip_prefix("Summary [")?.split_once(" run: ")?.1);
        let Some(counts) = line.strip_prefix("test result: ").or_else(of_nextest) else { return };
        let words: Vec<&str> = counts.split([' ', ';', ',']).filter(|word| !word.is_empty()).collect();
        for pair in words.windows(2) {
            let Ok(count) = pair[0].parse::<u64>() else { continue };
            match pair[1] {
                "passed" => self.passed += count,
                // Failed starts and timeouts have separate counts: `1 exec failed`, `1 timed out`.
                "failed" | "exec" | "timed" => self.failed += count,
                "ignored" | "skipped" if count > 0 => {
                    self.skipped.push(format!("{count} tests marked #[ignore]"));
                }
                _ => {}
            }
        }
    }
}

/// Reads a line of nextest: `PASS [   0.123s] ( 17/3297) rudy-tests::serve stop::streams_end`. The count is missing without a terminal.
fn test_time(line: &str) -> Option<(f64, String)> {
    let (result, rest) = line.trim_start().split_once(" [")?;
    let (seconds, name) = rest.split_once("s] ")?;
    if !matches!(result, "PASS" | "FAIL") {
        return None;
    }
    let name = name.trim_start();
    let name = name.strip_prefix('(').and_then(|rest| rest.split_once(") ")).map_or(name, |(_, name)| name);
    Some((seconds.trim().parse().ok()?, name.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_added_over_all_results() {
        let mut run = Run::default();
        run.read("running 3 tests");
        run.read(
            "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
        );
        run.read("test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out");
        assert_eq!((run.passed, run.failed, run.skipped.len()), (15, 2, 1));
        run.read(
            "     Summary [   0.123s] 14 tests run: 11 passed (1 slow), 1 failed, 1 timed out, 2 skipped",
        );
        run.read("     Summary [   0.123s] 1 test run: 0 passed, 1 exec failed, 0 skipped");
        assert_eq!((run.passed, run.failed, run.skipped.len()), (26, 5, 2));
    }

    #[test]
    fn the_time_of_a_test_is_read_with_and_without_its_number() {
        for line in ["        PASS [   1.250s] ( 17/3297) a::b c", "        PASS [   1.250s] a::b c"] {
            assert_eq!(test_time(line), Some((1.25, "a::b c".to_owned())));
        }
        assert_eq!(test_time("        SLOW [> 60.000s] a::b c"), None);
        assert_eq!(test_time("     Summary [   0.123s] 14 tests run: 11 passed"), None);
    }

    const FAILS: Step = Step { name: "fails", budget_s: 1, run: |_| Err("why".into()), remedy: "a remedy" };
    const COUNTS: Step = Step {
        name: "counts",
        budget_s: 0,
        run: |run| {
            run.passed += 1;
            Ok(())
        },
        remedy: "",
    };

    #[test]
    fn a_failure_ends_a_task_or_is_reported_at_its_end() {
        let expected = Err("fails failed: why\nWhat to do: a remedy".to_owned());
        let mut run = Run::default();
        assert_eq!(run.all([&FAILS, &COUNTS]), expected);
        assert_eq!((run.passed, run.failed), (0, 1));
        let mut run = Run::default();
        assert_eq!(run.each([&FAILS, &COUNTS]), expected);
        assert_eq!((run.passed, run.failed), (1, 1));
        assert!(run.times[1].ends_with("over its budget"), "{:?}", run.times);
    }
}
