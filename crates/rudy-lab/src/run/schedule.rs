//! The order of all runs.

use rudy_experiment::plan::Plan;
use rudy_stats::rotation;

/// A planned run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScheduledRun {
    pub(super) round: usize,
    pub(super) position: usize,
    /// Its number in the plan.
    pub(super) variant: usize,
    pub(super) workload: usize,
    pub(super) is_control: bool,
}

/// All runs in order: by round, by workload, and then by variant in an order that changes with each round and workload.
/// Runs that are compared are therefore close together.
pub(super) fn schedule(plan: &Plan, seed: u64) -> Vec<ScheduledRun> {
    let mut runs = Vec::with_capacity(plan.run_count());
    for round in 0..plan.rounds {
        for (workload, planned) in plan.workloads.iter().enumerate() {
            let unordered = plan.runs_in(round, planned);
            // Another order for each workload, so that the effects of a workload on the next one are balanced too.
            let order = rotation::order(unordered.len(), workload, round, seed);
            runs.extend(order.into_iter().enumerate().map(|(position, place)| {
                let (variant, is_control) = unordered[place];
                ScheduledRun { round, position, variant, workload, is_control }
            }));
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use rudy_experiment::plan::parse;

    use super::*;

    #[test]
    fn every_variant_has_its_turn_under_every_workload_and_a_control_two() {
        let text = "rounds = 3\n\
            [[variant]]\nname = \"a\"\ncommand = [\"a\"]\ncontrol = true\n\
            [[variant]]\nname = \"b\"\ncommand = [\"b\"]\n\
            [[workload]]\nname = \"l\"\nkind = \"bench\"\n[[workload]]\nname = \"m\"\nkind = \"bench\"\n";
        let plan = parse(text, "x", None).unwrap();
        let runs = schedule(&plan, 1);
        assert_eq!(runs.len(), 3 * 2 * 3);
        for round in 0..3 {
            for workload in 0..2 {
                let mut here: Vec<_> = runs
                    .iter()
                    .filter(|scheduled| (scheduled.round, scheduled.workload) == (round, workload))
                    .map(|scheduled| (scheduled.variant, scheduled.is_control))
                    .collect();
                here.sort_unstable();
                assert_eq!(here, [(0, false), (0, true), (1, false)]);
            }
        }
        let order = |workload| {
            let runs = runs.iter().filter(move |scheduled| scheduled.workload == workload);
            runs.map(|scheduled| (scheduled.variant, scheduled.is_control)).collect::<Vec<_>>()
        };
        assert_ne!(order(0), order(1));
    }

    #[test]
    fn the_order_of_a_round_differs_between_workloads() {
        let variants = ["a", "b", "c", "d", "e"]
            .map(|name| format!("[[variant]]\nname = \"{name}\"\ncommand = [\"a\"]\n"));
        let workloads = ["l", "m"].map(|name| format!("[[workload]]\nname = \"{name}\"\nkind = \"bench\"\n"));
        let plan =
            parse(&format!("rounds = 10\n{}{}", variants.concat(), workloads.concat()), "x", None).unwrap();
        let runs = schedule(&plan, 1);
        let order = |round, workload| {
            let here = runs
                .iter()
                .filter(move |scheduled| (scheduled.round, scheduled.workload) == (round, workload));
            here.map(|scheduled| scheduled.variant).collect::<Vec<_>>()
        };
        assert!((0..10).any(|round| order(round, 0) != order(round, 1)));
    }
}
