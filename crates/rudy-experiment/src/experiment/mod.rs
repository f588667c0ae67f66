//! Reads a folder of results.

mod background;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::plan::Plan;
use crate::record::{Head, Outcome, PLAN, RESULTS, Record, Run};

/// The identity of a run: round, variant, workload, control or not.
pub type Key = (usize, String, String, bool);

/// The identity of this run.
#[must_use]
pub fn key(run: &Run) -> Key {
    (run.round, run.variant.clone(), run.workload.clone(), run.is_control)
}

/// The contents of one folder: an experiment, complete or interrupted.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// The folder.
    pub folder: PathBuf,
    /// The head of the first start and of each resumption; at least one.
    pub heads: Vec<Head>,
    /// The runs in the order in which they were written. Each has a variant and a workload of the plan, and no
    /// identity occurs twice.
    pub runs: Vec<Run>,
    /// The text of the plan file, before flags changed the plan; `None` if the file is missing.
    pub plan_text: Option<String>,
    /// A message if the last line is incomplete and was ignored.
    pub cut: Option<String>,
    /// The length of the complete lines.
    pub whole_bytes: usize,
}

impl Experiment {
    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.heads[0].plan
    }

    /// The head of the first start.
    #[must_use]
    pub fn first(mut self) -> Head {
        self.heads.swap_remove(0)
    }

    /// All runs of a variant under a workload, including failed ones and controls.
    pub fn runs_of<'a>(&'a self, variant: &'a str, workload: &'a str) -> impl Iterator<Item = &'a Run> {
        self.runs.iter().filter(move |run| run.variant == variant && run.workload == workload)
    }

    /// The runs of a variant under a workload that have metrics, without controls.
    pub fn measured<'a>(&'a self, variant: &'a str, workload: &'a str) -> impl Iterator<Item = &'a Run> {
        self.runs_of(variant, workload).filter(|run| !run.is_control && run.outcome == Outcome::Measured)
    }
}

/// Reads a results folder of `rudy lab run`.
///
/// # Errors
///
/// A message with the file and the line. An incomplete last line is not an error: the write was interrupted
/// by a power failure or a full disk.
pub fn read(folder: &Path) -> Result<Experiment, String> {
    let path = folder.join(RESULTS);
    let bytes = fs::read(&path).map_err(|error| {
        let hint = "expected a results folder of `rudy lab run`";
        format!("cannot read {}: {error}; {hint}", path.display())
    })?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let cut = (whole < bytes.len())
        .then(|| format!("the last line of {} is incomplete, and was ignored", path.display()));
    let mut reader = Reader { path: &path, heads: Vec::new(), runs: Vec::new(), seen: HashSet::new() };
    for (number, line) in bytes[..whole].split_inclusive(|byte| *byte == b'\n').enumerate() {
        reader.line(line).map_err(|why| format!("{}:{}: {why}", path.display(), number + 1))?;
    }
    let Reader { heads, runs, .. } = reader;
    if heads.is_empty() {
        return Err(format!(
            "{} is empty: run `rudy lab run PLAN --out {}` to start an experiment there",
            path.display(),
            folder.display()
        ));
    }
    let mut experiment = Experiment {
        folder: folder.to_owned(),
        heads,
        runs,
        plan_text: fs::read_to_string(folder.join(PLAN)).ok(),
        cut,
        whole_bytes: whole,
    };
    background::warn(&mut experiment);
    Ok(experiment)
}

struct Reader<'a> {
    path: &'a Path,
    heads: Vec<Head>,
    runs: Vec<Run>,
    seen: HashSet<Key>,
}

