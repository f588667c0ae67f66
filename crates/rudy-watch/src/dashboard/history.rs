//! The samples of the last minutes, and their charts.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use rudy_admin::{Outcomes, Rates, StatusReport};
use rudy_charts::{Axis, Entry, Key, Line, Panel, Plot, Stack};
use rudy_observe::Process;
use rudy_runtime::clock;
use rudy_units::{Unit, float};

use crate::metrics::BOUNDS_US;

/// Number of samples in the charts: as many as can be told apart on a phone.
const SAMPLES: usize = 120;

/// The height of a chart.
const HEIGHT: f64 = 130.0;

/// How often `/proc` is read, which costs more than all other samples.
const PROCESS_INTERVAL: Duration = Duration::from_secs(1);

/// The classes of lines, and of the layers of CPU time from the bottom, as rudy-charts chooses them.
const LINES: [&str; 5] = ["line s0", "line s1", "line s2", "line s3", "line s4"];

/// A sample.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    at: Instant,
    pub(super) rates: Rates,
    /// The requests that finished since the last sample.
    outcomes: Option<Outcomes>,
    /// The time since the last sample, in seconds.
    seconds: f64,
    open: f64,
    idle: f64,
    active: f64,
    /// CPU seconds that each thread has used so far, and resident memory.
    process: Option<ProcessSample>,
}

#[derive(Debug, Clone)]
struct ProcessSample {
    cpu_s: BTreeMap<String, f64>,
    memory_bytes: f64,
}

/// What a line shows of a sample.
type Value = fn(&Sample) -> Option<f64>;

/// The samples, and what is needed for the next one.
pub(super) struct History {
    samples: VecDeque<Sample>,
    last: Option<StatusReport>,
    process: Option<(Process, Instant)>,
    /// The last sample of the process.
    known: Option<ProcessSample>,
}

impl History {
    pub(super) fn new() -> Self {
        Self { samples: VecDeque::new(), last: None, process: None, known: None }
    }

    /// Adds a sample. Returns the rates since the last one.
    pub(super) fn add(&mut self, report: &StatusReport) -> Rates {
        let rates = Rates::of(report, self.last.as_ref());
        let now = clock::now();
        let connections = &report.connections;
        let sample = Sample {
            at: now,
            rates,
            outcomes: self.last.as_ref().and_then(|last| finished(report, last)),
            seconds: self.samples.back().map_or(0.0, |last| (now - last.at).as_secs_f64()),
            open: float(connections.open),
            idle: float(connections.idle),
            active: float(report.active_requests as u64),
            process: self.sample_process(now),
        };
        // The first rates are those since the start of the server.
        if self.last.is_some() {
            self.samples.push_back(sample);
        }
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
        self.last = Some(report.clone());
        rates
    }

    /// Returns the resident memory, if it is known.
    pub(super) fn memory_bytes(&self) -> Option<f64> {
        self.known.as_ref().map(|known| known.memory_bytes)
    }

    /// Reads threads and memory from `/proc`, unless they are recent. A sandbox may forbid that.
    fn sample_process(&mut self, now: Instant) -> Option<ProcessSample> {
        let (mut process, read_at) = match self.process.take() {
            Some((process, read_at)) => (process, Some(read_at)),
            None => (Process::own().ok()?, None),
        };
        if read_at.is_some_and(|read_at| now.saturating_duration_since(read_at) < PROCESS_INTERVAL) {
            self.process = read_at.map(|read_at| (process, read_at));
            return None;
        }
        let sample = process.sample().ok()?;
        self.process = Some((process, now));
        let mut cpu_s: BTreeMap<String, f64> = BTreeMap::new();
        for thread in sample.threads {
            *cpu_s.entry(thread.name).or_default() += thread.cpu.as_secs_f64();
        }
        self.known = Some(ProcessSample { cpu_s, memory_bytes: float(sample.memory.rss_bytes) });
        self.known.clone()
    }

