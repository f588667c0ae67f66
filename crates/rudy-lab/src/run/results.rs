//! The folder of results: written after every single run, read again to go on.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::options::Refusal;
use super::schedule::Turn;
use crate::experiment::{self, Key, key};
use crate::machine;
use crate::plan::Plan;
use crate::record::{Head, PLAN, RESULTS, Record, Run};

/// A folder of results that is being written.
pub(super) struct Results {
    folder: PathBuf,
    file: File,
    done: HashSet<Key>,
}

impl Results {
    /// A new folder with the plan in it.
    pub(super) fn create(folder: &Path, plan: &str) -> Result<Self, Refusal> {
        let path = folder.join(RESULTS);
        if path.exists() {
            return Err(Refusal::Input(format!(
                "{} has results already: go on with them by --resume, or name another folder by --out",
                folder.display()
            )));
        }
        let make = || {
            fs::create_dir_all(folder)?;
            fs::write(folder.join(PLAN), plan)?;
            OpenOptions::new().create_new(true).append(true).open(&path)
        };
        let file = make()
            .map_err(|error| Refusal::World(format!("cannot write to {}: {error}", folder.display())))?;
        Ok(Self { folder: folder.to_owned(), file, done: HashSet::new() })
    }

    /// A folder whose experiment was interrupted, and how it began.
    pub(super) fn resume(folder: &Path) -> Result<(Self, Head), Refusal> {
        let path = folder.join(RESULTS);
        let cannot =
            |error: io::Error| Refusal::Input(format!("cannot go on with {}: {error}", path.display()));
        let experiment = experiment::read(folder).map_err(Refusal::Input)?;
        let file = OpenOptions::new().append(true).open(&path).map_err(cannot)?;
        file.set_len(experiment.whole_bytes as u64).map_err(cannot)?;
        let done = experiment.runs.iter().map(key).collect();
        Ok((Self { folder: folder.to_owned(), file, done }, experiment.first()))
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether a run has been.
    pub(super) fn has(&self, plan: &Plan, turn: &Turn) -> bool {
        let (subject, load) = (&plan.subjects[turn.subject].name, &plan.loads[turn.load].name);
        self.done.contains(&(turn.round, subject.clone(), load.clone(), turn.is_control))
    }

    /// Writes what is measured, where and with what.
    pub(super) fn begin(&mut self, plan: &Plan, seed: u64) -> io::Result<()> {
        self.write(&Record::Head(Box::new(Head {
            plan: plan.clone(),
            started: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            seed,
            machine: machine::describe(),
            versions: machine::versions(plan),
            command: std::env::args().collect(),
        })))
    }

    /// Adds a run.
    pub(super) fn add(&mut self, run: &Run) -> io::Result<()> {
        self.write(&Record::Run(Box::new(run.clone())))
    }

    /// One write for a line, so that nobody reads half of one.
    fn write(&mut self, record: &Record) -> io::Result<()> {
        let line = serde_json::to_string(record)?;
        self.file.write_all((line + "\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::parse;

    const PLAN_TEXT: &str =
        "[[subject]]\nname = \"a\"\ncommand = [\"a\"]\n[[load]]\nname = \"l\"\nkind = \"bench\"\n";

    #[test]
    fn a_folder_is_never_written_over() {
        let folder = tempfile::tempdir().unwrap();
        Results::create(folder.path(), PLAN_TEXT).unwrap();
        let Err(Refusal::Input(why)) = Results::create(folder.path(), PLAN_TEXT) else {
            panic!("it is there")
        };
        assert!(why.contains("--resume"), "{why}");
    }

    #[test]
    fn what_was_cut_off_is_forgotten_and_what_is_no_record_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let plan = parse(PLAN_TEXT, "x", None).unwrap();
        Results::create(folder.path(), PLAN_TEXT).unwrap().begin(&plan, 7).unwrap();
        let path = folder.path().join(RESULTS);
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{whole}{{\"record\":\"run\",\"rou")).unwrap();
        let (results, head) = Results::resume(folder.path()).unwrap();
        assert_eq!((head.seed, head.plan == plan, results.done.len()), (7, true, 0));
        assert_eq!(fs::read_to_string(&path).unwrap(), whole);
        fs::write(&path, format!("{whole}nonsense\n")).unwrap();
        let Err(Refusal::Input(why)) = Results::resume(folder.path()) else { panic!("it is no record") };
        assert!(why.contains("results.jsonl:2"), "{why}");
    }
}
