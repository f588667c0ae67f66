//! Parses plan files (TOML).

mod compare;
mod load;
mod program;
mod subject;

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use rudy_stats::compare::PAIRS_MAX;
use rudy_units::{Size, Time};
use serde::Deserialize;
use toml::Spanned;

use self::compare::CompareTable;
use self::load::LoadTable;
use self::program::ProgramTable;
use self::subject::{BesideTable, SubjectTable};
use super::{Contents, Load, Plan, Subject, Then};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<String>,
    #[serde(default)]
    question: String,
    rounds: Option<Spanned<usize>>,
    delta: Option<Spanned<f64>>,
    seed: Option<u64>,
    warmup: Option<Time>,
    #[serde(default, rename = "file")]
    files: Vec<FileTable>,
    #[serde(default)]
    program: Vec<ProgramTable>,
    #[serde(default)]
    beside: Vec<BesideTable>,
    #[serde(default)]
    subject: Vec<SubjectTable>,
    #[serde(default)]
    load: Vec<LoadTable>,
    #[serde(default)]
    compare: Vec<CompareTable>,
    #[serde(default)]
    source: String,
    #[serde(default)]
    then: Vec<ThenTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTable {
    path: Spanned<String>,
    size: Option<Size>,
    text: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ThenTable {
    subject: String,
    beside: Option<Spanned<String>>,
    load: Spanned<String>,
    #[serde(default)]
    figures: BTreeMap<String, f64>,
    said: Option<String>,
}

/// Default number of rounds.
const ROUNDS: usize = 10;

/// Maximum size of a generated file. The folder for temporary files may be in memory.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Whether a figure can be compared: a known figure of a [`Run`](crate::record::Run) whose better direction
/// is known.
pub(crate) const FIGURES: [&str; 17] = [
    "requests_per_s",
    "cpu_us_per_request",
    "cpu_user_us_per_request",
    "cpu_system_us_per_request",
    "p50_ns",
    "p90_ns",
    "p99_ns",
    "p999_ns",
    "max_ns",
    "errors",
    "private_bytes",
    "private_bytes_per_connection",
    "late_p99_ns",
    "time_s",
    "cpu_s",
    "nines",
    "knee_per_s",
];

/// Parses a plan. `name` is used in messages, and its file stem in reports. `folder` is the folder of the
/// files that the plan names, if any.
///
/// # Errors
///
/// A message with the file, the line, and the expected value.
pub fn parse(text: &str, name: &str, folder: Option<&Path>) -> Result<Plan, String> {
    let file: File = toml::from_str(text).map_err(|error| format!("{name}: {error}"))?;
    let reader = Reader { text, name, folder };
    reader.plan(file)
}

struct Reader<'a> {
    text: &'a str,
    name: &'a str,
    folder: Option<&'a Path>,
}

