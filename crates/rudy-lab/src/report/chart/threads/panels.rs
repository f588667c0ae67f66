//! CPU by thread under a load that is over soon: a small panel for each subject, all with the same axes.

use super::layers::thinned;
use super::{Layers, keys, stack, words};
use crate::experiment::Experiment;
use crate::record::Sample;
use crate::report::chart::Chart;
use crate::report::chart::data::slug;
use crate::report::chart::frame::{Axis, Frame};
use crate::report::chart::legend;
use crate::report::chart::sheet::{Anchor, EDGE, Sheet};
use crate::report::chart::table::Table;
use crate::report::chart::unit::Unit;

/// Fewer seconds than this are no development.
const SECONDS_MIN: usize = 3;

const PANEL: f64 = 62.0;

/// Of the first round of each subject.
pub(super) fn chart(experiment: &Experiment, load: &str) -> Option<Chart> {
    let subjects = experiment.plan().subjects.iter();
    let of = |subject: &crate::plan::Subject| {
        let run = experiment.measured(&subject.name, load).next()?;
        let samples: Vec<&Sample> = run.samples.iter().collect();
        let last = samples.last()?.t_s;
        let layers = Layers::new(&thinned(&samples, |t_s| t_s / last))?;
        Some((subject.name.clone(), layers)).filter(|(_, layers)| layers.ends_s.len() >= SECONDS_MIN)
    };
    let panels: Vec<(String, Layers)> = subjects.filter_map(of).collect();
    if panels.is_empty() {
        return None;
    }
    let title = format!("{load}: CPU by thread over time, in cores");
    let mut sheet = Sheet::new(&title);
    draw(&mut sheet, &panels);
    Some(Chart {
        id: format!("threads-{}", slug(load)),
        title,
        caption: "The first round of each subject: cores that were busy in each second, stacked by thread."
            .to_owned(),
        svg: sheet.finish(),
        csv: csv(&panels),
    })
}

fn draw(sheet: &mut Sheet, panels: &[(String, Layers)]) {
    let all = || panels.iter().map(|(_, layers)| layers);
    let most = all().flat_map(Layers::total).fold(0.0, f64::max);
    let last = all().filter_map(|layers| layers.ends_s.last().copied()).fold(0.0, f64::max);
    let (x, y) = (Axis::linear("time", Unit::Time, last), Axis::linear("CPU", Unit::Cores, most));
    for (index, (name, layers)) in panels.iter().enumerate() {
        sheet.bottom += 18.0;
        sheet.text_in(400.0, (EDGE, sheet.bottom - 4.0), Anchor::Start, "name", name);
        legend::draw(sheet, &keys(layers));
        let frame = Frame::panel(sheet, PANEL, &x, &y, index + 1 == panels.len());
        stack(sheet, &frame, (&x, &y), layers);
        tips(sheet, &frame, &x, name, layers);
    }
}

fn tips(sheet: &mut Sheet, frame: &Frame, x: &Axis, name: &str, layers: &Layers) {
    let mut left = frame.left;
    for (second, (end, total)) in layers.ends_s.iter().zip(layers.total()).enumerate() {
        let right = frame.x(x.share(*end));
        if right - left < 1.0 {
            continue;
        }
        let tip = format!("{name}, {}: {}", Unit::Time.text(end.round()), words(layers, second, total));
        sheet.rectangle("class=\"hit\"", (left, frame.top), (right - left, frame.bottom - frame.top), &tip);
        left = right;
    }
}

fn csv(panels: &[(String, Layers)]) -> String {
    let mut table = Table::new(&["subject", "thread", "t_s", "cpu_cores"]);
    for (name, layers) in panels {
        for layer in &layers.threads {
            for (end, cores) in layers.ends_s.iter().zip(&layer.cores) {
                table.row([name.clone(), layer.name.clone(), end.to_string(), cores.to_string()]);
            }
        }
    }
    table.finish()
}
