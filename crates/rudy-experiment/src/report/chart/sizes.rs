//! Time by size: a line for each variant, and a heat map of the distance from the best.

use rudy_charts::{Axis, Cell, Heat, Panel, Plot, Point, Series, style};
use rudy_units::{Unit, digits};

use super::Chart;
use super::data::{Rounds, dagger, dagger_note, drawable, slug};
use super::lines::{point, tip_text};
use crate::experiment::Experiment;
use crate::metric::Metric;
use crate::plan::{Kind, Workload};

/// The metric.
const METRIC: &str = "time_s";

/// A heat map with fewer columns is less useful than the lines.
const COLUMNS_MIN: usize = 3;

/// Workloads that differ only in size.
struct Family<'a> {
    /// The title of the size axis.
    of: &'static str,
    /// In ascending order of size.
    workloads: Vec<(u32, &'a Workload)>,
}

/// A variant, and its rounds at each size.
struct Times<'a> {
    variant: &'a str,
    /// Its index in the plan.
    index: usize,
    rounds: Vec<Rounds>,
}

/// The charts of several workloads, if this one is the first of them.
pub(super) fn charts(experiment: &Experiment, workload: &Workload) -> Vec<Chart> {
    let Some(family) = family(experiment, workload) else { return Vec::new() };
    let metric = Metric::named(METRIC);
    let variants = experiment.plan().variants.iter().enumerate();
    let times = variants.map(|(index, variant)| {
        let at = |(_, workload): &(u32, &Workload)| {
            Rounds::of(experiment, &variant.name, &workload.name, &metric, false)
        };
        Times { variant: &variant.name, index, rounds: family.workloads.iter().map(at).collect() }
    });
    let times: Vec<Times> = times.filter(|times| times.rounds.iter().any(|rounds| rounds.run > 0)).collect();
    if times.iter().flat_map(|times| &times.rounds).all(|rounds| rounds.values.is_empty()) {
        return Vec::new();
    }
    [Some(curves(&family, &times)), heat(&family, &times)].into_iter().flatten().collect()
}

fn family<'a>(experiment: &'a Experiment, workload: &Workload) -> Option<Family<'a>> {
    let (of, _) = size(workload)?;
    let is_alike = |other: &Workload| {
        (&other.path, &other.headers, other.tls, other.round_trip)
            == (&workload.path, &workload.headers, workload.tls, workload.round_trip)
    };
    let alike = experiment.plan().workloads.iter().filter(|other| is_alike(other));
    let mut workloads: Vec<(u32, &Workload)> =
        alike.filter_map(|other| Some((size(other).filter(|(what, _)| *what == of)?.1, other))).collect();
    let is_first = workloads.first().is_some_and(|(_, first)| first.name == workload.name);
    workloads.sort_by_key(|(size, _)| *size);
    workloads.dedup_by_key(|(size, _)| *size);
    (is_first && workloads.len() > 1).then_some(Family { of, workloads })
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

impl Family<'_> {
    fn sizes(&self) -> impl Iterator<Item = f64> {
        self.workloads.iter().map(|(size, _)| f64::from(*size))
    }

    /// The start of the tip of a size.
    fn at(&self, variant: &str, size: f64) -> String {
        format!("{variant}, {} {}", digits(size), self.of)
    }
}

fn curves(family: &Family, times: &[Times]) -> Chart {
    let series = |times: &Times| {
        let at = |(size, rounds)| point(rounds, size, Unit::Time, &family.at(times.variant, size));
        let points: Vec<Point> = family.sizes().zip(&times.rounds).filter_map(at).collect();
        Series::new(times.variant, style(times.index), points)
    };
    let series: Vec<Series> = times.iter().map(series).collect();
    let x = Axis::fitting(family.of, Unit::Count, family.sizes());
    let y = Axis::fitting("time", Unit::Time, series.iter().flat_map(Series::values));
    let title = format!("Time over {}", family.of);
    Chart {
        id: format!("time-over-{}", slug(family.of)),
        caption: "The median of the rounds, and each round as a dot. A point is hollow where a round is suspect, and a \
                  cross at the top where all rounds failed."
            .to_owned(),
        svg: Plot::new(&title, vec![Panel::of_series(240.0, x, y, series)]).svg(),
        title,
    }
}

