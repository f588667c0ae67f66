//! Compares two experiments: the variants and workloads that both have.

use rudy_stats::compare::{Comparison, PAIRS_MIN, RatioEstimate, Summary, evaluate};

use super::pairs::{Failures, is_suspect, value};
use super::{ComparisonResult, Evaluation, compared, delta, sentences};
use crate::experiment::Experiment;
use crate::metric::Metric;
use crate::plan::{Plan, Workload, usual_metrics};
use crate::record::{Head, Run};

/// The name of the old results in sentences.
const OLD: &str = "the old results";

/// The values of a metric in both experiments.
struct PendingComparison<'a> {
    variant: &'a str,
    workload: &'a str,
    metric: Metric,
    new: Vec<f64>,
    old: Vec<f64>,
    is_suspect: bool,
    failures: Failures,
}

/// All metrics of all variants and workloads that both experiments have, with verdicts corrected for their number.
pub(crate) fn across<'a>(old: &Experiment, new: &'a Experiment) -> Vec<ComparisonResult<'a>> {
    let pending = pending_comparisons(old, new);
    let estimate: Vec<_> =
        pending.iter().map(|comparison| RatioEstimate::unpaired(&comparison.new, &comparison.old)).collect();
    let comparisons: Vec<Comparison> = pending
        .iter()
        .zip(&estimate)
        .filter_map(|(comparison, estimate)| {
            let (estimate, better) = (estimate.clone().ok()?, compared::better(&comparison.metric.name));
            Some(Comparison { estimate, better, delta: delta(new), controls: Vec::new() })
        })
        .collect();
    let mut findings = evaluate(&comparisons).into_iter();
    let results = pending.into_iter().zip(estimate).map(|(comparison, estimate)| {
        let evaluation = match estimate {
            // There is a finding for each comparison.
            Ok(_) => findings.next().map(Evaluation::Done),
            Err(error) => Some(comparison.not_done(&error.to_string())),
        };
        Some(comparison.result(evaluation?, new))
    });
    results.flatten().collect()
}

fn pending_comparisons<'a>(old: &Experiment, new: &'a Experiment) -> Vec<PendingComparison<'a>> {
    let mut pending = Vec::new();
    for workload in &new.plan().workloads {
        for variant in new.plan().variants.iter().map(|variant| variant.name.as_str()) {
            for metric in metrics(new.plan(), workload) {
                let runs = |experiment: &'a Experiment| experiment.measured(variant, &workload.name);
                let of =
                    |runs: &[&Run]| runs.iter().filter_map(|run| value(run, &metric)).collect::<Vec<_>>();
                let [all_new, all_old] = [new, old].map(|experiment| {
                    experiment.runs_of(variant, &workload.name).filter(|run| !run.is_control)
                });
                let failures = Failures::of(all_new, all_old);
                let old: Vec<&Run> = old.measured(variant, &workload.name).collect();
                let new: Vec<&Run> = runs(new).collect();
                let is_suspect = old.iter().chain(&new).any(|run| is_suspect(run, &metric));
                let (old, new) = (of(&old), of(&new));
                if !old.is_empty() && !new.is_empty() {
                    let (metric, workload) = (Metric::named(&metric), workload.name.as_str());
                    pending.push(PendingComparison {
                        variant,
                        workload,
                        metric,
                        new,
                        old,
                        is_suspect,
                        failures,
                    });
                }
            }
        }
    }
    pending
}

/// The usual metrics of a workload, and those in which its plan compares.
fn metrics(plan: &Plan, workload: &Workload) -> Vec<String> {
    let mut metrics = usual_metrics(&workload.kind);
    let compared = plan.comparisons.iter().filter(|comparison| comparison.workloads.contains(&workload.name));
    for metric in compared.flat_map(|comparison| &comparison.metrics) {
        if !metrics.contains(metric) {
            metrics.push(metric.clone());
        }
    }
    metrics
}

impl<'a> PendingComparison<'a> {
    fn medians(&self) -> Option<[f64; 2]> {
        Some([Summary::new(&self.new)?.median, Summary::new(&self.old)?.median])
    }

