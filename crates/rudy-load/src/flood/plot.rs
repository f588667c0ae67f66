//! The samples of a flood as a chart.

use std::collections::BTreeMap;

use rudy_charts::{Flood, FloodSample};

use super::report::Report;
use super::series::Point;
use crate::units;

/// Renders the chart as SVG. `None` with too few samples.
pub(super) fn render(report: &Report<'_>) -> Option<String> {
    let opened = units::counted(report.options.total().get(), report.options.noun());
    let server = report.monitor.map_or(String::new(), |monitor| format!(", server {}", monitor.name()));
    let flood = Flood {
        title: format!("{opened} to {}{server}", report.options.url),
        connections: f64::from(report.options.total().get()),
        samples: samples(report.points),
    };
    Some(flood.plot()?.svg())
}

/// The samples, with the CPU time of each thread so far. Threads with the same name are combined.
fn samples(points: &[Point]) -> Vec<FloodSample> {
    let (mut cpu_s, mut last) = (BTreeMap::new(), 0.0);
    let sample = |point: &Point| {
        let t_s = point.progress.at.as_secs_f64();
        for thread in point.server.iter().flat_map(|server| &server.threads) {
            *cpu_s.entry(thread.name.clone()).or_insert(0.0) += thread.cpu * (t_s - last);
        }
        last = t_s;
        FloodSample {
            t_s,
            planned: point.progress.planned.into(),
            open: point.progress.open.into(),
            private_bytes: point.server.as_ref().map(|server| units::float(server.private_bytes)),
            cpu_s: cpu_s.clone(),
        }
    };
    points.iter().map(sample).collect()
}
