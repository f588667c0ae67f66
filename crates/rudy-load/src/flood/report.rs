//! The report of a flood as text.

use std::fmt;
use std::time::Duration;

use rudy_stats::Histogram;

use super::options::Options;
use super::run::Outcome;
use super::series::{Point, Watched, memory_per_connection};
use crate::{FailureKind, units};

/// The contents of the report.
pub(super) struct Report<'a> {
    pub(super) options: &'a Options,
    pub(super) outcome: &'a Outcome,
    pub(super) points: &'a [Point],
    pub(super) watched: Option<&'a Watched>,
}

impl Report<'_> {
    /// Memory of the server per connection, if it was measured.
    pub(super) fn server_bytes_per_connection(&self) -> Option<f64> {
        memory_per_connection(self.points, self.watched?.rss_at_start())
    }

    /// CPU usage of the server while all connections were held: the mean, as a fraction of one core.
    pub(super) fn server_cpu(&self) -> Option<f64> {
        let kept = self.points.iter().filter(|point| point.progress.at > self.options.ramp);
        let shares: Vec<f64> = kept.filter_map(|point| Some(point.server.as_ref()?.cpu)).collect();
        if shares.is_empty() {
            None
        } else {
            Some(shares.iter().sum::<f64>() / units::float(shares.len() as u64))
        }
    }

    /// Whether the median gap between chunks differs from the expected interval by a tenth.
    fn other_interval(&self) -> Option<Duration> {
        let gap = self.outcome.measurement.gap.quantile(0.5);
        let interval = self.options.interval;
        let is_off = !self.outcome.measurement.gap.is_empty() && gap.abs_diff(interval) > interval / 10;
        is_off.then_some(gap)
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (outcome, measurement) = (self.outcome, &self.outcome.measurement);
        writeln!(f, "{}", self.options.url)?;
        if outcome.is_interrupted {
            writeln!(f, "Interrupted: partial results.")?;
        }
        if let Some(gap) = self.other_interval() {
            writeln!(
                f,
                "Chunks arrive every {}, but --interval is {}. Use --interval {} to measure how late they are.",
                units::duration(gap),
                units::duration(self.options.interval),
                units::duration(gap).replace(' ', "").replace('µ', "u"),
            )?;
        }
        let asked = self.options.connections;
        writeln!(
            f,
            "opened       {} of {asked}, {} at once at most, {} at the end",
            measurement.opened, outcome.most_open, outcome.last.open
        )?;
        writeln!(
            f,
            "refused      {}{}",
            measurement.refused,
            self.examples(&[FailureKind::Connect, FailureKind::Tls])
        )?;
        let others: Vec<_> = FailureKind::ALL.into_iter().skip(2).collect();
        writeln!(f, "lost         {}{}", measurement.lost_total(), self.examples(&others))?;
        writeln!(f, "ended        {} by the server, in order", measurement.ended)?;
        writeln!(f, "responses    {}", self.statuses())?;
        writeln!(
            f,
            "chunks       {}, {} in all",
            measurement.chunks,
            units::bytes(measurement.received_bytes)
        )?;
        writeln!(
            f,
            "stalled      {} at the end (nothing for more than two intervals after a chunk was due)",
            outcome.last.stalled
        )?;
        self.server(f)?;
        writeln!(f, "\n{:<13}{:>10}{:>10}{:>10}{:>10}{:>10}", "", "p50", "p99", "p99.9", "max", "count")?;
        row(f, "connect", &measurement.connect)?;
        row(f, "first byte", &measurement.first_byte)?;
        row(f, "chunk delay", &measurement.chunk_delay)
    }
}

impl Report<'_> {
    fn server(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(watched) = self.watched else { return Ok(()) };
        write!(f, "server       {}", watched.name())?;
        if let Some(bytes) = self.server_bytes_per_connection() {
            write!(f, ": {bytes:.0} B of memory per connection")?;
        }
        if let Some(cpu) = self.server_cpu() {
            write!(f, ", {:.1} % of a core while all were held", cpu * 100.0)?;
        }
        match &watched.lost {
            Some(why) => writeln!(f, " ({why})"),
            None => writeln!(f, ", {} of CPU in total", units::duration(watched.cpu_since_start())),
        }
    }

    /// ` (could not connect: connection refused)`
    fn examples(&self, kinds: &[FailureKind]) -> String {
        let examples =
            kinds.iter().filter_map(|kind| self.outcome.measurement.examples[*kind as usize].as_deref());
        let examples = examples.collect::<Vec<_>>().join("; ");
        if examples.is_empty() { String::new() } else { format!(" ({examples})") }
    }

    /// `2xx: 9000`
    fn statuses(&self) -> String {
        let classes = self.outcome.measurement.statuses.iter().enumerate().filter(|(_, count)| **count > 0);
        let text = classes.map(|(class, count)| format!("{class}xx: {count}")).collect::<Vec<_>>().join(", ");
        if text.is_empty() { "none".into() } else { text }
    }
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, histogram: &Histogram) -> fmt::Result {
    let at = |quantile| units::duration(histogram.quantile(quantile));
    if histogram.is_empty() {
        return writeln!(f, "{name:<13}{:>10}{:>10}{:>10}{:>10}{:>10}", "-", "-", "-", "-", 0);
    }
    let (max, count) = (units::duration(histogram.max()), histogram.len());
    writeln!(f, "{name:<13}{:>10}{:>10}{:>10}{max:>10}{count:>10}", at(0.5), at(0.99), at(0.999))
}
