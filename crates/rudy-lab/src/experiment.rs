//! A folder of results, read again.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::plan::Plan;
use crate::record::{Head, Outcome, PLAN, RESULTS, Record, Run};

/// What tells a run from all others: round, subject, load, control or not.
pub(crate) type Key = (usize, String, String, bool);

/// What tells this one.
pub(crate) fn key(run: &Run) -> Key {
    (run.round, run.subject.clone(), run.load.clone(), run.is_control)
}

/// What one folder holds: an experiment, whole or as far as it came.
#[derive(Debug, Clone)]
pub(crate) struct Experiment {
    /// Where it lies.
    pub(crate) folder: PathBuf,
    /// How it began, and how it was gone on with each time; at least one.
    pub(crate) heads: Vec<Head>,
    /// What was run, in the order in which it was written. Each has a subject and a load of the plan, and no two are the same
    /// subject's of the same round, load and side of the control.
    pub(crate) runs: Vec<Run>,
    /// The text of the plan, before any flag changed it; nothing where its file is gone.
    pub(crate) plan_text: Option<String>,
    /// That the last line is not whole, and is left out: as a sentence.
    pub(crate) cut: Option<String>,
    /// How much of its results is whole.
    pub(crate) whole_bytes: usize,
}

impl Experiment {
    /// What was to be measured.
    pub(crate) fn plan(&self) -> &Plan {
        &self.heads[0].plan
    }

    /// How it began.
    pub(crate) fn first(mut self) -> Head {
        self.heads.swap_remove(0)
    }

    /// All runs of a subject under a load: failures and those of the control among them.
    pub(crate) fn runs_of<'a>(&'a self, subject: &'a str, load: &'a str) -> impl Iterator<Item = &'a Run> {
        self.runs.iter().filter(move |run| run.subject == subject && run.load == load)
    }

    /// The runs of a subject under a load that have figures, without those of the control.
    pub(crate) fn measured<'a>(&'a self, subject: &'a str, load: &'a str) -> impl Iterator<Item = &'a Run> {
        self.runs_of(subject, load).filter(|run| !run.is_control && run.outcome == Outcome::Measured)
    }
}

/// Reads a folder that `rudy lab run` has left.
///
/// # Errors
///
/// What is wrong, for people, with the file and the line. A last line without its end is none: it was being written when the
/// power failed or the disk was full.
pub(crate) fn read(folder: &Path) -> Result<Experiment, String> {
    let path = folder.join(RESULTS);
    let bytes = fs::read(&path).map_err(|error| {
        let hint = "a folder is expected that `rudy lab run` has written";
        format!("cannot read {}: {error}; {hint}", path.display())
    })?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let cut = (whole < bytes.len()).then(|| {
        format!("the last line of {} was cut off while it was written, and is left out", path.display())
    });
    let mut reader = Reader { path: &path, heads: Vec::new(), runs: Vec::new(), seen: HashSet::new() };
    for (number, line) in bytes[..whole].split_inclusive(|byte| *byte == b'\n').enumerate() {
        reader.line(line).map_err(|why| format!("{}:{}: {why}", path.display(), number + 1))?;
    }
    let Reader { heads, runs, .. } = reader;
    if heads.is_empty() {
        return Err(format!(
            "{} is empty: nothing was begun; `rudy lab run PLAN --out {}` begins there",
            path.display(),
            folder.display()
        ));
    }
    Ok(Experiment {
        folder: folder.to_owned(),
        heads,
        runs,
        plan_text: fs::read_to_string(folder.join(PLAN)).ok(),
        cut,
        whole_bytes: whole,
    })
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
            return Err(
                "here begins another plan: each experiment is expected in a folder of its own".to_owned()
            );
        }
        self.heads.push(head);
        Ok(())
    }

    fn run(&mut self, run: Run) -> Result<(), String> {
        let Some(head) = self.heads.first() else {
            return Err(format!("a run before its plan: is this the beginning of {}?", self.path.display()));
        };
        let Run { round, subject, load, .. } = &run;
        if !head.plan.subjects.iter().any(|known| known.name == *subject) {
            return Err(format!("a run of {subject:?}, which is no subject of the plan in line 1"));
        }
        if !head.plan.loads.iter().any(|known| known.name == *load) {
            return Err(format!("a run under {load:?}, which is no load of the plan in line 1"));
        }
        if !self.seen.insert(key(&run)) {
            return Err(format!("round {} of {subject:?} under {load:?} is there a second time", round + 1));
        }
        self.runs.push(run);
        Ok(())
    }

    /// Why a line is none, and whether another version of Rudy may have written it.
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
        format!("no record of an experiment that can be read{by}: {error}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::made;

    const PLAN: &str = "rounds = 2\n\
        [[subject]]\nname = \"a\"\ncommand = [\"a\"]\n\
        [[load]]\nname = \"l\"\nkind = \"bench\"\n";

    fn folder(lines: &[String], rest: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let lines: Vec<_> = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(folder.path().join(RESULTS), lines.concat() + rest).unwrap();
        folder
    }

    fn lines() -> (String, String) {
        let made = made::experiment(PLAN, |_| Some(vec![("p99_ns", 1e6)]));
        let head = Record::Head(Box::new(made.heads[0].clone()));
        let run = Record::Run(Box::new(made.runs[0].clone()));
        (serde_json::to_string(&head).unwrap(), serde_json::to_string(&run).unwrap())
    }

    #[test]
    fn what_was_written_is_read_and_what_was_cut_off_is_said() {
        let (head, run) = lines();
        let folder = folder(&[head, run.clone()], &run[..run.len() / 2]);
        let experiment = read(folder.path()).unwrap();
        assert_eq!((experiment.heads.len(), experiment.runs.len()), (1, 1));
        assert_eq!(experiment.measured("a", "l").count(), 1);
        assert!(experiment.cut.is_some_and(|cut| cut.contains("results.jsonl was cut off")));
    }

    #[test]
    fn what_is_no_experiment_is_told_with_its_line() {
        let (head, run) = lines();
        let other_plan = head.replace("\"rounds\":2", "\"rounds\":3");
        let other_version = run.replace("\"position\"", "\"place\"");
        let older = head.replace(&format!("\"{}\"", env!("CARGO_PKG_VERSION")), "\"0.0.1 (debug build)\"");
        let stranger = run.replace("\"subject\":\"a\"", "\"subject\":\"z\"");
        for (lines, expected) in [
            (vec![], "results.jsonl is empty"),
            (vec!["nonsense".to_owned()], "results.jsonl:1: no record"),
            (vec![run.clone()], "results.jsonl:1: a run before its plan"),
            (vec![head.clone(), run.clone(), run.clone()], "results.jsonl:3: round 1 of \"a\" under \"l\""),
            (vec![head.clone(), other_plan], "results.jsonl:2: here begins another plan"),
            (vec![head.clone(), other_version.clone()], "results.jsonl:2: no record"),
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
