//! Evaluates the comparisons of a plan.

use rudy_stats::compare::{Better, Comparison, Control, Finding, PAIRS_MIN, RatioEstimate, rounds_needed};

use super::pairs::{PairSide, Pairs, warning};
use super::{ComparisonResult, ControlResult, Evaluation, delta, sentences};
use crate::experiment::Experiment;
use crate::metric::Metric;
use crate::plan::Plan;
use crate::record::Outcome;

/// A comparison, to be evaluated together with all others.
pub(super) struct PendingComparison<'a> {
    experiment: &'a Experiment,
    variant: &'a str,
    with: &'a str,
    workload: &'a str,
    metric: Metric,
    pairs: Pairs,
    /// The input of a comparison, or why there is none.
    pub(super) input: Result<Comparison, NotComparable>,
}

/// The reason that a comparison cannot be evaluated.
#[derive(Debug, Clone)]
pub(super) enum NotComparable {
    /// There are too few rounds for a verdict.
    TooFew,
    /// A message.
    Other(String),
}

/// All comparisons of a plan.
pub(super) fn pending_comparisons(experiment: &Experiment) -> Vec<PendingComparison<'_>> {
    let controls = controls(experiment);
    let comparisons = experiment.plan().comparisons.iter();
    let cases = comparisons.flat_map(|comparison| {
        let metrics =
            move |workload| comparison.metrics.iter().map(move |metric| (comparison, workload, metric));
        comparison.workloads.iter().flat_map(metrics)
    });
    cases
        .map(|(comparison, workload, metric)| {
            let [variant, with] = [comparison.variant.as_str(), comparison.with.as_str()];
            PendingComparison::new(experiment, [variant, with], workload, metric, &controls)
        })
        .collect()
}

/// The metrics in which a variant without comparisons is compared with itself, as far as it has them.
const CONTROLLED: [&str; 4] = ["time_s", "cpu_us_per_request", "p99_ns", "private_bytes_per_connection"];

/// The controls: each variant that was measured twice, compared with itself. Uses the metrics of its
/// comparisons, or else the usual metrics of the workload.
pub(super) fn controls(experiment: &Experiment) -> Vec<ControlResult<'_>> {
    let plan = experiment.plan();
    let mut controls = Vec::new();
    for variant in plan.variants.iter().filter(|variant| variant.is_control) {
        for workload in &plan.workloads {
            let mut metrics = metrics_of(plan, &variant.name, &workload.name);
            if metrics.is_empty() {
                let shows = |metric: &&str| {
                    let mut runs = experiment.measured(&variant.name, &workload.name);
                    runs.any(|run| run.metrics.contains_key(*metric))
                };
                metrics = CONTROLLED.into_iter().filter(shows).collect();
            }
            for metric in metrics {
                controls.push(controlled(experiment, &variant.name, &workload.name, metric));
            }
        }
    }
    controls
}

/// The metrics in which a variant is compared under a workload.
fn metrics_of<'a>(plan: &'a Plan, variant: &str, workload: &str) -> Vec<&'a str> {
    let matching = plan.comparisons.iter().filter(|comparison| {
        [&comparison.variant, &comparison.with].contains(&&variant.to_owned())
            && comparison.workloads.iter().any(|name| name == workload)
    });
    let mut metrics: Vec<&str> = Vec::new();
    for name in matching.flat_map(|comparison| &comparison.metrics) {
        if !metrics.contains(&name.as_str()) {
            metrics.push(name);
        }
    }
    metrics
}

fn controlled<'a>(
    experiment: &'a Experiment,
    variant: &'a str,
    workload: &'a str,
    metric: &str,
) -> ControlResult<'a> {
    let side = |is_control| PairSide { variant, is_control };
    let pairs = Pairs::of(experiment, workload, metric, side(true), side(false));
    let estimate = RatioEstimate::paired(&pairs.a, &pairs.b).map_err(|error| match pairs.rounds() {
        rounds @ 0..PAIRS_MIN => {
            format!(
                "{} are too few: a comparison needs {PAIRS_MIN}",
                sentences::rounds_of(rounds, pairs.rounds_run)
            )
        }
        _ => error.to_string(),
    });
    ControlResult {
        variant,
        workload,
        metric: Metric::named(metric),
        rounds: pairs.rounds(),
        rounds_run: pairs.rounds_run,
        outcome: estimate.map(|estimate| Control::new(&estimate, delta(experiment))),
    }
}

/// Which direction of a metric is better: up for rates, down for costs.
pub(crate) fn better(metric: &str) -> Better {
    if metric.ends_with("_per_s") { Better::Higher } else { Better::Lower }
}

