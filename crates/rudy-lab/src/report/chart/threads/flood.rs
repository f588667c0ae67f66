//! The chart of a flood: a logarithmic time axis, the planned ramp dashed, the open connections, CPU stacked
//! by thread, and memory as a thick line.

use std::time::Duration;

use super::layers::thinned;
use super::{Layers, colour, ink, keys, stack, words};
use crate::record::{Run, Sample};
use crate::report::chart::Chart;
use crate::report::chart::data::{drawable, float, slug};
use crate::report::chart::frame::{Axis, Frame};
use crate::report::chart::legend::{self, Entry, Key};
use crate::report::chart::sheet::{Anchor, Sheet, width};
use crate::report::chart::table::Table;
use crate::report::chart::unit::{Unit, digits};

/// The plan.
pub(super) struct Plan {
    connections: u32,
    ramp_s: f64,
    end_s: f64,
}

/// The room above the line of all connections, for their number.
const ABOVE: f64 = 1.12;

/// The line of memory, and its label.
const MEMORY: &str = "line thick s1";

impl Plan {
    pub(super) fn new(connections: u32, ramp: Duration, hold: Duration) -> Self {
        Self { connections, ramp_s: ramp.as_secs_f64(), end_s: (ramp + hold).as_secs_f64() }
    }

    /// The planned number of connections at a time.
    fn planned(&self, seconds: f64) -> f64 {
        let all = f64::from(self.connections);
        if self.ramp_s > 0.0 { (seconds / self.ramp_s).min(1.0) * all } else { all }
    }
}

/// `None` with too few samples.
pub(super) fn chart(plan: &Plan, workload: &str, variant: &str, run: &Run) -> Option<Chart> {
    let fits = |sample: &&Sample| {
        (0.0..=plan.end_s).contains(&sample.t_s) && drawable(float(sample.private_bytes)).is_some()
    };
    let all: Vec<&Sample> = run.samples.iter().filter(fits).collect();
    let (start, end) = (all.get(1)?.t_s, all.last()?.t_s);
    // Times before the first shown one are at the start of the axis.
    let samples =
        thinned(&all, |t_s| if t_s < start { -1.0 } else { (t_s / start).ln() / (end / start).ln() });
    let layers = Layers::new(&samples)?;
    // At time zero nothing has happened, and it has no logarithm.
    let shown = &samples[samples.len() - layers.ends_s.len()..];
    let title = format!("{workload}, {variant}: connections, CPU and memory over time");
    let mut sheet = Sheet::new(&title);
    let mut entries = keys(&layers);
    let lines =
        [(MEMORY, "private memory"), ("line thin", "open connections"), ("line thin dash", "planned")];
    entries.extend(lines.map(|(class, name)| Entry { key: Key::Line(class), name: name.to_owned() }));
    legend::draw(&mut sheet, &entries);
    draw(&mut sheet, plan, &layers, shown);
    Some(Chart {
        id: format!("threads-{}-{}", slug(workload), slug(variant)),
        title,
        caption: format!(
            "Round {} of {variant}. Time is logarithmic, because what matters happens early; CPU is stacked by thread. \
             Where open connections leave the dashed line, they came later than planned. CPU and memory have scales of their own \
             for each variant: compare the numbers, not the heights.",
            run.round + 1
        ),
        svg: sheet.finish(),
        csv: csv(plan, &layers, shown),
    })
}

fn draw(sheet: &mut Sheet, plan: &Plan, layers: &Layers, samples: &[&Sample]) {
    let (first, last) = (layers.ends_s[0], layers.ends_s[layers.ends_s.len() - 1]);
    // A sample of the first second is slightly later than its tick.
    let start = if first >= 1.0 { first.floor() } else { first };
    let x = Axis::log_between("time (logarithmic)", Unit::Time, start, last.max(start * 2.0));
    let total = layers.total();
    // Most of it stays below the line of all connections.
    let cpu = Axis::linear("CPU", Unit::Cores, total.iter().copied().fold(0.0, f64::max) * ABOVE);
    let bytes = |sample: &&Sample| float(sample.private_bytes);
    let memory = Axis::linear("memory", Unit::Bytes, samples.iter().map(bytes).fold(1.0, f64::max));
    let frame = Frame::draw(sheet, 240.0, &x, &cpu, Some((&memory, "s1")));
    let edges = stack(sheet, &frame, (&x, &cpu), layers);
    names(sheet, layers, &edges);
    let all = f64::from(plan.connections) * ABOVE;
    let planned = (0..=60_u32).map(|step| {
        let seconds = first * (last / first).powf(f64::from(step) / 60.0);
        frame.at(x.share(seconds), plan.planned(seconds) / all)
    });
    sheet.path("line thin dash", &planned.collect::<Vec<_>>());
    let line = |of: &dyn Fn(&&Sample) -> f64| -> Vec<(f64, f64)> {
        samples.iter().map(|sample| frame.at(x.share(sample.t_s), of(sample).min(1.0))).collect()
    };
    sheet.path("line thin", &line(&|sample| float(sample.connections) / all));
    sheet.path(MEMORY, &line(&|sample| memory.share(bytes(sample))));
    let number = format!("{} connections", digits(f64::from(plan.connections)));
    let (line, end) =
        (frame.y(1.0 / ABOVE), samples.last().map_or(0.0, |last| frame.y(memory.share(bytes(last)))));
    let below = if (end - (line - 10.0)).abs() < 14.0 { 16.0 } else { -6.0 };
    sheet.text((frame.right - 6.0, line + below), Anchor::End, "halo", &number);
    tips(sheet, &frame, &x, layers, samples);
}

