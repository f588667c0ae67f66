//! A run over time: an object to each interval, whose counts and histograms add up to those of the run.

use std::io::{self, Write};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::document::Figures;
use super::seen::Seen;
use crate::bench::run::Interval;
use crate::units;

/// A line of `--ndjson`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Row {
    /// The first is 0.
    index: u32,
    /// When it ended, from the beginning of what counts.
    end_s: f64,
    /// How long it was. The last may be of no length, and hold the answers that came after the end.
    duration_s: f64,
    /// Connections that stood at its end.
    connections_open: u32,
    /// Whole answers per second; null in an interval of no length.
    achieved_rate: Option<f64>,
    /// Of right answers.
    latency_us: Option<Figures>,
    #[serde(flatten)]
    seen: Seen,
}

/// Writes rows.
pub(in crate::bench) struct Rows<W> {
    writer: W,
    end: Duration,
}

impl<W: Write> Rows<W> {
    pub(in crate::bench) fn new(writer: W) -> Self {
        Self { writer, end: Duration::ZERO }
    }

    /// Writes what was seen in one interval, so that whoever reads along has it now.
    pub(in crate::bench) fn write(&mut self, interval: &Interval) -> io::Result<()> {
        let seen = &interval.seen;
        self.end += interval.length;
        let row = Row {
            index: interval.index,
            end_s: self.end.as_secs_f64(),
            duration_s: interval.length.as_secs_f64(),
            connections_open: interval.open,
            achieved_rate: (!interval.length.is_zero())
                .then(|| units::per_second(seen.answers(), interval.length)),
            latency_us: Figures::of(&seen.latency),
            seen: Seen::of(seen),
        };
        let mut line = serde_json::to_vec(&row)?;
        line.push(b'\n');
        self.writer.write_all(&line)?;
        self.writer.flush()
    }
}
