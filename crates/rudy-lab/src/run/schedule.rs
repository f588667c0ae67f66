//! The order of all runs.

use rudy_stats::rotation;

use crate::plan::Plan;

/// A planned run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) round: usize,
    pub(super) position: usize,
    /// Its number in the plan.
    pub(super) subject: usize,
    pub(super) load: usize,
    pub(super) is_control: bool,
}

/// All runs in order: by round, by load, and then by subject in an order that changes with each round. Runs
/// that are compared are therefore close together.
pub(super) fn turns(plan: &Plan, seed: u64) -> Vec<Turn> {
    let mut arms: Vec<(usize, bool)> = (0..plan.subjects.len()).map(|subject| (subject, false)).collect();
    let controls = plan.subjects.iter().enumerate().filter(|(_, subject)| subject.is_control);
    arms.extend(controls.map(|(number, _)| (number, true)));
    let mut turns = Vec::with_capacity(plan.rounds * plan.loads.len() * arms.len());
    for round in 0..plan.rounds {
        for load in 0..plan.loads.len() {
            let order = rotation::order(arms.len(), round, seed);
            turns.extend(order.into_iter().enumerate().map(|(position, arm)| {
                let (subject, is_control) = arms[arm];
                Turn { round, position, subject, load, is_control }
            }));
        }
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::parse;

    #[test]
    fn every_subject_has_its_turn_under_every_load_and_a_control_two() {
        let text = "rounds = 3\n\
            [[subject]]\nname = \"a\"\ncommand = [\"a\"]\ncontrol = true\n\
            [[subject]]\nname = \"b\"\ncommand = [\"b\"]\n\
            [[load]]\nname = \"l\"\nkind = \"bench\"\n[[load]]\nname = \"m\"\nkind = \"bench\"\n";
        let plan = parse(text, "x", None).unwrap();
        let turns = turns(&plan, 1);
        assert_eq!(turns.len(), 3 * 2 * 3);
        for round in 0..3 {
            for load in 0..2 {
                let mut here: Vec<_> = turns
                    .iter()
                    .filter(|turn| (turn.round, turn.load) == (round, load))
                    .map(|turn| (turn.subject, turn.is_control))
                    .collect();
                here.sort_unstable();
                assert_eq!(here, [(0, false), (0, true), (1, false)]);
            }
        }
    }
}
