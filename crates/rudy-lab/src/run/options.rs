//! The options of `rudy lab run`, and the plan that results from them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rudy_command::print_line;
use rudy_experiment::Gate;
use rudy_experiment::plan::{Kind, Plan, Quick, aa, builtin, parse};
use rudy_stats::compare::{PAIRS_MAX, rounds_needed};
use rudy_units::Time;

/// The duration of a workload in a quick run: enough to see that it works.
const QUICK: Time = Time(Duration::from_secs(1));
const QUICK_ROUNDS: usize = 2;

/// The options of `rudy lab run`.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The plan file, or the name of a built-in plan. `None` with `resume`.
    pub plan: Option<String>,
    /// The text of the plan, if it is not in a file.
    pub text: Option<String>,
    /// The number of rounds, instead of the plan's.
    pub rounds: Option<usize>,
    /// The results folder; by default a new one in the current folder.
    pub out: Option<PathBuf>,
    /// Only these variants and workloads.
    pub only: Vec<String>,
    /// The folder of the experiment to continue.
    pub resume: Option<PathBuf>,
    /// Two rounds of short workloads, to try a plan.
    pub is_quick: bool,
    /// Compares each variant with itself.
    pub is_aa: bool,
    /// The condition under which it fails.
    pub gate: Option<Gate>,
}

/// Why nothing runs, and the kind of error.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The flags or the plan are invalid.
    Input(String),
    /// A resource is missing or failed.
    World(String),
    /// A signal with this number came before the first result. With a message about processes that still run.
    Interrupted(u8, Option<String>),
}

impl Options {
    /// The plan to run, and the text of its file.
    pub(super) fn plan(&self) -> Result<(Plan, String), Refusal> {
        let name = self.plan.as_deref().unwrap_or_default();
        let (text, folder) = self.text.clone().map_or_else(|| read(name), |text| Ok((text, None)))?;
        let mut plan = parse(&text, name, folder.as_deref()).map_err(Refusal::Input)?;
        if self.is_aa {
            if plan.comparisons.is_empty() {
                return Err(Refusal::Input(format!("--aa: {name} compares nothing: it has no [[compare]]")));
            }
            plan.against_themselves();
        }
        self.narrow(&mut plan)?;
        if self.is_quick {
            quicken(&mut plan);
        }
        if let Some(rounds) = self.rounds {
            if !(1..=PAIRS_MAX).contains(&rounds) {
                return Err(Refusal::Input(format!("--rounds must be a number from 1 to {PAIRS_MAX}")));
            }
            plan.rounds = rounds;
        }
        self.check_rounds(&plan)?;
        leave_out_what_is_not_installed(&mut plan)?;
        if plan.variants.is_empty() {
            return Err(Refusal::World("no variant of this plan is installed".to_owned()));
        }
        Ok((plan, text))
    }

    /// With too few rounds, nothing would be found worse.
    fn check_rounds(&self, plan: &Plan) -> Result<(), Refusal> {
        let needed = rounds_needed(plan.comparison_count());
        match self.gate {
            Some(gate) if plan.comparison_count() == 0 => {
                Err(Refusal::Input(format!("{gate}: the plan compares nothing")))
            }
            Some(gate) if plan.rounds < needed => {
                let why =
                    format!("{gate} needs {needed} rounds for this plan: use --rounds {needed} or more");
                Err(Refusal::Input(why))
            }
            _ => Ok(()),
        }
    }

    /// The results folder.
    pub(super) fn folder(&self, plan: &Plan) -> PathBuf {
        self.out.clone().unwrap_or_else(|| {
            let now = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string();
            PathBuf::from(format!("lab-{}-{now}", plan.name.replace('/', "-")))
        })
    }

    /// Applies `--only`: to variants if some are named, to workloads if some are named.
    fn narrow(&self, plan: &mut Plan) -> Result<(), Refusal> {
        let is_variant = |name: &String| plan.variants.iter().any(|variant| variant.name == *name);
        let is_workload = |name: &String| plan.workloads.iter().any(|workload| workload.name == *name);
        if let Some(unknown) = self.only.iter().find(|name| !is_variant(name) && !is_workload(name)) {
            let variants = plan.variants.iter().map(|variant| variant.name.as_str());
            let names: Vec<_> =
                variants.chain(plan.workloads.iter().map(|workload| workload.name.as_str())).collect();
            return Err(Refusal::Input(format!("--only {unknown}: the plan has {}", names.join(", "))));
        }
        let (of_variants, of_workloads) =
            (self.only.iter().any(is_variant), self.only.iter().any(is_workload));
        plan.variants.retain(|variant| {
            let names = [aa::original(&variant.name), &variant.name];
            !of_variants || self.only.iter().any(|name| names.contains(&name.as_str()))
        });
        plan.workloads.retain(|workload| !of_workloads || self.only.contains(&workload.name));
        keep_comparisons(plan);
        Ok(())
    }
}

/// The text of a plan, and the folder of its file if it has one.
fn read(name: &str) -> Result<(String, Option<PathBuf>), Refusal> {
    if let Some(text) = builtin::text(name) {
        return Ok((text.to_owned(), None));
    }
    let path = Path::new(name);
    let text = fs::read_to_string(path).map_err(|error| {
        let hint =
            if name.contains(['/', '.']) { "" } else { "; see `rudy lab list` for the built-in plans" };
        Refusal::Input(format!("cannot read the plan {name}: {error}{hint}"))
    })?;
    Ok((text, path.parent().map(Path::to_owned)))
}