impl Reader<'_> {
    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        match serde_json::from_slice(line) {
            Ok(Record::Head(head)) => self.head(*head),
            Ok(Record::Run(run)) => self.run(*run),
            Err(error) => Err(self.no_record(line, &error)),
        }
    }

    fn head(&mut self, head: Head) -> Result<(), String> {
        if self.heads.first().is_some_and(|first| first.plan != head.plan) {
            return Err("the head of another plan: each experiment needs its own folder".to_owned());
        }
        self.heads.push(head);
        Ok(())
    }

    fn run(&mut self, run: Run) -> Result<(), String> {
        let Some(head) = self.heads.first() else {
            return Err(format!(
                "a run before the head of its plan: is the start of {} missing?",
                self.path.display()
            ));
        };
        let Run { round, variant, workload, .. } = &run;
        if !head.plan.variants.iter().any(|known| known.name == *variant) {
            return Err(format!("a run of {variant:?}, which is not a variant of the plan in line 1"));
        }
        if !head.plan.workloads.iter().any(|known| known.name == *workload) {
            return Err(format!("a run under {workload:?}, which is not a workload of the plan in line 1"));
        }
        if !self.seen.insert(key(&run)) {
            return Err(format!("round {} of {variant:?} under {workload:?} is duplicate", round + 1));
        }
        self.runs.push(run);
        Ok(())
    }

    /// Why a line is invalid, and whether another version of Rudy may have written it.
    fn no_record(&self, line: &[u8], error: &serde_json::Error) -> String {
        let version = |head: &Head| head.versions.get("rudy").cloned();
        let writer = self.heads.first().and_then(version).or_else(|| {
            let value: Value = serde_json::from_slice(line).ok()?;
            Some(value.get("versions")?.get("rudy")?.as_str()?.to_owned())
        });
        let own = env!("CARGO_PKG_VERSION");
        let by = match writer {
            Some(writer) if writer.split(' ').next() != Some(own) => {
                format!(" (it was written by rudy {writer}, and this is {own})")
            }
            _ => String::new(),
        };
        format!("not a valid record{by}: {error}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixtures;

    const PLAN: &str = "rounds = 2\n\
        [[variant]]\nname = \"a\"\ncommand = [\"a\"]\n\
        [[workload]]\nname = \"l\"\nkind = \"bench\"\n";

    fn folder(lines: &[String], rest: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let lines: Vec<_> = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(folder.path().join(RESULTS), lines.concat() + rest).unwrap();
        folder
    }

    fn lines() -> (String, String) {
        let made = fixtures::experiment(PLAN, |_| Some(vec![("p99_ns", 1e6)]));
        let head = Record::Head(Box::new(made.heads[0].clone()));
        let run = Record::Run(Box::new(made.runs[0].clone()));
        (serde_json::to_string(&head).unwrap(), serde_json::to_string(&run).unwrap())
    }

    #[test]
    fn a_written_record_is_read_and_a_cut_one_is_reported() {
        let (head, run) = lines();
        let folder = folder(&[head, run.clone()], &run[..run.len() / 2]);
        let experiment = read(folder.path()).unwrap();
        assert_eq!((experiment.heads.len(), experiment.runs.len()), (1, 1));
        assert_eq!(experiment.measured("a", "l").count(), 1);
        assert!(experiment.cut.is_some_and(|cut| cut.contains("results.jsonl is incomplete")));
    }

    #[test]
    fn an_invalid_record_is_an_error_with_its_line() {
        let (head, run) = lines();
        let other_plan = head.replace("\"rounds\":2", "\"rounds\":3");
        let other_version = run.replace("\"position\"", "\"place\"");
        let older = head.replace(&format!("\"{}\"", env!("CARGO_PKG_VERSION")), "\"0.0.1 (debug build)\"");
        let stranger = run.replace("\"variant\":\"a\"", "\"variant\":\"z\"");
        for (lines, expected) in [
            (vec![], "results.jsonl is empty"),
            (vec!["nonsense".to_owned()], "results.jsonl:1: not a valid record"),
            (vec![run.clone()], "results.jsonl:1: a run before the head"),
            (vec![head.clone(), run.clone(), run.clone()], "results.jsonl:3: round 1 of \"a\" under \"l\""),
            (vec![head.clone(), other_plan], "results.jsonl:2: the head of another plan"),
            (vec![head.clone(), other_version.clone()], "results.jsonl:2: not a valid record"),
            (vec![older, other_version], "written by rudy 0.0.1 (debug build), and this is"),
            (vec![head, stranger], "results.jsonl:2: a run of \"z\""),
        ] {
            let why = read(folder(&lines, "").path()).expect_err(expected);
            assert!(why.contains(expected), "{why}");
        }
        let why = read(Path::new("/no/such/folder")).unwrap_err();
        assert!(why.contains("/no/such/folder/results.jsonl") && why.contains("rudy lab run"), "{why}");
    }
}
