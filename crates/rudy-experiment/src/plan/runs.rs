//! The runs of a plan, and how long they are expected to take.

use std::time::Duration;

use super::{Kind, Plan, Variant, Workload};

/// Time to start and stop the processes of a run.
const OVERHEAD: Duration = Duration::from_millis(1200);

/// Time per request of a workload with a number of requests.
const REQUEST: Duration = Duration::from_micros(100);

impl Plan {
    /// The number of rounds in which a variant runs with a workload: 0 if it does not.
    pub fn rounds_of(&self, variant: &Variant, workload: &Workload) -> usize {
        if variant.workloads.as_ref().is_some_and(|names| !names.contains(&workload.name)) {
            return 0;
        }
        [variant.rounds, workload.rounds].into_iter().flatten().fold(self.rounds, usize::min)
    }

    /// The variants of a round of a workload by their number, each with whether it is the second run of a control.
    #[must_use]
    pub fn runs_in(&self, round: usize, workload: &Workload) -> Vec<(usize, bool)> {
        let variants = || self.variants.iter().enumerate();
        let is_in = |variant: &Variant| round < self.rounds_of(variant, workload);
        let first = variants().filter(|(_, variant)| is_in(variant)).map(|(number, _)| (number, false));
        let again = variants().filter(|(_, variant)| variant.is_control && is_in(variant));
        first.chain(again.map(|(number, _)| (number, true))).collect()
    }

    /// The number of all runs.
    #[must_use]
    pub fn run_count(&self) -> usize {
        self.workloads.iter().map(|workload| self.runs_of(workload)).sum()
    }

    /// The expected duration of all runs.
    #[must_use]
    pub fn expected_time(&self) -> Duration {
        let of = |workload: &Workload| {
            let runs = u32::try_from(self.runs_of(workload)).unwrap_or(u32::MAX);
            self.time_of(workload).saturating_mul(runs)
        };
        self.workloads.iter().map(of).sum()
    }

    fn runs_of(&self, workload: &Workload) -> usize {
        (0..self.rounds).map(|round| self.runs_in(round, workload).len()).sum()
    }

    /// The expected duration of a run.
    fn time_of(&self, workload: &Workload) -> Duration {
        let is_bench = matches!(workload.kind, Kind::Bench { .. });
        let warmup = if is_bench { self.warmup.0 } else { Duration::ZERO };
        let own = match &workload.kind {
            Kind::Bench { requests: None, time, .. } => time.0,
            Kind::Idle { ramp, time, .. } | Kind::Flood { ramp, time, .. } => ramp.0 + time.0,
            // A search with a good first estimate: eight steps from a factor of two to a twentieth.
            Kind::MaxRate { time, hold, .. } => time.0 * 8 + hold.0,
            Kind::Bench { requests: Some(requests), .. }
            | Kind::Burst { requests, .. }
            | Kind::Sequence { requests, .. } => REQUEST * *requests,
            Kind::Run { .. } => Duration::ZERO,
        };
        OVERHEAD + warmup + workload.estimate.map_or(own, |estimate| estimate.0)
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::parse;

    const PLAN: &str = "rounds = 5\nwarmup = \"800ms\"\n\
        [[variant]]\nname = \"a\"\ncommand = [\"a\"]\ncontrol = true\n\
        [[variant]]\nname = \"b\"\ncommand = [\"b\"]\nworkloads = [\"l\"]\nrounds = 2\n\
        [[workload]]\nname = \"l\"\nkind = \"bench\"\ntime = \"2s\"\nrounds = 3\n\
        [[workload]]\nname = \"m\"\nkind = \"burst\"\nrequests = 10\nestimate = \"3s\"\n";

    #[test]
    fn variants_and_workloads_can_have_fewer_runs_than_the_plan() {
        let plan = parse(PLAN, "x", None).unwrap();
        let [l, m] = &plan.workloads[..] else { panic!("there are two") };
        assert_eq!(plan.runs_in(0, l), [(0, false), (1, false), (0, true)]);
        assert_eq!((plan.runs_in(2, l), plan.runs_in(3, l)), (vec![(0, false), (0, true)], vec![]));
        assert_eq!(plan.runs_in(4, m), [(0, false), (0, true)]);
        assert_eq!(plan.run_count(), 3 * 2 + 2 + 5 * 2);
    }

    #[test]
    fn the_expected_time_adds_up_all_runs() {
        let plan = parse(PLAN, "x", None).unwrap();
        let seconds = 8.0 * (2.0 + 0.8 + 1.2) + 10.0 * (3.0 + 1.2);
        assert!((plan.expected_time().as_secs_f64() - seconds).abs() < 1e-9);
    }
}
