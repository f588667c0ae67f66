//! The report as text.

use std::fmt::Write;
use std::time::Duration;

use super::config::count;
use super::seen::UNEXPECTED;
use super::verdict::Verdict;
use super::{Run, table};
use crate::FailureKind;
use crate::units;

/// A response that took this many times as long as most blocked its connection for as many requests.
const OMITTED: f64 = 10.0;

/// The whole report, optionally with the full latency distribution. The last two lines have the format of
/// wrk, because scripts parse them.
pub(in crate::bench) fn render(run: &Run, has_spectrum: bool) -> String {
    let mut parts = vec![head(run), summary(run), latencies(run), wrong(run), omission(run)];
    if has_spectrum {
        parts.push(format!("latency in ms\n{}", run.outcome.seen.latency.to_hgrm()));
    }
    parts.push(last_lines(run));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

fn head(run: &Run) -> String {
    let config = &run.config;
    let others = match config.urls {
        0 | 1 => String::new(),
        urls => format!(" and {}", count(urls as u64 - 1, "other URL")),
    };
    let verdict = match Verdict::of(run) {
        Verdict::Fair => String::new(),
        verdict => format!("{verdict}\n"),
    };
    let ended = if run.outcome.is_interrupted { "Interrupted: partial results.\n" } else { "" };
    format!("{}{others}\n{config}\n{verdict}{ended}", config.target)
}

fn summary(run: &Run) -> String {
    let (config, outcome) = (&run.config, &run.outcome);
    let seen = &outcome.seen;
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        // Writing to a `String` does not fail.
        let _ = writeln!(text, "{name:<13}{value}");
    };
    let abandoned = match outcome.abandoned {
        0 => String::new(),
        abandoned => format!(", {abandoned} more in flight at the end"),
    };
    row("requests", format!("{} in {}{abandoned}", seen.requests(), units::duration(outcome.duration)));
    row("right", run.nines().to_string());
    let statuses = statuses(run, 0..1000);
    if !statuses.is_empty() {
        row("statuses", statuses);
    }
    let bytes = [seen.received_bytes, seen.body_bytes].map(units::bytes);
    row("received", format!("{}, bodies {}", bytes[0], bytes[1]));
    let ended = match seen.ended {
        0 => String::new(),
        ended => format!(", {ended} closed by the server between requests"),
    };
    row("connections", format!("{} opened{ended}", seen.opened));
    let carried_over = match run.carried_over() {
        few if few < 0.05 => String::new(),
        carried_over => format!(", {carried_over:.1} of them begun in the warm-up"),
    };
    let under_way = format!("{:.1} on average, of {} (Little's law)", run.under_way(), config.places());
    row("in flight", under_way + &carried_over);
    if let Some(schedule) = schedule(run) {
        row("schedule", schedule);
    }
    row("generator", generator(run));
    text
}

/// `200: 17, 404: 3`
fn statuses(run: &Run, range: std::ops::Range<usize>) -> String {
    let all = run.outcome.seen.statuses[range.clone()].iter().zip(range).filter(|(count, _)| **count > 0);
    all.map(|(count, status)| format!("{status}: {count}")).collect::<Vec<_>>().join(", ")
}

/// The schedule of an open loop: what was due and what was sent.
fn schedule(run: &Run) -> Option<String> {
    let (due, ratio) = (run.due()?, run.rate_ratio()?);
    let seen = &run.outcome.seen;
    let late = |quantile| units::duration(seen.lag.quantile(quantile));
    Some(format!(
        "{due} due, {} sent ({}), {} not sent; sent late by {} at 99 %, {} at most",
        seen.sent,
        units::share_down(ratio, 2),
        due - seen.sent,
        late(0.99),
        late(1.0)
    ))
}

fn generator(run: &Run) -> String {
    let shares = run.outcome.threads.iter().map(|time| format!("{:.0} %", time.share() * 100.0));
    let shares = shares.collect::<Vec<_>>().join(", ");
    let threads = if run.outcome.threads.len() == 1 { "its thread" } else { "its threads" };
    format!("{threads} computed for {shares} of the time")
}

fn latencies(run: &Run) -> String {
    let seen = &run.outcome.seen;
    let mut columns = vec![("latency", &seen.latency)];
    if run.config.is_open() {
        columns.extend([("service", &seen.service), ("send lag", &seen.lag)]);
    }
    columns.push(("first byte", &seen.first_byte));
    columns.extend([("connect", &seen.connect), ("TLS", &seen.tls), ("failed", &seen.latency_failed)]);
    table::of(&columns)
}

/// Failed requests by reason, with an example of each.
fn wrong(run: &Run) -> String {
    let seen = &run.outcome.seen;
    let mut text = String::new();
    let mut row = |name: &str, count: u64, example: &str| {
        if count > 0 {
            let _ = writeln!(text, "  {name:<16}{count:>10}  {example}");
        }
    };
    for kind in FailureKind::ALL {
        let example = seen.examples[kind as usize].as_deref();
        row(kind.name(), seen.failures[kind as usize], example.unwrap_or_default());
    }
    row(UNEXPECTED, seen.unexpected, seen.unexpected_example.as_deref().unwrap_or_default());
    row("status_4xx", seen.statuses[400..500].iter().sum(), &statuses(run, 400..500));
    row("status_5xx", seen.statuses[500..].iter().sum(), &statuses(run, 500..1000));
    if text.is_empty() { text } else { format!("not right\n{text}") }
}

/// A warning about requests that the closed loop omitted, if they are many.
fn omission(run: &Run) -> String {
    let latency = &run.outcome.seen.latency;
    let (most, max) = (latency.quantile(0.5), latency.max());
    let kept = max.as_secs_f64() / most.max(Duration::from_nanos(1)).as_secs_f64();
    if run.config.is_open() || latency.is_empty() || kept < OMITTED {
        return String::new();
    }
    format!(
        "A closed loop sends nothing while it waits for a response: the one that took {} blocked about {kept:.0} requests.\n\
         Their waiting time is missing in these figures. Use a rate (-R) to include it.\n",
        units::duration(max)
    )
}

/// A line in wrk's format and columns.
fn last_lines(run: &Run) -> String {
    let (seen, duration) = (&run.outcome.seen, run.outcome.duration);
    format!(
        "Requests/sec: {:>9.2}\nTransfer/sec: {:>10}B\n",
        units::per_second(seen.answers(), duration),
        wrk_bytes(units::per_second(seen.received_bytes, duration))
    )
}

/// A number of bytes in wrk's format: `1.23G`, in steps of 1024; switches to the next unit at 0.85 of it.
fn wrk_bytes(bytes: f64) -> String {
    let (mut value, mut unit) = (bytes, "");
    for next in ["K", "M", "G", "T"] {
        if value < 1024.0 * 0.85 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    format!("{value:.2}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_as_wrk_writes_them() {
        for (bytes, text) in [
            (0.0, "0.00"),
            (870.0, "870.00"),
            (871.0, "0.85K"),
            (1024.0 * 1024.0, "1.00M"),
            (3.5e9, "3.26G"),
            (1e18, "909494.70T"),
        ] {
            assert_eq!(wrk_bytes(bytes), text, "{bytes}");
        }
    }
}
