//! A single run: starts a variant, applies a workload, and collects the results.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::schedule::Turn;
use crate::folders::Folders;
use crate::machine::Shares;
use crate::plan::{Kind, Plan, Workload};
use crate::record::{Commands, Outcome, Run, Sample, Warning};
use crate::variant::StartError;
use crate::variant::family::Cpu;
use crate::workload::{self, Measurement};
use rudy_load::Interrupt;

/// Minimum CPU time for a metric, compared with which starting and stopping the measurement takes little.
const CPU_MIN: Duration = Duration::from_millis(1);

/// Minimum CPU time for its division into user and kernel mode: ten ticks of 10 ms.
const TICKS_MIN: Duration = Duration::from_millis(100);

/// The conditions of a run.
pub(super) struct Bench<'a> {
    pub(super) plan: &'a Plan,
    pub(super) folders: &'a Folders,
    /// The output file of the generator's rows.
    pub(super) rows: &'a Path,
    pub(super) interrupt: &'a Interrupt,
    pub(super) begun: Instant,
}

/// The events between start and stop of the variant.
pub(super) struct Measured {
    pub(super) measurement: Measurement,
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
        let variant = &self.plan.variants[turn.variant];
        let workload = &self.plan.workloads[turn.workload];
        let begun = Instant::now();
        let mut run = Run {
            round: turn.round,
            position: turn.position,
            variant: variant.name.clone(),
            workload: workload.name.clone(),
            is_control: turn.is_control,
            began_s: self.begun.elapsed().as_secs_f64(),
            seconds: 0.0,
            commands: Commands::default(),
            outcome: Outcome::Measured,
            metrics: BTreeMap::new(),
            latency: None,
            samples: Vec::new(),
            warnings: Vec::new(),
            notes: Vec::new(),
            intervals: Vec::new(),
            steps: Vec::new(),
        };
        match self.start_and_measure(variant, workload, &mut run) {
            Ok(measured) => self.enter(measured, workload, &mut run),
            Err(StartError::Interrupted) => return None,
            Err(StartError::Failed(why)) => run.outcome = Outcome::Failed { why },
        }
        run.seconds = begun.elapsed().as_secs_f64();
        Some(run)
    }

    /// Adds the results to the record.
    fn enter(&self, measured: Measured, workload: &Workload, run: &mut Run) {
        let Measured { measurement, cpu, samples, idle_private_bytes, shares, stalled } = measured;
        run.metrics.extend(measurement.metrics);
        run.metrics.extend(cpu_metrics(cpu, measurement.requests));
        if let Kind::Run { .. } = workload.kind {
            // Its own metric excludes its start. Memory is not recorded, because it may end between samples.
            if cpu.total >= CPU_MIN {
                run.metrics.entry("cpu_s".to_owned()).or_insert(cpu.total.as_secs_f64());
            }
        } else {
            run.metrics.extend(memory_metrics(&samples, idle_private_bytes, measurement.connections));
        }
        if let Some(shares) = shares {
            run.metrics.insert("steal_share".to_owned(), shares.steal);
            run.metrics.insert("background_cpu_share".to_owned(), shares.background);
            run.notes.extend(shares.notes());
        }
        (run.latency, run.samples, run.steps) = (measurement.latency, samples, measurement.steps);
        run.warnings.extend(measurement.warnings);
        match stalled {
            Ok(None) => {}
            Ok(Some(time)) => drop(run.metrics.insert("stalled_s".to_owned(), time.as_secs_f64())),
            Err(sentence) => {
                let concerns = run.metrics.keys().cloned().collect();
                run.warnings.push(Warning { sentence, concerns });
            }
        }
        // Without rows, nothing is shown over time.
        run.intervals = workload::intervals(&fs::read_to_string(self.rows).unwrap_or_default());
    }
}

/// The CPU time per request, if there is enough to measure.
fn cpu_metrics(cpu: Cpu, requests: u64) -> Vec<(String, f64)> {
    if requests == 0 || cpu.total < CPU_MIN {
        return Vec::new();
    }
    #[expect(clippy::cast_precision_loss, reason = "a count of requests")]
    let each = |time: Duration| time.as_secs_f64() * 1e6 / requests as f64;
    let mut metrics = vec![("cpu_us_per_request".to_owned(), each(cpu.total))];
    if cpu.user + cpu.system >= TICKS_MIN {
        metrics.push(("cpu_user_us_per_request".to_owned(), each(cpu.user)));
        metrics.push(("cpu_system_us_per_request".to_owned(), each(cpu.system)));
    }
    metrics
}

/// The maximum private memory of the variant before or during the workload. For a flood, also the growth per
/// connection, when most connections had been open for the longest time.
#[expect(clippy::cast_precision_loss, reason = "bytes of memory")]
fn memory_metrics(samples: &[Sample], idle: u64, connections: Option<u64>) -> Vec<(String, f64)> {
    let Some(most) = samples.iter().map(|sample| sample.private_bytes).max() else { return Vec::new() };
    let mut metrics = vec![
        ("private_bytes".to_owned(), most.max(idle) as f64),
        ("idle_private_bytes".to_owned(), idle as f64),
    ];
    if let Some(connections @ 1..) = connections {
        // Uses the variant's own count if possible: connections in its accept queue cost it nothing.
        let fullest =
            samples.iter().filter(|sample| sample.connections > 0).max_by_key(|sample| sample.connections);
        let (bytes, held) =
            fullest.map_or((most, connections), |sample| (sample.private_bytes, sample.connections));
        let each = bytes.saturating_sub(idle) as f64 / held as f64;
        metrics.push(("private_bytes_per_connection".to_owned(), each));
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_costs_what_those_cost_that_the_variant_holds() {
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
        let metrics = BTreeMap::from_iter(memory_metrics(&samples, 1_000, Some(1_000)));
        let metric = |name: &str| format!("{:.0}", metrics[name]);
        assert_eq!(metric("private_bytes_per_connection"), "50");
        assert_eq!((metric("private_bytes"), metric("idle_private_bytes")), ("9000".into(), "1000".into()));
    }

    #[test]
    fn cpu_below_a_tick_is_a_metric_and_its_division_needs_ten_ticks() {
        let ms = Duration::from_millis;
        let cpu = |total, ticks| Cpu { total, user: ticks, system: Duration::ZERO };
        assert!(
            cpu_metrics(cpu(ms(0), ms(0)), 10).is_empty() && cpu_metrics(cpu(ms(900), ms(0)), 0).is_empty()
        );
        let metrics = |cpu| cpu_metrics(cpu, 1_000).into_iter().map(|(name, value)| (name, value.round()));
        let of_a_burst: Vec<_> = metrics(cpu(ms(7), ms(0))).collect();
        assert_eq!(of_a_burst, [("cpu_us_per_request".to_owned(), 7.0)]);
        assert_eq!(
            metrics(cpu(ms(207), ms(200))).map(|(_, value)| value).collect::<Vec<_>>(),
            [207.0, 200.0, 0.0]
        );
    }
}
