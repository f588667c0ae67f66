//! The report as text.

use std::fmt::Write;
use std::time::Duration;

use super::config::count;
use super::latencies::Latencies;
use super::verdict::Verdict;
use super::{Run, table};
use crate::bench::{Failed, ThreadTime};
use crate::units;

/// Minimum ratio of the maximum latency to the median for a warning. A response that took this many times as long as
/// the median blocked its connection for as many requests.
const OMISSION_RATIO_MIN: f64 = 10.0;

/// Renders the report, optionally with the full latency distribution. The last two lines have the format of wrk,
/// because scripts parse them.
pub(in crate::bench) fn render(run: &Run, has_spectrum: bool) -> String {
    let mut parts = vec![heading(run), summary(run), latencies(run), failures(run), omission_warning(run)];
    if has_spectrum {
        parts.push(format!("latency in ms\n{}", run.outcome.recorder.latency.to_hgrm()));
    }
    parts.push(last_lines(run));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

fn heading(run: &Run) -> String {
    let config = &run.config;
    let others = match config.urls {
        0 | 1 => String::new(),
        urls => format!(" and {}", count(urls as u64 - 1, "other URL")),
    };
    let verdict = Verdict::new(run);
    let ended = if run.outcome.is_interrupted { "Interrupted: partial results.\n" } else { "" };
    format!("{}{others}\n{config}\n{}\n{ended}", config.target, verdict.sentence)
}

fn summary(run: &Run) -> String {
    let (config, outcome) = (&run.config, &run.outcome);
    let recorder = &outcome.recorder;
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        // Writing to a `String` does not fail.
        let _ = writeln!(text, "{name:<13}{value}");
    };
    let in_flight_at_end = match outcome.in_flight_at_end {
        0 => String::new(),
        in_flight_at_end => format!(", {in_flight_at_end} more in flight at the end"),
    };
    row(
        "requests",
        format!("{} in {}{in_flight_at_end}", recorder.requests(), units::duration(outcome.duration)),
    );
    row("succeeded", run.success_rate().to_string());
    let statuses = statuses(run, 0..1000);
    if !statuses.is_empty() {
        row("statuses", statuses);
    }
    let bytes = [recorder.received_bytes, recorder.body_bytes].map(units::bytes);
    row("received", format!("{}, bodies {}", bytes[0], bytes[1]));
    let ended = match recorder.closed_by_server {
        0 => String::new(),
        ended => format!(", {ended} closed by the server between requests"),
    };
    row("connections", format!("{} opened{ended}", recorder.opened));
    if !recorder.handshakes.is_empty() {
        let wants_early_data = config.tls_sessions.as_deref() == Some("early_data");
        row("handshakes", recorder.handshakes.describe(outcome.duration, wants_early_data));
    }
    if let Some(streams) = streams(run) {
        row("streams", streams);
    }
    let warmup_spillover = match run.warmup_spillover() {
        few if few < 0.05 => String::new(),
        warmup_spillover => format!(", {warmup_spillover:.1} of them begun in the warm-up"),
    };
    let in_flight =
        format!("{:.1} on average, of {} (Little's law)", run.in_flight(), config.max_in_flight());
    row("in flight", in_flight + &warmup_spillover);
    if let Some(schedule) = schedule(run) {
        row("schedule", schedule);
    }
    row("client CPU", client_cpu(run));
    text
}

/// The streams of HTTP/2: `100 on each connection at most; the server allows only 32; 3 requests refused and sent again`.
fn streams(run: &Run) -> Option<String> {
    let (streams, recorder) = (run.config.streams?, &run.outcome.recorder);
    let mut text = format!("{streams} on each connection at most");
    if let Some(allowed) = recorder.allowed_streams.filter(|allowed| *allowed < streams) {
        let _ = write!(text, "; the server allows only {allowed}");
    }
    if recorder.repeated > 0 {
        let _ =
            write!(text, "; {} refused by the server and sent again", count(recorder.repeated, "request"));
    }
    Some(text)
}

/// Responses by status: `200: 17, 404: 3`.
fn statuses(run: &Run, range: std::ops::Range<usize>) -> String {
    let all = run.outcome.recorder.statuses[range.clone()].iter().zip(range).filter(|(count, _)| **count > 0);
    all.map(|(count, status)| format!("{status}: {count}")).collect::<Vec<_>>().join(", ")
}

