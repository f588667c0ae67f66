//! Memory over connections: what each stream of a flood made a subject grow by.

use super::Chart;
use super::data::{drawable, float, median_of, slug};
use super::frame::{Axis, Frame};
use super::legend::{self, Entry, Key};
use super::mark::{Fill, Look, look, mark};
use super::sheet::Sheet;
use super::table::Table;
use super::unit::{Figure, Unit};
use crate::plan::{Kind, Load};
use crate::record::Run;
use crate::report::read::Experiment;

/// Connections and bytes.
type Place = (u64, u64);

/// What the rounds of a subject have shown.
#[derive(Debug, PartialEq)]
struct Growth {
    subject: String,
    look: Look,
    rounds: Vec<Vec<Place>>,
    /// Which of the rounds ended with the median of their memory.
    middle: usize,
    /// Over the rounds.
    bytes_per_connection: Option<f64>,
}

/// A mark at about each so many of the axis, so that lines differ without colour and still are lines.
const MARKS: u64 = 6;

/// Of a load whose connections stay.
pub(super) fn charts(experiment: &Experiment, load: &Load) -> Vec<Chart> {
    chart(load, &growths(experiment, load)).into_iter().collect()
}

fn growths(experiment: &Experiment, load: &Load) -> Vec<Growth> {
    let (Kind::Flood { ramp, time, .. } | Kind::Idle { ramp, time, .. }) = &load.kind else {
        return Vec::new();
    };
    let end = (ramp.0 + time.0).as_secs_f64();
    let subjects = experiment.plan().subjects.iter().enumerate();
    let growth = |(index, subject): (usize, &crate::plan::Subject)| {
        let measured = experiment.measured(&subject.name, &load.name);
        let rounds: Vec<_> = measured.map(|run| places(run, end)).filter(|places| places.len() > 1).collect();
        let figure = Figure::named("private_bytes_per_connection");
        Some(Growth {
            subject: subject.name.clone(),
            look: look(index),
            middle: middle(&rounds)?,
            rounds,
            bytes_per_connection: median_of(experiment, &subject.name, &load.name, &figure),
        })
    };
    subjects.filter_map(growth).collect()
}

/// Until the flood's end: what is closed then still takes memory, and is no connection any more.
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

fn middle(rounds: &[Vec<Place>]) -> Option<usize> {
    let last = |round: &Vec<Place>| round.last().map_or(0, |(_, bytes)| *bytes);
    let mut order: Vec<usize> = (0..rounds.len()).collect();
    order.sort_by_key(|index| last(&rounds[*index]));
    order.get(rounds.len().checked_sub(1)? / 2).copied()
}

fn chart(load: &Load, growths: &[Growth]) -> Option<Chart> {
    let all = || growths.iter().flat_map(|growth| growth.rounds.iter().flatten());
    let most = all().map(|(connections, _)| *connections).max().filter(|most| *most > 0)?;
    let title = format!("{}: memory over connections", load.name);
    let mut sheet = Sheet::new(&title);
    let entry = |growth: &Growth| {
        let each = growth.bytes_per_connection.map(|bytes| format!(", {} each", Unit::Bytes.text(bytes)));
        let name = format!("{}{}", growth.subject, each.unwrap_or_default());
        Entry { key: Key::Curve(growth.look), name }
    };
    legend::draw(&mut sheet, &growths.iter().map(entry).collect::<Vec<_>>());
    let x = Axis::linear("connections", Unit::Count, float(most));
    // From zero in any case: that it grows by the same for each connection is seen by a straight line.
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
    Some(Chart {
        id: format!("memory-{}", slug(&load.name)),
        title,
        caption: format!(
            "Private memory of all processes of a subject, second by second while connections opened.{faint}"
        ),
        svg: sheet.finish(),
        csv: csv(growths),
    })
}

fn draw(sheet: &mut Sheet, frame: &Frame, (x, y): (&Axis, &Axis), growth: &Growth, most: u64) {
    let at = |(connections, bytes): &Place| frame.at(x.share(float(*connections)), y.share(float(*bytes)));
    for (index, round) in growth.rounds.iter().enumerate() {
        let faint = if index == growth.middle { "" } else { " faint" };
        sheet.path(&format!("{}{faint}", growth.look.line()), &round.iter().map(at).collect::<Vec<_>>());
    }
    let mut next = 0;
    let round = &growth.rounds[growth.middle];
    let last = round.len() - 1;
    for (index, place) in round.iter().enumerate() {
        let tip =
            format!("{}, {} connections: {}", growth.subject, place.0, Unit::Bytes.text(float(place.1)));
        if place.0 >= next && (index == last || place.0 < most) {
            mark(sheet, growth.look, at(place), 3.5, Fill::Full, "");
            next = place.0 + most / MARKS;
        }
        sheet.hit(at(place), &tip);
    }
}

fn csv(growths: &[Growth]) -> String {
    let mut table = Table::new(&["subject", "round", "connections", "private_bytes"]);
    for growth in growths {
        for (index, round) in growth.rounds.iter().enumerate() {
            for (connections, bytes) in round {
                let cells = [(index + 1).to_string(), connections.to_string(), bytes.to_string()];
                table.row([growth.subject.clone()].into_iter().chain(cells));
            }
        }
    }
    table.finish()
}