impl<'a> PendingComparison<'a> {
    fn new(
        experiment: &'a Experiment,
        [variant, with]: [&'a str; 2],
        workload: &'a str,
        metric: &'a str,
        controls: &[ControlResult],
    ) -> Self {
        let side = |variant| PairSide { variant, is_control: false };
        let pairs = Pairs::of(experiment, workload, metric, side(variant), side(with));
        let matching = controls.iter().filter(|control| {
            [variant, with].contains(&control.variant)
                && control.workload == workload
                && control.metric.name == metric
        });
        let controls = matching.filter_map(|control| control.outcome.clone().ok()).collect();
        let estimate = RatioEstimate::paired(&pairs.a, &pairs.b);
        let comparison = estimate.map(|estimate| Comparison {
            estimate,
            better: better(metric),
            delta: delta(experiment),
            controls,
        });
        let mut pending = Self {
            experiment,
            variant,
            with,
            workload,
            metric: Metric::named(metric),
            pairs,
            input: Err(NotComparable::TooFew),
        };
        pending.input = comparison.map_err(|error| pending.not_comparable(&error.to_string()));
        pending
    }

    /// Whether both variants have the metric in any round.
    pub(super) fn is_measured(&self) -> bool {
        self.pairs.rounds() > 0
    }

    /// The result of a comparison, with its finding if it was evaluated. `comparison_count` is the number of
    /// comparisons.
    pub(super) fn result(self, finding: Option<Finding>, comparison_count: usize) -> ComparisonResult<'a> {
        let medians = self.pairs.medians();
        let ratio = medians.map(|[a, b]| a / b).filter(|ratio| ratio.is_finite() && *ratio > 0.0);
        let evaluation = match (finding, &self.input) {
            (Some(finding), _) => Evaluation::Done(finding),
            (None, Err(NotComparable::Other(why))) => {
                let missing = sentences::missing(self.pairs.rounds(), self.pairs.rounds_run);
                Evaluation::NotDone { ratio, reason: format!("{why}{missing}"), needed: None }
            }
            (None, _) => {
                let needed = rounds_needed(comparison_count);
                let rounds = sentences::too_few(self.pairs.rounds(), self.pairs.rounds_run, needed);
                let reason = format!("no verdict: {rounds}");
                Evaluation::NotDone { ratio, reason, needed: Some(needed) }
            }
        };
        let mut compared = ComparisonResult {
            variant: self.variant,
            with: self.with,
            workload: self.workload,
            metric: self.metric,
            rounds: self.pairs.rounds(),
            rounds_run: self.pairs.rounds_run,
            medians,
            is_suspect: self.pairs.is_suspect,
            failures: self.pairs.failures,
            evaluation,
            sentence: String::new(),
        };
        compared.sentence = sentences::sentence(&compared, delta(self.experiment));
        compared
    }

    fn not_comparable(&self, error: &str) -> NotComparable {
        let [a, b] = self.pairs.zeros();
        let rounds = self.pairs.rounds();
        if rounds == 0 {
            NotComparable::Other(self.missing_metric())
        } else if (a, b) == (rounds, rounds) {
            NotComparable::Other(format!(
                "both have 0 in each of {}, which is no ratio",
                sentences::rounds(rounds)
            ))
        } else if a + b > 0 {
            let zeros_of = |variant: &str, zeros: usize| format!("{variant} has 0 in {zeros}");
            let (a, b) = (zeros_of(self.variant, a), zeros_of(self.with, b));
            NotComparable::Other(format!("of {} {a}, {b}, which is no ratio", sentences::rounds(rounds)))
        } else if rounds < PAIRS_MIN {
            NotComparable::TooFew
        } else {
            NotComparable::Other(error.to_owned())
        }
    }

    /// The reason that no round has both metrics.
    fn missing_metric(&self) -> String {
        for variant in [self.variant, self.with] {
            let runs = || self.experiment.runs_of(variant, self.workload).filter(|run| !run.is_control);
            if runs().count() == 0 {
                return format!("{variant} was not run");
            }
            let mut measured = runs().filter(|run| run.outcome == Outcome::Measured).peekable();
            if measured.peek().is_none() {
                return format!("{variant} failed in every round");
            }
            if !measured.any(|run| run.metrics.contains_key(&self.metric.name)) {
                let warning = runs().find_map(|run| warning(run, &self.metric.name));
                let why = warning.map_or(String::new(), |warning| format!(": {}", warning.sentence));
                return format!("{variant} shows no {}{why}", self.metric.title);
            }
        }
        "there is no round with both".to_owned()
    }
}