    /// Draws the values of all samples as lines with these names.
    fn lines(&self, title: &str, unit: Unit, of: &[(&str, Value)]) -> String {
        let highest = self.samples.iter().flat_map(|sample| of.iter().filter_map(|(_, of)| of(sample)));
        let lowest_end = if unit == Unit::Time { 0.001 } else { 1.0 };
        let y = Axis::linear(&title.to_lowercase(), unit, highest.fold(lowest_end, f64::max));
        let line = |(class, (_, of)): (&str, &(&str, Value))| Line {
            class: class.to_owned(),
            axis: None,
            points: self.samples.iter().filter_map(|sample| Some((self.time(sample), of(sample)?))).collect(),
        };
        let lines = LINES.into_iter().zip(of).map(line).collect();
        let entries = LINES.into_iter().zip(of).map(|(class, (name, _))| entry(Key::Line(class), name));
        let panel = Panel { lines, ..Panel::new(HEIGHT, self.axis(), y) };
        Plot { title: title.to_owned(), legend: entries.collect(), panels: vec![panel] }.element()
    }

    /// Returns the time since the first sample, in seconds.
    fn time(&self, sample: &Sample) -> f64 {
        self.samples.front().map_or(0.0, |first| sample.at.saturating_duration_since(first.at).as_secs_f64())
    }

    /// Returns the axis of time.
    fn axis(&self) -> Axis {
        Axis::linear("time", Unit::Time, self.samples.back().map_or(1.0, |last| self.time(last).max(1.0)))
    }

    /// Draws the charts, or nothing before there are two samples.
    pub(super) fn charts(&self) -> Vec<String> {
        if self.samples.len() < 2 {
            return Vec::new();
        }
        let mut charts = vec![
            self.lines(
                "Requests per second",
                Unit::Count,
                &[("requests", |sample| Some(sample.rates.requests_per_s))],
            ),
            self.lines(
                "Connections and active requests",
                Unit::Count,
                &[
                    ("open", |sample| Some(sample.open)),
                    ("idle", |sample| Some(sample.idle)),
                    ("active requests", |sample| Some(sample.active)),
                ],
            ),
            self.lines(
                "Bytes per second",
                Unit::Bytes,
                &[
                    ("sent", |sample| Some(sample.rates.sent_per_s)),
                    ("received", |sample| Some(sample.rates.received_per_s)),
                ],
            ),
        ];
        if self.samples.back().is_some_and(|last| last.outcomes.is_some()) {
            charts.extend(self.outcome_charts());
        }
        if self.has_cache() {
            charts.push(self.lines(
                "Cached requests per second",
                Unit::Count,
                &[("hits", |sample| sample.cached(0)), ("forwarded", |sample| sample.cached(1))],
            ));
        }
        charts.extend(self.process_charts());
        charts
    }

    /// Whether a cache has handled a request.
    fn has_cache(&self) -> bool {
        let outcomes = self.last.as_ref().and_then(|last| last.outcomes.as_ref());
        outcomes.is_some_and(|outcomes| outcomes.cached.iter().any(|count| *count > 0))
    }

    /// Draws finished requests by status, and their durations.
    fn outcome_charts(&self) -> [String; 2] {
        let statuses: [(&str, Value); 4] = [
            ("2xx", |sample| sample.of_class(2)),
            ("3xx", |sample| sample.of_class(3)),
            ("4xx", |sample| sample.of_class(4)),
            ("5xx", |sample| sample.of_class(5)),
        ];
        let durations: [(&str, Value); 3] = [
            ("p50", |sample| sample.quantile(0.5)),
            ("p90", |sample| sample.quantile(0.9)),
            ("p99", |sample| sample.quantile(0.99)),
        ];
        [
            self.lines("Responses per second by status", Unit::Count, &statuses),
            self.lines("Duration of requests", Unit::Time, &durations),
        ]
    }

    /// Draws CPU time by thread, and memory.
    fn process_charts(&self) -> Vec<String> {
        let samples = self.samples.iter();
        let samples: Vec<_> =
            samples.filter_map(|sample| Some((self.time(sample), sample.process.as_ref()?))).collect();
        let cpu: Vec<_> = samples.iter().map(|(t_s, process)| (*t_s, process.cpu_s.clone())).collect();
        let memory: Vec<_> = samples.iter().map(|(t_s, process)| (*t_s, process.memory_bytes)).collect();
        let mut charts = Vec::new();
        if let Some(stack) = Stack::of_cpu(&cpu) {
            let highest = stack.total().into_iter().fold(0.01, f64::max);
            let y = Axis::linear("CPU", Unit::Cores, highest);
            let panel =
                Panel { legend: stack.legend(), stack: Some(stack), ..Panel::new(HEIGHT, self.axis(), y) };
            charts.push(plot("CPU by thread", panel));
        }
        if memory.len() > 1 {
            let highest = memory.iter().fold(1.0, |highest, (_, bytes)| f64::max(highest, *bytes));
            let line = Line { class: LINES[0].to_owned(), axis: None, points: memory };
            let y = Axis::linear("resident memory", Unit::Bytes, highest);
            let legend = vec![entry(Key::Line(LINES[0]), "resident")];
            charts.push(plot(
                "Memory",
                Panel { legend, lines: vec![line], ..Panel::new(HEIGHT, self.axis(), y) },
            ));
        }
        charts
    }
}

