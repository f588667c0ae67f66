//! The chart of a flood as SVG: a logarithmic time axis, the planned ramp dashed, the open connections, the
//! CPU of the server stacked by thread, and its memory as a thick line. Four kinds of lines do not justify a
//! plotting library.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use super::report::Report;
use super::series::Point;
use crate::svg::{escape, round_up};
use crate::units;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 480.0;

/// Margins: left, right, top and bottom.
const MARGIN: (f64, f64, f64, f64) = (70.0, 150.0, 40.0, 50.0);

/// The busiest threads have a colour each, the others share one. The colours are distinguishable for
/// colour-blind readers (Okabe and Ito).
const COLOURS: [&str; 7] = ["#56b4e9", "#e69f00", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7"];

/// The thread id of the layer for all other threads.
const OTHERS: &str = "#bbbbbb";

/// The start of the time axis: a logarithmic axis has no zero.
const FIRST: f64 = 0.1;

/// Renders the chart.
pub(super) fn render(report: &Report<'_>) -> String {
    let picture = Picture::new(report);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    svg.push_str(&picture.title(report));
    svg.push_str(&picture.cpu());
    svg.push_str(&picture.axes());
    svg.push_str(&picture.connections());
    svg.push_str(&picture.memory());
    svg.push_str(&picture.legend());
    svg.push_str("</svg>\n");
    svg
}

struct Picture<'a> {
    points: &'a [Point],
    /// The end of the time axis, in seconds.
    last: f64,
    connections: f64,
    /// The top of the CPU axis, in cores.
    cores: f64,
    /// The top of the memory axis.
    bytes: f64,
    /// Threads with their own colour: id and name.
    threads: Vec<(u32, String)>,
}

impl<'a> Picture<'a> {
    fn new(report: &Report<'a>) -> Self {
        let points = report.points;
        let servers = || points.iter().filter_map(|point| point.server.as_ref());
        let most_cpu = servers().map(|server| server.cpu).fold(0.0, f64::max);
        let most_bytes = servers().map(|server| units::float(server.rss_bytes)).fold(0.0, f64::max);
        let mut sums: BTreeMap<u32, (f64, &str)> = BTreeMap::new();
        for thread in servers().flat_map(|server| &server.threads) {
            let sum = sums.entry(thread.tid).or_insert((0.0, &thread.name));
            sum.0 += thread.cpu;
        }
        let mut threads: Vec<_> = sums.into_iter().collect();
        threads.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
        Self {
            points,
            last: points.last().map_or(1.0, |point| point.progress.at.as_secs_f64()).max(1.0),
            connections: f64::from(report.options.connections.get()),
            cores: round_up(most_cpu.max(0.01)),
            bytes: round_up(most_bytes.max(1.0)),
            threads: threads
                .into_iter()
                .take(COLOURS.len())
                .map(|(tid, (_, name))| (tid, name.to_owned()))
                .collect(),
        }
    }

    fn x(&self, at: Duration) -> f64 {
        let (left, right, ..) = MARGIN;
        let seconds = at.as_secs_f64().clamp(FIRST, self.last);
        left + (seconds / FIRST).ln() / (self.last / FIRST).ln() * (WIDTH - left - right)
    }

    fn title(&self, report: &Report<'_>) -> String {
        let server = report.watched.map_or(String::new(), |watched| format!(", server {}", watched.name()));
        let text = format!("{} connections to {}{server}", self.connections, report.options.url);
        format!("<text x=\"{}\" y=\"22\" font-size=\"15\">{}</text>\n", MARGIN.0, escape(&text))
    }

    /// One area per thread, stacked.
    fn cpu(&self) -> String {
        let mut below = vec![0.0; self.points.len()];
        let mut svg = String::new();
        for layer in 0..=self.threads.len() {
            let above: Vec<f64> = below
                .iter()
                .zip(self.points)
                .map(|(below, point)| below + self.burnt(point, layer))
                .collect();
            if above != below {
                let edge = |heights: &[f64]| -> Vec<String> {
                    let of = |(point, cores): (&Point, &f64)| {
                        format!("{:.1},{:.1}", self.x(point.progress.at), y(cores / self.cores))
                    };
                    self.points.iter().zip(heights).map(of).collect()
                };
                let (top, mut bottom) = (edge(&above), edge(&below));
                bottom.reverse();
                let colour = COLOURS.get(layer).filter(|_| layer < self.threads.len()).unwrap_or(&OTHERS);
                let _ = writeln!(
                    svg,
                    "<polygon points=\"{} {}\" fill=\"{colour}\"/>",
                    top.join(" "),
                    bottom.join(" ")
                );
            }
            below = above;
        }
        svg
    }

