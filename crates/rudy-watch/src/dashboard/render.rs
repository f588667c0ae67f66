//! The parts of the page that change, as HTML.

use std::fmt::Write;
use std::time::Duration;

use rudy_admin::{ActiveRequest, Rates, StatusReport, TopEntry};
use rudy_charts::escape;
use rudy_units::{bytes, count, counted, duration, rate, rough, share};
use serde::Serialize;

/// Number of rows of a list.
const ROWS: usize = 8;

/// An update of the page: each field is the content of the element with its name.
#[derive(Debug, Serialize)]
pub(super) struct Update {
    pub(super) summary: String,
    pub(super) charts: String,
    pub(super) active: String,
    pub(super) lists: String,
    /// A sentence for screen readers.
    pub(super) news: String,
}

/// Renders a report. `rates` are those since the last report, or since the start of the server.
pub(super) fn update(
    report: &StatusReport,
    rates: Rates,
    memory_bytes: Option<f64>,
    charts: &[String],
) -> Update {
    Update {
        summary: summary(report, rates, memory_bytes),
        charts: if charts.is_empty() {
            "<p>Waiting for two samples …</p>".to_owned()
        } else {
            charts.concat()
        },
        active: active(report),
        lists: lists(report),
        news: format!(
            "{}, {} open, {}",
            rate(rates.requests_per_s),
            counted(report.connections.open, "connection"),
            counted(report.active_requests, "active request"),
        ),
    }
}

fn summary(report: &StatusReport, rates: Rates, memory_bytes: Option<f64>) -> String {
    let all = &report.connections;
    let per_s = |value: f64| format!("{}/s", rudy_units::Unit::Bytes.text(value));
    let mut pairs = vec![
        ("Requests", rate(rates.requests_per_s)),
        ("Requests in total", count(report.requests)),
        ("Rejected", count(report.rejected)),
        ("Sent", per_s(rates.sent_per_s)),
        ("Received", per_s(rates.received_per_s)),
        ("Connections", count(all.open)),
        ("Idle", count(all.idle)),
        ("TLS handshakes", count(all.handshaking)),
        ("Receiving", count(all.receiving as u64)),
        ("Waiting", count(all.waiting as u64)),
        ("Sending", count(all.sending as u64)),
        ("Tunnels", count(all.tunnels as u64)),
    ];
    pairs.extend(memory_bytes.map(|bytes| ("Memory", rudy_units::Unit::Bytes.text(bytes))));
    pairs.push(("Running for", rough(Duration::from_millis(report.uptime_ms))));
    let pair =
        |(name, value): &(&str, String)| format!("<div><dt>{name}</dt><dd>{}</dd></div>", escape(value));
    format!("<dl>{}</dl>", pairs.iter().map(pair).collect::<String>())
}

fn active(report: &StatusReport) -> String {
    if report.active.is_empty() {
        return "<p>No request waits.</p>".to_owned();
    }
    let header = ["!ID", "!Age", "Phase", "Client", "!In", "!Out", "Request", "Upstream"];
    let mut html = table("", &header, report.active.iter().map(active_row));
    let more = report.active_requests.saturating_sub(report.active.len());
    if more > 0 {
        let _ = write!(html, "<p>and {} more</p>", count(more as u64));
    }
    html
}

fn active_row(request: &ActiveRequest) -> Vec<String> {
    let host = request.host.as_deref().unwrap_or("-");
    vec![
        request.id.clone(),
        duration(Duration::from_millis(request.age_ms)),
        request.phase.name().to_owned(),
        request.client.clone(),
        bytes(request.received_bytes),
        bytes(request.sent_bytes),
        format!("{} {host}{}", request.method, request.path),
        request.upstream.clone().unwrap_or_default(),
    ]
}

fn lists(report: &StatusReport) -> String {
    let top = |title: &str, name: &str, entries: &[TopEntry]| {
        let row = |entry: &TopEntry| {
            vec![entry.name.clone(), format!("{:.1}", entry.requests_per_s), share(entry.share)]
        };
        let rows = entries.iter().take(ROWS).map(row);
        if entries.is_empty() { String::new() } else { table(title, &[name, "!Requests/s", "!Share"], rows) }
    };
    let mut html = top("Clients", "Client", &report.top.clients);
    html += &top("Paths", "Path", &report.top.paths);
    html += &top("Hosts", "Host", &report.top.hosts);
    if !report.holders.is_empty() {
        let rows = report.holders.iter().take(ROWS).map(|holder| {
            let oldest = duration(Duration::from_millis(holder.oldest_ms));
            vec![holder.client.clone(), count(holder.active as u64), oldest]
        });
        html += &table("Clients with active requests", &["Client", "!Active", "!Oldest"], rows);
    }
    if !report.upstreams.is_empty() {
        let rows = report.upstreams.iter().take(ROWS).map(|upstream| {
            let latency =
                upstream.latency_us.map_or_else(String::new, |us| duration(Duration::from_micros(us)));
            vec![
                upstream.url.clone(),
                format!("{}{}", upstream.state.name(), upstream.role()),
                count(upstream.active as u64),
                count(upstream.failures),
                latency,
            ]
        });
        html += &table("Upstreams", &["Upstream", "State", "!Active", "!Failures", "!Latency"], rows);
    }
    if html.is_empty() { "<p>No request in the last seconds.</p>".to_owned() } else { html }
}

/// Formats a table. Columns of numbers begin with `!` in the header. Writing to a `String` cannot fail.
fn table(title: &str, header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut html = "<table>".to_owned();
    if !title.is_empty() {
        let _ = write!(html, "<caption>{title}</caption>");
    }
    html += "<thead><tr>";
    for name in header {
        let _ = match name.strip_prefix('!') {
            Some(name) => write!(html, "<th scope=\"col\" class=\"number\">{name}</th>"),
            None => write!(html, "<th scope=\"col\">{name}</th>"),
        };
    }
    html += "</tr></thead><tbody>";
    for row in rows {
        html += "<tr>";
        for (cell, name) in row.iter().zip(header) {
            let class = if name.starts_with('!') { "number" } else { "name" };
            let _ = write!(html, "<td class=\"{class}\">{}</td>", escape(cell));
        }
        html += "</tr>";
    }
    html + "</tbody></table>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_clients_are_escaped() {
        let entry = TopEntry { name: "/<script>".to_owned(), requests_per_s: 1.0, share: 1.0 };
        let mut report = StatusReport::default();
        report.top.paths.push(entry);
        let html = lists(&report);
        assert!(html.contains("<td class=\"name\">/&lt;script&gt;</td>"), "{html}");
        assert!(!html.contains("<script>"), "{html}");
    }

    #[test]
    fn an_idle_server_has_sentences_instead_of_tables() {
        let update = update(&StatusReport::default(), Rates::default(), None, &[]);
        assert_eq!(update.active, "<p>No request waits.</p>");
        assert_eq!(update.lists, "<p>No request in the last seconds.</p>");
        assert_eq!(update.news, "0/s, 0 connections open, 0 active requests");
    }
}
