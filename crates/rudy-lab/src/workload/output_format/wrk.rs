//! Parses the output of `wrk --latency`.

use rudy_units::parse_duration;

use super::{Tally, after};

/// `None` if it is not such a report.
pub(super) fn read(text: &str) -> Option<Tally> {
    let requests = text.lines().find_map(|line| line.trim_start().split_once(" requests in "))?.0;
    let mut quantiles: Vec<_> = text.lines().filter_map(quantile).collect();
    // Average, deviation, maximum.
    let latency = text.lines().find_map(|line| line.trim_start().strip_prefix("Latency  "))?;
    quantiles.push((1.0, parse_duration(latency.split_ascii_whitespace().nth(2)?)?));
    Some(Tally {
        requests: requests.parse().ok()?,
        // Responses with an error status; the line is missing without errors.
        wrong: after(text, "Non-2xx or 3xx responses:").map_or(Some(0), |count| count.parse().ok())?,
        lost: text.lines().find_map(lost).unwrap_or(0),
        requests_per_s: after(text, "Requests/sec:")?.parse().ok()?,
        quantiles,
    })
}

/// `     99%  950.72ms`
fn quantile(line: &str) -> Option<(f64, std::time::Duration)> {
    let mut words = line.split_ascii_whitespace();
    let (percent, value, None) = (words.next()?.strip_suffix('%')?, words.next()?, words.next()) else {
        return None;
    };
    Some((percent.parse::<f64>().ok()? / 100.0, parse_duration(value)?))
}

/// `  Socket errors: connect 0, read 5, write 0, timeout 3`
fn lost(line: &str) -> Option<u64> {
    let counts = line.trim_start().strip_prefix("Socket errors:")?;
    counts.split(',').map(|count| count.split_ascii_whitespace().next_back()?.parse::<u64>().ok()).sum()
}
