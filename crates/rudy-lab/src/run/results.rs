//! The results folder, written after each run and read again to continue. It is checked before anything is
//! built, and created with the first result, so that an experiment that never starts leaves no folder behind.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rudy_experiment::experiment::{self, Key, key};
use rudy_experiment::plan::Plan;
use rudy_experiment::record::{Head, PLAN, RESULTS, Record, Run};
use rustix::fs::Access;

use super::options::Refusal;
use super::schedule::ScheduledRun;
use crate::machine;

/// Where the results go.
pub(super) struct Results {
    folder: PathBuf,
    done: HashSet<Key>,
    beginning: Beginning,
}

enum Beginning {
    /// A new experiment, with the text of its plan.
    New { plan: String },
    /// A resumed experiment, with the length of its complete lines.
    Resumed { whole_bytes: u64 },
}

/// The open results file.
pub(super) struct Log(File);

impl Results {
    /// A folder for a new experiment, which may not exist yet.
    pub(super) fn create(folder: &Path, plan: String) -> Result<Self, Refusal> {
        if is_begun(&folder.join(RESULTS)) {
            return Err(Refusal::Input(format!(
                "{} has results already: continue with --resume, or choose another folder with --out",
                folder.display()
            )));
        }
        if !is_free_for(&folder.join(PLAN), &plan) {
            return Err(Refusal::Input(format!(
                "{} has a {PLAN} that differs from this plan: choose another folder with --out",
                folder.display()
            )));
        }
        check_writable(folder)
            .map_err(|error| Refusal::World(format!("cannot write to {}: {error}", folder.display())))?;
        Ok(Self { folder: folder.to_owned(), done: HashSet::new(), beginning: Beginning::New { plan } })
    }

    /// The folder of an interrupted experiment, and its head.
    pub(super) fn resume(folder: &Path) -> Result<(Self, Head), Refusal> {
        let experiment = experiment::read(folder).map_err(Refusal::Input)?;
        let results = Self {
            folder: folder.to_owned(),
            done: experiment.runs.iter().map(key).collect(),
            beginning: Beginning::Resumed { whole_bytes: experiment.whole_bytes as u64 },
        };
        Ok((results, experiment.first()))
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether a run has a result.
    pub(super) fn has(&self, plan: &Plan, scheduled: &ScheduledRun) -> bool {
        let (variant, workload) =
            (&plan.variants[scheduled.variant].name, &plan.workloads[scheduled.workload].name);
        self.done.contains(&(scheduled.round, variant.clone(), workload.clone(), scheduled.is_control))
    }

    /// Creates the folder if necessary, and writes the head.
    pub(super) fn begin(
        &self,
        plan: &Plan,
        seed: u64,
        versions: BTreeMap<String, String>,
    ) -> io::Result<Log> {
        let mut log = Log(self.open()?);
        log.write(&Record::Head(Box::new(Head {
            plan: plan.clone(),
            started: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            seed,
            machine: machine::describe(),
            versions,
            command: std::env::args().collect(),
        })))?;
        Ok(log)
    }

    fn open(&self) -> io::Result<File> {
        let path = self.folder.join(RESULTS);
        let mut options = OpenOptions::new();
        options.append(true);
        match &self.beginning {
            Beginning::New { plan } => {
                if is_begun(&path) {
                    return Err(io::Error::other("another process has created it meanwhile"));
                }
                fs::create_dir_all(&self.folder)?;
                write_new(&self.folder.join(PLAN), plan)?;
                options.create(true).open(&path)
            }
            Beginning::Resumed { whole_bytes } => {
                let file = options.open(&path)?;
                file.set_len(*whole_bytes)?;
                Ok(file)
            }
        }
    }
}

impl Log {
    /// Appends a run.
    pub(super) fn add(&mut self, run: &Run) -> io::Result<()> {
        self.write(&Record::Run(Box::new(run.clone())))
    }

