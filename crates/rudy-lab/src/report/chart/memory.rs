//! Memory by number of connections: how much each stream of a flood adds to a variant.

use super::Chart;
use super::data::{Median, Rounds, drawable, failures, float, is_suspect, legend_of_dagger, slug};
use super::frame::{Axis, Frame};
use super::legend::{self, Entry, Key};
use super::mark::{Fill, Look, look, mark};
use super::sheet::Sheet;
use super::table::Table;
use super::unit::{Metric, Unit};
use crate::experiment::Experiment;
use crate::plan::{Kind, Workload};
use crate::record::Run;

/// Connections and bytes.
type Place = (u64, u64);

/// A flood over time.
#[derive(Debug, PartialEq)]
struct Round {
    /// From 1.
    number: usize,
    places: Vec<Place>,
    /// Whether its memory is suspect.
    is_suspect: bool,
}

/// The rounds of a variant.
#[derive(Debug, PartialEq)]
struct Growth {
    variant: String,
    look: Look,
    rounds: Vec<Round>,
    /// Which of the rounds ended with the median of their memory.
    middle: usize,
    /// Over the rounds.
    bytes_per_connection: Option<Median>,
}

/// The data taken from each run.
const METRIC: &str = "private_bytes_per_connection";

/// The distance of marks on a line, as a fraction of the axis, so that lines are distinguishable without
/// colour.
const MARKS: u64 = 6;

/// The chart of a workload with long-lived connections.
pub(super) fn charts(experiment: &Experiment, workload: &Workload) -> Vec<Chart> {
    chart(workload, &growths(experiment, workload), &failures(experiment, &workload.name))
        .into_iter()
        .collect()
}

fn growths(experiment: &Experiment, workload: &Workload) -> Vec<Growth> {
    let (Kind::Flood { ramp, time, .. } | Kind::Idle { ramp, time, .. }) = &workload.kind else {
        return Vec::new();
    };
    let end = (ramp.0 + time.0).as_secs_f64();
    let variants = experiment.plan().variants.iter().enumerate();
    let growth = |(index, variant): (usize, &crate::plan::Variant)| {
        let measured = experiment.measured(&variant.name, &workload.name);
        let rounds = measured.map(|run| Round {
            number: run.round + 1,
            places: places(run, end),
            is_suspect: [METRIC, "private_bytes"].iter().any(|name| is_suspect(run, name)),
        });
        let rounds: Vec<_> = rounds.filter(|round| round.places.len() > 1).collect();
        let each = Rounds::of(experiment, &variant.name, &workload.name, &Metric::named(METRIC), false);
        Some(Growth {
            variant: variant.name.clone(),
            look: look(index),
            middle: middle(&rounds)?,
            rounds,
            bytes_per_connection: each.median(),
        })
    };
    variants.filter_map(growth).collect()
}

/// Until the end of the hold time: connections that close later still use memory.
fn places(run: &Run, end: f64) -> Vec<Place> {
    let samples = run.samples.iter().filter(|sample| sample.t_s <= end);
    samples
        .map(|sample| (sample.connections, sample.private_bytes))
        .filter(|(_, bytes)| fits(*bytes))
        .collect()
}

fn fits(bytes: u64) -> bool {
    drawable(float(bytes)).is_some()
}

fn middle(rounds: &[Round]) -> Option<usize> {
    let last = |round: &Round| round.places.last().map_or(0, |(_, bytes)| *bytes);
    let mut order: Vec<usize> = (0..rounds.len()).collect();
    order.sort_by_key(|index| last(&rounds[*index]));
    order.get(rounds.len().checked_sub(1)? / 2).copied()
}

fn chart(workload: &Workload, growths: &[Growth], failures: &str) -> Option<Chart> {
    let all = || growths.iter().flat_map(|growth| &growth.rounds).flat_map(|round| &round.places);
    let most = all().map(|(connections, _)| *connections).max().filter(|most| *most > 0)?;
    let title = format!("{}: memory over connections", workload.name);
    let mut sheet = Sheet::new(&title);
    let entry = |growth: &Growth| {
        let each = growth.bytes_per_connection.map(|bytes| format!(", {} each", bytes.text(Unit::Bytes)));
        let name = format!("{}{}", growth.variant, each.unwrap_or_default());
        Entry { key: Key::Curve(growth.look), name }
    };
    legend::draw(&mut sheet, &growths.iter().map(entry).collect::<Vec<_>>());
    let x = Axis::linear("connections", Unit::Count, float(most));
    // Always from zero, so that constant memory per connection appears as a straight line.
    let y = Axis::linear(
        "private memory",
        Unit::Bytes,
        all().map(|(_, bytes)| float(*bytes)).fold(0.0, f64::max),
    );
    let frame = Frame::draw(&mut sheet, 230.0, &x, &y, None);
    for growth in growths {
        draw(&mut sheet, &frame, (&x, &y), growth, most);
    }
    let faint = if growths.iter().any(|growth| growth.rounds.len() > 1) {
        " The line is the round with the median at its end, the others are faint behind it."
    } else {
        ""
    };
    let is_marked =
        growths.iter().filter_map(|growth| growth.bytes_per_connection).any(|each| each.is_suspect);
    let dagger = legend_of_dagger(is_marked);
    Some(Chart {
        id: format!("memory-{}", slug(&workload.name)),
        title,
        caption: format!(
            "Private memory of all processes of a variant, second by second while connections opened.{faint}{dagger}{failures}"
        ),
        svg: sheet.finish(),
        csv: csv(growths),
    })
}

