//! The report of a flood as JSON.

use rudy_request::FailureKind;
use serde_json::{Value, json};

use super::report::Report;
use super::series::Point;
use super::warnings::warnings;

/// The whole report, with units in its keys.
pub(super) fn render(report: &Report<'_>) -> String {
    let (options, outcome) = (report.options, report.outcome);
    let measurement = &outcome.measurement;
    let failures: serde_json::Map<_, _> = FailureKind::ALL
        .into_iter()
        .map(|kind| (kind.name().to_owned(), measurement.failures[kind as usize].into()))
        .collect();
    let memory = report.memory();
    let document = json!({
        "target": options.url,
        "warnings": warnings(report),
        "connections": options.connections,
        "http_version": if options.streams.is_some() { "2" } else { "1.1" },
        "streams_per_connection": options.streams,
        "ramp_s": options.ramp.as_secs_f64(),
        "hold_s": options.hold.as_secs_f64(),
        "interval_s": options.interval.as_secs_f64(),
        "started_monotonic_s": outcome.started.as_secs_f64(),
        "is_interrupted": outcome.is_interrupted,
        "opened": measurement.opened,
        "most_open": outcome.max_open,
        "open_at_end": outcome.last.open,
        "stalled_at_end": outcome.last.stalled,
        "connect_failed": measurement.connect_failed,
        "failures": failures,
        "closed_by_server": measurement.closed_by_server,
        "status_classes": measurement.statuses,
        "chunks": measurement.chunks,
        "received_bytes": measurement.received_bytes,
        "connect_us": times(&measurement.connect),
        "first_byte_us": times(&measurement.first_byte),
        "chunk_delay_us": times(&measurement.chunk_delay),
        "chunk_gap_us": times(&measurement.gap),
        "server": report.monitor.map(|monitor| json!({
            "name": monitor.name(),
            "private_bytes_before": monitor.private_bytes_before(),
            "private_bytes": memory.map(|memory| memory.total),
            "private_bytes_per_connection": memory.and_then(|memory| memory.per_connection),
            "per_connection_from": memory.map(|memory| memory.base),
            "cpu_cores_while_held": report.server_cpu(),
            "cpu_s": monitor.cpu_since_start().as_secs_f64(),
        })),
        "series": report.points.iter().map(point).collect::<Vec<_>>(),
    });
    format!("{document:#}\n")
}

fn times(histogram: &rudy_stats::Histogram) -> Value {
    let at = |quantile| micros(histogram.quantile(quantile));
    json!({
        "count": histogram.len(),
        "mean": micros(histogram.mean()),
        "p50": at(0.5),
        "p99": at(0.99),
        "p99.9": at(0.999),
        "max": micros(histogram.max()),
    })
}

fn micros(time: std::time::Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn point(point: &Point) -> Value {
    let progress = point.progress;
    json!({
        "at_s": progress.at.as_secs_f64(),
        "planned": progress.planned,
        "open": progress.open,
        "stalled": progress.stalled,
        "chunks": point.chunks,
        "server": point.server.as_ref().map(|server| json!({
            "rss_bytes": server.rss_bytes,
            "private_bytes": server.private_bytes,
            "descriptors": server.descriptors,
            "cpu_cores": server.cpu,
            "context_switches_per_s": server.switches,
            "threads": server.threads.iter().map(|thread| json!({
                "tid": thread.tid, "name": thread.name, "cpu_cores": thread.cpu,
            })).collect::<Vec<_>>(),
        })),
    })
}
