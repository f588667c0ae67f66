//! CPU by thread over time: for a flood together with connections and memory, for other workloads alone.

use std::collections::BTreeMap;
use std::time::Duration;

use rudy_charts::{Axis, Column, Flood, FloodSample, Panel, Plot, Stack, thinned};
use rudy_units::{Unit, float};

use super::Chart;
use super::data::{drawable, failures, slug};
use crate::experiment::Experiment;
use crate::plan::{Kind, Workload};
use crate::record::{Run, Sample};

/// Minimum number of seconds for a chart.
const SECONDS_MIN: usize = 3;

/// A chart for each variant of a flood, and one chart with all variants for another workload.
pub(super) fn charts(experiment: &Experiment, workload: &Workload) -> Vec<Chart> {
    match &workload.kind {
        Kind::Flood { connections, ramp, time } | Kind::Idle { connections, ramp, time } => {
            let plan = Plan { connections: *connections, ramp: ramp.0, end: ramp.0 + time.0 };
            let variants = experiment.plan().variants.iter();
            let chart = |variant: &crate::plan::Variant| {
                let run = experiment.measured(&variant.name, &workload.name).next()?;
                flood(&plan, &workload.name, &variant.name, run)
            };
            variants.filter_map(chart).collect()
        }
        // The CPU usage of the start cannot be separated from that of the work.
        Kind::Run { .. } => Vec::new(),
        _ => panels(experiment, &workload.name).into_iter().collect(),
    }
}

/// The CPU seconds of each thread.
fn cpu_s(sample: &Sample) -> BTreeMap<String, f64> {
    sample.threads.iter().map(|(name, [user, system])| (name.clone(), user + system)).collect()
}

/// The plan of a flood.
struct Plan {
    connections: u32,
    ramp: Duration,
    end: Duration,
}

impl Plan {
    /// The planned number of connections at a time.
    fn planned(&self, seconds: f64) -> f64 {
        let (all, ramp) = (f64::from(self.connections), self.ramp.as_secs_f64());
        if ramp > 0.0 { (seconds / ramp).min(1.0) * all } else { all }
    }
}

/// `None` with too few samples.
fn flood(plan: &Plan, workload: &str, variant: &str, run: &Run) -> Option<Chart> {
    let end = plan.end.as_secs_f64();
    let is_shown = |sample: &&Sample| (0.0..=end).contains(&sample.t_s);
    let sample = |sample: &Sample| FloodSample {
        t_s: sample.t_s,
        planned: plan.planned(sample.t_s),
        open: float(sample.connections),
        private_bytes: drawable(float(sample.private_bytes)),
        cpu_s: cpu_s(sample),
    };
    let flood = Flood {
        title: format!("{workload}, {variant}: connections, CPU and memory over time"),
        connections: f64::from(plan.connections),
        samples: run.samples.iter().filter(is_shown).map(sample).collect(),
    };
    let plot = flood.plot()?;
    Some(Chart {
        id: format!("threads-{}-{}", slug(workload), slug(variant)),
        caption: format!(
            "Round {} of {variant}. Time is logarithmic, because what matters happens early; CPU is stacked by thread. \
             Where open connections are below the dashed line, they came later than planned. CPU and memory have scales \
             of their own for each variant: compare the numbers, not the heights.",
            run.round + 1
        ),
        svg: plot.svg(),
        title: flood.title,
    })
}

