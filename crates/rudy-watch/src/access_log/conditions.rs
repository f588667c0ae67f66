//! Which exchanges have a line.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use http::StatusCode;
use rudy_config::{Int, OneOrMany, Table, written_as_text};
use rudy_message::semantics::path::RequestPath;
use rudy_pipeline::exchange::Finished;
use rudy_pipeline::routing::PathPattern;
use rudy_runtime::random;
use rudy_units::Timeout;

/// The conditions for a line. The default is a line for each exchange.
#[derive(Debug, Clone, PartialEq, Table)]
#[setting(default)]
pub struct Conditions {
    /// Paths to log, as patterns like those of routes. The default is all.
    #[setting(read = OneOrMany<PathPattern>, example = ["/api/*"])]
    pub paths: Vec<PathPattern>,
    /// Paths without log lines, such as those of health checks.
    #[setting(read = OneOrMany<PathPattern>, example = ["/health", "*.css"])]
    pub except_paths: Vec<PathPattern>,
    /// Logs only requests with these statuses, such as `5xx`, and those that are `slower_than`. With `sample`, some others too.
    #[setting(read = OneOrMany<StatusRange>, example = ["4xx", "5xx"])]
    pub statuses: Vec<StatusRange>,
    /// Logs only requests that last longer, and those with one of `statuses`. With `sample`, some others too.
    #[setting(read = Timeout, example = "1s")]
    pub slower_than: Option<Duration>,
    /// Logs one of this many requests, chosen at random, of those that neither `statuses` nor `slower_than` selects. In JSON, such a line
    /// has the number as `sample`.
    #[setting(read = Int<1, 1_000_000>, example = 100)]
    pub sample: Option<u32>,
}

impl Conditions {
    /// Returns how many exchanges the line of this one represents, or 0 if it gets none.
    pub(super) fn weight(&self, exchange: &Finished<'_>) -> u32 {
        if !self.includes_path(exchange) {
            return 0;
        }
        let is_slow = self.slower_than.is_some_and(|limit| exchange.outcome.duration > limit);
        // There is no status if the client was gone, which is as interesting as an error.
        let status = exchange.outcome.status;
        let has_status = |range: &StatusRange| status.is_none_or(|status| range.contains(status));
        if is_slow || self.statuses.iter().any(has_status) {
            return 1;
        }
        match self.sample {
            Some(sample) if random::bits().is_multiple_of(u64::from(sample)) => sample,
            None if self.statuses.is_empty() && self.slower_than.is_none() => 1,
            _ => 0,
        }
    }

    fn includes_path(&self, exchange: &Finished<'_>) -> bool {
        if self.paths.is_empty() && self.except_paths.is_empty() {
            return true;
        }
        let path = exchange.request.and_then(|request| RequestPath::parse(request.path()).ok());
        // A request without a valid path is an attack or a mistake.
        let Some(path) = path else { return true };
        let matches = |pattern: &PathPattern| pattern.matches(path.as_bytes());
        (self.paths.is_empty() || self.paths.iter().any(matches)) && !self.except_paths.iter().any(matches)
    }
}

/// Statuses: `404`, `5xx` or `500-503`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusRange {
    first: u16,
    last: u16,
}

impl StatusRange {
    fn contains(self, status: StatusCode) -> bool {
        (self.first..=self.last).contains(&status.as_u16())
    }
}

impl FromStr for StatusRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let range = if let Some(class) = text.strip_suffix("xx") {
            let class = class.parse::<u16>().ok();
            class.map(|class| (class.saturating_mul(100), class.saturating_mul(100).saturating_add(99)))
        } else {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            first.parse().ok().zip(last.parse().ok())
        };
        let range = range.filter(|(first, last)| first <= last && *first >= 100 && *last <= 599);
        let (first, last) = range.ok_or("expected a status such as 404, 5xx or 500-503")?;
        Ok(Self { first, last })
    }
}

impl fmt::Display for StatusRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first, self.last) {
            (first, last) if first == last => write!(f, "{first}"),
            (first, last) if first % 100 == 0 && last == first + 99 => write!(f, "{}xx", first / 100),
            (first, last) => write!(f, "{first}-{last}"),
        }
    }
}

written_as_text!(StatusRange, "a status (\"5xx\")", {
    doc: "A status such as `404`, a class such as `5xx`, or a range such as `500-503`.",
    examples: ["5xx", 404, "500-503"],
    or_integer,
});
