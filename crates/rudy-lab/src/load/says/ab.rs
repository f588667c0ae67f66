//! `ab`. Its times are whole milliseconds.

use std::time::Duration;

use super::{Tally, after};

/// Nothing where it is no such report.
pub(super) fn read(text: &str) -> Option<Tally> {
    let count = |name: &str| after(text, name)?.parse().ok();
    Some(Tally {
        requests: count("Complete requests:")?,
        // Answers of another length than the first among them; those of another status are no part of it, and may be the same.
        wrong: count("Failed requests:")?.max(count("Non-2xx responses:").unwrap_or(0)),
        lost: 0,
        requests_per_s: after(text, "Requests per second:")?.parse().ok()?,
        quantiles: text.lines().filter_map(quantile).collect(),
    })
}

/// `  99%      1`, and ` 100%   1015 (longest request)`. Of what took less than half a millisecond it says 0, which is no time.
fn quantile(line: &str) -> Option<(f64, Duration)> {
    let mut words = line.split_ascii_whitespace();
    let percent = words.next()?.strip_suffix('%')?.parse::<f64>().ok()?;
    let time = words.next()?.parse().ok().filter(|ms| *ms > 0)?;
    Some((percent / 100.0, Duration::from_millis(time)))
}
