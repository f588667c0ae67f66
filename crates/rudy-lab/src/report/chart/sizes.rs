//! Time by size: a line for each variant, and a heat map of the distance from the best.

use super::Chart;
use super::data::{dagger, drawable, float, legend_of_dagger, slug};
use super::frame::{Axis, Frame};
use super::legend;
use super::lines::{self, Line, Point};
use super::mark::look;
use super::sheet::{Anchor, EDGE, Sheet, WIDTH, fitted, width};
use super::table::{Table, cell};
use super::unit::{Metric, Unit, digits};
use crate::experiment::Experiment;
use crate::plan::{Kind, Workload};

/// The metric.
const METRIC: &str = "time_s";

/// A heat map with fewer columns is less useful than the lines.
const COLUMNS_MIN: usize = 3;

const ROW: f64 = 26.0;

/// The maximum width of names.
const NAME_MAX: f64 = 90.0;

/// Workloads that differ only in size.
struct Family<'a> {
    /// The title of the size axis.
    of: &'static str,
    slug: String,
    /// In ascending order of size.
    workloads: Vec<(u32, &'a Workload)>,
}

/// The chart of several workloads, if this one is the first of them.
pub(super) fn charts(experiment: &Experiment, workload: &Workload) -> Vec<Chart> {
    let Some(family) = family(experiment, workload) else { return Vec::new() };
    let lines = lines_of(experiment, &family);
    if lines.iter().flat_map(|line| &line.points).all(|point| point.values.is_empty()) {
        return Vec::new();
    }
    [Some(curves(&family, &lines)), heat(&family, &lines)].into_iter().flatten().collect()
}

fn family<'a>(experiment: &'a Experiment, workload: &Workload) -> Option<Family<'a>> {
    let (of, _) = size(workload)?;
    let is_alike = |other: &Workload| (&other.path, &other.headers) == (&workload.path, &workload.headers);
    let alike = experiment.plan().workloads.iter().filter(|other| is_alike(other));
    let mut workloads: Vec<(u32, &Workload)> =
        alike.filter_map(|other| Some((size(other).filter(|(what, _)| *what == of)?.1, other))).collect();
    let is_first = workloads.first().is_some_and(|(_, first)| first.name == workload.name);
    workloads.sort_by_key(|(size, _)| *size);
    workloads.dedup_by_key(|(size, _)| *size);
    (is_first && workloads.len() > 1).then(|| Family { of, slug: slug(of), workloads })
}

/// The size of a workload, and its unit.
fn size(workload: &Workload) -> Option<(&'static str, u32)> {
    match workload.kind {
        Kind::Run { n: Some(n), .. } => Some(("n", n)),
        Kind::Burst { requests, .. } => Some(("requests at once", requests)),
        Kind::Sequence { requests, .. } => Some(("requests in sequence", requests)),
        _ => None,
    }
}

fn lines_of(experiment: &Experiment, family: &Family) -> Vec<Line> {
    let metric = Metric::named(METRIC);
    let line = |(index, variant): (usize, &crate::plan::Variant)| {
        let point = |(size, workload): &(u32, &Workload)| {
            Point::of(experiment, &variant.name, &workload.name, &metric, f64::from(*size))
        };
        let points: Vec<Point> = family.workloads.iter().filter_map(point).collect();
        Some(Line { variant: variant.name.clone(), look: look(index), points })
            .filter(|line| !line.points.is_empty())
    };
    experiment.plan().variants.iter().enumerate().filter_map(line).collect()
}

fn curves(family: &Family, lines: &[Line]) -> Chart {
    let title = format!("Time over {}", family.of);
    let mut sheet = Sheet::new(&title);
    legend::draw(&mut sheet, &lines::keys(lines));
    let points = || lines.iter().flat_map(|line| &line.points);
    let x = Axis::fitting(family.of, Unit::Count, points().map(|point| point.x));
    let y = Axis::fitting("time", Unit::Time, points().flat_map(|point| &point.values).copied());
    let frame = Frame::draw(&mut sheet, 260.0, &x, &y, None);
    lines::draw(&mut sheet, &frame, (&x, &y), lines, |line, point| {
        format!("{}, {} {}: {}", line.variant, digits(point.x), family.of, said(point, ""))
    });
    Chart {
        id: format!("time-over-{}", family.slug),
        title,
        caption: "The median of the rounds, and each round as a dot; hollow where one of them is suspect, and a cross on top where \
                  all of them failed."
            .to_owned(),
        svg: sheet.finish(),
        csv: csv(family, lines),
    }
}

/// The tip of a point; `more` follows the time.
fn said(point: &Point, more: &str) -> String {
    let also = if point.said.is_empty() { String::new() } else { format!(", {}", point.said) };
    format!("{}{more}{also}", point.text(Unit::Time))
}

