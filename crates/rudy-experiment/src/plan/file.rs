//! Parses plan files (TOML).

mod compare;
mod program;
mod variant;
mod workload;

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use rudy_stats::compare::PAIRS_MAX;
use rudy_tls::KeyType;
use rudy_units::{Size, Time};
use serde::Deserialize;
use toml::Spanned;

use self::compare::CompareTable;
pub use self::compare::usual_metrics;
use self::program::ProgramTable;
use self::variant::{CompanionTable, VariantTable};
use self::workload::WorkloadTable;
use super::{Baseline, Contents, Plan, Variant, Workload};
use crate::metric::{COMPARABLE, is_comparable};

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
    companion: Vec<CompanionTable>,
    #[serde(default)]
    variant: Vec<VariantTable>,
    #[serde(default)]
    workload: Vec<WorkloadTable>,
    #[serde(default)]
    compare: Vec<CompareTable>,
    #[serde(default)]
    source: String,
    #[serde(default)]
    baseline: Vec<BaselineTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTable {
    path: Spanned<String>,
    size: Option<Size>,
    text: Option<String>,
    key: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BaselineTable {
    name: String,
    variant: Option<Spanned<String>>,
    workload: Spanned<String>,
    #[serde(default)]
    metrics: BTreeMap<String, f64>,
    text: Option<String>,
}

/// Default number of rounds.
const ROUNDS: usize = 10;

/// Maximum size of a generated file. The folder for temporary files may be in memory.
const FILE_BYTES_MAX: u64 = 1 << 30;

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
        if file.variant.is_empty() {
            return Err(format!("{}: no [[variant]]: expected at least one", self.name));
        }
        if file.workload.is_empty() {
            return Err(format!("{}: no [[workload]]: expected at least one", self.name));
        }
        self.check_unique("program", file.program.iter().map(|program| &program.name))?;
        self.check_unique("variant", file.variant.iter().map(|variant| &variant.name))?;
        self.check_unique("workload", file.workload.iter().map(|workload| &workload.name))?;
        let stem = Path::new(self.name).file_stem().unwrap_or_default().to_string_lossy();
        self.check_together(&file.variant, &file.workload)?;
        let workloads: Vec<Workload> = file
            .workload
            .into_iter()
            .map(|table| self.workload(table, &file.files))
            .collect::<Result<_, _>>()?;
        self.check_unique("companion", file.companion.iter().map(|companion| &companion.name))?;
        let companions =
            file.companion.into_iter().map(|table| self.companion(table)).collect::<Result<Vec<_>, _>>()?;
        let variants = file.variant.into_iter().map(|table| self.variant(table, &companions, &workloads));
        let variants = variants.collect::<Result<Vec<Variant>, _>>()?;
        let comparisons = self.comparisons(file.compare, &variants, &workloads)?;
        let baselines = file.baseline.into_iter().map(|table| self.baseline(table, &variants, &workloads));
        let baselines = baselines.collect::<Result<_, _>>()?;
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
            companions,
            variants,
            workloads,
            comparisons,
            source: file.source,
            baselines,
            left_out: Vec::new(),
        })
    }

    fn file(&self, table: FileTable) -> Result<(String, Contents), String> {
        let path = Path::new(table.path.get_ref());
        if !path.components().all(|part| matches!(part, std::path::Component::Normal(_))) {
            return Err(self.at(&table.path, "the path of a file must be inside {folder}, without `..`"));
        }
        let contents = match (table.size, table.text, table.key) {
            (Some(size), None, None) if size.0 > FILE_BYTES_MAX => {
                return Err(self.at(&table.path, "the `size` of a file must be at most 1 GiB"));
            }
            (Some(size), None, None) => Contents::Size(size),
            (None, Some(text), None) => Contents::Text(text),
            (None, None, Some(key)) => match key.parse::<KeyType>() {
                Ok(_) => Contents::Key(key),
                Err(why) => return Err(self.at(&table.path, &format!("`key`: {why}"))),
            },
            _ => return Err(self.at(&table.path, "a file has either a `size`, a `text` or a `key`")),
        };
        Ok((table.path.into_inner(), contents))
    }

    fn baseline(
        &self,
        table: BaselineTable,
        variants: &[Variant],
        workloads: &[Workload],
    ) -> Result<Baseline, String> {
        let BaselineTable { name, variant, workload, metrics, text } = table;
        if let Some(variant) = &variant
            && !variants.iter().any(|known| known.name == *variant.get_ref())
        {
            return Err(self.at(variant, &format!("unknown variant {:?}", variant.get_ref())));
        }
        if !workloads.iter().any(|known| known.name == *workload.get_ref()) {
            return Err(self.at(&workload, &format!("unknown workload {:?}", workload.get_ref())));
        }
        if let Some(name) = metrics.keys().find(|name| !is_comparable(name)) {
            return Err(self.at(&workload, &format!("unknown metric {name:?}{}", expected_metrics())));
        }
        let variant = variant.map(Spanned::into_inner);
        Ok(Baseline { name, variant, workload: workload.into_inner(), metrics, text })
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
                let known = if what == "metric" { expected_metrics() } else { String::new() };
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

/// The metrics for comparisons, as the end of an error.
fn expected_metrics() -> String {
    format!("; expected one of {}", COMPARABLE.map(|(name, ..)| name).join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Kind, Ready};

    const WHOLE: &str =
        "[[variant]]\nname = \"a\"\ncommand = [\"a\"]\n[[workload]]\nname = \"l\"\nkind = \"bench\"\n";

    fn fails(text: &str) -> String {
        parse(text, "x.toml", None).expect_err(text)
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        let plan = parse(WHOLE, "plans/x.toml", None).unwrap();
        assert_eq!((plan.name.as_str(), plan.rounds), ("x", 10));
        assert_eq!(plan.variants[0].ready, Ready::Tcp);
        assert!(matches!(plan.workloads[0].kind, Kind::Bench { connections: 64, rate: None, .. }));
    }

    #[test]
    fn a_key_that_is_none_is_an_error_with_its_line() {
        let why = fails("rounds = 3\nround = 4\n");
        assert!(why.contains("x.toml") && why.contains("line 2") && why.contains("round"), "{why}");
    }

    #[test]
    fn an_invalid_plan_is_an_error_with_its_line() {
        for (more, expected) in [
            ("connections = 0\n", "from 1 to 28000"),
            ("streams = 0\n", "from 1 to 28000"),
            ("rate = -1.0\n", "above 0"),
            ("ramp = \"1s\"\n", "does not support `ramp`"),
            ("arguments = [\"--http2\", \"-d\", \"1s\"]\n", "must not have -d, which the lab sets itself"),
            ("arguments = [\"--json=x\"]\n", "must not have --json=x, which"),
            ("arguments = [\"-R100\"]\n", "must not have -R100, which"),
            ("path = \"a\"\n", "must start with a slash"),
            ("expect = { body = \"a\" }\n", "`expect`: the plan has no [[file]] \"a\""),
            ("expect = { cached = true }\n", "`cached` needs variants with `companions`"),
            ("expect = { encoding = \"gzip\" }\n", "`encoding` needs a `body`"),
            ("expect = { body = \"a\", encoding = \"br\" }\n", "expected `gzip`"),
            (
                "[[workload]]\nname = \"l\"\nkind = \"bench\"\n",
                "x.toml:8: the name of this workload is duplicate",
            ),
            ("[[workload]]\nname = \"b\"\nkind = \"burst\"\n", "x.toml:8: `requests` is missing"),
            ("[[compare]]\nvariant = \"a\"\nwith = \"b\"\n", "x.toml:9: unknown variant \"b\""),
            ("[[compare]]\nvariant = \"a\"\nwith = \"a\"\n", "with itself"),
            ("[[file]]\npath = \"../a\"\nsize = 1\n", "inside {folder}"),
            (
                "[[file]]\npath = \"a\"\nsize = \"2GiB\"\n",
                "x.toml:8: the `size` of a file must be at most 1 GiB",
            ),
            ("[[file]]\npath = \"a\"\n", "either a `size`, a `text` or a `key`"),
            ("[[file]]\npath = \"a\"\nkey = \"rsa-1024\"\n", "expected rsa-2048, "),
            ("[[variant]]\nname = \"b\"\ncommand = []\n", "x.toml:8: `command` is empty"),
            ("[[variant]]\nname = \"b\"\ncommand = [\"{config}\"]\n", "there is no `config`"),
            ("[[variant]]\nname = \"b\"\ncommand = [\"b\"]\nconfig = \"no.conf\"\n", "cannot read no.conf"),
            ("[[program]]\nname = \"../p\"\nsource = \"p\"\nbuild = [\"cc\"]\n", "letters, digits"),
            ("[[program]]\nname = \"p\"\nsource = \"p\"\nbuild = []\n", "`build` is empty"),
            ("[[program]]\nname = \"p\"\nsource = \"p.c\"\nbuild = [\"cc\"]\n", "cannot read p.c"),
            ("[[workload]]\nname = \"k\"\nkind = \"max-rate\"\n", "`slo` is missing"),
            ("[[workload]]\nname = \"k\"\nkind = \"max-rate\"\nslo = \"fast\"\n", "x.toml:10: "),
            ("[[baseline]]\nname = \"old\"\nworkload = \"m\"\n", "x.toml:9: unknown workload \"m\""),
            (
                "[[baseline]]\nname = \"old\"\nworkload = \"l\"\nmetrics = { speed = 1 }\n",
                "unknown metric \"speed\"",
            ),
            (
                "[[variant]]\nname = \"b\"\ncommand = [\"b\"]\nready = { http = \"1\" }\n",
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
                "[[variant]]\nname = \"b\"\ncommand = [\"b\"]\nplaceholders = { port = \"1\" }\n",
                "x.toml:8: \"port\" is not a valid placeholder",
            ),
            ("stall = { after = \"1s\", time = \"1s\" }\n", "x.toml:2: the stall of \"l\" needs"),
            (
                "[[variant]]\nname = \"b\"\ncommand = [\"b\"]\ncompanions = [\"c\"]\n",
                "x.toml:10: unknown [[companion]] \"c\"",
            ),
            (
                "[[variant]]\nname = \"b\"\ncommand = [\"b\"]\noutput_format = \"wrk\"\n",
                "x.toml:8: `output_format` needs",
            ),
            (
                "[[companion]]\nname = \"b c\"\ncommand = [\"b\"]\n",
                "x.toml:8: its name may only contain letters",
            ),
            ("[[companion]]\nname = \"b\"\ncommand = [\"{config}\"]\n", "x.toml:8: its command has {config}"),
            ("[[variant]]\nname = \"b\"\ncommand = [\"b\", \"{n}\"]\n", "x.toml:8: its command has {n}"),
            (
                "[[workload]]\nname = \"b\"\nkind = \"run\"\n",
                "x.toml:5: a workload of the kind \"run\" runs variants",
            ),
        ] {
            let why = fails(&format!("{WHOLE}{more}"));
            assert!(why.contains(expected), "{more}: {why}");
        }
        assert!(fails("").contains("no [[variant]]"));
    }

    #[test]
    fn a_comparison_is_of_something_and_is_there_once() {
        let compare = "[[compare]]\nvariant = \"a\"\nwith = \"b\"\n";
        let turned = "[[compare]]\nvariant = \"b\"\nwith = \"a\"\nmetrics = [\"cpu_us_per_request\"]\n";
        let other = turned.replace("cpu_us_per_request", "errors");
        let plan = format!("{WHOLE}[[variant]]\nname = \"b\"\ncommand = [\"b\"]\n{compare}");
        for (more, expected) in [
            ("workloads = []\n", "x.toml:11: `workloads` is empty"),
            ("metrics = []\n", "x.toml:11: `metrics` is empty"),
            ("workloads = [\"l\", \"l\"]\n", "x.toml:13: the workload \"l\" is duplicate"),
            (compare, "x.toml:14: \"a\" and \"b\" are already compared in cpu_us_per_request under \"l\""),
            (turned, "x.toml:14: \"b\" and \"a\" are already compared in cpu_us_per_request"),
        ] {
            let why = fails(&format!("{plan}{more}"));
            assert!(why.contains(expected), "{more}: {why}");
        }
        assert_eq!(parse(&format!("{plan}{other}"), "x.toml", None).unwrap().comparison_count(), 2);
    }

    #[test]
    fn each_kind_of_workload_has_its_usual_metrics() {
        let workloads = [
            ("closed", "kind = \"bench\"", &["cpu_us_per_request"][..]),
            ("open", "kind = \"bench\"\nrate = 10", &["cpu_us_per_request", "p99_ns"]),
            ("many", "kind = \"burst\"\nrequests = 2", &["time_s"]),
            ("some", "kind = \"sequence\"\nrequests = 2", &["time_s"]),
            ("idle", "kind = \"idle\"", &["private_bytes", "private_bytes_per_connection"]),
        ];
        let tables = workloads.map(|(name, kind, _)| format!("[[workload]]\nname = \"{name}\"\n{kind}\n"));
        let plan = "[[variant]]\nname = \"a\"\ncommand = [\"a\"]\n[[variant]]\nname = \"b\"\ncommand = [\"b\"]\n\
            [[compare]]\nvariant = \"a\"\nwith = \"b\"\n";
        let plan = parse(&(plan.to_owned() + &tables.concat()), "x", None).unwrap();
        for (name, _, expected) in workloads {
            let of =
                plan.comparisons.iter().find(|comparison| comparison.workloads.iter().any(|own| own == name));
            assert_eq!(of.unwrap().metrics, expected, "{name}");
        }
        // The burst and the sequence have the same.
        assert_eq!(plan.comparisons.len(), 4);
    }

    #[test]
    fn a_comparison_needs_workloads_that_both_run() {
        let plan = format!(
            "{WHOLE}[[workload]]\nname = \"m\"\nkind = \"bench\"\n\
             [[variant]]\nname = \"b\"\ncommand = [\"b\"]\nworkloads = [\"m\"]\n\
             [[compare]]\nvariant = \"a\"\nwith = \"b\"\n"
        );
        assert_eq!(parse(&plan, "x", None).unwrap().comparisons[0].workloads, ["m"]);
        let why = fails(&format!("{plan}workloads = [\"l\"]\n"));
        assert!(why.contains("does not run with \"l\""), "{why}");
        let why = fails(&plan.replace("[\"m\"]", "[\"x\"]"));
        assert!(why.contains("unknown workload \"x\""), "{why}");
    }

    #[test]
    fn a_server_that_runs_already_has_only_a_url() {
        let variant = |keys: &str| format!("{WHOLE}[[variant]]\nname = \"b\"\n{keys}\n");
        let plan = parse(&variant("url = \"http://localhost:8080/a\""), "x", None).unwrap();
        assert!(plan.variants[1].command.is_empty());
        for (keys, expected) in [
            ("rounds = 3", "x.toml:8: `command` is empty"),
            ("url = \"localhost\"", "x.toml:8: `url` must be a URL"),
            ("url = \"http://a\"\nready = { tcp = true }", "x.toml:8: a server that runs already"),
            ("url = \"http://a\"\nrounds = 0", "x.toml:8: `rounds` must be at least 1"),
        ] {
            let why = fails(&variant(keys));
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn a_variant_that_runs_to_its_end_does_not_serve() {
        let plan = |variant: &str, workload: &str| {
            let variant = format!("[[variant]]\nname = \"a\"\n{variant}\n");
            parse(&format!("{variant}[[workload]]\nname = \"l\"\nkind = \"run\"\n{workload}"), "x.toml", None)
        };
        let has = "command = [\"a\", \"{n}\"]";
        assert_eq!(
            plan(has, "n = 50").unwrap().workloads[0].kind,
            Kind::Run { n: Some(50), within: Time(std::time::Duration::from_mins(1)), exit_codes: vec![0] }
        );
        for (variant, workload, expected) in [
            (has, "", "x.toml:5: {n} in the command"),
            ("command = [\"a\"]", "n = 50", "x.toml:2: {n} in the command"),
            ("command = [\"a\"]\nready = { tcp = true }", "", "x.toml:2: a variant that runs to its end"),
            (has, "n = 50\npath = \"/a\"", "does not support `path`"),
        ] {
            let why = plan(variant, workload).expect_err(workload);
            assert!(why.contains(expected), "{variant} {workload}: {why}");
        }
    }
}
