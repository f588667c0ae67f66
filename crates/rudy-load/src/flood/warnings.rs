//! Warnings of a flood that probably measures something else than the user wants.

use std::time::Duration;

use rudy_observe::{Owner, Process, State};
use rudy_request::Remote;
use rudy_units::{Time, count, counted};

use super::measurement::Measurement;
use super::options::Options;
use super::report::Report;

/// The warnings of a report, as sentences.
pub(super) fn warnings(report: &Report<'_>) -> Vec<String> {
    let (options, measurement) = (report.options, &report.outcome.measurement);
    let listener = report.monitor.and_then(|monitor| monitor.warning.clone());
    let response = status_warning(measurement).or_else(|| end_warning(options, measurement));
    [listener, response, interval_warning(options, measurement)].into_iter().flatten().collect()
}

/// A warning if the process does not listen at the address of the flood, so that it is probably not the server.
pub(super) fn listener_warning(process: &mut Process, remote: &Remote) -> Option<String> {
    // Several processes can share a Unix socket, and its table does not name them.
    let Remote::Ip(address) = remote else { return None };
    let sockets = process.sockets().ok()?.with_descriptor;
    if sockets.iter().any(|socket| socket.state == State::Listen && socket.local.port() == address.port()) {
        return None;
    }
    let name = format!("{} ({})", process.name(), process.pid());
    Some(match Owner::of_port(*address) {
        Owner::Process { pid, name: owner } => {
            format!("{name} does not listen at {remote}, but {owner} ({pid}) does: use --pid {pid}.")
        }
        _ => {
            format!("{name} does not listen at {remote}: its memory and CPU may be those of another program.")
        }
    })
}

/// A warning about responses with an error status, which are no streams.
fn status_warning(measurement: &Measurement) -> Option<String> {
    let all: u64 = measurement.statuses.iter().sum();
    let failed: u64 = measurement.statuses[3..].iter().sum();
    (failed > 0).then(|| {
        format!(
            "{} of {} did not succeed ({}): check the URL.",
            count(failed),
            counted(all, "response"),
            measurement.status_classes()
        )
    })
}

/// A warning about streams that the server ended.
fn end_warning(options: &Options, measurement: &Measurement) -> Option<String> {
    let (ended, opened) = (measurement.closed_by_server, measurement.opened);
    (ended > 0 && !options.holds_idle).then(|| {
        format!(
            "{} of {} ended, so the URL is no endless stream. Use --idle to hold connections after their response.",
            count(ended),
            counted(opened, "response")
        )
    })
}

/// A warning if chunks arrive at another interval than the expected one, so that their delay has no meaning.
fn interval_warning(options: &Options, measurement: &Measurement) -> Option<String> {
    let (gap, interval) = (measurement.gap.quantile(0.5), options.interval);
    let differs = !measurement.gap.is_empty() && gap.abs_diff(interval) > interval / 10;
    // A whole number of milliseconds is easier to type.
    let shown = if gap > Duration::from_millis(10) { Duration::from_millis(round_ms(gap)) } else { gap };
    differs.then(|| {
        format!(
            "chunks arrive every {}, but --interval is {}. Use --interval {0} to measure their delay.",
            <Time>::from(shown),
            <Time>::from(interval)
        )
    })
}

fn round_ms(time: Duration) -> u64 {
    u64::try_from((time.as_micros() + 500) / 1000).unwrap_or(u64::MAX)
}
