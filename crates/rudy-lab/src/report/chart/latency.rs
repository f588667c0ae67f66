//! Latency by percentile: the distribution of each variant under a workload, as far as its requests reach.

use std::collections::BTreeMap;

use super::Chart;
use super::data::{drawable, failures, is_suspect, median, slug};
use super::frame::{Axis, Frame};
use super::legend::{self, Entry, Key};
use super::mark::{Fill, Look, look, mark};
use super::sheet::Sheet;
use super::table::{Table, cell};
use super::unit::{Unit, digits};
use crate::experiment::Experiment;
use crate::plan::Workload;

/// A quantile and its latency in seconds.
type Place = (f64, f64);

/// A distribution.
#[derive(Debug, PartialEq)]
struct Round {
    /// From 1.
    number: usize,
    places: Vec<Place>,
    /// Whether its p99 is suspect.
    is_suspect: bool,
}

/// The rounds of a variant.
#[derive(Debug, PartialEq)]
struct Curve {
    variant: String,
    look: Look,
    rounds: Vec<Round>,
    /// The quantiles for which every round has enough requests.
    median: Vec<Place>,
    /// Whether one of the rounds is suspect.
    is_suspect: bool,
}

/// The chart of a workload with latencies.
pub(super) fn charts(experiment: &Experiment, workload: &Workload) -> Vec<Chart> {
    let curves = curves(experiment, &workload.name);
    chart(&workload.name, &curves, &failures(experiment, &workload.name)).into_iter().collect()
}

fn curves(experiment: &Experiment, workload: &str) -> Vec<Curve> {
    let variants = experiment.plan().variants.iter().enumerate();
    variants.filter_map(|(index, variant)| curve(experiment, index, &variant.name, workload)).collect()
}

fn curve(experiment: &Experiment, index: usize, variant: &str, workload: &str) -> Option<Curve> {
    let mut rounds = Vec::new();
    for run in experiment.measured(variant, workload) {
        let Some(latency) = &run.latency else { continue };
        let place = |[quantile, ns]: &[f64; 2]| {
            let is_quantile = (0.0..=1.0).contains(quantile);
            Some((*quantile, drawable(ns * 1e-9)?)).filter(|_| is_quantile)
        };
        let places: Vec<Place> = latency.iter().filter_map(place).collect();
        if !places.is_empty() {
            rounds.push(Round { number: run.round + 1, places, is_suspect: is_suspect(run, "p99_ns") });
        }
    }
    let is_suspect = rounds.iter().any(|round| round.is_suspect);
    let median = medians(&rounds);
    let variant = variant.to_owned();
    (!median.is_empty()).then_some(Curve { variant, look: look(index), rounds, median, is_suspect })
}

/// Takes medians by quantile. Omits a quantile that some rounds lack: its median would come from other rounds
/// than its neighbours', and the line could fall.
fn medians(rounds: &[Round]) -> Vec<Place> {
    let mut by_quantile: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (quantile, seconds) in rounds.iter().flat_map(|round| &round.places) {
        // The bits of numbers that are not negative are in the order of the numbers. Minus zero is among them.
        by_quantile.entry(quantile.abs().to_bits()).or_default().push(*seconds);
    }
    let common = by_quantile.into_iter().filter(|(_, values)| values.len() >= rounds.len());
    common.filter_map(|(bits, values)| Some((f64::from_bits(bits), median(&values)?))).collect()
}

fn chart(workload: &str, curves: &[Curve], failures: &str) -> Option<Chart> {
    if curves.is_empty() {
        return None;
    }
    let title = format!("{workload}: latency by percentile");
    let mut sheet = Sheet::new(&title);
    let entry = |curve: &Curve| {
        let warning = if curve.is_suspect { " (suspect)" } else { "" };
        Entry { key: Key::Curve(curve.look), name: format!("{}{warning}", curve.variant) }
    };
    legend::draw(&mut sheet, &curves.iter().map(entry).collect::<Vec<_>>());
    let rounds = || curves.iter().flat_map(|curve| &curve.rounds).map(|round| &round.places);
    let all = || rounds().chain(curves.iter().map(|curve| &curve.median)).flatten();
    let x =
        Axis::nines("share of requests that were not slower", nines(all().map(|(quantile, _)| *quantile)));
    let y = Axis::log("latency", Unit::Time, all().map(|(_, seconds)| *seconds));
    let frame = Frame::draw(&mut sheet, 230.0, &x, &y, None);
    for curve in curves {
        draw(&mut sheet, &frame, (&x, &y), curve);
    }
    // Above all lines, so that none of them covers the points with tips.
    for curve in curves {
        for (quantile, seconds) in curve.median.iter().filter(|(quantile, _)| is_marked(*quantile)) {
            let name =
                if *quantile < 1.0 { format!("p{}", digits(quantile * 100.0)) } else { "max".to_owned() };
            let warning = if curve.is_suspect { ", suspect" } else { "" };
            let tip = format!("{}, {name}: {}{warning}", curve.variant, Unit::Time.text(*seconds));
            sheet.hit(frame.at(x.share(*quantile), y.share(*seconds)), &tip);
        }
    }
    let rounds = curves.iter().map(|curve| curve.rounds.len()).max().unwrap_or(1);
    let behind = if rounds > 1 { ", the median of its rounds; each of them is faint behind it" } else { "" };
    Some(Chart {
        id: format!("latency-{}", slug(workload)),
        title,
        caption: format!(
            "A line for each variant{behind}. Each nine to the right is a tenth of the requests before.{failures}"
        ),
        svg: sheet.finish(),
        csv: csv(curves),
    })
}