    /// The CPU usage of a layer; the last layer is that of all other threads.
    fn burnt(&self, point: &Point, layer: usize) -> f64 {
        let threads = point.server.iter().flat_map(|server| &server.threads);
        let is_of_layer = |tid: u32| match self.threads.get(layer) {
            Some((of_layer, _)) => *of_layer == tid,
            None => self.threads.iter().all(|(of_layer, _)| *of_layer != tid),
        };
        threads.filter(|thread| is_of_layer(thread.tid)).map(|thread| thread.cpu).sum()
    }

    fn connections(&self) -> String {
        let line =
            |number: fn(&Point) -> u32| self.line(|point| Some(f64::from(number(point)) / self.connections));
        let (planned, open) = (line(|point| point.progress.planned), line(|point| point.progress.open));
        format!(
            "<polyline points=\"{planned}\" fill=\"none\" stroke=\"#000\" stroke-dasharray=\"6 4\"/>\n\
             <polyline points=\"{open}\" fill=\"none\" stroke=\"#000\"/>\n"
        )
    }

    fn memory(&self) -> String {
        let line = self.line(|point| Some(units::float(point.server.as_ref()?.rss_bytes) / self.bytes));
        if line.is_empty() {
            return line;
        }
        format!("<polyline points=\"{line}\" fill=\"none\" stroke=\"#c00000\" stroke-width=\"4\"/>\n")
    }

    fn line(&self, height: impl Fn(&Point) -> Option<f64>) -> String {
        let held =
            self.points.iter().filter_map(|point| Some((self.x(point.progress.at), y(height(point)?))));
        held.map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
    }

    fn axes(&self) -> String {
        let (left, right, top, bottom) = MARGIN;
        let (end, floor) = (WIDTH - right, HEIGHT - bottom);
        let mut svg =
            format!("<path d=\"M{left} {top}V{floor}H{end}V{top}\" fill=\"none\" stroke=\"#000\"/>\n");
        for seconds in decades(self.last) {
            let x = self.x(Duration::from_secs_f64(seconds));
            let _ = writeln!(
                svg,
                "<path d=\"M{x:.1} {floor}v5\" stroke=\"#000\"/><text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{seconds} s</text>",
                floor + 20.0
            );
        }
        for quarter in 0..=4 {
            let share = f64::from(quarter) / 4.0;
            let at = y(share) + 4.0;
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{at:.1}\" text-anchor=\"end\">{:.0}</text>",
                left - 6.0,
                share * self.connections
            );
            if self.points.iter().any(|point| point.server.is_some()) {
                let (cores, bytes) =
                    (share * self.cores * 100.0, units::Unit::Bytes.text(share * self.bytes));
                let _ = writeln!(
                    svg,
                    "<text x=\"{}\" y=\"{at:.1}\">{cores:.0} %<tspan fill=\"#c00000\" dx=\"8\">{bytes}</tspan></text>",
                    end + 6.0
                );
            }
        }
        svg
    }

    fn legend(&self) -> String {
        let x = WIDTH - MARGIN.1 + 6.0;
        let mut svg =
            format!("<text x=\"{}\" y=\"34\">connections: dashed planned, solid open</text>\n", MARGIN.0);
        if self.threads.is_empty() {
            return svg;
        }
        let _ = writeln!(
            svg,
            "<text x=\"{x}\" y=\"34\">CPU <tspan fill=\"#c00000\" dx=\"8\">memory</tspan></text>"
        );
        for (index, (colour, (tid, name))) in (0_u32..).zip(COLOURS.iter().zip(&self.threads)) {
            let at = HEIGHT - 200.0 + f64::from(index) * 18.0;
            let _ = writeln!(
                svg,
                "<rect x=\"{}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"{colour}\"/><text x=\"{}\" y=\"{at:.1}\">{} {tid}</text>",
                x,
                at - 9.0,
                x + 14.0,
                escape(name)
            );
        }
        svg
    }
}

/// The vertical position of a fraction of an axis.
fn y(share: f64) -> f64 {
    let (.., top, bottom) = MARGIN;
    HEIGHT - bottom - share.clamp(0.0, 1.0) * (HEIGHT - top - bottom)
}

/// The ticks 0.1, 1, 10, … up to a time.
fn decades(last: f64) -> impl Iterator<Item = f64> {
    (-1..9).map(|exponent| 10_f64.powi(exponent)).take_while(move |seconds| *seconds <= last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_has_its_powers_of_ten() {
        assert_eq!(decades(60.0).count(), 3);
    }
}