/// Writes the name of each layer into it, if it fits.
fn names(sheet: &mut Sheet, layers: &Layers, edges: &[Vec<(f64, f64)>]) {
    for (index, layer) in layers.threads.iter().enumerate() {
        let wide = width(&layer.name) + 8.0;
        let (bottom, top) = (&edges[index], &edges[index + 1]);
        let place = (0..top.len()).rev().find_map(|start| {
            let end = (start..top.len()).find(|end| top[*end].0 - top[start].0 >= wide)?;
            // A line of text fits between the highest point below and the lowest above.
            let floor = bottom[start..=end].iter().map(|(_, y)| *y).fold(f64::INFINITY, f64::min);
            let ceiling = top[start..=end].iter().map(|(_, y)| *y).fold(0.0, f64::max);
            (floor - ceiling > 14.0).then(|| (top[start].0 + 4.0, f64::midpoint(floor, ceiling) + 4.0))
        });
        if let Some(place) = place {
            sheet.text(place, Anchor::Start, ink(colour(layer, index)), &layer.name);
        }
    }
}

/// Tips for each second, over the whole height.
fn tips(sheet: &mut Sheet, frame: &Frame, x: &Axis, layers: &Layers, samples: &[&Sample]) {
    let total = layers.total();
    let mut left = frame.left;
    for (second, sample) in samples.iter().enumerate() {
        let right = frame.x(x.share(sample.t_s));
        // Seconds at the same position cannot have separate tips.
        if right - left < 1.0 && second > 0 {
            continue;
        }
        let tip = format!(
            "{}: {} connections, {}, {}",
            Unit::Time.text(sample.t_s.round()),
            sample.connections,
            words(layers, second, total[second]),
            Unit::Bytes.text(float(sample.private_bytes))
        );
        let size = ((right - left).max(2.0), frame.bottom - frame.top);
        sheet.rectangle("class=\"hit\"", (left, frame.top), size, &tip);
        left = right;
    }
}

fn csv(plan: &Plan, layers: &Layers, samples: &[&Sample]) -> String {
    let names = layers.threads.iter().map(|layer| format!("{} (cores)", layer.name));
    let mut columns: Vec<String> =
        ["t_s", "connections_planned", "connections", "private_bytes"].map(str::to_owned).to_vec();
    columns.extend(names);
    let mut table = Table::new(&columns.iter().map(String::as_str).collect::<Vec<_>>());
    for (second, sample) in samples.iter().enumerate() {
        let cells = [sample.t_s.to_string(), plan.planned(sample.t_s).round().to_string()];
        let counts = [sample.connections.to_string(), sample.private_bytes.to_string()];
        let cores = layers.threads.iter().map(|layer| layer.cores[second].to_string());
        table.row(cells.into_iter().chain(counts).chain(cores));
    }
    table.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::chart::threads::made::sample;
    use crate::report::fixtures;

    #[test]
    fn the_ramp_is_planned_by_its_clock() {
        let plan = Plan::new(1000, Duration::from_secs(10), Duration::from_secs(5));
        for (seconds, planned) in [(0.0, 0.0), (5.0, 500.0), (10.0, 1000.0), (99.0, 1000.0)] {
            assert!((plan.planned(seconds) - planned).abs() < 1e-9, "{seconds}");
        }
        assert!((Plan::new(7, Duration::ZERO, Duration::ZERO).planned(0.0) - 7.0).abs() < 1e-9);
    }

    #[test]
    fn the_picture_has_ramp_connections_threads_and_memory() {
        let plan =
            "[[variant]]\nname = \"a\"\ncommand = [\"a\"]\n[[workload]]\nname = \"l\"\nkind = \"flood\"\n";
        let mut run = fixtures::experiment(plan, |_| Some(Vec::new())).runs.remove(0);
        run.round = 1;
        let cpu = |second: u32| [("core-0", 0.5 * f64::from(second)), ("core-1", 0.1 * f64::from(second))];
        run.samples = (0..=20).map(|second| sample(f64::from(second), &cpu(second))).collect();
        let plan = Plan::new(100, Duration::from_secs(5), Duration::from_secs(10));
        let chart = chart(&plan, "l", "a", &run).unwrap();
        let svg = &chart.svg;
        assert!(chart.caption.starts_with("Round 2 of a."), "{}", chart.caption);
        assert_eq!(svg.matches("<polygon").count(), 2, "a layer for each thread");
        assert!(svg.contains("<polyline class=\"line thin dash\"") && svg.contains(MEMORY));
        assert!(svg.contains(">100 connections</text>") && svg.contains(">core-0</text>"));
        assert!(
            svg.contains(
                "data-tip=\"3 s: 100 connections, CPU 60 % of a core (core-0 50 %, core-1 10 %), 4 MiB\""
            ),
            "{svg}"
        );
        assert_eq!(
            chart.csv.lines().next(),
            Some("t_s,connections_planned,connections,private_bytes,core-0 (cores),core-1 (cores)")
        );
        assert!(
            chart.csv.contains("\r\n15,") && !chart.csv.contains("\r\n16,"),
            "the flood has ended by then"
        );
        run.samples.truncate(1);
        assert!(super::chart(&plan, "l", "a", &run).is_none());
    }
}
