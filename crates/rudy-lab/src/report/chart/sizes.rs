//! Time over how much was to be done: a line for each subject, and the heat map of how far each is from the best.

use super::Chart;
use super::data::{drawable, float, slug};
use super::frame::{Axis, Frame};
use super::legend;
use super::lines::{self, Line, Point};
use super::mark::look;
use super::sheet::{Anchor, EDGE, Sheet, WIDTH, fitted, width};
use super::table::{Table, cell};
use super::unit::{Figure, Unit, digits};
use crate::experiment::Experiment;
use crate::plan::{Kind, Load};

/// What is measured.
const FIGURE: &str = "time_s";

/// A heat map of fewer columns says less than the lines.
const COLUMNS_MIN: usize = 3;

const ROW: f64 = 26.0;

/// Names have no more room than this.
const NAME_MAX: f64 = 120.0;

/// Loads that differ in their size alone.
struct Family<'a> {
    /// What the size is of, as the title of an axis.
    of: &'static str,
    slug: String,
    /// In ascending order of their size.
    loads: Vec<(u32, &'a Load)>,
}

/// Of several loads, where this one is the first of them in the plan.
pub(super) fn charts(experiment: &Experiment, load: &Load) -> Vec<Chart> {
    let Some(family) = family(experiment, load) else { return Vec::new() };
    let lines = lines_of(experiment, &family);
    [curves(&family, &lines), heat(&family, &lines)].into_iter().flatten().collect()
}

fn family<'a>(experiment: &'a Experiment, load: &Load) -> Option<Family<'a>> {
    let (of, _) = size(load)?;
    let is_alike = |other: &Load| (&other.path, &other.headers) == (&load.path, &load.headers);
    let alike = experiment.plan().loads.iter().filter(|other| is_alike(other));
    let mut loads: Vec<(u32, &Load)> =
        alike.filter_map(|other| Some((size(other).filter(|(what, _)| *what == of)?.1, other))).collect();
    let is_first = loads.first().is_some_and(|(_, first)| first.name == load.name);
    loads.sort_by_key(|(size, _)| *size);
    loads.dedup_by_key(|(size, _)| *size);
    (is_first && loads.len() > 1).then(|| Family { of, slug: slug(of), loads })
}

/// How much a load is, and of what.
fn size(load: &Load) -> Option<(&'static str, u32)> {
    match load.kind {
        Kind::Run { n: Some(n), .. } => Some(("n", n)),
        Kind::Burst { requests, .. } => Some(("requests at once", requests)),
        Kind::Sequence { requests, .. } => Some(("requests in sequence", requests)),
        _ => None,
    }
}

fn lines_of(experiment: &Experiment, family: &Family) -> Vec<Line> {
    let figure = Figure::named(FIGURE);
    let line = |(index, subject): (usize, &crate::plan::Subject)| {
        let point = |(size, load): &(u32, &Load)| {
            Point::of(experiment, &subject.name, &load.name, &figure, f64::from(*size))
        };
        let points: Vec<Point> = family.loads.iter().filter_map(point).collect();
        Some(Line { subject: subject.name.clone(), look: look(index), points })
            .filter(|line| !line.points.is_empty())
    };
    experiment.plan().subjects.iter().enumerate().filter_map(line).collect()
}

fn curves(family: &Family, lines: &[Line]) -> Option<Chart> {
    if lines.is_empty() {
        return None;
    }
    let title = format!("Time over {}", family.of);
    let mut sheet = Sheet::new(&title);
    legend::draw(&mut sheet, &lines::keys(lines));
    let points = || lines.iter().flat_map(|line| &line.points);
    let x = Axis::fitting(family.of, Unit::Count, points().map(|point| point.x));
    let y = Axis::fitting("time", Unit::Time, points().flat_map(|point| &point.values).copied());
    let frame = Frame::draw(&mut sheet, 260.0, &x, &y, None);
    lines::draw(&mut sheet, &frame, (&x, &y), lines, |line, point| {
        let said = if point.said.is_empty() { String::new() } else { format!(", {}", point.said) };
        let time = point.median().map(|median| Unit::Time.text(median)).unwrap_or_default();
        format!("{}, {} {}: {time}{said}", line.subject, digits(point.x), family.of)
    });
    Some(Chart {
        id: format!("time-over-{}", family.slug),
        title,
        caption: "The median of the rounds, and each round as a dot.".to_owned(),
        svg: sheet.finish(),
        csv: csv(family, lines),
    })
}

fn csv(family: &Family, lines: &[Line]) -> String {
    let mut table = Table::new(&["subject", family.of, "time_s", "time_median_s"]);
    for (line, point) in lines.iter().flat_map(|line| line.points.iter().map(move |point| (line, point))) {
        for value in &point.values {
            let cells = [Some(point.x), Some(*value), point.median()].map(cell);
            table.row([line.subject.clone()].into_iter().chain(cells));
        }
    }
    table.finish()
}

