//! The report as tables for a terminal.

use std::fmt::Write;
use std::time::Duration;

use rudy_admin::{ActiveRequest, Rates, StatusReport, TopEntry};
use rudy_units::{bytes, count, counted, duration, rate, rough, share, visible};

/// Number of rows of a list of clients, paths, hosts or upstreams.
const LIST_ROWS: usize = 5;

/// Maximum length of a path, in characters.
const PATH_MAX: usize = 60;

/// Formats a report. The server's words are shown without control characters.
pub(super) fn text(report: &StatusReport, rates: Rates) -> String {
    let lists = [
        list(&format!("CLIENTS, last {:.0} s", report.top.seconds), &report.top.clients),
        list("PATHS", &report.top.paths),
        list("HOSTS", &report.top.hosts),
        holders(report),
        upstreams(report),
    ];
    let parts = [summary(report, rates), active(report)].into_iter().chain(lists);
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

fn summary(report: &StatusReport, rates: Rates) -> String {
    let all = &report.connections;
    let per_s = |bytes_per_s: f64| {
        let whole = Duration::try_from_secs_f64(bytes_per_s).map_or(0, |seconds| seconds.as_secs());
        format!("{}/s", bytes(whole))
    };
    let phases = [
        (all.receiving, "receiving"),
        (all.waiting, "waiting"),
        (all.sending, "sending"),
        (all.tunnels, "in tunnels"),
    ];
    let phases: Vec<_> =
        phases.iter().map(|(number, name)| format!("{} {name}", count(*number as u64))).collect();
    let busy: Vec<_> = report.busy_workers.iter().map(ToString::to_string).collect();
    let busy = match busy.join(", ") {
        none if none.is_empty() => none,
        numbers => format!(
            "busy         workers without a response within 1 s: {numbers}; their requests are the last known ones\n"
        ),
    };
    let dropped = match report.dropped_datagrams {
        0 => String::new(),
        dropped => format!(
            "dropped      {} by the kernel: a receive buffer was full\n",
            counted(dropped, "datagram")
        ),
    };
    format!(
        "rudy {}, process {}, up {}\n\
         requests     {}  {} in total, {} rejected\n\
         traffic      {} sent, {} received\n\
         connections  {} open: {} idle, {} in a TLS handshake\n\
         active       {}: {}\n{dropped}{busy}",
        visible(&report.version),
        report.pid,
        rough(Duration::from_millis(report.uptime_ms)),
        rate(rates.requests_per_s),
        count(report.requests),
        count(report.rejected),
        per_s(rates.sent_per_s),
        per_s(rates.received_per_s),
        count(all.open),
        count(all.idle),
        count(all.handshaking),
        counted(all.receiving + all.waiting + all.sending + all.tunnels, "request"),
        phases.join(", "),
    )
}

fn active(report: &StatusReport) -> String {
    if report.active.is_empty() {
        return String::new();
    }
    let header = ["ID", "AGE", "PHASE", "CLIENT", "IN", "OUT", "REQUEST", "UPSTREAM"].map(str::to_owned);
    let rows = report.active.iter().map(active_row);
    let mut text = table(&[">", ">", "<", "<", ">", ">", "<", "<"], header, rows);
    let more = report.active_requests.saturating_sub(report.active.len());
    if more > 0 {
        let limit = report.active_requests;
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "and {} more; --limit {limit} shows them", count(more as u64));
    }
    text
}

fn active_row(request: &ActiveRequest) -> [String; 8] {
    let host = request.host.as_deref().unwrap_or("-");
    let user = request.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
    [
        request.id.clone(),
        duration(Duration::from_millis(request.age_ms)),
        request.phase.name().to_owned(),
        visible(&format!("{user}{}", request.client)),
        bytes(request.received_bytes),
        bytes(request.sent_bytes),
        visible(&format!("{} {host}{}", request.method, cut(&request.path))),
        visible(request.upstream.as_deref().unwrap_or_default()),
    ]
}

fn cut(path: &str) -> String {
    let mut cut: String = path.chars().take(PATH_MAX).collect();
    if cut.len() < path.len() {
        cut.push('…');
    }
    cut
}

fn list(name: &str, entries: &[TopEntry]) -> String {
    if entries.is_empty() {
        return String::new();
    }
    let header = [name, "REQUESTS/s", "SHARE"].map(str::to_owned);
    let rows = entries.iter().take(LIST_ROWS).map(|entry| {
        [visible(&cut(&entry.name)), format!("{:.1}", entry.requests_per_s), share(entry.share)]
    });
    table(&["<", ">", ">"], header, rows)
}

fn holders(report: &StatusReport) -> String {
    if report.holders.is_empty() {
        return String::new();
    }
    let header = ["CLIENTS WITH ACTIVE REQUESTS", "ACTIVE", "OLDEST"].map(str::to_owned);
    let rows = report.holders.iter().take(LIST_ROWS).map(|holder| {
        let oldest = duration(Duration::from_millis(holder.oldest_ms));
        [visible(&holder.client), count(holder.active as u64), oldest]
    });
    table(&["<", ">", ">"], header, rows)
}

