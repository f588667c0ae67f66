//! A single run: starts a variant, applies a workload, and collects the results.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::schedule::ScheduledRun;
use super::validity;
use crate::folders::Folders;
use crate::machine::Shares;
use crate::variant::StartError;
use crate::variant::process_tree::Cpu;
use crate::workload::{self, Measurement};
use rudy_experiment::plan::{Kind, Plan, Workload};
use rudy_experiment::record::{Commands, FAILED_SHARE, Outcome, Run, Sample, Warning};
use rudy_request::Interrupt;
use rudy_stats::validity::{Conditions, FAILED_MAX, ThreadUse};
use rudy_units::float;

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
    /// Why a sample lacks a process.
    pub(super) unreadable: Option<String>,
    pub(super) idle_private_bytes: u64,
    pub(super) shares: Option<Shares>,
    /// All threads of the server, as far as they were observed.
    pub(super) server: Option<ThreadUse>,
    /// How long its companion programs stalled, or why not as long as planned.
    pub(super) stalled: Result<Option<Duration>, String>,
}

impl Bench<'_> {
    /// Executes the run. `None` if it was interrupted.
    pub(super) fn run(&self, scheduled: &ScheduledRun) -> Option<Run> {
        let variant = &self.plan.variants[scheduled.variant];
        let workload = &self.plan.workloads[scheduled.workload];
        let begun = Instant::now();
        let mut run = Run {
            round: scheduled.round,
            position: scheduled.position,
            variant: variant.name.clone(),
            workload: workload.name.clone(),
            is_control: scheduled.is_control,
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
            Ok(measured) => match unexpected_responses(&measured.measurement, workload) {
                Some(why) => run.outcome = Outcome::Failed { why },
                None => self.record(measured, workload, &mut run),
            },
            Err(StartError::Interrupted) => return None,
            Err(StartError::Failed(why)) => run.outcome = Outcome::Failed { why },
        }
        run.seconds = begun.elapsed().as_secs_f64();
        Some(run)
    }

    /// Adds the results to the record.
    fn record(&self, measured: Measured, workload: &Workload, run: &mut Run) {
        let Measured { measurement, cpu, samples, unreadable, idle_private_bytes, shares, server, stalled } =
            measured;
        run.warnings.extend(validity::warnings(&measurement, server, shares));
        run.metrics
            .extend(failed_share(&measurement.conditions).map(|share| (FAILED_SHARE.to_owned(), share)));
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
        run.warnings.extend(
            unreadable.map(|sentence| Warning { sentence, concerns: MEMORY.map(str::to_owned).to_vec() }),
        );
        if let Some(shares) = shares {
            run.metrics.insert("steal_share".to_owned(), shares.steal);
            run.metrics.insert("background_cpu_share".to_owned(), shares.background);
        }
        (run.latency, run.samples, run.steps) = (measurement.latency, samples, measurement.steps);
        run.warnings.extend(measurement.warnings);
        run.notes.extend(measurement.notes);
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

/// The fraction of requests that failed; `None` without failures. A run without any request has failed.
fn failed_share(conditions: &Conditions) -> Option<f64> {
    let (succeeded, failed) = (conditions.succeeded?, conditions.failed?);
    let share = if succeeded + failed == 0 { 1.0 } else { float(failed) / float(succeeded + failed) };
    (share > 0.0).then_some(share)
}

/// A workload that says what it expects has no figures of other responses: those that fail are often cheaper.
fn unexpected_responses(measurement: &Measurement, workload: &Workload) -> Option<String> {
    workload.expect.as_ref()?;
    let share = failed_share(&measurement.conditions).filter(|share| *share > FAILED_MAX)?;
    let example = measurement.failure.as_ref().map(|failure| format!("; for example: {failure}"));
    Some(format!(
        "{:.1} % of the responses were not as expected{}",
        share * 100.0,
        example.unwrap_or_default()
    ))
}

/// The metrics of memory.
const MEMORY: [&str; 3] = ["private_bytes", "idle_private_bytes", "private_bytes_per_connection"];

/// The number of connections from which on the growth per connection counts, or a tenth of all if that is less. The
/// first ones also pay for what a server allocates once.
const SLOPE_FROM: u64 = 1000;

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

/// The maximum allocated memory of the variant before or during the workload. For a flood, in total at the maximum
/// number of connections, which includes what it allocated at its start, and the growth with each further connection
/// up to it. The growth needs an earlier sample with at most half of them: between two close numbers it is noise.
#[expect(clippy::cast_precision_loss, reason = "bytes of memory")]
fn memory_metrics(samples: &[Sample], idle: u64, connections: Option<u64>) -> Vec<(String, f64)> {
    let Some(most) = samples.iter().map(|sample| sample.private_bytes).max() else { return Vec::new() };
    let mut total = most.max(idle);
    let mut metrics = vec![("idle_private_bytes".to_owned(), idle as f64)];
    // The last of several samples with all connections: those in the accept queue cost the variant nothing.
    let fullest = samples.iter().enumerate().max_by_key(|(_, sample)| sample.connections);
    if let (Some(connections @ 1..), Some((at, fullest @ Sample { connections: 1.., .. }))) =
        (connections, fullest)
    {
        total = fullest.private_bytes;
        let from = SLOPE_FROM.min(connections / 10).max(1);
        let mut before = samples[..at].iter();
        let first = before.find(|sample| (from..=fullest.connections / 2).contains(&sample.connections));
        metrics.extend(first.map(|first| {
            let growth = fullest.private_bytes as f64 - first.private_bytes as f64;
            let each = growth.max(0.0) / (fullest.connections - first.connections) as f64;
            ("private_bytes_per_connection".to_owned(), each)
        }));
    }
    metrics.push(("private_bytes".to_owned(), total as f64));
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_has_a_total_that_includes_the_start_and_a_growth_that_does_not() {
        let sample = |connections, private_bytes| Sample {
            t_s: 0.0,
            threads: BTreeMap::new(),
            private_bytes,
            shared_bytes: 0,
            descriptors: 0,
            connections,
            voluntary_switches: 0,
            involuntary_switches: 0,
        };
        // It allocates 90 kB for all connections with the first one; memory is released after the requests.
        let samples = [sample(0, 1_000), sample(1_000, 91_000), sample(5_000, 99_000), sample(5_000, 95_000)];
        let metrics = BTreeMap::from_iter(memory_metrics(&samples, 1_000, Some(5_000)));
        assert_eq!(format!("{:.0}", metrics["private_bytes_per_connection"]), "1");
        assert_eq!(
            format!("{:.0} {:.0}", metrics["private_bytes"], metrics["idle_private_bytes"]),
            "95000 1000"
        );
        // A growth needs two numbers of connections, of which the first is at most half of the second.
        for samples in [&samples[..2], &[sample(4_103, 91_000), sample(5_000, 90_000)], &[]] {
            let metrics = memory_metrics(samples, 1_000, Some(5_000));
            assert!(metrics.iter().all(|(name, _)| name != MEMORY[2]), "{metrics:?}");
        }
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