fn csv(family: &Family, lines: &[Line]) -> String {
    let columns = ["variant", family.of, "time_s", "time_median_s", "median_suspect", "failed_rounds"];
    let mut table = Table::new(&columns);
    for (line, point) in lines.iter().flat_map(|line| line.points.iter().map(move |point| (line, point))) {
        let row = |value: Option<f64>| {
            let numbers = [Some(point.x), value, point.median()].map(cell);
            let rest = [point.is_suspect.to_string(), point.failed.to_string()];
            [line.variant.clone()].into_iter().chain(numbers).chain(rest)
        };
        if point.values.is_empty() {
            table.row(row(None));
        }
        for value in &point.values {
            table.row(row(Some(*value)));
        }
    }
    table.finish()
}

/// The ratio to the best of each size.
fn heat(family: &Family, lines: &[Line]) -> Option<Chart> {
    if family.workloads.len() < COLUMNS_MIN || lines.len() < 2 {
        return None;
    }
    let best = |size: u32| {
        let times = lines.iter().filter_map(|line| at(line, size)?.median());
        times.fold(f64::INFINITY, f64::min)
    };
    let columns: Vec<(u32, f64)> = family.workloads.iter().map(|(size, _)| (*size, best(*size))).collect();
    let title = format!("Time as a multiple of the best, over {}", family.of);
    let mut sheet = Sheet::new(&title);
    draw_heat(&mut sheet, family, &columns, lines);
    let is_marked = lines.iter().flat_map(|line| &line.points).any(|point| point.is_suspect);
    Some(Chart {
        id: format!("heat-over-{}", family.slug),
        title,
        caption: format!(
            "In each column the best is 1, and the more colour a cell has, the longer it took; a dash is what was not measured.{}",
            legend_of_dagger(is_marked)
        ),
        svg: sheet.finish(),
        csv: csv_of_heat(family, &columns, lines),
    })
}

fn csv_of_heat(family: &Family, columns: &[(u32, f64)], lines: &[Line]) -> String {
    let names =
        ["variant", family.of, "time_median_s", "multiple_of_best", "median_suspect", "failed_rounds"];
    let mut table = Table::new(&names);
    for line in lines {
        for (size, best) in columns {
            let point = at(line, *size);
            let time = point.and_then(Point::median);
            table.row([
                line.variant.clone(),
                size.to_string(),
                cell(time),
                cell(time.and_then(|time| multiple(time, *best))),
                point.is_some_and(|point| point.is_suspect).to_string(),
                point.map_or(0, |point| point.failed).to_string(),
            ]);
        }
    }
    table.finish()
}

fn at(line: &Line, size: u32) -> Option<&Point> {
    line.points.iter().find(|point| point.x.total_cmp(&f64::from(size)).is_eq())
}

/// `None` if the best time is close to zero.
fn multiple(time: f64, best: f64) -> Option<f64> {
    drawable(time / best)
}

fn draw_heat(sheet: &mut Sheet, family: &Family, columns: &[(u32, f64)], lines: &[Line]) {
    let names = lines.iter().map(|line| width(&fitted(&line.variant, NAME_MAX))).fold(0.0, f64::max);
    let left = EDGE + names + 8.0;
    let wide = (WIDTH - EDGE - left) / float(columns.len() as u64);
    let multiples = lines.iter().flat_map(|line| {
        columns.iter().filter_map(|(size, best)| multiple(at(line, *size)?.median()?, *best))
    });
    let worst = multiples.fold(1.0, f64::max);
    let mut top = sheet.bottom + 4.0;
    for line in lines {
        sheet.text_in(NAME_MAX, (left - 8.0, top + ROW / 2.0 + 4.0), Anchor::End, "", &line.variant);
        let mut x = left;
        for (size, best) in columns {
            let place = Cell { x, top, wide };
            place.draw(
                sheet,
                at(line, *size),
                (*best, worst),
                &format!("{}, {size} {}", line.variant, family.of),
            );
            x += wide;
        }
        top += ROW;
    }
    for (index, (size, _)) in columns.iter().enumerate() {
        let middle = left + (float(index as u64) + 0.5) * wide;
        let label = digits(f64::from(*size));
        if width(&label) < wide {
            sheet.text((middle, top + 16.0), Anchor::Middle, "soft", &label);
        }
    }
    sheet.text((WIDTH - EDGE, top + 34.0), Anchor::End, "soft", family.of);
    sheet.bottom = top + 36.0;
}

struct Cell {
    x: f64,
    top: f64,
    wide: f64,
}

