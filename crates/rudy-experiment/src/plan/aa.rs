//! A/A: compares variants with themselves, which checks the machine and the method.

use std::collections::HashSet;

use super::{Comparison, Plan};

/// The suffix of the name of the copy of a variant.
const AGAIN: &str = " again";

impl Plan {
    /// Keeps the first variant of each comparison, adds a copy of it, and compares both under the same workloads in the same
    /// metrics. A difference that is found is false.
    pub fn against_themselves(&mut self) {
        let mut compared = HashSet::new();
        let mut comparisons: Vec<Comparison> = Vec::new();
        for comparison in &self.comparisons {
            for (workload, metric) in comparison.pending_comparisons() {
                if compared.insert((comparison.variant.clone(), workload.clone(), metric.clone())) {
                    comparisons.push(Comparison {
                        variant: comparison.variant.clone(),
                        with: comparison.variant.clone() + AGAIN,
                        workloads: vec![workload.clone()],
                        metrics: vec![metric.clone()],
                    });
                }
            }
        }
        let is_compared = |name: &str| comparisons.iter().any(|comparison| comparison.variant == name);
        self.variants.retain(|variant| is_compared(&variant.name));
        for variant in &mut self.variants {
            variant.is_control = false;
        }
        let copies = self.variants.iter().cloned().map(|mut copy| {
            copy.name += AGAIN;
            copy
        });
        let copies: Vec<_> = copies.collect();
        self.variants.extend(copies);
        // A workload without a comparison shows nothing.
        self.workloads.retain(|workload| compared.iter().any(|(_, name, _)| *name == workload.name));
        self.comparisons = comparisons;
        self.baselines.clear();
        self.name += "-aa";
        "Does a variant differ from itself? Any difference is false.".clone_into(&mut self.question);
    }
}

impl Comparison {
    /// Each workload with each metric.
    fn pending_comparisons(&self) -> impl Iterator<Item = (&String, &String)> {
        self.workloads.iter().flat_map(|workload| self.metrics.iter().map(move |metric| (workload, metric)))
    }
}

/// The name of the original of a variant.
#[must_use]
pub fn original(name: &str) -> &str {
    name.strip_suffix(AGAIN).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use crate::plan::{builtin, parse};

    #[test]
    fn every_comparison_is_of_a_variant_with_itself() {
        let mut plan = parse(builtin::text("files").unwrap(), "files", None).unwrap();
        let comparisons = plan.comparison_count();
        plan.against_themselves();
        let names: Vec<_> = plan.variants.iter().map(|variant| variant.name.as_str()).collect();
        assert_eq!((names, plan.name.as_str()), (vec!["rudy", "rudy again"], "files-aa"));
        assert!(plan.comparison_count() < comparisons && plan.comparison_count() >= plan.workloads.len());
        for comparison in &plan.comparisons {
            assert_eq!(comparison.with, format!("{} again", comparison.variant));
        }
        assert!(plan.variants.iter().all(|variant| !variant.is_control));
    }
}