fn quicken(plan: &mut Plan) {
    plan.rounds = plan.rounds.min(QUICK_ROUNDS);
    plan.warmup = plan.warmup.min(Time(Duration::from_millis(200)));
    for workload in &mut plan.workloads {
        match &mut workload.kind {
            Kind::Bench { time, requests, .. } => match workload.quick {
                Some(Quick::Time(quick)) => *time = quick.min(*time),
                Some(Quick::Requests(quick)) => *requests = requests.map(|requests| requests.min(quick)),
                None => *time = QUICK.min(*time),
            },
            Kind::MaxRate { time, hold, .. } => (*time, *hold) = (QUICK.min(*time), QUICK.min(*hold)),
            Kind::Idle { ramp, time, .. } | Kind::Flood { ramp, time, .. } => {
                (*ramp, *time) = (QUICK.min(*ramp), QUICK.min(*time));
            }
            Kind::Burst { .. } | Kind::Sequence { .. } | Kind::Run { .. } => {}
        }
    }
}

/// Removes an optional variant; without any other variant there is no experiment.
fn leave_out_what_is_not_installed(plan: &mut Plan) -> Result<(), Refusal> {
    let mut refusal = None;
    let mut variants = std::mem::take(&mut plan.variants);
    let mut left_out = Vec::new();
    variants.retain(|variant| {
        let Some(why) = plan.missing(variant) else { return true };
        if variant.is_optional {
            let remark = format!("{} is left out: {why}", variant.name);
            print_line(&remark);
            left_out.push(remark);
        } else {
            refusal.get_or_insert(format!("{} cannot be measured: {why}", variant.name));
        }
        false
    });
    (plan.variants, plan.left_out) = (variants, left_out);
    keep_comparisons(plan);
    refusal.map_or(Ok(()), |why| Err(Refusal::World(why)))
}

/// The comparisons whose variants and workloads remain.
fn keep_comparisons(plan: &mut Plan) {
    let Plan { variants, workloads, comparisons, .. } = plan;
    let is_there = |name: &str| variants.iter().any(|variant| variant.name == name);
    for comparison in comparisons.iter_mut() {
        comparison.workloads.retain(|name| workloads.iter().any(|workload| workload.name == *name));
    }
    comparisons.retain(|comparison| {
        is_there(&comparison.variant) && is_there(&comparison.with) && !comparison.workloads.is_empty()
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(only: &[&str], is_quick: bool) -> Options {
        let only = only.iter().map(|name| (*name).to_owned()).collect();
        Options { plan: Some("seminar".to_owned()), only, is_quick, ..Options::default() }
    }

    #[test]
    fn only_some_variants_and_workloads_and_what_compares_them() {
        let (plan, _) = options(&["percore", "task", "burst-300"], false).plan().unwrap();
        let variants: Vec<_> = plan.variants.iter().map(|variant| variant.name.as_str()).collect();
        assert_eq!(variants, ["percore", "task"]);
        assert_eq!((plan.workloads.len(), plan.comparisons.len()), (1, 1));
        assert_eq!(plan.comparisons[0].workloads, ["burst-300"]);
    }

    #[test]
    fn quick_values_of_a_workload_replace_its_own() {
        let text = builtin::text("fastcgi-nines").unwrap();
        let mut plan = parse(text, "fastcgi-nines", None).unwrap();
        quicken(&mut plan);
        let of = |name: &str| &plan.workloads.iter().find(|workload| workload.name == name).unwrap().kind;
        let two = Time(Duration::from_secs(2));
        assert!(matches!(of("1000/s"), Kind::Bench { time, .. } if *time == two));
        assert!(matches!(of("a million"), Kind::Bench { requests: Some(100_000), .. }));
        assert!(matches!(of("1000 fetches"), Kind::Bench { requests: Some(1000), .. }));
    }

    #[test]
    fn a_missing_program_of_rudy_is_named_with_its_build_command() {
        let text = "[[variant]]\nname = \"a\"\ncommand = [\"a\"]\nneeds = [\"{programs}/no-such-program\"]\n\
            [[workload]]\nname = \"l\"\nkind = \"bench\"\n";
        let mut plan = parse(text, "x", None).unwrap();
        let Err(Refusal::World(why)) = leave_out_what_is_not_installed(&mut plan) else {
            panic!("it is not there")
        };
        assert!(why.contains("-p no-such-program`"), "{why}");
    }

    #[test]
    fn an_optional_variant_is_left_out_without_its_companion() {
        let text = "[[companion]]\nname = \"app\"\ncommand = [\"no-such-program\"]\n\
            [[variant]]\nname = \"a\"\ncommand = [\"sh\"]\ncompanions = [\"app\"]\noptional = true\ninstall = \"apt install app\"\n\
            [[variant]]\nname = \"b\"\ncommand = [\"sh\"]\n\
            [[workload]]\nname = \"l\"\nkind = \"bench\"\n";
        let mut plan = parse(text, "x", None).unwrap();
        leave_out_what_is_not_installed(&mut plan).unwrap();
        assert_eq!(plan.variants.iter().map(|variant| variant.name.as_str()).collect::<Vec<_>>(), ["b"]);
        assert_eq!(
            plan.left_out,
            ["a is left out: no-such-program is not installed; install it with `apt install app`"]
        );
    }

    #[test]
    fn a_name_that_is_none_is_refused_with_those_that_are() {
        let Err(Refusal::Input(why)) = options(&["perl"], false).plan() else { panic!("perl is no variant") };
        assert!(why.contains("perl") && why.contains("percore") && why.contains("burst-300"), "{why}");
    }

    #[test]
    fn a_quick_run_has_two_rounds_by_default() {
        let mut options = options(&[], true);
        assert_eq!(options.plan().unwrap().0.rounds, 2);
        options.rounds = Some(7);
        assert_eq!(options.plan().unwrap().0.rounds, 7);
        options.rounds = Some(0);
        assert!(options.plan().is_err());
    }
}
