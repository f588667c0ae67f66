//! The report of a flood as text.

use std::fmt;

use rudy_request::FailureKind;
use rudy_stats::Histogram;

use super::monitor::ServerMonitor;
use super::options::Options;
use super::run::Outcome;
use super::series::{Memory, Point};
use super::warnings::warnings;
use crate::units;

/// The contents of the report.
pub(super) struct Report<'a> {
    pub(super) options: &'a Options,
    pub(super) outcome: &'a Outcome,
    pub(super) points: &'a [Point],
    pub(super) monitor: Option<&'a ServerMonitor>,
    /// The number of connections from which on the memory per connection is measured.
    pub(super) memory_base: u32,
}

impl Report<'_> {
    /// The memory of the server; `None` if it was not measured.
    pub(super) fn memory(&self) -> Option<Memory> {
        Memory::new(self.points, self.memory_base)
    }

    /// Mean CPU usage of the server while all connections were held, as a fraction of one core.
    pub(super) fn server_cpu(&self) -> Option<f64> {
        let held = self.points.iter().filter(|point| point.progress.at > self.options.ramp);
        let shares: Vec<f64> = held.filter_map(|point| Some(point.server.as_ref()?.cpu)).collect();
        if shares.is_empty() {
            None
        } else {
            Some(shares.iter().sum::<f64>() / units::float(shares.len() as u64))
        }
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (outcome, measurement) = (self.outcome, &self.outcome.measurement);
        writeln!(f, "{}", self.options.url)?;
        if outcome.is_interrupted {
            writeln!(f, "Interrupted: partial results.")?;
        }
        for warning in warnings(self) {
            writeln!(f, "Warning: {warning}")?;
        }
        let count = |number: u32| units::count(number.into());
        if let Some(streams) = self.options.streams {
            let connections = units::counted(self.options.connections.get(), "connection");
            writeln!(
                f,
                "protocol     HTTP/2, {connections} with {} each",
                units::counted(streams.get(), "stream")
            )?;
        }
        let [ramp, hold] = [self.options.ramp, self.options.hold].map(<units::Time>::from);
        writeln!(f, "planned      opened within {ramp}, held for {hold}")?;
        writeln!(
            f,
            "opened       {} of {}; {} open at most, {} at the end",
            units::count(measurement.opened),
            count(self.options.total().get()),
            count(outcome.max_open),
            count(outcome.last.open)
        )?;
        let (connect, other_kinds) = FailureKind::ALL.split_at(2);
        let [not_opened, failed, closed, chunks] = [
            measurement.connect_failed,
            measurement.failed(),
            measurement.closed_by_server,
            measurement.chunks,
        ]
        .map(units::count);
        writeln!(f, "not opened   {not_opened}{}", self.examples(connect))?;
        writeln!(f, "failed       {failed}{}", self.examples(other_kinds))?;
        writeln!(f, "closed       {closed} by the server, after a complete response")?;
        writeln!(f, "responses    {}", measurement.status_classes())?;
        writeln!(f, "chunks       {chunks}, {} received", units::bytes(measurement.received_bytes))?;
        let stalled = count(outcome.last.stalled);
        writeln!(f, "stalled      {stalled} at the end (no chunk for two intervals after one was due)")?;
        self.server(f)?;
        self.server_memory(f)?;
        writeln!(f, "\n{:<13}{:>10}{:>10}{:>10}{:>10}{:>10}", "", "p50", "p99", "p99.9", "max", "count")?;
        row(f, "connect", &measurement.connect)?;
        row(f, "first byte", &measurement.first_byte)?;
        row(f, "chunk delay", &measurement.chunk_delay)
    }
}

impl Report<'_> {
    fn server(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(monitor) = self.monitor else { return Ok(()) };
        write!(f, "server       {}", monitor.name())?;
        if let Some(cpu) = self.server_cpu() {
            write!(f, ", {:.1} % of a core while all were held", cpu * 100.0)?;
        }
        match &monitor.end_reason {
            Some(reason) => writeln!(f, " ({reason})"),
            None => writeln!(f, ", {} of CPU in total", units::duration(monitor.cpu_since_start())),
        }
    }

    /// `memory       9.60 MiB with all connections, 1.10 MiB before the first; 920 B for each connection beyond 1,000`
    fn server_memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(monitor), Some(memory)) = (self.monitor, self.memory()) else { return Ok(()) };
        let [total, before] = [memory.total, monitor.private_bytes_before()].map(units::bytes);
        let noun = self.options.noun();
        write!(f, "memory       {total} with all {noun}s, {before} before the first")?;
        if let Some(bytes) = memory.per_connection {
            let (bytes, base) = (units::Unit::Bytes.text(bytes), units::count(memory.base.into()));
            write!(f, "; {bytes} for each {noun} beyond {base}")?;
        }
        writeln!(f)
    }

    /// Examples of failures: ` (could not connect: connection refused)`.
    fn examples(&self, kinds: &[FailureKind]) -> String {
        let examples =
            kinds.iter().filter_map(|kind| self.outcome.measurement.examples[*kind as usize].as_deref());
        let examples = examples.collect::<Vec<_>>().join("; ");
        if examples.is_empty() { String::new() } else { format!(" ({examples})") }
    }
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, histogram: &Histogram) -> fmt::Result {
    let at = |quantile| units::duration(histogram.quantile(quantile));
    if histogram.is_empty() {
        return writeln!(f, "{name:<13}{:>10}{:>10}{:>10}{:>10}{:>10}", "-", "-", "-", "-", 0);
    }
    let (max, count) = (units::duration(histogram.max()), units::count(histogram.len()));
    writeln!(f, "{name:<13}{:>10}{:>10}{:>10}{max:>10}{count:>10}", at(0.5), at(0.99), at(0.999))
}