/// The requests of an open loop that were due and sent, and the schedule delay.
fn schedule(run: &Run) -> Option<String> {
    let (due, ratio) = (run.due()?, run.rate_ratio()?);
    let recorder = &run.outcome.recorder;
    let delay = |quantile| units::duration(recorder.schedule_delay.quantile(quantile));
    Some(format!(
        "{due} due, {} sent before the end ({}), {} after it, {} not sent; schedule delay {} at 99 %, {} at most",
        recorder.sent.saturating_sub(recorder.sent_after_end),
        units::share_down(ratio, 2),
        recorder.sent_after_end,
        due.saturating_sub(recorder.sent),
        delay(0.99),
        delay(1.0)
    ))
}

/// The CPU usage of each thread: `72 % (40 % polling the clock), 3 % waiting for a core; 40 %`.
fn client_cpu(run: &Run) -> String {
    let thread = |time: &ThreadTime| {
        let [cpu, spin, delay] = [time.cpu_share(), time.spin_share(), time.run_delay_share()];
        let spin =
            if spin < 0.01 { String::new() } else { format!(" ({:.0} % polling the clock)", spin * 100.0) };
        let delay =
            if delay < 0.01 { String::new() } else { format!(", {:.0} % waiting for a core", delay * 100.0) };
        format!("{:.0} %{spin}{delay}", cpu * 100.0)
    };
    let relay = run.outcome.relay.iter().map(|time| format!("relay {:.0} %", time.cpu_share() * 100.0));
    run.outcome.threads.iter().map(thread).chain(relay).collect::<Vec<_>>().join("; ")
}

fn latencies(run: &Run) -> String {
    let recorder = &run.outcome.recorder;
    let mut columns = vec![("latency", Latencies::new(recorder))];
    let mut add = |name, histogram| columns.push((name, Latencies::complete(histogram)));
    if recorder.status_classes.len() > 1 {
        recorder.status_classes.iter().for_each(|(class, latency)| add(class.name(), latency));
    }
    if run.config.is_open() {
        add("service", &recorder.service);
        add("delay", &recorder.schedule_delay);
    }
    add("first byte", &recorder.first_byte);
    add("connect", &recorder.connect);
    add("TLS", &recorder.tls);
    add("failed", &recorder.latency_failed);
    table::format_table(&columns)
}

/// Failed requests by reason, with an example of each.
fn failures(run: &Run) -> String {
    let recorder = &run.outcome.recorder;
    let mut text = String::new();
    let mut row = |name: &str, count: u64, example: &str| {
        if count > 0 {
            let _ = writeln!(text, "  {name:<16}{count:>10}  {example}");
        }
    };
    for (kind, Failed { count, example }) in &recorder.failures {
        row(kind.name(), *count, example.as_deref().unwrap_or_default());
    }
    let Failed { count, example } = &recorder.unexpected_body;
    row("unexpected_body", *count, example.as_deref().unwrap_or_default());
    row("status_4xx", recorder.statuses[400..500].iter().sum(), &statuses(run, 400..500));
    row("status_5xx", recorder.statuses[500..].iter().sum(), &statuses(run, 500..1000));
    if text.is_empty() { text } else { format!("failed\n{text}") }
}

/// A warning about the requests that a closed loop omitted, if they are many (coordinated omission).
fn omission_warning(run: &Run) -> String {
    let latency = &run.outcome.recorder.latency;
    let (median, max) = (latency.quantile(0.5), latency.max());
    let ratio = max.as_secs_f64() / median.max(Duration::from_nanos(1)).as_secs_f64();
    if run.config.is_open() || latency.is_empty() || ratio < OMISSION_RATIO_MIN {
        return String::new();
    }
    format!(
        "A closed loop sends nothing while it waits for a response: the one that took {} blocked about {ratio:.0} requests.\n\
         Their waiting time is missing in these latencies. Use a rate (-R) to include it.\n",
        units::duration(max)
    )
}

/// The last lines in the format of wrk.
fn last_lines(run: &Run) -> String {
    let (recorder, duration) = (&run.outcome.recorder, run.outcome.duration);
    let in_time = recorder.received_bytes.saturating_sub(recorder.received_bytes_after_end);
    format!(
        "Requests/sec: {:>9.2}\nTransfer/sec: {:>10}B\n",
        units::per_second(recorder.responses(), duration),
        wrk_bytes(units::per_second(in_time, duration))
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
    fn bytes_have_the_format_of_wrk() {
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