impl Cell {
    fn draw(&self, sheet: &mut Sheet, point: Option<&Point>, (best, worst): (f64, f64), of: &str) {
        let multiple = point.and_then(|point| multiple(point.median()?, best));
        let (tip, texts) = match (point, multiple) {
            (Some(point), Some(multiple)) => {
                let text = digits(multiple);
                let tip = said(point, &format!(", {text} times the best"));
                (tip, vec![text + dagger(point.is_suspect)])
            }
            (Some(point), None) if point.failed > 0 => {
                (said(point, ""), ["failed", "×"].map(str::to_owned).to_vec())
            }
            (point, _) => {
                (point.map_or("nothing measured".to_owned(), |point| said(point, "")), vec!["–".to_owned()])
            }
        };
        let opacity = multiple.map_or(0.0, |multiple| opacity(multiple, worst));
        let attributes = format!("class=\"s0 cell\" fill-opacity=\"{opacity:.2}\"");
        sheet.rectangle(&attributes, (self.x, self.top), (self.wide, ROW), &format!("{of}: {tip}"));
        if let Some(text) = texts.iter().find(|text| width(text) < self.wide) {
            let place = (self.x + self.wide / 2.0, self.top + ROW / 2.0 + 4.0);
            sheet.text(place, Anchor::Middle, "", text);
        }
    }
}

/// The colour intensity of a ratio, on a logarithmic scale. Above two thirds, text on it would be unreadable.
pub(super) fn opacity(multiple: f64, worst: f64) -> f64 {
    let shade = if worst > 1.0 { multiple.ln() / worst.ln() } else { 0.0 };
    let shade = if shade.is_finite() { shade.clamp(0.0, 1.0) } else { 0.0 };
    0.06 + 0.6 * shade
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Warning;
    use crate::report::fixtures;

    fn experiment(workloads: usize) -> Experiment {
        let mut plan = "rounds = 2\n[[variant]]\nname = \"a\"\ncommand = [\"a\", \"{n}\"]\n[[variant]]\nname = \"b\"\ncommand = [\"b\", \"{n}\"]\n".to_owned();
        for n in (1..=workloads).rev() {
            let workload = format!("[[workload]]\nname = \"{n}\"\nkind = \"run\"\nn = {}\n", n * 100);
            plan.push_str(&workload);
        }
        fixtures::experiment(&plan, |turn| {
            let time: f64 = turn.workload.parse().ok()?;
            if turn.variant == "b" && time > 2.0 {
                return None;
            }
            Some(vec![("time_s", if turn.variant == "b" { time * 2.0 } else { time })])
        })
    }

    fn of(experiment: &Experiment) -> Vec<Chart> {
        experiment.plan().workloads.iter().flat_map(|workload| charts(experiment, workload)).collect()
    }

    #[test]
    fn one_size_has_no_chart_two_have_lines_and_three_a_heat_map() {
        for (sizes, ids) in [(1, vec![]), (2, vec!["time-over-n"]), (3, vec!["time-over-n", "heat-over-n"])] {
            assert_eq!(of(&experiment(sizes)).iter().map(|chart| chart.id.as_str()).collect::<Vec<_>>(), ids);
        }
    }

    #[test]
    fn a_cell_is_a_multiple_of_the_best_of_its_column() {
        let charts = of(&experiment(3));
        assert_eq!(
            charts[1].csv,
            "variant,n,time_median_s,multiple_of_best,median_suspect,failed_rounds\r\n\
             a,100,1,1,false,0\r\na,200,2,1,false,0\r\na,300,3,1,false,0\r\n\
             b,100,2,2,false,0\r\nb,200,4,2,false,0\r\nb,300,,,false,2\r\n"
        );
        assert!(charts[1].svg.contains("data-tip=\"b, 200 n: 4 s, 2 times the best\""), "{}", charts[1].svg);
        assert!(charts[1].svg.contains("data-tip=\"b, 300 n: failed\""), "{}", charts[1].svg);
    }

    #[test]
    fn a_size_that_failed_is_in_the_lines_and_their_data() {
        let chart = of(&experiment(3)).remove(0);
        assert!(chart.svg.contains("data-tip=\"b, 300 n: failed\""), "{}", chart.svg);
        assert!(chart.csv.ends_with("b,300,,,false,2\r\n"), "{}", chart.csv);
    }

    #[test]
    fn what_rests_on_doubted_rounds_is_marked() {
        let mut experiment = experiment(3);
        let concerns = vec![METRIC.to_owned()];
        for run in experiment.runs.iter_mut().filter(|run| run.workload == "2" && run.variant == "b").take(1)
        {
            run.warnings = vec![Warning { sentence: "errors".to_owned(), concerns: concerns.clone() }];
        }
        let charts = of(&experiment);
        assert!(charts[0].svg.contains("data-tip=\"b, 200 n: 4 s, suspect\""), "{}", charts[0].svg);
        assert!(charts[1].svg.contains(">2†</text>"), "{}", charts[1].svg);
        assert!(charts[1].svg.contains("data-tip=\"b, 200 n: 4 s, 2 times the best, suspect\""));
        assert!(charts[1].csv.contains("b,200,4,2,true,0\r\n"), "{}", charts[1].csv);
        assert!(charts[1].caption.ends_with("† rests on rounds that are suspect."));
    }
}
