//! An interval as JSON.

use std::time::Duration;

use serde::Serialize;

use super::View;
use crate::text::unix_ms;
use crate::{Difference, ThreadDifference};

/// A line with one object.
pub(super) fn line(view: &View<'_>) -> String {
    let (sample, difference) = (view.sample, &view.difference);
    let look = Look {
        time_ms: unix_ms(),
        interval_ms: difference.time.as_secs_f64() * 1000.0,
        pid: view.process.pid(),
        name: view.process.name(),
        cpu_percent: percent(difference, difference.cpu),
        cpu_user_percent: percent(difference, difference.cpu_user),
        cpu_system_percent: percent(difference, difference.cpu_system),
        cpu_of_ended_threads_percent: percent(difference, difference.cpu_of_ended),
        rss_bytes: sample.memory.rss_bytes,
        anonymous_bytes: sample.memory.anonymous_bytes,
        peak_rss_bytes: sample.memory.peak_rss_bytes,
        descriptors: sample.descriptors.open,
        descriptors_limit: sample.descriptors.limit,
        threads: sample.threads.len(),
        threads_busy: view.busy,
        threads_begun: difference.threads_begun,
        threads_ended: difference.threads_ended,
        busiest: difference.threads.iter().map(|thread| Busy::new(difference, thread)).collect(),
    };
    // Structs of numbers and strings can always be serialized.
    serde_json::to_string(&look).unwrap_or_default() + "\n"
}

#[derive(Serialize)]
struct Look<'a> {
    time_ms: u64,
    interval_ms: f64,
    pid: u32,
    name: &'a str,
    cpu_percent: f64,
    cpu_user_percent: f64,
    cpu_system_percent: f64,
    cpu_of_ended_threads_percent: f64,
    rss_bytes: u64,
    anonymous_bytes: u64,
    peak_rss_bytes: u64,
    descriptors: Option<u64>,
    descriptors_limit: Option<u64>,
    threads: usize,
    threads_busy: usize,
    threads_begun: usize,
    threads_ended: usize,
    busiest: Vec<Busy<'a>>,
}

#[derive(Serialize)]
struct Busy<'a> {
    tid: u32,
    nid: String,
    name: &'a str,
    state: char,
    cpu_percent: f64,
    cpu_user_percent: f64,
    cpu_system_percent: f64,
    ready_percent: Option<f64>,
    voluntary_switches_per_s: f64,
    involuntary_switches_per_s: f64,
}

impl<'a> Busy<'a> {
    fn new(difference: &Difference, thread: &'a ThreadDifference) -> Self {
        Self {
            tid: thread.tid,
            nid: format!("0x{:x}", thread.tid),
            name: &thread.name,
            state: thread.state,
            cpu_percent: percent(difference, thread.cpu),
            cpu_user_percent: percent(difference, thread.cpu_user),
            cpu_system_percent: percent(difference, thread.cpu_system),
            ready_percent: thread.ready.map(|ready| percent(difference, ready)),
            voluntary_switches_per_s: thousandths(difference.rate(thread.voluntary_switches)),
            involuntary_switches_per_s: thousandths(difference.rate(thread.involuntary_switches)),
        }
    }
}

fn percent(difference: &Difference, cpu: Duration) -> f64 {
    thousandths(difference.share(cpu) * 100.0)
}

/// Rounds to the meaningful digits.
fn thousandths(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}