/// The number of nines of the quantiles below 1, at least one.
fn nines(quantiles: impl Iterator<Item = f64>) -> f64 {
    let highest = quantiles.filter(|quantile| *quantile < 1.0).fold(0.0, f64::max);
    (-(1.0 - highest).log10()).clamp(1.0, 9.0)
}

/// Whether a quantile has a mark: the median, the nines and the maximum.
fn is_marked(quantile: f64) -> bool {
    let nines = -(1.0 - quantile).log10();
    quantile >= 1.0 || (quantile - 0.5).abs() < 2e-3 || (nines > 0.5 && (nines - nines.round()).abs() < 1e-6)
}

fn draw(sheet: &mut Sheet, frame: &Frame, (x, y): (&Axis, &Axis), curve: &Curve) {
    let at = |(quantile, seconds): &Place| frame.at(x.share(*quantile), y.share(*seconds));
    if curve.rounds.len() > 1 {
        for round in &curve.rounds {
            let places: Vec<_> =
                round.places.iter().filter(|(quantile, _)| *quantile < 1.0).map(at).collect();
            sheet.path(&format!("{} faint", curve.look.line()), &places);
        }
    }
    let (line, end): (Vec<Place>, Vec<Place>) =
        curve.median.iter().partition(|(quantile, _)| *quantile < 1.0);
    sheet.path(&curve.look.line(), &line.iter().map(at).collect::<Vec<_>>());
    // To the maximum there is nothing in between.
    let gap: Vec<_> = line.last().into_iter().chain(&end).map(at).collect();
    sheet.path(&format!("line thin dots {}", curve.look.class), &gap);
    let fill = if curve.is_suspect { Fill::Hollow } else { Fill::Full };
    for place in curve.median.iter().filter(|(quantile, _)| is_marked(*quantile)) {
        mark(sheet, curve.look, at(place), 3.5, fill, "");
    }
}

fn csv(curves: &[Curve]) -> String {
    let mut table = Table::new(&["variant", "round", "quantile", "latency_s", "suspect"]);
    for curve in curves {
        let rounds = curve.rounds.iter();
        let rounds = rounds.map(|round| (round.number.to_string(), &round.places, round.is_suspect));
        let median = ("median".to_owned(), &curve.median, curve.is_suspect);
        for (name, places, is_suspect) in [median].into_iter().chain(rounds) {
            for (quantile, seconds) in places {
                let cells =
                    [name.clone(), quantile.to_string(), cell(Some(*seconds)), is_suspect.to_string()];
                table.row([curve.variant.clone()].into_iter().chain(cells));
            }
        }
    }
    table.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Warning;
    use crate::report::fixtures;

    const PLAN: &str = "rounds = 3\n\
        [[variant]]\nname = \"a\"\ncommand = [\"a\"]\n[[variant]]\nname = \"b\"\ncommand = [\"b\"]\n\
        [[workload]]\nname = \"l\"\nkind = \"bench\"\n";

    #[test]
    fn the_median_is_taken_where_every_round_reaches() {
        let rounds = [
            vec![(0.5, 1.0), (0.9, 2.0), (1.0, 9.0)],
            vec![(0.5, 3.0), (0.9, 4.0), (0.99, 5.0), (1.0, 6.0)],
            vec![(0.5, 2.0), (0.9, 8.0), (1.0, 8.0)],
        ];
        let rounds: Vec<_> =
            (1..).zip(rounds).map(|(number, places)| Round { number, places, is_suspect: false }).collect();
        assert_eq!(medians(&rounds), [(0.5, 2.0), (0.9, 4.0), (1.0, 8.0)]);
        assert_eq!(medians(&[]), []);
    }

    #[test]
    fn a_workload_has_a_line_for_each_variant_with_latencies() {
        let mut experiment = fixtures::experiment(PLAN, |_| Some(Vec::new()));
        assert!(charts(&experiment, &experiment.plan().workloads[0]).is_empty());
        for run in experiment.runs.iter_mut().filter(|run| run.variant == "b") {
            run.latency = Some(vec![[0.0, 1e6], [0.5, 2e6], [0.9, 3e6], [0.99, f64::NAN], [1.0, 7e6]]);
        }
        let charts = charts(&experiment, &experiment.plan().workloads[0]);
        assert_eq!(charts.len(), 1);
        assert_eq!(charts[0].id, "latency-l");
        assert_eq!(charts[0].csv.lines().count(), 1 + 4 + 3 * 4);
        assert!(charts[0].svg.contains("data-tip=\"b, p90: 3 ms\"") && !charts[0].svg.contains(">a</text>"));
        assert!(
            charts[0].svg.contains("class=\"line s1\""),
            "the second variant of the plan has the second colour"
        );
    }

    #[test]
    fn a_curve_that_rests_on_a_doubted_round_says_so() {
        let mut experiment = fixtures::experiment(PLAN, |turn| (turn.variant == "a").then(Vec::new));
        for run in experiment.runs.iter_mut().filter(|run| run.variant == "a") {
            run.latency = Some(vec![[0.5, 2e6], [0.9, 3e6]]);
        }
        let concerns = vec!["p99_ns".to_owned()];
        experiment.runs[0].warnings = vec![Warning { sentence: "errors".to_owned(), concerns }];
        let chart = charts(&experiment, &experiment.plan().workloads[0]).remove(0);
        assert!(chart.svg.contains(">a (suspect)</text>"), "{}", chart.svg);
        assert!(chart.svg.contains("data-tip=\"a, p90: 3 ms, suspect\""), "{}", chart.svg);
        assert!(
            chart.csv.contains("a,1,0.9,0.003,true\r\n") && chart.csv.contains("a,2,0.9,0.003,false\r\n")
        );
        assert!(chart.caption.ends_with(" Failed: b in 3 of 3 rounds."), "{}", chart.caption);
    }
}