    fn not_done(&self, error: &str) -> Evaluation {
        let ratio = self.medians().map(|[new, old]| new / old);
        let ratio = ratio.filter(|ratio| ratio.is_finite() && *ratio > 0.0);
        let rounds = self.new.len().min(self.old.len());
        if rounds < PAIRS_MIN {
            return Evaluation::NotDone {
                ratio,
                reason: sentences::too_few(rounds, rounds, PAIRS_MIN),
                needed: Some(PAIRS_MIN),
            };
        }
        Evaluation::NotDone { ratio, reason: error.to_owned(), needed: None }
    }

    fn result(self, evaluation: Evaluation, new: &Experiment) -> ComparisonResult<'a> {
        let rounds = self.new.len().min(self.old.len());
        let medians = self.medians();
        let Self { variant, workload, metric, is_suspect, failures, .. } = self;
        let mut compared = ComparisonResult {
            variant,
            with: OLD,
            workload,
            metric,
            rounds,
            rounds_run: rounds,
            medians,
            is_suspect,
            failures,
            evaluation,
            sentence: String::new(),
        };
        compared.sentence = sentences::sentence(&compared, delta(new));
        compared
    }
}

/// The differences between two experiments besides the results, as sentences.
pub(crate) fn differences(old: &Experiment, new: &Experiment) -> Vec<String> {
    let (before, after) = (&old.heads[0], &new.heads[0]);
    let mut differences = Vec::new();
    if before.machine != after.machine {
        differences.push(format!("the machine differs: {}, then {}", machine(before), machine(after)));
    }
    let names: std::collections::BTreeSet<_> = before.versions.keys().chain(after.versions.keys()).collect();
    for name in names {
        let [was, is] = [before, after].map(|head| head.versions.get(name).map_or("none", String::as_str));
        if was != is {
            differences.push(format!("the version of {name} differs: {was}, then {is}"));
        }
    }
    differences.extend(of_plans(&before.plan, &after.plan));
    for (experiment, name) in [(old, "old"), (new, "new")] {
        if experiment.runs.len() < experiment.plan().run_count() {
            differences.push(format!("the {name} experiment is incomplete"));
        }
    }
    differences
}

fn of_plans(old: &Plan, new: &Plan) -> Vec<String> {
    let mut differences = Vec::new();
    for workload in &new.workloads {
        let before = old.workloads.iter().find(|before| before.name == workload.name);
        if before.is_some_and(|before| before != workload) {
            differences.push(format!("the workload {} differs", workload.name));
        }
    }
    for variant in &new.variants {
        let before = old.variants.iter().find(|before| before.name == variant.name);
        let same = |before: &crate::plan::Variant| {
            (&before.command, &before.config, &before.url)
                == (&variant.command, &variant.config, &variant.url)
        };
        if before.is_some_and(|before| !same(before)) {
            differences.push(format!("the command or the configuration of {} differs", variant.name));
        }
    }
    if old.warmup != new.warmup || old.files != new.files {
        differences.push("the warm-up or the files of the plans differ".to_owned());
    }
    let names = |plan: &Plan| {
        let variants = plan.variants.iter().map(|variant| variant.name.clone());
        let workloads = plan.workloads.iter().map(|workload| workload.name.clone());
        variants.chain(workloads).collect::<Vec<_>>()
    };
    let (before, after) = (names(old), names(new));
    let one_sided = |own: &[String], other: &[String]| {
        own.iter().filter(|name| !other.contains(name)).cloned().collect::<Vec<_>>().join(", ")
    };
    for (only, side) in [(one_sided(&before, &after), "old"), (one_sided(&after, &before), "new")] {
        if !only.is_empty() {
            differences.push(format!("only the {side} experiment has {only}"));
        }
    }
    differences
}

fn machine(head: &Head) -> String {
    let machine = &head.machine;
    format!("{}, {} cores, Linux {}", machine.cpu, machine.cores, machine.kernel)
}
