//! The chart of a watch: counts over time, and the slope of each leak.

use rudy_charts::{At, Axis, Entry, Key as Mark, Line, Panel, Plot, Point, Rule, Series, style};
use rudy_stats::growth::Growth;
use rudy_units::{Unit, count, digits, float};

use super::counts::Counter;
use super::history::{History, Key};
use super::verdict::Verdict;

/// The maximum number of counts to draw: more lines cannot be told apart.
const SERIES_MAX: usize = 6;

/// The height of the area.
const HEIGHT: f64 = 200.0;

/// The classes of a limit and of a slope.
const LIMIT: &str = "line thin dots";
const SLOPE: &str = "line thin dash";

/// An SVG document. Slopes continue to the time at which the descriptors run out, if that is not further away than the
/// watch was long.
pub(super) fn svg(title: &str, history: &History, verdict: &Verdict) -> String {
    let times_s = history.times_s();
    let watched_s = history.seconds();
    let run_out = verdict.run_out.filter(|run_out| run_out.in_s <= watched_s);
    let end_s = run_out.map_or(watched_s, |run_out| watched_s + run_out.in_s);
    let shown = shown(history, verdict);
    let series: Vec<_> = shown.iter().enumerate().map(|(index, line)| line.series(index, times_s)).collect();
    let highest = series.iter().flat_map(Series::values).fold(1.0, f64::max);
    // A limit far above everything would flatten all lines.
    let limit = history.descriptors.and_then(|descriptors| descriptors.limit);
    let limit = limit.filter(|limit| run_out.is_some() || float(*limit) <= 2.0 * highest);
    let x = Axis::linear("time", Unit::Time, end_s);
    let y = Axis::linear("sockets and descriptors", Unit::Count, highest.max(limit.map_or(0.0, float)));
    let slopes = shown.iter().enumerate().filter_map(|(index, line)| line.slope(index, end_s));
    let panel = Panel {
        lines: slopes.collect(),
        rules: limit.map(rule).into_iter().collect(),
        ..Panel::of_series(HEIGHT, x, y, series)
    };
    let mut plot = Plot::new(title, vec![panel]);
    if shown.iter().any(|line| line.growth.is_some()) {
        plot.legend.push(Entry { key: Mark::Line(SLOPE), name: "slope of a leak".to_owned() });
    }
    plot.svg()
}

/// A count to draw.
struct Count<'a> {
    key: &'a Key,
    counts: &'a [f64],
    growth: Option<Growth>,
}

/// The leaks, the descriptors, and then the highest counts. A state whose leak is shown by remote address is left
/// out, because both lines would be the same.
fn shown<'a>(history: &'a History, verdict: &Verdict) -> Vec<Count<'a>> {
    let leak = |key: &Key| verdict.leaks.iter().find(|leak| leak.key == *key);
    let is_explained = |key: &Key| verdict.leaks.iter().any(|leak| leak.key.counter == key.counter);
    let mut shown: Vec<_> = history
        .series()
        .filter(|(key, _)| leak(key).is_some() || key.remote.is_none() && !is_explained(key))
        .map(|(key, counts)| Count { key, counts, growth: leak(key).and_then(super::verdict::Leak::growth) })
        .collect();
    let rank = |count: &Count<'_>| (leak(count.key).is_none(), count.key.counter != Counter::Descriptors);
    shown.sort_by(|a, b| rank(a).cmp(&rank(b)).then(highest(b.counts).total_cmp(&highest(a.counts))));
    shown.truncate(SERIES_MAX);
    shown
}

impl Count<'_> {
    fn series(&self, index: usize, times_s: &[f64]) -> Series {
        let point = |(time_s, count): (&f64, &f64)| Point {
            x: *time_s,
            y: Some(*count),
            tip: format!("{} after {}: {}", self.key, Unit::Time.text(*time_s), digits(*count)),
            ..Point::default()
        };
        let points = times_s.iter().zip(self.counts).map(point).collect();
        Series::new(self.key.to_string(), style(index), points)
    }

    fn slope(&self, index: usize, end_s: f64) -> Option<Line> {
        let growth = self.growth?;
        let at = |time_s: f64| (time_s, (growth.at_start + growth.per_s * time_s).max(0.0));
        let class = format!("{SLOPE} {}", style(index).class);
        Some(Line { class, axis: None, points: vec![at(0.0), at(end_s)] })
    }
}

fn rule(limit: u64) -> Rule {
    let label = format!("limit of {} descriptors", count(limit));
    Rule { at: At::Y(float(limit), None), class: LIMIT.to_owned(), label }
}

fn highest(counts: &[f64]) -> f64 {
    counts.iter().copied().fold(0.0, f64::max)
}