fn upstreams(report: &StatusReport) -> String {
    if report.upstreams.is_empty() {
        return String::new();
    }
    let header = ["UPSTREAMS", "STATE", "ACTIVE", "FAILURES", "LATENCY"].map(str::to_owned);
    let mut all: Vec<_> = report.upstreams.iter().collect();
    all.sort_by_key(|upstream| std::cmp::Reverse(upstream.active));
    let rows = all.into_iter().take(LIST_ROWS).map(|upstream| {
        let latency = upstream.latency_us.map(|us| duration(Duration::from_micros(us)));
        [
            visible(&upstream.url),
            format!("{}{}", upstream.state.name(), upstream.role()),
            count(upstream.active as u64),
            count(upstream.failures),
            latency.unwrap_or_else(|| "-".to_owned()),
        ]
    });
    table(&["<", "<", ">", ">", ">"], header, rows)
}

/// Formats rows with columns as wide as their longest cell, aligned to the left (`<`) or to the right.
fn table<const N: usize>(
    align: &[&str; N],
    header: [String; N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let rows: Vec<_> = std::iter::once(header).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths).zip(align).map(|((cell, width), align)| match *align {
            "<" => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use rudy_admin::{Connections, Holder, Phase, TopLists};

    use super::*;

    fn report() -> StatusReport {
        let request = ActiveRequest {
            id: "812.1".to_owned(),
            age_ms: 31_200,
            phase: Phase::Waiting,
            client: "192.0.2.7".to_owned(),
            method: "GET".to_owned(),
            host: Some("example.org".to_owned()),
            path: "/report\x1b".to_owned(),
            version: "HTTP/1.1".to_owned(),
            route: None,
            upstream: Some("10.0.0.1:3000".to_owned()),
            user: Some("ann".to_owned()),
            received_bytes: 0,
            sent_bytes: 0,
        };
        let upload = ActiveRequest {
            id: "9.22".to_owned(),
            age_ms: 950,
            phase: Phase::Receiving,
            method: "POST".to_owned(),
            path: "/".repeat(100),
            host: None,
            user: None,
            upstream: None,
            received_bytes: 1_300_000,
            ..request.clone()
        };
        let entry = |name: &str| TopEntry { name: name.to_owned(), requests_per_s: 812.44, share: 0.97 };
        StatusReport {
            version: "0.1.0".to_owned(),
            pid: 4711,
            uptime_ms: 10_000,
            requests: 12_340,
            rejected: 1,
            sent_bytes: 20_000_000,
            received_bytes: 10_000,
            dropped_datagrams: 17,
            busy_workers: vec![2, 3],
            connections: Connections {
                open: 412,
                idle: 386,
                handshaking: 2,
                receiving: 1,
                waiting: 23,
                ..Connections::default()
            },
            active_requests: 24,
            active: vec![request, upload],
            holders: vec![Holder { client: "192.0.2.7".to_owned(), active: 24, oldest_ms: 31_200 }],
            top: TopLists {
                seconds: 14.4,
                clients: vec![entry("192.0.2.7")],
                paths: vec![entry("/report")],
                hosts: Vec::new(),
            },
            upstreams: Vec::new(),
            outcomes: None,
        }
    }

    #[test]
    fn a_report_is_a_summary_and_tables() {
        let report = report();
        let path = "/".repeat(PATH_MAX);
        let expected = format!(
            "rudy 0.1.0, process 4711, up 10 s
requests     1,234/s  12,340 in total, 1 rejected
traffic      1.91 MiB/s sent, 1,000 B/s received
connections  412 open: 386 idle, 2 in a TLS handshake
active       24 requests: 1 receiving, 23 waiting, 0 sending, 0 in tunnels
dropped      17 datagrams by the kernel: a receive buffer was full
busy         workers without a response within 1 s: 2, 3; their requests are the last known ones

   ID     AGE  PHASE      CLIENT               IN  OUT  REQUEST{0}UPSTREAM
812.1  31.2 s  waiting    ann@192.0.2.7       0 B  0 B  GET example.org/report\\u{{1b}}{1}10.0.0.1:3000
 9.22  950 ms  receiving  192.0.2.7      1.24 MiB  0 B  POST -{path}…
and 22 more; --limit 24 shows them

CLIENTS, last 14 s  REQUESTS/s  SHARE
192.0.2.7                812.4   97 %

PATHS    REQUESTS/s  SHARE
/report       812.4   97 %

CLIENTS WITH ACTIVE REQUESTS  ACTIVE  OLDEST
192.0.2.7                         24  31.2 s
",
            " ".repeat(62),
            " ".repeat(41),
        );
        assert_eq!(text(&report, Rates::of(&report, None)), expected);
    }

    #[test]
    fn rates_are_those_since_the_last_report() {
        let before = report();
        let now = StatusReport { uptime_ms: 12_000, requests: 12_350, ..before.clone() };
        let rates = Rates::of(&now, Some(&before));
        assert_eq!((rates.requests_per_s, rates.sent_per_s), (5.0, 0.0));
    }
}
