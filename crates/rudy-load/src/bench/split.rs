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

/// Share `index` of `of`, counted from 0 like the pods of an Indexed Job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    index: u32,
    of: u32,
}

impl FromStr for Split {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts =
            text.split_once('/').and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((index, of)) if index < of => Ok(Self { index, of }),
            Some((_, of @ 1..)) => {
                Err(format!("shares are counted from 0: the last of {of} is {}/{of}", of - 1))
            }
            _ => Err("expected the index and the number of shares, such as 0/4 to 3/4".to_owned()),
        }
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

impl Split {
    /// The share of a schedule.
    pub(super) fn share(self) -> Share {
        Share::new(self.index, self.of).unwrap_or(Share::WHOLE)
    }

    /// The share of a number, as even as possible: the first shares get the remainder.
    pub(super) fn part(self, whole: u64) -> u64 {
        let of = u64::from(self.of);
        whole / of + u64::from(u64::from(self.index) < whole % of)
    }

    pub(super) fn connections(self, whole: NonZeroU32) -> Result<NonZeroU32, String> {
        let part = u32::try_from(self.part(whole.get().into())).ok().and_then(NonZeroU32::new);
        part.ok_or_else(|| {
            format!(
                "share {self} gets none of the {whole} connections: use -c {} or more, or fewer shares",
                self.of
            )
        })
    }

    pub(super) fn until(self, whole: Until) -> Until {
        match whole {
            Until::Requests(requests) => Until::Requests(self.part(requests)),
            time @ Until::Time(_) => time,
        }
    }

    /// The share of the total rate.
    pub(super) fn rate(self, whole: f64) -> f64 {
        whole / f64::from(self.of)
    }
}

/// The share in a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShareOf {
    /// The index, from 0.
    pub index: u32,
    /// The number of shares.
    pub of: u32,
    /// The time at which the first request was due, in seconds since 1970; null before the run.
    pub started_unix_s: Option<f64>,
    /// A checksum of the requests, which is equal in all shares of a plan.
    pub requests_checksum: String,
}

impl ShareOf {
    pub(super) fn new(split: Split, requests: u64) -> Self {
        let Split { index, of } = split;
        Self { index, of, started_unix_s: None, requests_checksum: format!("{requests:016x}") }
    }

    pub(super) fn split(&self) -> Split {
        Split { index: self.index, of: self.of }
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
        let found = match text.strip_prefix('+') {
            Some(time) => time.parse::<Time>().ok().map(|time| Self::In(time.0)),
            None => {
                unix(text).or_else(|| text.parse().ok().map(|time: Timestamp| time.into())).map(Self::Time)
            }
        };
        found.ok_or_else(|| {
            "expected a time such as 2026-11-21T10:00:00Z, seconds since 1970, or +10s for a time from now".to_owned()
        })
    }
}

/// Converts seconds since 1970 to a time.
fn unix(text: &str) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(parse_decimal(text)?).ok()?)
}

impl StartAt {
    /// Parses a date and time.
    pub(super) fn fixed(self, now: SystemTime) -> Option<SystemTime> {
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
    /// Computes the start. Fails if the time has passed, and reports by how much.
    pub(super) fn new(start: StartAt) -> Result<Self, String> {
        let (at, now) = (Instant::now(), SystemTime::now());
        let time = start.fixed(now).ok_or("--start-at is too far in the future")?;
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

    /// Seconds since 1970 at this instant.
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
        assert_eq!("2/4".parse(), Ok(Split { index: 2, of: 4 }));
        assert!("4/4".parse::<Split>().unwrap_err().contains("the last of 4 is 3/4"));
        for wrong in ["", "1", "/", "0/0", "-1/4", "1/4/2", "a/b"] {
            assert!(wrong.parse::<Split>().unwrap_err().contains("such as 0/4"), "{wrong}");
        }
    }

    #[test]
    fn a_start_is_a_time_of_day_or_a_time_from_now() {
        let time = |seconds| StartAt::Time(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!("+10s".parse(), Ok(StartAt::In(Duration::from_secs(10))));
        assert_eq!("1795255200".parse(), Ok(time(1_795_255_200)));
        assert_eq!("2026-11-21T10:00:00Z".parse(), Ok(time(1_795_255_200)));
        assert_eq!("2026-11-21T12:00:00+02:00".parse(), Ok(time(1_795_255_200)));
        for wrong in ["", "+", "10s", "tomorrow", "2026-11-21", "-5", "1e9"] {
            assert!(wrong.parse::<StartAt>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_start_that_is_past_is_refused() {
        let error = Start::new(StartAt::Time(SystemTime::UNIX_EPOCH)).unwrap_err();
        assert!(error.contains("the other shares have started"), "{error}");
    }

    #[test]
    fn the_parts_are_the_whole_and_differ_by_one_at_most() {
        for (whole, of) in [(0, 1), (1, 3), (64, 3), (1_000_003, 7), (u64::MAX, 99), (98, 99)] {
            let parts: Vec<_> = (0..of).map(|index| Split { index, of }.part(whole)).collect();
            assert_eq!(parts.iter().sum::<u64>(), whole);
            assert!(parts[0] - parts[of as usize - 1] <= 1 && parts.is_sorted_by(|a, b| a >= b), "{parts:?}");
        }
    }
}
