//! Artificial experiments for tests.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::plan;
use crate::record::{Commands, Head, Machine, Outcome, Run, Sample};

use crate::experiment::Experiment;

/// The identity of the run whose metrics are needed.
pub(crate) struct RunId<'a> {
    pub(crate) round: usize,
    pub(crate) variant: &'a str,
    pub(crate) workload: &'a str,
    pub(crate) is_control: bool,
}

/// The experiment of a plan (TOML) with all its runs; a run without metrics has failed.
pub(crate) fn experiment(
    plan: &str,
    mut metrics: impl FnMut(&RunId) -> Option<Vec<(&'static str, f64)>>,
) -> Experiment {
    let plan_text = Some(plan.to_owned());
    let plan = plan::parse(plan, "made", None).expect("the plan is right");
    let mut runs = Vec::new();
    for round in 0..plan.rounds {
        for workload in &plan.workloads {
            for (variant, is_control) in plan.runs_in(round, workload) {
                let variant = &plan.variants[variant].name;
                let id = RunId { round, variant, workload: &workload.name, is_control };
                let seen = metrics(&id);
                runs.push(run(&id, runs.len(), seen));
            }
        }
    }
    let head = Head {
        plan,
        started: "2026-11-21T10:00:00Z".to_owned(),
        seed: 7,
        machine: Machine {
            cpu: "a processor".to_owned(),
            cores: 2,
            memory_bytes: 8 << 30,
            kernel: "6.18.0".to_owned(),
            governor: None,
            has_smt: false,
        },
        versions: BTreeMap::from([("rudy".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]),
        command: ["rudy", "lab", "run", "made"].map(str::to_owned).to_vec(),
    };
    Experiment {
        folder: PathBuf::from("made"),
        heads: vec![head],
        runs,
        plan_text,
        cut: None,
        whole_bytes: 0,
    }
}

fn run(id: &RunId, position: usize, metrics: Option<Vec<(&'static str, f64)>>) -> Run {
    let outcome = match &metrics {
        Some(_) => Outcome::Measured,
        None => Outcome::Failed { why: "it ended (exit code 1) under the workload".to_owned() },
    };
    let metrics = metrics.unwrap_or_default().into_iter();
    Run {
        round: id.round,
        position,
        variant: id.variant.to_owned(),
        workload: id.workload.to_owned(),
        is_control: id.is_control,
        began_s: 0.0,
        seconds: 1.0,
        commands: Commands {
            variant: vec![id.variant.to_owned()],
            workload: vec!["rudy".to_owned(), "bench".to_owned(), "http://127.0.0.1:1/".to_owned()],
        },
        outcome,
        metrics: metrics.map(|(name, value)| (name.to_owned(), value)).collect(),
        latency: None,
        samples: Vec::new(),
        warnings: Vec::new(),
        notes: Vec::new(),
        intervals: Vec::new(),
        steps: Vec::new(),
    }
}

/// A sample with the CPU seconds of threads so far.
pub(crate) fn sample(t_s: f64, threads: &[(&str, f64)]) -> Sample {
    Sample {
        t_s,
        threads: threads.iter().map(|(name, seconds)| ((*name).to_owned(), [*seconds, 0.0])).collect(),
        private_bytes: 4 << 20,
        shared_bytes: 0,
        descriptors: 10,
        connections: 100,
        voluntary_switches: 0,
        involuntary_switches: 0,
    }
}
