//! The report of a flood as JSON.

use serde_json::{Value, json};

use super::report::Report;
use super::series::Point;
use crate::FailureKind;

/// The whole report, with units in its keys.
pub(super) fn render(report: &Report<'_>) -> String {
    let (options, outcome) = (report.options, report.outcome);
    let seen = &outcome.seen;
    let lost: serde_json::Map<_, _> = FailureKind::ALL
        .into_iter()
        .map(|kind| (kind.name().to_owned(), seen.lost[kind as usize].into()))
        .collect();
    let document = json!({
        "target": options.url,
        "connections": options.connections,
        "ramp_s": options.ramp.as_secs_f64(),
        "hold_s": options.hold.as_secs_f64(),
        "interval_s": options.interval.as_secs_f64(),
        "is_interrupted": outcome.is_interrupted,
        "opened": seen.opened,
        "most_open": outcome.most_open,
        "open_at_end": outcome.last.open,
        "stalled_at_end": outcome.last.stalled,
        "refused": seen.refused,
        "lost": lost,
        "ended": seen.ended,
        "status_classes": seen.statuses,
        "chunks": seen.chunks,
        "received_bytes": seen.received_bytes,
        "connect_us": times(&seen.connect),
        "first_byte_us": times(&seen.first_byte),
        "chunk_late_us": times(&seen.late),
        "chunk_gap_us": times(&seen.gap),
        "server": report.watched.map(|watched| json!({
            "name": watched.name(),
            "memory_bytes_per_connection": report.server_bytes_per_connection(),
            "cpu_cores_while_kept": report.server_cpu(),
            "cpu_s": watched.cpu_since_start().as_secs_f64(),
            "rss_bytes_before": watched.rss_at_start(),
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
    let moment = point.moment;
    json!({
        "at_s": moment.at.as_secs_f64(),
        "planned": moment.planned,
        "open": moment.open,
        "stalled": moment.stalled,
        "chunks": point.chunks,
        "server": point.server.as_ref().map(|server| json!({
            "rss_bytes": server.rss_bytes,
            "descriptors": server.descriptors,
            "cpu_cores": server.cpu,
            "context_switches_per_s": server.switches,
            "threads": server.threads.iter().map(|thread| json!({
                "tid": thread.tid, "name": thread.name, "cpu_cores": thread.cpu,
            })).collect::<Vec<_>>(),
        })),
    })
}