fn draw(sheet: &mut Sheet, frame: &Frame, (x, y): (&Axis, &Axis), growth: &Growth, most: u64) {
    let at = |(connections, bytes): &Place| frame.at(x.share(float(*connections)), y.share(float(*bytes)));
    for (index, round) in growth.rounds.iter().enumerate() {
        let faint = if index == growth.middle { "" } else { " faint" };
        let places: Vec<_> = round.places.iter().map(at).collect();
        sheet.path(&format!("{}{faint}", growth.look.line()), &places);
    }
    let Round { places, is_suspect, .. } = &growth.rounds[growth.middle];
    let (fill, warning) = if *is_suspect { (Fill::Hollow, ", suspect") } else { (Fill::Full, "") };
    let (mut next, mut last) = (0, None);
    for (connections, bytes) in places {
        let place = at(&(*connections, *bytes));
        // While all connections are held, all seconds are at the same place.
        if last.is_some_and(|last| apart(last, place) < 3.0) {
            continue;
        }
        last = Some(place);
        if *connections >= next {
            mark(sheet, growth.look, place, 3.5, fill, "");
            next = connections.saturating_add((most / MARKS).max(1));
        }
        let bytes = Unit::Bytes.text(float(*bytes));
        let tip = format!("{}, {connections} connections: {bytes}{warning}", growth.variant);
        sheet.hit(place, &tip);
    }
}

fn apart(a: (f64, f64), b: (f64, f64)) -> f64 {
    (a.0 - b.0).hypot(a.1 - b.1)
}

fn csv(growths: &[Growth]) -> String {
    let mut table = Table::new(&["variant", "round", "connections", "private_bytes", "suspect"]);
    for growth in growths {
        for round in &growth.rounds {
            for (connections, bytes) in &round.places {
                table.row([
                    growth.variant.clone(),
                    round.number.to_string(),
                    connections.to_string(),
                    bytes.to_string(),
                    round.is_suspect.to_string(),
                ]);
            }
        }
    }
    table.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Warning;
    use crate::report::chart::threads::made::sample;
    use crate::report::fixtures;

    const PLAN: &str = "rounds = 3\n[[variant]]\nname = \"a\"\ncommand = [\"a\"]\n\
        [[workload]]\nname = \"l\"\nkind = \"flood\"\nconnections = 100\nramp = \"2s\"\ntime = \"2s\"\n";

    fn grown() -> Experiment {
        let mut experiment = fixtures::experiment(PLAN, |turn| {
            (turn.round != 1).then(|| vec![("private_bytes_per_connection", 1024.0)])
        });
        for run in experiment.runs.iter_mut().filter(|run| run.round != 1) {
            for (t_s, connections) in [(0.0, 0), (1.0, 50), (2.0, 100), (3.0, 100), (4.5, 0)] {
                let mut sample = sample(t_s, &[]);
                (sample.connections, sample.private_bytes) =
                    (connections, 1000 + connections * (run.round as u64 + 1));
                run.samples.push(sample);
            }
        }
        experiment
    }

    #[test]
    fn a_round_is_drawn_until_its_flood_ends() {
        let experiment = grown();
        let growths = growths(&experiment, &experiment.plan().workloads[0]);
        let numbers: Vec<_> = growths[0].rounds.iter().map(|round| round.number).collect();
        assert_eq!((growths.len(), numbers, growths[0].middle), (1, vec![1, 3], 0));
        assert_eq!(growths[0].rounds[1].places, [(0, 1000), (50, 1150), (100, 1300), (100, 1300)]);
        assert_eq!(growths[0].bytes_per_connection, Some(Median { value: 1024.0, is_suspect: false }));
    }

    #[test]
    fn what_each_connection_took_is_said_and_the_same_place_has_one_tip() {
        let experiment = grown();
        let charts = charts(&experiment, &experiment.plan().workloads[0]);
        assert!(charts[0].svg.contains(">a, 1 KiB each</text>"), "{}", charts[0].svg);
        assert_eq!(charts[0].svg.matches("class=\"hit\"").count(), 3);
        assert_eq!(charts[0].csv.lines().count(), 1 + 2 * 4);
        assert!(charts[0].caption.ends_with(" Failed: a in 1 of 3 rounds."), "{}", charts[0].caption);
    }

    #[test]
    fn what_is_doubted_is_hollow_and_said() {
        let mut experiment = grown();
        let concerns = vec![METRIC.to_owned()];
        experiment.runs[0].warnings = vec![Warning { sentence: "errors".to_owned(), concerns }];
        let chart = charts(&experiment, &experiment.plan().workloads[0]).remove(0);
        assert!(chart.svg.contains(">a, 1 KiB† each</text>"), "{}", chart.svg);
        assert!(chart.svg.contains("data-tip=\"a, 50 connections: 1.03 KiB, suspect\""), "{}", chart.svg);
        assert!(chart.svg.contains("class=\"s0 hollow\""));
        assert!(chart.csv.contains("a,1,50,1050,true\r\n") && chart.csv.contains("a,3,50,1150,false\r\n"));
        assert!(chart.caption.contains("† rests on rounds that are suspect."), "{}", chart.caption);
    }
}
