//! The report as text.

use std::fmt::Write;

use super::config::count;
use super::units;
use super::verdict::Verdict;
use super::{Run, table};
use crate::FailureKind;
use crate::bench::plan::Pace;

/// The whole report. The last two lines are those that wrk writes, since there are scripts that look for them.
pub(in crate::bench) fn render(run: &Run) -> String {
    let mut parts = vec![head(run), summary(run), latencies(run), wrong(run)];
    parts.retain(|part| !part.is_empty());
    format!("{}\n{}", parts.join("\n"), last_lines(run))
}

fn head(run: &Run) -> String {
    let config = &run.config;
    let others = match config.requests {
        1 => String::new(),
        requests => format!(" and {}", count(requests as u64 - 1, "other URL")),
    };
    let verdict = match Verdict::of(run) {
        Verdict::Fair => String::new(),
        verdict => format!("{verdict}\n"),
    };
    let ended =
        if run.outcome.is_interrupted { "Interrupted: this is what was seen until then.\n" } else { "" };
    format!("{}{others}\n{config}\n{ended}{verdict}", config.target)
}

fn summary(run: &Run) -> String {
    let seen = &run.outcome.seen;
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        // Writing to a `String` does not fail.
        let _ = writeln!(text, "{name:<13}{value}");
    };
    row("requests", format!("{} in {}", seen.requests(), units::time(run.outcome.duration)));
    row("right", run.nines().to_string());
    if let Some(statuses) = statuses(run) {
        row("statuses", statuses);
    }
    row(
        "received",
        format!(
            "{}B, {}B of it bodies",
            units::binary(units::float(seen.received_bytes)),
            units::binary(units::float(seen.body_bytes))
        ),
    );
    let ended = match seen.ended {
        0 => String::new(),
        ended => format!(", {ended} ended by the server between requests"),
    };
    row("connections", format!("{} opened{ended}", seen.opened));
    text
}

fn statuses(run: &Run) -> Option<String> {
    let all = run.outcome.seen.statuses.iter().enumerate().filter(|(_, count)| **count > 0);
    let all: Vec<_> = all.map(|(status, count)| format!("{status}: {count}")).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

fn latencies(run: &Run) -> String {
    let seen = &run.outcome.seen;
    let mut columns = vec![("latency", &seen.latency)];
    if run.config.pace != Pace::Closed {
        columns.extend([("service", &seen.service), ("send lag", &seen.lag)]);
    }
    columns.extend([
        ("first byte", &seen.first_byte),
        ("connect", &seen.connect),
        ("TLS", &seen.tls),
        ("failed", &seen.latency_failed),
    ]);
    table::of(&columns)
}

fn wrong(run: &Run) -> String {
    let seen = &run.outcome.seen;
    let mut text = String::new();
    for kind in FailureKind::ALL {
        let (count, example) = (seen.failures[kind as usize], seen.examples[kind as usize].as_deref());
        if count > 0 {
            let _ = writeln!(text, "  {:<16}{count:>10}  {}", kind.name(), example.unwrap_or_default());
        }
    }
    if text.is_empty() { text } else { format!("failures\n{text}") }
}

fn last_lines(run: &Run) -> String {
    let (seen, duration) = (&run.outcome.seen, run.outcome.duration);
    format!(
        "Requests/sec: {:>9.2}\nTransfer/sec: {:>10}B\n",
        units::per_second(seen.answers(), duration),
        units::binary(units::per_second(seen.received_bytes, duration))
    )
}
