//! Distributes a plan over several machines: each runs a share, and all start at the same time.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use rudy_stats::schedule::Share;
use rudy_units::{Time, parse_decimal};
use serde::{Deserialize, Serialize};

use super::plan::Until;

/// A share of a plan: its index, counted from 0 like the pods of an Indexed Job (Kubernetes), and the number of shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    index: u32,
    count: u32,
}

impl FromStr for Split {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts =
            text.split_once('/').and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        match parts {
            Some((index, count)) if index < count => Ok(Self { index, count }),
            Some((_, count @ 1..)) => {
                Err(format!("shares are counted from 0: the last of {count} is {}/{count}", count - 1))
            }
            _ => Err("expected the index and the number of shares, such as 0/4 to 3/4".to_owned()),
        }
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl Split {
    /// The share, for a schedule.
    pub(super) fn share(self) -> Share {
        Share::new(self.index, self.count).unwrap_or(Share::WHOLE)
    }

    /// The part of a total, as even as possible: the first shares get the remainder.
    pub(super) fn part(self, total: u64) -> u64 {
        let count = u64::from(self.count);
        total / count + u64::from(u64::from(self.index) < total % count)
    }

    pub(super) fn connections(self, total: NonZeroU32) -> Result<NonZeroU32, String> {
        let part = u32::try_from(self.part(total.get().into())).ok().and_then(NonZeroU32::new);
        part.ok_or_else(|| {
            format!(
                "share {self} gets none of the {total} connections: use -c {} or more, or fewer shares",
                self.count
            )
        })
    }

    pub(super) fn until(self, total: Until) -> Until {
        match total {
            Until::Requests(requests) => Until::Requests(self.part(requests)),
            time @ Until::Time(_) => time,
        }
    }

    /// The part of the total rate.
    pub(super) fn rate(self, total: f64) -> f64 {
        total / f64::from(self.count)
    }
}

/// The share of a plan, in a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShareConfig {
    /// The index, from 0.
    pub index: u32,
    /// The number of shares.
    #[serde(rename = "of")]
    pub count: u32,
    /// The start of the run, in seconds since 1970; null before the run.
    pub started_unix_s: Option<f64>,
    /// A checksum of the requests, which all shares of a plan have in common.
    pub requests_checksum: String,
}

impl ShareConfig {
    pub(super) fn new(split: Split, requests: u64) -> Self {
        let Split { index, count } = split;
        Self { index, count, started_unix_s: None, requests_checksum: format!("{requests:016x}") }
    }

    pub(super) fn split(&self) -> Split {
        Split { index: self.index, count: self.count }
    }
}

/// The start of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartAt {
    /// At a wall-clock time.
    Time(SystemTime),
    /// After a delay.
    In(Duration),
}

impl FromStr for StartAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let start = if let Some(time) = text.strip_prefix('+') {
            time.parse::<Time>().ok().map(|time| Self::In(time.0))
        } else {
            let timestamp = || text.parse().ok().map(|time: Timestamp| time.into());
            parse_unix_seconds(text).or_else(timestamp).map(Self::Time)
        };
        start.ok_or_else(|| {
            "expected a time such as 2026-11-21T10:00:00Z, seconds since 1970, or +10s for a time from now".to_owned()
        })
    }
}

/// Converts seconds since 1970 to a time.
fn parse_unix_seconds(text: &str) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(parse_decimal(text)?).ok()?)
}

impl StartAt {
    /// The start as a wall-clock time; `None` if it is too far in the future for the clock.
    pub(super) fn system_time(self, now: SystemTime) -> Option<SystemTime> {
        match self {
            Self::Time(time) => Some(time),
            Self::In(time) => now.checked_add(time),
        }
    }
}

/// The start time by the monotonic clock and by the wall clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    pub(super) at: Instant,
    time: SystemTime,
}

impl Start {
    /// Computes the start.
    ///
    /// # Errors
    ///
    /// A message, if the time has passed or is too far in the future.
    pub(super) fn new(start: StartAt) -> Result<Self, String> {
        let (at, now) = (Instant::now(), SystemTime::now());
        let time = start.system_time(now).ok_or("--start-at is too far in the future")?;
        match time.duration_since(now) {
            Ok(left) => at
                .checked_add(left)
                .map(|at| Self { at, time })
                .ok_or("--start-at is too far in the future".into()),
            Err(past) => Err(format!(
                "--start-at was {} s ago: the other shares have started without this one",
                past.duration().as_secs_f64()
            )),
        }
    }

    /// An instant at or after the start, in seconds since 1970.
    pub(super) fn unix_s(self, at: Instant) -> f64 {
        let later = at.saturating_duration_since(self.at);
        let since = self.time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        (since + later).as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_counted_from_0() {
        assert_eq!("2/4".parse(), Ok(Split { index: 2, count: 4 }));
        assert!("4/4".parse::<Split>().unwrap_err().contains("the last of 4 is 3/4"));
        for invalid in ["", "1", "/", "0/0", "-1/4", "1/4/2", "a/b"] {
            assert!(invalid.parse::<Split>().unwrap_err().contains("such as 0/4"), "{invalid}");
        }
    }

    #[test]
    fn a_start_is_a_wall_clock_time_or_a_delay() {
        let time = |seconds| StartAt::Time(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!("+10s".parse(), Ok(StartAt::In(Duration::from_secs(10))));
        assert_eq!("1795255200".parse(), Ok(time(1_795_255_200)));
        assert_eq!("2026-11-21T10:00:00Z".parse(), Ok(time(1_795_255_200)));
        assert_eq!("2026-11-21T12:00:00+02:00".parse(), Ok(time(1_795_255_200)));
        for invalid in ["", "+", "10s", "tomorrow", "2026-11-21", "-5", "1e9"] {
            assert!(invalid.parse::<StartAt>().is_err(), "{invalid}");
        }
    }

    #[test]
    fn a_start_in_the_past_is_rejected() {
        let error = Start::new(StartAt::Time(SystemTime::UNIX_EPOCH)).unwrap_err();
        assert!(error.contains("the other shares have started"), "{error}");
    }

    #[test]
    fn the_parts_add_up_to_the_total_and_differ_by_one_at_most() {
        for (total, count) in [(0, 1), (1, 3), (64, 3), (1_000_003, 7), (u64::MAX, 99), (98, 99)] {
            let parts: Vec<_> = (0..count).map(|index| Split { index, count }.part(total)).collect();
            assert_eq!(parts.iter().sum::<u64>(), total);
            assert!(parts[0] - parts[count as usize - 1] <= 1, "{parts:?}");
            assert!(parts.is_sorted_by(|a, b| a >= b), "{parts:?}");
        }
    }
}