/// The ratio to the best of each size.
fn heat(family: &Family, times: &[Times]) -> Option<Chart> {
    if family.workloads.len() < COLUMNS_MIN || times.len() < 2 {
        return None;
    }
    let median = |times: &Times, column: usize| Some(times.rounds[column].median()?.value);
    let best =
        |column: usize| times.iter().filter_map(|times| median(times, column)).fold(f64::INFINITY, f64::min);
    let best: Vec<f64> = (0..family.workloads.len()).map(best).collect();
    let multiple = |times: &Times, column: usize| drawable(median(times, column)? / best[column]);
    let all = times.iter().flat_map(|times| (0..best.len()).filter_map(|column| multiple(times, column)));
    let worst = all.fold(1.0, f64::max);
    let row = |times: &Times| {
        let cell = |(column, size)| {
            let at = family.at(times.variant, size);
            cell(&times.rounds[column], multiple(times, column), worst, &at)
        };
        (times.variant.to_owned(), family.sizes().enumerate().map(cell).collect())
    };
    let title = format!("Time as a multiple of the best, over {}", family.of);
    let heat = Heat {
        title: title.clone(),
        of: family.of.to_owned(),
        columns: family.sizes().map(digits).collect(),
        rows: times.iter().map(row).collect(),
    };
    let is_suspect = times.iter().flat_map(|times| &times.rounds).any(|rounds| rounds.is_suspect);
    Some(Chart {
        id: format!("heat-over-{}", slug(family.of)),
        title,
        caption: format!(
            "The best of each column is 1. The more colour a cell has, the longer its variant took; a dash was not \
             measured.{}",
            dagger_note(is_suspect)
        ),
        svg: heat.svg(),
    })
}

/// A cell, shaded on a logarithmic scale.
fn cell(rounds: &Rounds, multiple: Option<f64>, worst: f64, at: &str) -> Cell {
    let (texts, more) = match multiple {
        Some(multiple) => {
            let text = digits(multiple);
            (vec![format!("{text}{}", dagger(rounds.is_suspect))], format!(", {text} times the best"))
        }
        None if rounds.failed > 0 => (["failed", "×"].map(str::to_owned).to_vec(), String::new()),
        None => (vec!["–".to_owned()], String::new()),
    };
    let shade = multiple.map(|multiple| if worst > 1.0 { multiple.ln() / worst.ln() } else { 0.0 });
    Cell { texts, shade, tip: format!("{at}: {}", tip_text(rounds, Unit::Time, &more)) }
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
        fixtures::experiment(&plan, |id| {
            let time: f64 = id.workload.parse().ok()?;
            if id.variant == "b" && time > 2.0 {
                return None;
            }
            Some(vec![("time_s", if id.variant == "b" { time * 2.0 } else { time })])
        })
    }

    fn of(experiment: &Experiment) -> Vec<Chart> {
        experiment.plan().workloads.iter().flat_map(|workload| charts(experiment, workload)).collect()
    }

    #[test]
    fn two_sizes_have_lines_and_three_a_heat_map() {
        for (sizes, ids) in [(1, vec![]), (2, vec!["time-over-n"]), (3, vec!["time-over-n", "heat-over-n"])] {
            assert_eq!(of(&experiment(sizes)).iter().map(|chart| chart.id.as_str()).collect::<Vec<_>>(), ids);
        }
    }

    #[test]
    fn a_cell_is_a_multiple_of_the_best_of_its_column() {
        let charts = of(&experiment(3));
        assert!(
            charts[1].svg.contains("data-tip=\"a, 300 n: 3.00 s, 1 times the best\""),
            "{}",
            charts[1].svg
        );
        assert!(
            charts[1].svg.contains("data-tip=\"b, 200 n: 4.00 s, 2 times the best\""),
            "{}",
            charts[1].svg
        );
        assert!(charts[1].svg.contains("data-tip=\"b, 300 n: failed\""), "{}", charts[1].svg);
    }

    #[test]
    fn a_failed_size_is_in_the_lines() {
        let chart = of(&experiment(3)).remove(0);
        assert!(chart.svg.contains("data-tip=\"b, 300 n: failed\""), "{}", chart.svg);
    }

    #[test]
    fn values_of_suspect_rounds_are_marked() {
        let mut experiment = experiment(3);
        let concerns = vec![METRIC.to_owned()];
        for run in experiment.runs.iter_mut().filter(|run| run.workload == "2" && run.variant == "b").take(1)
        {
            run.warnings = vec![Warning { sentence: "errors".to_owned(), concerns: concerns.clone() }];
        }
        let charts = of(&experiment);
        assert!(charts[0].svg.contains("data-tip=\"b, 200 n: 4.00 s, suspect\""), "{}", charts[0].svg);
        assert!(charts[1].svg.contains(">2†</text>"), "{}", charts[1].svg);
        assert!(charts[1].svg.contains("data-tip=\"b, 200 n: 4.00 s, 2 times the best, suspect\""));
        assert!(charts[1].caption.ends_with("† includes suspect rounds."));
    }
}