impl Sample {
    /// Returns the finished requests per second with a status of this class.
    fn of_class(&self, class: usize) -> Option<f64> {
        self.per_s(self.outcomes.as_ref()?.classes.get(class))
    }

    /// Returns the requests per second that a cache has handled.
    fn cached(&self, index: usize) -> Option<f64> {
        self.per_s(self.outcomes.as_ref()?.cached.get(index))
    }

    fn per_s(&self, finished: Option<&u64>) -> Option<f64> {
        let finished = float(*finished?);
        (self.seconds > 0.0).then(|| finished / self.seconds)
    }

    /// Returns an estimate of a quantile of the durations, in seconds. `None` without a request.
    fn quantile(&self, quantile: f64) -> Option<f64> {
        quantile_of(&self.outcomes.as_ref()?.buckets, quantile)
    }
}

/// Returns the requests that finished between two reports.
fn finished(now: &StatusReport, before: &StatusReport) -> Option<Outcomes> {
    let (now, before) = (now.outcomes.as_ref()?, before.outcomes.as_ref()?);
    let less = |now: &[u64], before: &[u64]| {
        let before = before.iter().copied().chain(std::iter::repeat(0));
        now.iter().zip(before).map(|(now, before)| now.saturating_sub(before)).collect()
    };
    Some(Outcomes {
        classes: less(&now.classes, &before.classes),
        buckets: less(&now.buckets, &before.buckets),
        cached: less(&now.cached, &before.cached),
    })
}

/// Interpolates within the bucket of a quantile. Durations above the last bound count as that bound.
fn quantile_of(buckets: &[u64], quantile: f64) -> Option<f64> {
    let total: u64 = buckets.iter().sum();
    let rank = float(total) * quantile;
    let mut below = 0.0;
    for (index, count) in buckets.iter().enumerate() {
        let in_bucket = float(*count);
        if in_bucket > 0.0 && below + in_bucket >= rank {
            let bound = |index: usize| float(BOUNDS_US[index.min(BOUNDS_US.len() - 1)]) / 1e6;
            let lower = index.checked_sub(1).map_or(0.0, bound);
            return Some(lower + (bound(index) - lower) * (rank - below) / in_bucket);
        }
        below += in_bucket;
    }
    None
}

fn plot(title: &str, panel: Panel) -> String {
    Plot { title: title.to_owned(), legend: Vec::new(), panels: vec![panel] }.element()
}

fn entry(key: Key, name: &str) -> Entry {
    Entry { key, name: name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_interpolated_in_its_bucket() {
        let mut buckets = vec![0; BOUNDS_US.len() + 1];
        assert_eq!(quantile_of(&buckets, 0.5), None);
        // Between 0.5 and 1 ms.
        buckets[2] = 10;
        assert_eq!(quantile_of(&buckets, 0.5), Some(0.000_75));
        buckets[BOUNDS_US.len()] = 90;
        assert_eq!(quantile_of(&buckets, 0.99), Some(10.0));
    }

    #[test]
    fn charts_show_what_happened_between_samples() {
        let mut history = History::new();
        let report = |uptime_ms, requests, ok| StatusReport {
            uptime_ms,
            requests,
            outcomes: Some(Outcomes {
                classes: vec![0, 0, ok, 0, 0, 0],
                buckets: vec![ok, 0],
                cached: vec![ok / 2, 0],
            }),
            ..StatusReport::default()
        };
        history.add(&report(1000, 10, 10));
        assert!(history.charts().is_empty());
        assert!((history.add(&report(2000, 110, 110)).requests_per_s - 100.0).abs() < 1e-6);
        history.add(&report(3000, 210, 210));
        let charts = history.charts();
        let titles = [
            "Requests per second",
            "Responses per second by status",
            "Duration of requests",
            "Cached requests per second",
        ];
        for title in titles {
            assert!(charts.iter().any(|chart| chart.contains(&format!("aria-label=\"{title}\""))), "{title}");
        }
    }
}
