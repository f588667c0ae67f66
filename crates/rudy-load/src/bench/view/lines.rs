//! Prints a line per interval.

use std::time::{Duration, Instant};

use rudy_command::print_line;

use super::totals::Totals;
use crate::bench::run::{Interval, Watch};
use crate::units;

/// The line after all connections have been opened, shortly before the first request. A lab reads it.
pub const LOAD_STARTS: &str = "the load starts";

/// Prints progress lines.
#[derive(Debug)]
pub(super) struct Lines {
    /// The length of a whole interval.
    interval: Duration,
    /// The time since the start of the measurement.
    elapsed: Duration,
    /// The time of the next line while connections are opened.
    next: Instant,
}

impl Lines {
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, elapsed: Duration::ZERO, next: Instant::now() + interval }
    }
}

impl Watch for Lines {
    fn opening(&mut self, open: u32, total: u32) {
        if Instant::now() >= self.next {
            self.next += self.interval;
            print_line(&format!("{open} of {total} connections open"));
        }
    }

    fn start(&mut self, earliest: Instant) -> Instant {
        print_line(LOAD_STARTS);
        earliest
    }

    fn interval(&mut self, interval: &Interval) {
        // The report contains the responses after the last whole interval.
        if interval.length < self.interval {
            return;
        }
        self.elapsed += interval.length;
        print_line(&line(self.elapsed, interval));
    }
}

/// The line of an interval that ended `elapsed` after the start of the measurement.
fn line(elapsed: Duration, interval: &Interval) -> String {
    let totals = Totals::new(interval);
    let quantile = |quantile| units::duration(totals.latency.quantile(quantile));
    format!(
        "{:>8}  {:>9} req/s  p50 {:>8}  p99 {:>8}  errors {}  {} open  {}",
        units::duration(elapsed),
        units::digits(totals.responses_per_s()),
        quantile(0.5),
        quantile(0.99),
        totals.error_rate(),
        interval.open,
        totals.statuses(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Recorder;

    #[test]
    fn an_interval_is_one_line() {
        let mut recorder = Recorder::default();
        for _ in 0..1500 {
            recorder.record_status(200);
            recorder.succeeded += 1;
            recorder.latency.record(Duration::from_micros(640));
        }
        recorder.record_status(503);
        let interval =
            Interval { index: 2, length: Duration::from_secs(1), recorder: Box::new(recorder), open: 64 };
        assert_eq!(
            line(Duration::from_secs(3), &interval),
            "  3.00 s      1,501 req/s  p50   641 µs  p99   641 µs  errors 0.0666 %  64 open  200: 1,500, 503: 1"
        );
    }
}
