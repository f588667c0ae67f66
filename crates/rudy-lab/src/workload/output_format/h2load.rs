//! Parses the output of `h2load`, which has the mean and the extremes of the latency, but no percentiles.

use rudy_units::parse_duration;

use super::Tally;

/// `None` if it is not such a report.
pub(super) fn read(text: &str) -> Option<Tally> {
    let after = |name: &str| text.lines().find_map(|line| line.trim_start().strip_prefix(name));
    // `finished in 3.01s, 32736.67 req/s, 40.68MB/s`
    let rate = after("finished in ")?.split(", ").nth(1)?.strip_suffix(" req/s")?;
    // `98210 total, 98226 started, 98210 done, 98210 succeeded, 0 failed, 0 errored, 0 timeout`
    let requests = after("requests: ")?;
    let count = |name: &str| {
        let counts = requests.split(", ").filter_map(|count| count.trim().split_once(' '));
        let (count, _) = counts.into_iter().find(|(_, what)| *what == name)?;
        count.parse().ok()
    };
    // Minimum and maximum.
    let mut times = after("time for request:")?.split_ascii_whitespace().map(parse_duration);
    Some(Tally {
        requests: count("done")?,
        // Includes errors and timeouts.
        wrong: count("failed")?,
        lost: 0,
        requests_per_s: rate.parse().ok()?,
        quantiles: vec![(0.0, times.next()??), (1.0, times.next()??)],
    })
}
