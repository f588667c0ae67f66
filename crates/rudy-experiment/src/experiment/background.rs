//! Background CPU that differs between the variants of a comparison, which no run alone shows.

use std::collections::BTreeMap;

use rudy_stats::compare::Summary;
use rudy_stats::validity::{Conditions, check};

use super::Experiment;
use crate::record::Warning;

/// Adds a warning to the runs of compared variants of which one had more background CPU than the other, by the medians
/// over the rounds.
pub(super) fn warn(experiment: &mut Experiment) {
    let mut warnings: BTreeMap<(String, String), Vec<Warning>> = BTreeMap::new();
    for comparison in &experiment.plan().comparisons {
        for workload in &comparison.workloads {
            let pair = [&comparison.variant, &comparison.with];
            let found = warnings_of(pair.map(|variant| median(experiment, variant, workload)));
            if found.is_empty() {
                continue;
            }
            for variant in pair {
                // One is enough for a variant that differs from several.
                warnings.entry((variant.clone(), workload.clone())).or_insert_with(|| found.clone());
            }
        }
    }
    for run in experiment.runs.iter_mut().filter(|run| run.metrics.contains_key(SHARE)) {
        let of_run = warnings.get(&(run.variant.clone(), run.workload.clone()));
        run.warnings.extend(of_run.into_iter().flatten().cloned());
    }
}

const SHARE: &str = "background_cpu_share";

fn median(experiment: &Experiment, variant: &str, workload: &str) -> Option<f64> {
    let runs = experiment.measured(variant, workload);
    let shares: Vec<f64> = runs.filter_map(|run| run.metrics.get(SHARE).copied()).collect();
    Summary::new(&shares).map(|summary| summary.median)
}

fn warnings_of(shares: [Option<f64>; 2]) -> Vec<Warning> {
    let [Some(one), Some(other)] = shares else { return Vec::new() };
    let background_cpu_of_variants = Some((one.min(other), one.max(other)));
    let conditions = Conditions { background_cpu_of_variants, ..Conditions::default() };
    check(&conditions).iter().map(|warning| Warning::of(warning, None)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixtures;

    const PLAN: &str = "rounds = 3\n\
        [[variant]]\nname = \"a\"\ncommand = [\"a\"]\n[[variant]]\nname = \"b\"\ncommand = [\"b\"]\n\
        [[variant]]\nname = \"c\"\ncommand = [\"c\"]\n\
        [[workload]]\nname = \"l\"\nkind = \"bench\"\n\
        [[compare]]\nvariant = \"a\"\nwith = \"b\"\n[[compare]]\nvariant = \"a\"\nwith = \"c\"\n";

    fn sentences(of_b: f64, variant: &str) -> Vec<String> {
        let mut experiment =
            fixtures::experiment(PLAN, |id| Some(vec![(SHARE, if id.variant == "b" { of_b } else { 0.02 })]));
        warn(&mut experiment);
        let warnings = experiment.runs_of(variant, "l").flat_map(|run| &run.warnings);
        warnings.map(|warning| warning.sentence.clone()).collect()
    }

    #[test]
    fn unequal_background_cpu_is_a_warning_of_both_variants() {
        let expected = "other processes used 2.0 % of the machine's CPU time during one variant and 9.0 % during another";
        assert_eq!(sentences(0.09, "a"), [expected; 3]);
        assert_eq!(sentences(0.09, "b"), [expected; 3]);
        assert_eq!(sentences(0.09, "c"), [""; 0]);
    }

    #[test]
    fn equal_background_cpu_is_none() {
        assert_eq!(sentences(0.06, "a"), [""; 0]);
        assert_eq!(warnings_of([Some(0.5), None]), []);
    }
}
