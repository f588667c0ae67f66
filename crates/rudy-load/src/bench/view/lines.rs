//! Prints a line per interval.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use crate::bench::run::{Interval, Watch};
use crate::units;

/// Prints progress lines.
#[derive(Debug)]
pub(super) struct Lines {
    /// How long a whole interval is.
    interval: Duration,
    /// The elapsed part of the run.
    behind: Duration,
    /// When to print the number of open connections next.
    next: Instant,
}

impl Lines {
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, behind: Duration::ZERO, next: Instant::now() + interval }
    }
}

impl Watch for Lines {
    fn opening(&mut self, open: u32, of: u32) {
        if Instant::now() >= self.next {
            self.next += self.interval;
            say(&format!("{open} of {of} connections open"));
        }
    }

    fn interval(&mut self, interval: &Interval) {
        // The report contains the responses after the last whole interval.
        if interval.length < self.interval {
            return;
        }
        self.behind += interval.length;
        say(&line(self.behind, interval));
    }
}

fn say(line: &str) {
    // An error of stderr cannot be reported.
    let _ = writeln!(io::stderr(), "{line}");
}

fn line(at: Duration, interval: &Interval) -> String {
    let seen = &interval.seen;
    let wrong = seen.requests() - seen.right;
    format!(
        "{:>8}  {:>9} req/s  p50 {:>8}  p99 {:>8}  {} wrong  {} open",
        units::duration(at),
        units::digits(units::per_second(seen.answers(), interval.length)),
        units::duration(seen.latency.quantile(0.5)),
        units::duration(seen.latency.quantile(0.99)),
        wrong,
        interval.open,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Recorder;

    #[test]
    fn an_interval_is_one_line() {
        let mut seen = Recorder::default();
        for _ in 0..1500 {
            seen.status(200);
            seen.right += 1;
            seen.latency.record(Duration::from_micros(640));
        }
        seen.status(503);
        let interval = Interval { index: 2, length: Duration::from_secs(1), seen, open: 64 };
        assert_eq!(
            line(Duration::from_secs(3), &interval),
            "  3.00 s      1,501 req/s  p50   641 µs  p99   641 µs  1 wrong  64 open"
        );
    }
}