    /// A single write per line, so that readers never see a partial one.
    fn write(&mut self, record: &Record) -> io::Result<()> {
        let line = serde_json::to_string(record)?;
        self.0.write_all((line + "\n").as_bytes())
    }
}

/// Whether the file has results. In an empty file, the experiment never started.
fn is_begun(results: &Path) -> bool {
    fs::metadata(results).is_ok_and(|file| file.len() > 0)
}

/// Whether the plan file can be written: nothing exists there, or the same plan.
fn is_free_for(path: &Path, plan: &str) -> bool {
    match fs::read(path) {
        Ok(there) => there == plan.as_bytes(),
        // A dangling link also counts as existing.
        Err(_) => fs::symlink_metadata(path).is_err(),
    }
}

/// Writes the plan, but overwrites no other file.
fn write_new(path: &Path, plan: &str) -> io::Result<()> {
    match File::create_new(path) {
        Ok(mut file) => file.write_all(plan.as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_free_for(path, plan) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Checks that a folder can be written or created, before programs are built.
fn check_writable(folder: &Path) -> io::Result<()> {
    let folder = std::path::absolute(folder)?;
    let nearest = folder.ancestors().find(|folder| folder.exists()).unwrap_or(&folder);
    if !nearest.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok(rustix::fs::access(nearest, Access::WRITE_OK | Access::EXEC_OK)?)
}

#[cfg(test)]
mod tests {
    use rudy_experiment::plan::parse;

    use super::*;

    const PLAN_TEXT: &str =
        "[[variant]]\nname = \"a\"\ncommand = [\"a\"]\n[[workload]]\nname = \"l\"\nkind = \"bench\"\n";

    fn plan() -> Plan {
        parse(PLAN_TEXT, "x", None).unwrap()
    }

    fn create(folder: &Path) -> Result<Results, Refusal> {
        Results::create(folder, PLAN_TEXT.to_owned())
    }

    #[test]
    fn results_are_never_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (create(folder.path()).unwrap(), create(folder.path()).unwrap());
        first.begin(&plan(), 7, BTreeMap::new()).unwrap();
        let Err(Refusal::Input(why)) = create(folder.path()) else { panic!("it is there") };
        assert!(why.contains("--resume"), "{why}");
        assert!(
            second
                .begin(&plan(), 8, BTreeMap::new())
                .is_err_and(|error| error.to_string().contains("another process"))
        );
    }

    #[test]
    fn what_never_began_leaves_no_folder_and_is_not_in_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("deep/out");
        drop(create(&out).unwrap());
        assert!(!folder.path().join("deep").exists());
        fs::create_dir_all(&out).unwrap();
        fs::write(out.join(RESULTS), "").unwrap();
        create(&out).unwrap().begin(&plan(), 7, BTreeMap::new()).unwrap();
        assert_eq!(Results::resume(&out).unwrap().1.seed, 7);
    }

    #[test]
    fn an_existing_plan_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(PLAN);
        fs::write(&path, "of another user").unwrap();
        let Err(Refusal::Input(why)) = create(folder.path()) else { panic!("it is another plan") };
        assert!(why.contains(PLAN) && why.contains("--out"), "{why}");
        assert!(write_new(&path, PLAN_TEXT).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "of another user");
        fs::write(&path, PLAN_TEXT).unwrap();
        create(folder.path()).unwrap().begin(&plan(), 7, BTreeMap::new()).unwrap();
    }

    #[test]
    fn an_impossible_folder_is_an_error_before_anything_is_built() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let Err(Refusal::World(why)) = create(&file.path().join("out")) else { panic!("it is in a file") };
        assert!(why.contains("cannot write to"), "{why}");
    }

    #[test]
    fn what_was_cut_off_is_forgotten_and_what_is_no_record_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        create(folder.path()).unwrap().begin(&plan(), 7, BTreeMap::new()).unwrap();
        let path = folder.path().join(RESULTS);
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{whole}{{\"record\":\"run\",\"rou")).unwrap();
        let (results, head) = Results::resume(folder.path()).unwrap();
        assert_eq!((head.seed, head.plan == plan(), results.done.len()), (7, true, 0));
        results.begin(&plan(), 7, BTreeMap::new()).unwrap();
        let again = fs::read_to_string(&path).unwrap();
        assert_eq!((again.starts_with(&whole), again.lines().count()), (true, 2));
        fs::write(&path, format!("{whole}nonsense\n")).unwrap();
        let Err(Refusal::Input(why)) = Results::resume(folder.path()) else { panic!("it is no record") };
        assert!(why.contains("results.jsonl:2"), "{why}");
    }
}
