//! A single run: starts a subject, applies a load, and collects the results.

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

/// Minimum CPU time for a figure: ten ticks of 10 ms.
const CPU_MIN: Duration = Duration::from_millis(100);

/// The conditions of a run.
pub(super) struct Bench<'a> {
    pub(super) plan: &'a Plan,
    pub(super) folders: &'a Folders,
    /// The output file of the generator's rows.
    pub(super) rows: &'a Path,
    pub(super) interrupt: &'a Interrupt,
    pub(super) begun: Instant,
}

/// The events between start and stop of the subject.
pub(super) struct Measured {
    pub(super) seen: Seen,
    pub(super) cpu: Cpu,
    pub(super) samples: Vec<Sample>,
    pub(super) idle_private_bytes: u64,
    pub(super) shares: Option<Shares>,
    /// How long its companion programs stalled, or why not as long as planned.
    pub(super) stalled: Result<Option<Duration>, String>,
}

impl Bench<'_> {
    /// Executes the run. `None` if it was interrupted.
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

    /// Adds the results to the record.
    fn enter(&self, measured: Measured, load: &Load, run: &mut Run) {
        let Measured { seen, cpu, samples, idle_private_bytes, shares, stalled } = measured;
        run.figures.extend(seen.figures);
        run.figures.extend(cpu_figures(cpu, seen.requests));
        if let Kind::Run { .. } = load.kind {
            // Its own figure excludes its start. Memory is not recorded, because it may end between samples.
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
        // Without rows, nothing is shown over time.
        run.intervals = load::intervals(&fs::read_to_string(self.rows).unwrap_or_default());
    }
}

/// The CPU time per request, if there is enough to measure.
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

/// The maximum private memory of the subject before or during the load. For a flood, also the growth per
/// connection, when most connections had been open for the longest time.
#[expect(clippy::cast_precision_loss, reason = "bytes of memory")]
fn memory_figures(samples: &[Sample], idle: u64, connections: Option<u64>) -> Vec<(String, f64)> {
    let Some(most) = samples.iter().map(|sample| sample.private_bytes).max() else { return Vec::new() };
    let mut figures = vec![
        ("private_bytes".to_owned(), most.max(idle) as f64),
        ("idle_private_bytes".to_owned(), idle as f64),
    ];
    if let Some(connections @ 1..) = connections {
        // Uses the subject's own count if possible: connections in its accept queue cost it nothing.
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
        // Of a thousand open connections, a hundred are accepted; memory is released after the requests, and
        // again at the end.
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
