//! The summary of http_load, line by line.

use std::fmt::{self, Write};

use rudy_request::FailureKind;
use rudy_stats::Histogram;

use super::options::Check;
use crate::bench::{Failed, Outcome};

/// The summary of a run.
pub(super) struct Summary<'a> {
    pub(super) outcome: &'a Outcome,
    pub(super) check: Check,
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let recorder = &self.outcome.recorder;
        let (fetches, bytes) = (recorder.requests(), float(recorder.body_bytes));
        let seconds = self.outcome.duration.as_secs_f64();
        writeln!(
            f,
            "{fetches} fetches, {} max parallel, {} bytes, in {} seconds",
            recorder.peak_in_flight,
            format_g(bytes),
            format_g(seconds)
        )?;
        writeln!(f, "{} mean bytes/connection", format_g(ratio(bytes, float(fetches))))?;
        writeln!(
            f,
            "{} fetches/sec, {} bytes/sec",
            format_g(ratio(float(fetches), seconds)),
            format_g(ratio(bytes, seconds))
        )?;
        writeln!(f, "msecs/connect: {}", format_times(&recorder.connect))?;
        writeln!(f, "msecs/first-response: {}", format_times(&recorder.first_byte))?;
        match self.check {
            Check::Bytes => writeln!(f, "{} bad byte counts", recorder.differing_responses)?,
            Check::Checksum => writeln!(f, "{} bad checksums", recorder.differing_responses)?,
            Check::Nothing => {}
        }
        for (kind, Failed { count, example }) in &recorder.failures {
            match kind {
                FailureKind::Timeout => writeln!(f, "{count} timeouts")?,
                _ => writeln!(f, "{count} failed: {}", example.as_deref().unwrap_or(kind.name()))?,
            }
        }
        writeln!(f, "HTTP response codes:")?;
        for (code, count) in recorder.statuses.iter().enumerate().filter(|(_, count)| **count > 0) {
            writeln!(f, "  code {code:03} -- {count}")?;
        }
        Ok(())
    }
}

fn format_times(histogram: &Histogram) -> String {
    let milliseconds = |time: std::time::Duration| format_g(time.as_secs_f64() * 1000.0);
    let (mean, max, min) = (histogram.mean(), histogram.max(), histogram.min());
    format!("{} mean, {} max, {} min", milliseconds(mean), milliseconds(max), milliseconds(min))
}

fn ratio(numerator: f64, denominator: f64) -> f64 {
    if denominator > 0.0 { numerator / denominator } else { 0.0 }
}

#[expect(clippy::cast_precision_loss, reason = "six digits of it are shown")]
fn float(count: u64) -> f64 {
    count as f64
}

/// Formats a number like C's `%format_g`, which parsers of these lines expect: six digits, no trailing zeroes, an
/// exponent for large and small numbers.
fn format_g(number: f64) -> String {
    if number == 0.0 {
        return "0".into();
    }
    // Round to six digits first: 999999.5 becomes 1e+06.
    let scientific = format!("{number:.5e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| {
        let trimmed =
            if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text };
        trimmed.to_owned()
    };
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(5 - exponent).unwrap_or(0);
        return trim(&format!("{number:.decimals$}"));
    }
    let mut text = trim(digits);
    let sign = if exponent < 0 { '-' } else { '+' };
    // Writing to a string does not fail.
    let _ = write!(text, "e{sign}{:02}", exponent.abs());
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rudy_request::Failure;

    use super::*;
    use crate::bench::Recorder;

    #[test]
    fn numbers_have_the_format_of_c() {
        // printf '%g\n' of each.
        for (number, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (100.0, "100"),
            (123_456.0, "123456"),
            (1_024_000.0, "1.024e+06"),
            (1_234_567.0, "1.23457e+06"),
            (999_999.5, "1e+06"),
            (0.5, "0.5"),
            (1.234_567_89, "1.23457"),
            (0.000_123_456, "0.000123456"),
            (0.000_012_345, "1.2345e-05"),
            (3e-120, "3e-120"),
        ] {
            assert_eq!(format_g(number), text);
        }
    }

    #[test]
    fn the_summary_has_the_lines_of_http_load() {
        let mut recorder =
            Recorder { body_bytes: 5120, differing_responses: 1, peak_in_flight: 20, ..Recorder::default() };
        (recorder.statuses[200], recorder.statuses[999]) = (4, 1);
        (0..2).for_each(|_| recorder.record_failure(&Failure::Timeout, Duration::ZERO));
        recorder.connect.record(Duration::from_millis(2));
        let outcome = Outcome { duration: Duration::from_secs(2), recorder, ..Outcome::default() };
        let text = Summary { outcome: &outcome, check: Check::Bytes }.to_string();
        assert!(text.starts_with("7 fetches, 20 max parallel, 5120 bytes, in 2 seconds\n731.429 mean bytes/connection\n3.5 fetches/sec, 2560 bytes/sec\nmsecs/connect: "), "{text}");
        assert!(
            text.ends_with(
                "1 bad byte counts\n2 timeouts\nHTTP response codes:\n  code 200 -- 4\n  code 999 -- 1\n"
            ),
            "{text}"
        );
    }
}