/// How many times as long as the best of each size.
fn heat(family: &Family, lines: &[Line]) -> Option<Chart> {
    if family.loads.len() < COLUMNS_MIN || lines.len() < 2 {
        return None;
    }
    let best = |size: u32| {
        let times = lines.iter().filter_map(|line| at(line, size));
        times.fold(f64::INFINITY, f64::min)
    };
    let columns: Vec<(u32, f64)> = family.loads.iter().map(|(size, _)| (*size, best(*size))).collect();
    let title = format!("Time as a multiple of the best, over {}", family.of);
    let mut sheet = Sheet::new(&title);
    draw_heat(&mut sheet, family, &columns, lines);
    let mut table = Table::new(&["subject", family.of, "time_median_s", "multiple_of_best"]);
    for line in lines {
        for (size, best) in &columns {
            let time = at(line, *size);
            let cells = [size.to_string(), cell(time), cell(time.and_then(|time| multiple(time, *best)))];
            table.row([line.subject.clone()].into_iter().chain(cells));
        }
    }
    Some(Chart {
        id: format!("heat-over-{}", family.slug),
        title,
        caption: "In each column the best is 1, and a darker cell takes longer; where there is none, nothing was measured.".to_owned(),
        svg: sheet.finish(),
        csv: table.finish(),
    })
}

fn at(line: &Line, size: u32) -> Option<f64> {
    line.points.iter().find(|point| point.x.total_cmp(&f64::from(size)).is_eq())?.median()
}

/// Nothing where the best took no time to speak of.
fn multiple(time: f64, best: f64) -> Option<f64> {
    drawable(time / best)
}

fn draw_heat(sheet: &mut Sheet, family: &Family, columns: &[(u32, f64)], lines: &[Line]) {
    let names = lines.iter().map(|line| width(&fitted(&line.subject, NAME_MAX))).fold(0.0, f64::max);
    let left = EDGE + names + 8.0;
    let wide = (WIDTH - EDGE - left) / float(columns.len() as u64);
    let multiples = lines
        .iter()
        .flat_map(|line| columns.iter().filter_map(|(size, best)| multiple(at(line, *size)?, *best)));
    let worst = multiples.fold(1.0, f64::max);
    let mut top = sheet.bottom + 4.0;
    for line in lines {
        sheet.text_in(NAME_MAX, (left - 8.0, top + ROW / 2.0 + 4.0), Anchor::End, "", &line.subject);
        let mut x = left;
        for (size, best) in columns {
            let found = at(line, *size).and_then(|time| Some((time, multiple(time, *best)?)));
            let place = Cell { x, top, wide };
            place.draw(sheet, found, worst, &format!("{}, {size} {}", line.subject, family.of));
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
    fn draw(&self, sheet: &mut Sheet, found: Option<(f64, f64)>, worst: f64, of: &str) {
        // Equal factors are equal steps of shade.
        let shade =
            found.map_or(0.0, |(_, multiple)| if worst > 1.0 { multiple.ln() / worst.ln() } else { 0.0 });
        let shade = if shade.is_finite() { shade.clamp(0.0, 1.0) } else { 0.0 };
        let opacity = if found.is_some() { 0.08 + 0.87 * shade } else { 0.0 };
        let (tip, text) = match found {
            Some((time, multiple)) => {
                let tip = format!("{of}: {}, {} times the best", Unit::Time.text(time), digits(multiple));
                (tip, digits(multiple))
            }
            None => (format!("{of}: nothing measured"), "–".to_owned()),
        };
        let attributes = format!("class=\"s0 cell\" fill-opacity=\"{opacity:.2}\"");
        sheet.rectangle(&attributes, (self.x, self.top), (self.wide, ROW), &tip);
        if width(&text) < self.wide {
            let ink = if opacity > 0.6 { "on-shade" } else { "" };
            let place = (self.x + self.wide / 2.0, self.top + ROW / 2.0 + 4.0);
            sheet.text(place, Anchor::Middle, ink, &text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::made;

    fn experiment(loads: usize) -> Experiment {
        let mut plan = "rounds = 2\n[[subject]]\nname = \"a\"\ncommand = [\"a\", \"{n}\"]\n[[subject]]\nname = \"b\"\ncommand = [\"b\", \"{n}\"]\n".to_owned();
        for n in (1..=loads).rev() {
            let load = format!("[[load]]\nname = \"{n}\"\nkind = \"run\"\nn = {}\n", n * 100);
            plan.push_str(&load);
        }
        made::experiment(&plan, |turn| {
            let time: f64 = turn.load.parse().ok()?;
            if turn.subject == "b" && time > 2.0 {
                return None;
            }
            Some(vec![("time_s", if turn.subject == "b" { time * 2.0 } else { time })])
        })
    }

    fn of(experiment: &Experiment) -> Vec<Chart> {
        experiment.plan().loads.iter().flat_map(|load| charts(experiment, load)).collect()
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
            "subject,n,time_median_s,multiple_of_best\r\na,100,1,1\r\na,200,2,1\r\na,300,3,1\r\nb,100,2,2\r\nb,200,4,2\r\nb,300,,\r\n"
        );
        assert!(charts[1].svg.contains("data-tip=\"b, 200 n: 4 s, 2 times the best\""), "{}", charts[1].svg);
        assert!(charts[1].svg.contains("data-tip=\"b, 300 n: nothing measured\""));
    }
}
