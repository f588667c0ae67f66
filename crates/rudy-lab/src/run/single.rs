//! A single run: a subject started afresh, a load, and what both have shown.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::schedule::Turn;
use crate::load::{self, Seen};
use crate::machine::Shares;
use crate::place::Folders;
use crate::plan::{Kind, Load, Plan};
use crate::record::{Commands, Doubt, Outcome, Run, Sample};
use crate::subject::StartError;
use crate::subject::family::Cpu;
use rudy_load::Interrupt;

/// The kernel counts CPU in ticks of 10 ms, so of less than ten of them nothing is said.
const CPU_MIN: Duration = Duration::from_millis(100);

/// Where and under what conditions.
pub(super) struct Bench<'a> {
    pub(super) plan: &'a Plan,
    pub(super) folders: &'a Folders,
    /// What the generator writes by the second.
    pub(super) rows: &'a Path,
    pub(super) interrupt: &'a Interrupt,
    pub(super) begun: Instant,
}

/// What happened between the start and the stop of the subject.
pub(super) struct Measured {
    pub(super) seen: Seen,
    pub(super) cpu: Cpu,
    pub(super) samples: Vec<Sample>,
    pub(super) idle_private_bytes: u64,
    pub(super) shares: Option<Shares>,
    /// How long what is beside it stood still, or why not as long as it was to.
    pub(super) stalled: Result<Option<Duration>, String>,
}

impl Bench<'_> {
    /// Carries it out. Nothing where it was interrupted.
    pub(super) fn run(&self, turn: &Turn) -> Option<Run> {
        let subject = &self.plan.subjects[turn.subject];
        let load = &self.plan.loads[turn.load];
        let begun = Instant::now();
        let mut run = Run {
            round: turn.round,
            position: turn.position,
            subject: subject.name.clone(),
            load: load.name.clone(),
            is_control: turn.is_control,
            began_s: self.begun.elapsed().as_secs_f64(),
            seconds: 0.0,
            commands: Commands::default(),
            outcome: Outcome::Measured,
            figures: BTreeMap::new(),
            latency: None,
            samples: Vec::new(),
            doubts: Vec::new(),
            notes: Vec::new(),
            intervals: Vec::new(),
            steps: Vec::new(),
        };
        match self.stage(subject, load, &mut run) {
            Ok(measured) => self.enter(measured, load, &mut run),
            Err(StartError::Interrupted) => return None,
            Err(StartError::Failed(why)) => run.outcome = Outcome::Failed { why },
        }
        run.seconds = begun.elapsed().as_secs_f64();
        Some(run)
    }

    /// Enters what was measured into the record.
    fn enter(&self, measured: Measured, load: &Load, run: &mut Run) {
        let Measured { seen, cpu, samples, idle_private_bytes, shares, stalled } = measured;
        run.figures.extend(seen.figures);
        run.figures.extend(cpu_figures(cpu, seen.requests));
        if let Kind::Run { .. } = load.kind {
            // What it says of itself is without its start. How much memory it had when is not asked: it may end between samples.
            if cpu.total() >= CPU_MIN {
                run.figures.entry("cpu_s".to_owned()).or_insert(cpu.total().as_secs_f64());
            }
        } else {
            run.figures.extend(memory_figures(&samples, idle_private_bytes, seen.connections));
        }
        if let Some(shares) = shares {
            run.figures.insert("stolen_share".to_owned(), shares.stolen);
            run.figures.insert("others_share".to_owned(), shares.others);
            run.notes.extend(shares.notes());
        }
        (run.latency, run.samples, run.steps) = (seen.latency, samples, seen.steps);
        run.doubts.extend(seen.doubts);
        match stalled {
            Ok(None) => {}
            Ok(Some(time)) => drop(run.figures.insert("stalled_s".to_owned(), time.as_secs_f64())),
            Err(sentence) => {
                let concerns = run.figures.keys().cloned().collect();
                run.doubts.push(Doubt { sentence, concerns });
            }
        }
        // Without rows nothing is shown by the second.
        run.intervals = load::intervals(&fs::read_to_string(self.rows).unwrap_or_default());
    }
}

/// What a request cost, where it was enough to be counted.
fn cpu_figures(cpu: Cpu, requests: u64) -> Vec<(String, f64)> {
    if requests == 0 || cpu.total() < CPU_MIN {
        return Vec::new();
    }
    #[expect(clippy::cast_precision_loss, reason = "a count of requests")]
    let each = |time: Duration| time.as_secs_f64() * 1e6 / requests as f64;
    vec![
        ("cpu_us_per_request".to_owned(), each(cpu.total())),
        ("cpu_user_us_per_request".to_owned(), each(cpu.user)),
        ("cpu_system_us_per_request".to_owned(), each(cpu.system)),
    ]
}

/// The most that the subject had for itself, before the load or in it; of a flood also what each connection made it grow by,
/// when most of them had stood for longest.
#[expect(clippy::cast_precision_loss, reason = "bytes of memory")]
fn memory_figures(samples: &[Sample], idle: u64, connections: Option<u64>) -> Vec<(String, f64)> {
    let Some(most) = samples.iter().map(|sample| sample.private_bytes).max() else { return Vec::new() };
    let mut figures = vec![
        ("private_bytes".to_owned(), most.max(idle) as f64),
        ("idle_private_bytes".to_owned(), idle as f64),
    ];
    if let Some(connections @ 1..) = connections {
        // The subject's own count, where it can be had: more may stand than it has accepted, and those cost it nothing.
        let fullest =
            samples.iter().filter(|sample| sample.connections > 0).max_by_key(|sample| sample.connections);
        let (bytes, held) =
            fullest.map_or((most, connections), |sample| (sample.private_bytes, sample.connections));
        let each = bytes.saturating_sub(idle) as f64 / held as f64;
        figures.push(("private_bytes_per_connection".to_owned(), each));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_costs_what_those_cost_that_the_subject_holds() {
        let sample = |connections, private_bytes| Sample {
            t_s: 0.0,
            threads: BTreeMap::new(),
            private_bytes,
            shared_bytes: 0,
            descriptors: 0,
            sockets: BTreeMap::new(),
            connections,
            voluntary_switches: 0,
            involuntary_switches: 0,
        };
        // Of a thousand that stand a hundred are accepted; memory is given back after the requests, and again at the end.
        let samples = [sample(100, 9_000), sample(100, 6_000), sample(0, 7_000)];
        let figures = BTreeMap::from_iter(memory_figures(&samples, 1_000, Some(1_000)));
        let figure = |name: &str| format!("{:.0}", figures[name]);
        assert_eq!(figure("private_bytes_per_connection"), "50");
        assert_eq!((figure("private_bytes"), figure("idle_private_bytes")), ("9000".into(), "1000".into()));
    }

    #[test]
    fn of_a_few_ticks_nothing_is_said() {
        let cpu = |ms| Cpu { user: Duration::from_millis(ms), system: Duration::ZERO };
        assert!(cpu_figures(cpu(90), 10).is_empty() && cpu_figures(cpu(900), 0).is_empty());
        let figures = cpu_figures(cpu(200), 10_000);
        assert_eq!(format!("{:.1}", figures[0].1), "20.0");
    }
}
