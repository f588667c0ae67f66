//! Parses the output of `ab`. Its times are whole milliseconds.

use std::time::Duration;

use super::{Tally, after};

/// `None` if it is not such a report.
pub(super) fn read(text: &str) -> Option<Tally> {
    let count = |name: &str| after(text, name)?.parse().ok();
    Some(Tally {
        requests: count("Complete requests:")?,
        // `ab` includes responses with a different length; it excludes error statuses, which can be the same
        // responses.
        wrong: count("Failed requests:")?.max(count("Non-2xx responses:").unwrap_or(0)),
        lost: 0,
        requests_per_s: after(text, "Requests per second:")?.parse().ok()?,
        quantiles: text.lines().filter_map(quantile).collect(),
    })
}

/// Parses `  99%      1` and ` 100%   1015 (longest request)`. Ignores 0, which means less than half a
/// millisecond.
fn quantile(line: &str) -> Option<(f64, Duration)> {
    let mut words = line.split_ascii_whitespace();
    let percent = words.next()?.strip_suffix('%')?.parse::<f64>().ok()?;
    let time = words.next()?.parse().ok().filter(|ms| *ms > 0)?;
    Some((percent / 100.0, Duration::from_millis(time)))
}
