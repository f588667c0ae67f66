//! A verdict in words.

use std::fmt::Write;

use jiff::{SignedDuration, Zoned};
use rudy_observe::Descriptors;

use super::verdict::{Leak, Reason, RunOut, Verdict};
use crate::text::of_limit;

/// The maximum number of leaks to list.
const LEAKS_MAX: usize = 10;

/// The verdict at the end of a watch, one line for each leak.
pub(super) fn conclusion(verdict: &Verdict, descriptors: Option<Descriptors>, time_min_s: f64) -> String {
    let mut text = String::new();
    // Writing to a `String` does not fail.
    if verdict.is_leak() {
        text += &leaks(verdict);
    } else if verdict.is_long_enough {
        let _ = writeln!(text, "No leak in {:.0} s.", verdict.watched_s);
    } else {
        let _ = writeln!(
            text,
            "No verdict after {:.0} s and {}: it takes {:.0} s and {} samples.",
            verdict.watched_s,
            rudy_units::counted(usize::try_from(verdict.samples).unwrap_or(usize::MAX), "sample"),
            time_min_s,
            rudy_stats::growth::SAMPLES_MIN
        );
    }
    if !verdict.growing.is_empty() {
        let growing: Vec<_> = verdict.growing.iter().take(LEAKS_MAX).map(reason).collect();
        let _ = writeln!(
            text,
            "Too early to say whether this is a leak or a pool that fills: {}. Watch for at least {:.0} s.",
            growing.join(", "),
            super::verdict::PATIENCE_FOR_POOLS * time_min_s
        );
    }
    if let Some(Descriptors { open: Some(open), limit: Some(limit) }) = descriptors
        && open >= limit
    {
        let _ = writeln!(text, "The descriptors have run out: {}.", of_limit(Some(open), Some(limit)));
    }
    text
}

/// A line for each leak: `Leak: CLOSE_WAIT to 10.0.0.7:443 grows by 2.00/s (1.96 to 2.04); descriptors run
/// out in 23 s, at 14:32:07 (14:31:58 to 14:32:20)`.
pub(super) fn leaks(verdict: &Verdict) -> String {
    let mut text = String::new();
    for (index, leak) in verdict.leaks.iter().take(LEAKS_MAX).enumerate() {
        let _ = write!(text, "Leak: {}", reason(leak));
        if let Some(run_out) = verdict.run_out.filter(|_| index == 0) {
            text += &forecast(&run_out, &Zoned::now());
        }
        text += "\n";
    }
    if verdict.leaks.len() > LEAKS_MAX {
        let _ = writeln!(text, "{} more", verdict.leaks.len() - LEAKS_MAX);
    }
    text
}

/// `CLOSE_WAIT to 10.0.0.7:443 grows by 2.00/s (1.96 to 2.04)`, `sockets in no table hold 60 of 64 descriptors`
fn reason(leak: &Leak) -> String {
    let noun = leak.key.to_string();
    let is_plural = noun.starts_with("sockets") || noun.contains(" sockets") || noun == "descriptors";
    let ending = if is_plural { "" } else { "s" };
    let growth = match leak.reason {
        Reason::Grows(growth) => growth,
        Reason::Holds { sockets, limit } => {
            return format!("{noun} hold{ending} {sockets} of {limit} descriptors");
        }
    };
    let [slope, low, high] = [growth.per_s, growth.per_s_low, growth.per_s_high].map(Pace);
    let unit = Unit::of(growth.per_s);
    format!("{noun} grow{ending} by {} ({} to {})", slope.with(unit), low.number(unit), high.number(unit))
}

/// A slope in sockets per second.
#[derive(Clone, Copy)]
struct Pace(f64);

/// The unit that gives a slope a number above 0.1.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Second,
    Minute,
    Hour,
}

impl Unit {
    fn of(per_s: f64) -> Self {
        match per_s {
            per_s if per_s >= 0.1 => Self::Second,
            per_s if per_s * 60.0 >= 0.1 => Self::Minute,
            _ => Self::Hour,
        }
    }

    fn parts(self) -> (f64, &'static str) {
        match self {
            Self::Second => (1.0, "/s"),
            Self::Minute => (60.0, "/min"),
            Self::Hour => (3600.0, "/h"),
        }
    }
}

impl Pace {
    fn number(self, unit: Unit) -> String {
        rudy_units::digits(self.0 * unit.parts().0)
    }

    fn with(self, unit: Unit) -> String {
        format!("{}{}", self.number(unit), unit.parts().1)
    }
}

/// A forecast beyond is not worth a date.
const FORECAST_MAX_S: f64 = 365.0 * 86_400.0;

fn forecast(run_out: &RunOut, now: &Zoned) -> String {
    if run_out.in_s <= 0.0 {
        return "; descriptors have run out".to_owned();
    }
    if run_out.in_s > FORECAST_MAX_S {
        return "; descriptors do not run out within a year".to_owned();
    }
    let latest_s = run_out.latest_s.filter(|latest| *latest <= FORECAST_MAX_S);
    let format = match latest_s.unwrap_or(FORECAST_MAX_S) {
        latest if latest < 600.0 => "%H:%M:%S",
        latest if latest < 20.0 * 3600.0 => "%H:%M",
        _ => "%Y-%m-%d %H:%M",
    };
    let time = |seconds: f64| {
        let time = now.checked_add(SignedDuration::try_from_secs_f64(seconds).unwrap_or_default());
        time.unwrap_or_else(|_| now.clone()).strftime(format).to_string()
    };
    let latest = latest_s.map_or_else(|| "or later".to_owned(), |latest| format!("to {}", time(latest)));
    let remaining = span(run_out.in_s);
    format!(
        "; descriptors run out in {remaining}, at {} ({} {latest})",
        time(run_out.in_s),
        time(run_out.earliest_s)
    )
}

/// A time to wait: `23 s`, `14 min`, `5.2 h`, `12 days`.
fn span(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 120.0 => format!("{seconds:.0} s"),
        seconds if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
        seconds if seconds < 172_800.0 => format!("{:.1} h", seconds / 3600.0),
        seconds => format!("{:.0} days", seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forecast_is_as_precise_as_it_can_be() {
        let now: Zoned = "2026-11-23T14:31:44+00:00[UTC]".parse().unwrap();
        for (in_s, earliest_s, latest_s, expected) in [
            (23.0, 14.0, Some(36.0), "; descriptors run out in 23 s, at 14:32:07 (14:31:58 to 14:32:20)"),
            (600.0, 300.0, Some(700.0), "; descriptors run out in 10 min, at 14:41 (14:36 to 14:43)"),
            (
                90_000.0,
                50_000.0,
                None,
                "; descriptors run out in 25.0 h, at 2026-11-24 15:31 (2026-11-24 04:25 or later)",
            ),
            (0.0, 0.0, Some(0.0), "; descriptors have run out"),
            (1e12, 1e11, None, "; descriptors do not run out within a year"),
        ] {
            assert_eq!(forecast(&RunOut { in_s, earliest_s, latest_s }, &now), expected);
        }
    }

    #[test]
    fn a_slow_leak_has_a_unit_in_which_it_can_be_read() {
        let shown = |per_s: f64| Pace(per_s).with(Unit::of(per_s));
        assert_eq!([2.0, 0.05, 0.001].map(shown), ["2/s", "3/min", "3.60/h"]);
    }
}