impl Reader<'_> {
    fn plan(&self, file: File) -> Result<Plan, String> {
        let rounds = match file.rounds {
            None => ROUNDS,
            Some(rounds) if (1..=PAIRS_MAX).contains(rounds.get_ref()) => rounds.into_inner(),
            Some(rounds) => {
                return Err(self.at(&rounds, &format!("`rounds` must be a number from 1 to {PAIRS_MAX}")));
            }
        };
        let delta = match file.delta {
            None => 0.05,
            Some(delta) if *delta.get_ref() > 0.0 && *delta.get_ref() < 1.0 => delta.into_inner(),
            Some(delta) => return Err(self.at(&delta, "`delta` must be between 0 and 1, as in 0.05")),
        };
        if file.subject.is_empty() {
            return Err(format!("{}: no [[subject]]: expected at least one", self.name));
        }
        if file.load.is_empty() {
            return Err(format!("{}: no [[load]]: expected at least one", self.name));
        }
        self.check_unique("program", file.program.iter().map(|program| &program.name))?;
        self.check_unique("subject", file.subject.iter().map(|subject| &subject.name))?;
        self.check_unique("load", file.load.iter().map(|load| &load.name))?;
        let stem = Path::new(self.name).file_stem().unwrap_or_default().to_string_lossy();
        self.check_together(&file.subject, &file.load)?;
        let loads: Vec<Load> = file.load.into_iter().map(|load| self.load(load)).collect::<Result<_, _>>()?;
        self.check_unique("program beside", file.beside.iter().map(|beside| &beside.name))?;
        let beside =
            file.beside.into_iter().map(|table| self.beside(table)).collect::<Result<Vec<_>, _>>()?;
        let subjects = file.subject.into_iter().map(|table| self.subject(table, &beside));
        let subjects = subjects.collect::<Result<Vec<Subject>, _>>()?;
        let comparisons = self.comparisons(file.compare, &subjects, &loads)?;
        let then = file.then.into_iter().map(|table| self.then(table, &subjects, &loads));
        let then = then.collect::<Result<_, _>>()?;
        Ok(Plan {
            name: file.name.unwrap_or_else(|| stem.into_owned()),
            question: file.question,
            rounds,
            delta,
            seed: file.seed,
            warmup: file.warmup.unwrap_or(Time(std::time::Duration::from_secs(1))),
            files: file
                .files
                .into_iter()
                .map(|file| self.file(file))
                .collect::<Result<BTreeMap<_, _>, _>>()?,
            programs: file.program.into_iter().map(|table| self.program(table)).collect::<Result<_, _>>()?,
            beside,
            subjects,
            loads,
            comparisons,
            source: file.source,
            then,
        })
    }

    fn file(&self, table: FileTable) -> Result<(String, Contents), String> {
        let path = Path::new(table.path.get_ref());
        if !path.components().all(|part| matches!(part, std::path::Component::Normal(_))) {
            return Err(self.at(&table.path, "the path of a file must be inside {folder}, without `..`"));
        }
        let contents = match (table.size, table.text) {
            (Some(size), None) if size.0 > FILE_BYTES_MAX => {
                return Err(self.at(&table.path, "the `size` of a file must be at most 1 GiB"));
            }
            (Some(size), None) => Contents::Size(size),
            (None, Some(text)) => Contents::Text(text),
            _ => return Err(self.at(&table.path, "a file has either a `size` or a `text`")),
        };
        Ok((table.path.into_inner(), contents))
    }

    fn then(&self, table: ThenTable, subjects: &[Subject], loads: &[Load]) -> Result<Then, String> {
        let ThenTable { subject, beside, load, figures, said } = table;
        if let Some(beside) = &beside
            && !subjects.iter().any(|subject| subject.name == *beside.get_ref())
        {
            return Err(self.at(beside, &format!("unknown subject {:?}", beside.get_ref())));
        }
        if !loads.iter().any(|known| known.name == *load.get_ref()) {
            return Err(self.at(&load, &format!("unknown load {:?}", load.get_ref())));
        }
        if let Some(name) = figures.keys().find(|name| !FIGURES.contains(&name.as_str())) {
            return Err(
                self.at(&load, &format!("unknown figure {name:?}; expected one of {}", FIGURES.join(", ")))
            );
        }
        let beside = beside.map(Spanned::into_inner);
        Ok(Then { subject, beside, load: load.into_inner(), figures, said })
    }

    /// Rejects duplicate names.
    fn known(
        &self,
        what: &str,
        names: Vec<Spanned<String>>,
        is_known: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>, String> {
        let mut seen = HashSet::new();
        for name in &names {
            if !is_known(name.get_ref()) {
                let known = if what == "figure" {
                    format!("; expected one of {}", FIGURES.join(", "))
                } else {
                    String::new()
                };
                return Err(self.at(name, &format!("unknown {what} {:?}{known}", name.get_ref())));
            }
            if !seen.insert(name.get_ref()) {
                return Err(self.at(name, &format!("the {what} {:?} is duplicate", name.get_ref())));
            }
        }
        Ok(names.into_iter().map(Spanned::into_inner).collect())
    }

    fn check_unique<'n>(
        &self,
        what: &str,
        names: impl Iterator<Item = &'n Spanned<String>>,
    ) -> Result<(), String> {
        let mut seen = HashSet::new();
        for name in names {
            if name.get_ref().trim().is_empty() {
                return Err(self.at(name, &format!("a {what} needs a name")));
            }
            if !seen.insert(name.get_ref()) {
                return Err(self.at(name, &format!("the name of this {what} is duplicate")));
            }
        }
        Ok(())
    }

    /// An error message for a value, with its position and the line.
    fn at<T>(&self, value: &Spanned<T>, expected: &str) -> String {
        let before = self.text.get(..value.span().start).unwrap_or_default();
        let number = before.matches('\n').count();
        let line = self.text.lines().nth(number).unwrap_or_default().trim();
        format!("{}:{}: {expected}\n  {line}", self.name, number + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Kind, Ready};

    const WHOLE: &str =
        "[[subject]]\nname = \"a\"\ncommand = [\"a\"]\n[[load]]\nname = \"l\"\nkind = \"bench\"\n";

    fn fails(text: &str) -> String {
        parse(text, "x.toml", None).expect_err(text)
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        let plan = parse(WHOLE, "plans/x.toml", None).unwrap();
        assert_eq!((plan.name.as_str(), plan.rounds), ("x", 10));
        assert_eq!(plan.subjects[0].ready, Ready::Tcp);
        assert!(matches!(plan.loads[0].kind, Kind::Bench { connections: 64, rate: None, .. }));
    }

    #[test]
    fn a_key_that_is_none_is_an_error_with_its_line() {
        let why = fails("rounds = 3\nround = 4\n");
        assert!(why.contains("x.toml") && why.contains("line 2") && why.contains("round"), "{why}");
    }

    #[test]
    fn what_does_not_fit_is_said_with_its_line() {
        for (more, expected) in [
            ("connections = 0\n", "from 1 to 28000"),
            ("rate = -1.0\n", "above 0"),
            ("ramp = \"1s\"\n", "does not support `ramp`"),
            ("path = \"a\"\n", "must start with a slash"),
            ("[[load]]\nname = \"l\"\nkind = \"bench\"\n", "x.toml:8: the name of this load is duplicate"),
            ("[[load]]\nname = \"b\"\nkind = \"burst\"\n", "x.toml:8: `requests` is missing"),
            ("[[compare]]\nsubject = \"a\"\nwith = \"b\"\n", "x.toml:9: unknown subject \"b\""),
            ("[[compare]]\nsubject = \"a\"\nwith = \"a\"\n", "with itself"),
            ("[[file]]\npath = \"../a\"\nsize = 1\n", "inside {folder}"),
            (
                "[[file]]\npath = \"a\"\nsize = \"2GiB\"\n",
                "x.toml:8: the `size` of a file must be at most 1 GiB",
            ),
            ("[[file]]\npath = \"a\"\n", "either a `size` or a `text`"),
            ("[[subject]]\nname = \"b\"\ncommand = []\n", "x.toml:8: `command` is empty"),
            ("[[subject]]\nname = \"b\"\ncommand = [\"{config}\"]\n", "there is no `config`"),
            ("[[subject]]\nname = \"b\"\ncommand = [\"b\"]\nconfig = \"no.conf\"\n", "cannot read no.conf"),
            ("[[program]]\nname = \"../p\"\nsource = \"p\"\nbuild = [\"cc\"]\n", "letters, digits"),
            ("[[program]]\nname = \"p\"\nsource = \"p\"\nbuild = []\n", "`build` is empty"),
            ("[[program]]\nname = \"p\"\nsource = \"p.c\"\nbuild = [\"cc\"]\n", "cannot read p.c"),
            ("[[load]]\nname = \"k\"\nkind = \"knee\"\n", "`slo` is missing"),
            ("[[load]]\nname = \"k\"\nkind = \"knee\"\nslo = \"fast\"\n", "x.toml:10: "),
            ("[[then]]\nsubject = \"old\"\nload = \"m\"\n", "x.toml:9: unknown load \"m\""),
            (
                "[[then]]\nsubject = \"old\"\nload = \"l\"\nfigures = { speed = 1 }\n",
                "unknown figure \"speed\"",
            ),
            (
                "[[subject]]\nname = \"b\"\ncommand = [\"b\"]\nready = { http = \"1\" }\n",
                "`ready` must be one of",
            ),
            ("n = 3\n", "does not support `n`"),
            ("requests = 10\ntime = \"1s\"\n", "x.toml:5: a bench has either `requests`, or a `time`"),
            ("requests = 0\n", "must be at least 1"),
            ("quick = { requests = 10 }\n", "x.toml:5: `quick` must be a time here"),
            (
                "requests = 10\nquick = { time = \"1s\" }\n",
                "x.toml:5: `quick` must be a number of requests here",
            ),
            (
                "[[subject]]\nname = \"b\"\ncommand = [\"b\"]\nwords = { port = \"1\" }\n",
                "x.toml:8: \"port\" is not a valid placeholder",
            ),
            ("stall = { after = \"1s\", time = \"1s\" }\n", "x.toml:2: the stall of \"l\" needs"),
            (
                "[[subject]]\nname = \"b\"\ncommand = [\"b\"]\nbeside = [\"c\"]\n",
                "x.toml:10: unknown [[beside]] \"c\"",
            ),
            ("[[subject]]\nname = \"b\"\ncommand = [\"b\"]\nsays = \"wrk\"\n", "x.toml:8: `says` needs"),
            (
                "[[beside]]\nname = \"b c\"\ncommand = [\"b\"]\n",
                "x.toml:8: its name may only contain letters",
            ),
            ("[[beside]]\nname = \"b\"\ncommand = [\"{config}\"]\n", "x.toml:8: its command has {config}"),
            ("[[subject]]\nname = \"b\"\ncommand = [\"b\", \"{n}\"]\n", "x.toml:8: its command has {n}"),
            (
                "[[load]]\nname = \"b\"\nkind = \"run\"\n",
                "x.toml:5: a load of the kind \"run\" runs subjects",
            ),
        ] {
            let why = fails(&format!("{WHOLE}{more}"));
            assert!(why.contains(expected), "{more}: {why}");
        }
        assert!(fails("").contains("no [[subject]]"));
    }

    #[test]
    fn a_comparison_is_of_something_and_is_there_once() {
        let compare = "[[compare]]\nsubject = \"a\"\nwith = \"b\"\n";
        let turned = "[[compare]]\nsubject = \"b\"\nwith = \"a\"\nfigures = [\"p99_ns\"]\n";
        let other = turned.replace("p99_ns", "errors");
        let plan = format!("{WHOLE}[[subject]]\nname = \"b\"\ncommand = [\"b\"]\n{compare}");
        for (more, expected) in [
            ("loads = []\n", "x.toml:11: `loads` is empty"),
            ("figures = []\n", "x.toml:11: `figures` is empty"),
            ("loads = [\"l\", \"l\"]\n", "x.toml:13: the load \"l\" is duplicate"),
            (compare, "x.toml:14: \"a\" and \"b\" are already compared in cpu_us_per_request under \"l\""),
            (turned, "x.toml:14: \"b\" and \"a\" are already compared in p99_ns"),
        ] {
            let why = fails(&format!("{plan}{more}"));
            assert!(why.contains(expected), "{more}: {why}");
        }
        assert_eq!(parse(&format!("{plan}{other}"), "x.toml", None).unwrap().asked(), 3);
    }

    #[test]
    fn a_subject_that_runs_to_its_end_does_not_serve() {
        let plan = |subject: &str, load: &str| {
            let subject = format!("[[subject]]\nname = \"a\"\n{subject}\n");
            parse(&format!("{subject}[[load]]\nname = \"l\"\nkind = \"run\"\n{load}"), "x.toml", None)
        };
        let has = "command = [\"a\", \"{n}\"]";
        assert_eq!(
            plan(has, "n = 50").unwrap().loads[0].kind,
            Kind::Run { n: Some(50), within: Time(std::time::Duration::from_mins(1)) }
        );
        for (subject, load, expected) in [
            (has, "", "x.toml:5: {n} in the command"),
            ("command = [\"a\"]", "n = 50", "x.toml:2: {n} in the command"),
            ("command = [\"a\"]\nready = { tcp = true }", "", "x.toml:2: a subject that runs to its end"),
            (has, "n = 50\npath = \"/a\"", "does not support `path`"),
        ] {
            let why = plan(subject, load).expect_err(load);
            assert!(why.contains(expected), "{subject} {load}: {why}");
        }
    }
}
