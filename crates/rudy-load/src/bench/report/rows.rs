//! The rows of `--ndjson`: a JSON object per interval. Their counts and histograms add up to those of the run.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use super::document::LatencySummary;
use super::latencies::Latencies;
use crate::bench::Recorder;
use crate::bench::run::Interval;
use crate::units;

/// A line of `--ndjson`.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Row<'a> {
    /// The index, from 0.
    index: u32,
    /// The end, from the start of the measurement.
    end_s: f64,
    /// The length. The last row can have length 0, with the responses after the end.
    duration_s: f64,
    /// Open connections at the end.
    connections_open: u32,
    /// Complete responses per second; null for length 0.
    achieved_rate: Option<f64>,
    /// Requests that ended, with or without a response.
    requests: u64,
    /// Latency of successful responses and of requests that were given up.
    latency_us: Option<LatencySummary>,
    #[serde(flatten)]
    recorder: &'a Recorder,
}

/// Writes rows to an output.
pub(in crate::bench) struct Rows<W> {
    writer: W,
    end: Duration,
}

impl<W: Write> Rows<W> {
    pub(in crate::bench) fn new(writer: W) -> Self {
        Self { writer, end: Duration::ZERO }
    }

    /// Writes and flushes the row of an interval, so that readers can follow the run.
    pub(in crate::bench) fn write(&mut self, interval: &Interval) -> io::Result<()> {
        let recorder = &interval.recorder;
        self.end += interval.length;
        let row = Row {
            index: interval.index,
            end_s: self.end.as_secs_f64(),
            duration_s: interval.length.as_secs_f64(),
            connections_open: interval.open,
            achieved_rate: (!interval.length.is_zero())
                .then(|| units::per_second(recorder.responses(), interval.length)),
            latency_us: LatencySummary::new(&Latencies::new(recorder)),
            requests: recorder.requests(),
            recorder,
        };
        let mut line = serde_json::to_vec(&row)?;
        line.push(b'\n');
        self.writer.write_all(&line)?;
        self.writer.flush()
    }
}