/// A small area for each variant with samples, all with the same axes.
fn panels(experiment: &Experiment, workload: &str) -> Option<Chart> {
    let stack = |variant: &crate::plan::Variant| {
        let run = experiment.measured(&variant.name, workload).next()?;
        let last = run.samples.last()?.t_s;
        let samples: Vec<_> = thinned(&run.samples, |sample| sample.t_s / last).into_iter().collect();
        let stack = Stack::of_cpu(
            &samples.into_iter().map(|sample| (sample.t_s, cpu_s(sample))).collect::<Vec<_>>(),
        )?;
        // The round number shows that earlier rounds failed.
        let name = format!("{}, round {}", variant.name, run.round + 1);
        (stack.ends.len() >= SECONDS_MIN).then_some((name, stack))
    };
    let stacks: Vec<(String, Stack)> = experiment.plan().variants.iter().filter_map(stack).collect();
    let most = stacks.iter().flat_map(|(_, stack)| stack.total()).fold(0.0, f64::max);
    let last = stacks.iter().filter_map(|(_, stack)| stack.ends.last().copied()).fold(0.0, f64::max);
    let is_last = |index: usize| index + 1 == stacks.len();
    let panel = |(index, (name, stack)): (usize, &(String, Stack))| {
        let x = Axis::linear("time", Unit::Time, last);
        Panel {
            name: name.clone(),
            legend: stack.legend(),
            columns: columns(name, stack),
            stack: Some(stack.clone()),
            ..Panel::new(
                62.0,
                if is_last(index) { x } else { x.untitled() },
                Axis::linear("", Unit::Cores, most).untitled(),
            )
        }
    };
    let title = format!("{workload}: CPU by thread over time, in cores");
    let panels: Vec<Panel> = stacks.iter().enumerate().map(panel).collect();
    (!panels.is_empty()).then(|| Chart {
        id: format!("threads-{}", slug(workload)),
        caption: format!(
            "The first measured round of each variant: busy cores in each second, stacked by thread.{}",
            failures(experiment, workload)
        ),
        svg: Plot { title: title.clone(), legend: Vec::new(), panels }.svg(),
        title,
    })
}

fn columns(name: &str, stack: &Stack) -> Vec<Column> {
    let column = |(interval, end): (usize, &f64)| Column {
        end: *end,
        tip: format!("{name}, {}: {}", Unit::Time.tick(end.round()), stack.text(interval)),
    };
    stack.ends.iter().enumerate().map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixtures::{self, sample};

    const PLAN: &str =
        "rounds = 3\n[[variant]]\nname = \"a\"\ncommand = [\"a\"]\n[[workload]]\nname = \"l\"\n";

    fn charts_of(kind: &str) -> Vec<Chart> {
        let mut experiment =
            fixtures::experiment(&format!("{PLAN}{kind}"), |id| (id.round > 0).then(Vec::new));
        let cpu = |second: u32| [("core-0", 0.5 * f64::from(second)), ("core-1", 0.1 * f64::from(second))];
        for run in &mut experiment.runs {
            run.samples = (0..=20).map(|second| sample(f64::from(second), &cpu(second))).collect();
        }
        charts(&experiment, &experiment.plan().workloads[0])
    }

    #[test]
    fn a_flood_is_drawn_until_its_end() {
        let kind = "kind = \"flood\"\nconnections = 100\nramp = \"5s\"\ntime = \"10s\"\n";
        let chart = charts_of(kind).remove(0);
        assert!(chart.caption.starts_with("Round 2 of a."), "{}", chart.caption);
        let tip = "3 s: 100 connections, CPU 60 % of a core (core-0 50 %, core-1 10 %), 4.00 MiB";
        assert!(chart.svg.contains(&format!("data-tip=\"{tip}\"")), "{}", chart.svg);
        assert!(chart.svg.contains("\"15 s: ") && !chart.svg.contains("\"16 s: "), "{}", chart.svg);
    }

    #[test]
    fn the_round_that_is_shown_is_named_if_the_first_one_failed() {
        let chart = charts_of("kind = \"bench\"\n").remove(0);
        assert!(chart.svg.contains(">a, round 2</text>"), "{}", chart.svg);
        assert!(chart.caption.ends_with(" Failed: a in 1 of 3 rounds."), "{}", chart.caption);
    }

    #[test]
    fn the_ramp_is_planned_by_its_clock() {
        let second = Duration::from_secs;
        let plan = Plan { connections: 1000, ramp: second(10), end: second(15) };
        for (seconds, planned) in [(0.0, 0.0), (5.0, 500.0), (10.0, 1000.0), (99.0, 1000.0)] {
            assert!((plan.planned(seconds) - planned).abs() < 1e-9, "{seconds}");
        }
        let at_once = Plan { connections: 7, ramp: Duration::ZERO, end: second(1) };
        assert!((at_once.planned(0.0) - 7.0).abs() < 1e-9);
    }
}
