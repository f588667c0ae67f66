//! CPU by thread for short workloads: a small panel for each variant, all with the same axes.

use super::layers::thinned;
use super::{Layers, keys, stack, words};
use crate::experiment::Experiment;
use crate::record::Sample;
use crate::report::chart::Chart;
use crate::report::chart::data::{failures, slug};
use crate::report::chart::frame::{Axis, Frame};
use crate::report::chart::legend;
use crate::report::chart::sheet::{Anchor, EDGE, Sheet, WIDTH};
use crate::report::chart::table::Table;
use crate::report::chart::unit::Unit;

/// Minimum number of seconds for a chart.
const SECONDS_MIN: usize = 3;

const PANEL: f64 = 62.0;

/// A variant in the first measured round.
struct Panel {
    variant: String,
    /// From 1.
    round: usize,
    layers: Layers,
}

/// The chart of each variant with samples.
pub(super) fn chart(experiment: &Experiment, workload: &str) -> Option<Chart> {
    let variants = experiment.plan().variants.iter();
    let of = |variant: &crate::plan::Variant| {
        let run = experiment.measured(&variant.name, workload).next()?;
        let samples: Vec<&Sample> = run.samples.iter().collect();
        let last = samples.last()?.t_s;
        let layers = Layers::new(&thinned(&samples, |t_s| t_s / last))?;
        (layers.ends_s.len() >= SECONDS_MIN).then(|| Panel {
            variant: variant.name.clone(),
            round: run.round + 1,
            layers,
        })
    };
    let panels: Vec<Panel> = variants.filter_map(of).collect();
    if panels.is_empty() {
        return None;
    }
    let title = format!("{workload}: CPU by thread over time, in cores");
    let mut sheet = Sheet::new(&title);
    draw(&mut sheet, &panels);
    Some(Chart {
        id: format!("threads-{}", slug(workload)),
        title,
        caption: format!(
            "The first round of each variant that was measured: cores that were busy in each second, stacked by thread.{}",
            failures(experiment, workload)
        ),
        svg: sheet.finish(),
        csv: csv(&panels),
    })
}

fn draw(sheet: &mut Sheet, panels: &[Panel]) {
    let all = || panels.iter().map(|panel| &panel.layers);
    let most = all().flat_map(Layers::total).fold(0.0, f64::max);
    let last = all().filter_map(|layers| layers.ends_s.last().copied()).fold(0.0, f64::max);
    let (x, y) = (Axis::linear("time", Unit::Time, last), Axis::linear("CPU", Unit::Cores, most));
    for (index, Panel { variant, round, layers }) in panels.iter().enumerate() {
        sheet.bottom += 18.0;
        // The round number shows that earlier rounds failed.
        let name = format!("{variant}, round {round}");
        sheet.text_in(WIDTH - 2.0 * EDGE, (EDGE, sheet.bottom - 4.0), Anchor::Start, "name", &name);
        legend::draw(sheet, &keys(layers));
        let frame = Frame::panel(sheet, PANEL, &x, &y, index + 1 == panels.len());
        stack(sheet, &frame, (&x, &y), layers);
        tips(sheet, &frame, &x, variant, layers);
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

fn csv(panels: &[Panel]) -> String {
    let mut table = Table::new(&["variant", "round", "thread", "t_s", "cpu_cores"]);
    for Panel { variant, round, layers } in panels {
        for layer in &layers.threads {
            for (end, cores) in layers.ends_s.iter().zip(&layer.cores) {
                let cells = [round.to_string(), layer.name.clone(), end.to_string(), cores.to_string()];
                table.row([variant.clone()].into_iter().chain(cells));
            }
        }
    }
    table.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::chart::threads::made::sample;
    use crate::report::fixtures;

    #[test]
    fn the_round_that_is_shown_is_named_where_the_first_one_failed() {
        let plan = "rounds = 3\n[[variant]]\nname = \"a\"\ncommand = [\"a\"]\n\
                    [[workload]]\nname = \"l\"\nkind = \"bench\"\n";
        let mut experiment = fixtures::experiment(plan, |turn| (turn.round > 0).then(Vec::new));
        for run in &mut experiment.runs {
            run.samples =
                (0..5_u32).map(|second| sample(f64::from(second), &[("a", f64::from(second))])).collect();
        }
        let chart = chart(&experiment, "l").unwrap();
        assert!(chart.svg.contains(">a, round 2</text>"), "{}", chart.svg);
        assert!(chart.csv.contains("\r\na,2,a,1,1\r\n"), "{}", chart.csv);
        assert!(chart.caption.ends_with(" Failed: a in 1 of 3 rounds."), "{}", chart.caption);
    }
}
