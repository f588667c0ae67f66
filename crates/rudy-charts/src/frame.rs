//! Axes and the area between them.

use crate::scale::{LOG_MIN, Rank, Scale, Tick, Ticks, VALUE_MAX};
use crate::sheet::{Anchor, EDGE, Sheet, WIDTH, width};
use rudy_units::{Unit, round};

/// An axis: its scale, its ticks and its title.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    scale: Scale,
    title: String,
    labels: Labels,
}

/// The labels of ticks.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Labels {
    /// Numbers in this unit, which the title names.
    Parts(f64),
    /// Numbers with units: a logarithmic axis has more than one.
    Each(Unit),
    Percent,
}

impl Axis {
    /// From zero to a highest value.
    #[must_use]
    pub fn linear(title: &str, unit: Unit, highest: f64) -> Self {
        let (size, name) = unit.part(highest);
        let title = match name {
            "" => title.to_owned(),
            name => format!("{title}, {name}"),
        };
        // Ticks are round in the unit that is shown.
        let scale = match Scale::linear(highest / size) {
            Scale::Linear { end, step } => Scale::Linear { end: end * size, step: step * size },
            other => other,
        };
        Self { scale, title, labels: Labels::Parts(size) }
    }

    /// From zero, unless the lower values would be indistinguishable.
    #[must_use]
    pub fn fitting(title: &str, unit: Unit, values: impl Iterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let lowest = values.iter().copied().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        let highest = values.iter().copied().fold(0.0, f64::max);
        if highest > lowest * WIDE {
            Self::log(title, unit, values.into_iter())
        } else {
            Self::linear(title, unit, highest)
        }
    }

    /// A logarithmic axis around values.
    #[must_use]
    pub fn log(title: &str, unit: Unit, values: impl Iterator<Item = f64>) -> Self {
        let part = match unit {
            Unit::Rate => ", per second",
            _ => "",
        };
        let labels = Labels::Each(unit);
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        // A number is round, or a power of two, in the unit that is shown.
        let (size, _) = unit.part(values.iter().copied().fold(0.0, f64::max));
        let ticks = if unit == Unit::Bytes { Ticks::Binary } else { Ticks::Decimal };
        let scale = match Scale::log(values.iter().map(|value| value / size), ticks) {
            Scale::Log { start, end, ticks, has_zero } => {
                let ticks = if let Ticks::Steps(step) = ticks { Ticks::Steps(step * size) } else { ticks };
                Scale::Log { start: start * size, end: end * size, ticks, has_zero }
            }
            other => other,
        };
        Self { scale, title: format!("{title}{part} (logarithmic)"), labels }
    }

    /// A logarithmic axis between two given values.
    #[must_use]
    pub fn log_between(title: &str, unit: Unit, start: f64, end: f64) -> Self {
        let start = if start >= LOG_MIN { start.min(VALUE_MAX) } else { LOG_MIN };
        let end = if end > start { end.min(VALUE_MAX * 10.0) } else { start * 10.0 };
        let scale = Scale::Log { start, end, ticks: Ticks::Decimal, has_zero: false };
        Self { scale, title: title.to_owned(), labels: Labels::Each(unit) }
    }

    /// Quantiles up to this number of nines.
    #[must_use]
    pub fn nines(title: &str, nines: f64) -> Self {
        let nines = if nines.is_nan() { 1.0 } else { nines.clamp(1.0, 12.0) };
        Self { scale: Scale::Percentiles { nines }, title: title.to_owned(), labels: Labels::Percent }
    }

    /// From zero to exactly a value: a scale that is not drawn.
    #[must_use]
    pub fn exact(end: f64) -> Self {
        let end = if end > LOG_MIN { end.min(VALUE_MAX) } else { 1.0 };
        Self { scale: Scale::Linear { end, step: end }, title: String::new(), labels: Labels::Parts(1.0) }
    }

    /// The same axis without its title.
    #[must_use]
    pub fn untitled(self) -> Self {
        Self { title: String::new(), ..self }
    }

    /// The position of a value, as a fraction of the axis.
    pub(crate) fn share(&self, value: f64) -> f64 {
        self.scale.share(value)
    }

    fn label(&self, value: f64) -> String {
        match self.labels {
            Labels::Parts(size) => round(value / size),
            Labels::Each(unit) => unit.tick(value),
            Labels::Percent if value >= 1.0 => "max".to_owned(),
            Labels::Percent => format!("{} %", round(value * 100.0)),
        }
    }

    /// Ticks with labels that do not overlap; those of the second rank only if all of them fit.
    fn labels(&self, length: f64, extent: impl Fn(&str) -> f64) -> Vec<(f64, String)> {
        let fits = |kept: &[(f64, String)], place: f64, label: &str| {
            let room = |other: &(f64, String)| {
                (other.0 - place).abs() >= f64::midpoint(extent(label), extent(&other.1))
            };
            kept.iter().all(room)
        };
        let mut kept: Vec<(f64, String)> = Vec::new();
        for rank in [Rank::Always, Rank::First, Rank::Second] {
            let before = kept.clone();
            let ticks: Vec<Tick> =
                self.scale.ticks().into_iter().filter(|tick| tick.rank == Some(rank)).collect();
            for tick in &ticks {
                let (place, label) = (self.share(tick.value) * length, self.label(tick.value));
                if fits(&kept, place, &label) {
                    kept.push((place, label));
                } else if rank == Rank::Second && ticks.len() > 1 {
                    return before;
                }
            }
        }
        kept
    }

    fn widest(&self) -> f64 {
        let ticks = self.scale.ticks().into_iter().filter(|tick| tick.rank.is_some());
        ticks.map(|tick| width(&self.label(tick.value))).fold(0.0, f64::max)
    }
}

/// The drawing area.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
}

/// If the values span more than this factor, an axis from zero would merge the lower ones.
const WIDE: f64 = 20.0;

/// The height of a line of labels.
const LINE: f64 = 18.0;

/// The minimum distance between labels.
const GAP: f64 = 10.0;

impl Frame {
    /// Draws axes with an area of this height below the existing contents: x below, y on the left, and
    /// optionally another y on the right.
    pub(crate) fn draw(
        sheet: &mut Sheet,
        height: f64,
        x: &Axis,
        y: &Axis,
        other: Option<(&Axis, &str)>,
    ) -> Self {
        let has_title = !y.title.is_empty() || other.is_some();
        let top = sheet.bottom + if has_title { LINE + 11.0 } else { 6.0 };
        let right = other.map_or(WIDTH - EDGE - 8.0, |(other, _)| WIDTH - EDGE - other.widest() - 8.0);
        // Labels may be long, but never leave no room for the area.
        let (left, right) = ((EDGE + y.widest() + 8.0).min(WIDTH * 0.45), right.max(WIDTH * 0.55));
        let frame = Self { left, right, top, bottom: top + height };
        let room = if other.is_some() { WIDTH / 2.0 } else { WIDTH } - EDGE;
        sheet.text_in(room, (EDGE, top - 13.0), Anchor::Start, "soft", &y.title);
        frame.horizontal(sheet, y);
        if let Some((other, class)) = other {
            sheet.text_in(WIDTH / 2.0, (WIDTH - EDGE, top - 13.0), Anchor::End, class, &other.title);
            for (place, label) in other.labels(height, |_| LINE - 3.0) {
                sheet.text((right + 8.0, frame.bottom - place + 4.0), Anchor::Start, class, &label);
            }
        }
        frame.vertical(sheet, x);
        frame.title(sheet, x);
        frame
    }

    /// The same with rows instead of a y axis, with room for names on the left and for metrics on the right.
    pub(crate) fn rows(sheet: &mut Sheet, height: f64, x: &Axis, names: f64, metrics: f64) -> Self {
        let top = sheet.bottom + 6.0;
        let (left, right) = (EDGE + names + 10.0, (WIDTH - EDGE - metrics).max(WIDTH * 0.55));
        let frame = Self { left, right, top, bottom: top + height };
        frame.vertical(sheet, x);
        frame.title(sheet, x);
        frame
    }

    /// The place of shares of both axes.
    pub(crate) fn at(&self, x: f64, y: f64) -> (f64, f64) {
        (self.x(x), self.y(y))
    }

    /// The place of a share of the x axis.
    pub(crate) fn x(&self, share: f64) -> f64 {
        self.left + share * (self.right - self.left)
    }

    /// The place of a share of the y axis.
    pub(crate) fn y(&self, share: f64) -> f64 {
        self.bottom - share * (self.bottom - self.top)
    }

    fn horizontal(&self, sheet: &mut Sheet, axis: &Axis) {
        for tick in axis.scale.ticks().iter().filter(|tick| tick.rank == Some(Rank::First)) {
            let y = self.y(axis.share(tick.value));
            sheet.line("grid", (self.left, y), (self.right, y));
        }
        for tick in axis.scale.ticks() {
            let y = self.y(axis.share(tick.value));
            sheet.line("axis", (self.left - if tick.rank.is_some() { 5.0 } else { 3.0 }, y), (self.left, y));
        }
        sheet.line("axis", (self.left, self.top), (self.left, self.bottom));
        for (place, label) in axis.labels(self.bottom - self.top, |_| LINE - 3.0) {
            sheet.text((self.left - 8.0, self.bottom - place + 4.0), Anchor::End, "soft", &label);
        }
    }

    /// The title of the axis below.
    fn title(&self, sheet: &mut Sheet, x: &Axis) {
        sheet.bottom = self.bottom + if x.title.is_empty() { LINE + 6.0 } else { 2.0 * LINE + 2.0 };
        let place = (WIDTH - EDGE, self.bottom + 2.0 * LINE);
        if !x.title.is_empty() {
            sheet.text_in(WIDTH - 2.0 * EDGE, place, Anchor::End, "soft", &x.title);
        }
    }

    fn vertical(&self, sheet: &mut Sheet, axis: &Axis) {
        for tick in axis.scale.ticks() {
            let x = self.x(axis.share(tick.value));
            if tick.rank.is_some_and(|rank| rank <= Rank::First) {
                sheet.line("grid", (x, self.top), (x, self.bottom));
            }
            sheet.line(
                "axis",
                (x, self.bottom),
                (x, self.bottom + if tick.rank.is_some() { 5.0 } else { 3.0 }),
            );
        }
        sheet.line("axis", (self.left, self.bottom), (self.right, self.bottom));
        for (place, label) in axis.labels(self.right - self.left, |label| width(label) + GAP) {
            // A label at the very end would be cut off at the edge.
            let half = (width(&label) / 2.0).min(WIDTH / 2.0 - 2.0);
            let x = (self.left + place).clamp(half, WIDTH - half - 2.0);
            sheet.text((x, self.bottom + LINE), Anchor::Middle, "soft", &label);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_do_not_overlap() {
        for values in [[1e-6, 1e-3], [1e-9, 1e3], [0.0, 5e-3], [2e-3, 2.1e-3]] {
            let axis = Axis::log("latency", Unit::Time, values.into_iter());
            let labels = axis.labels(200.0, |label| width(label) + GAP);
            let mut places: Vec<_> =
                labels.iter().map(|(place, label)| (*place, width(label) / 2.0)).collect();
            places.sort_by(|a, b| a.0.total_cmp(&b.0));
            assert!(places.len() > 1, "{labels:?}");
            assert!(
                places.windows(2).all(|pair| pair[0].0 + pair[0].1 < pair[1].0 - pair[1].1),
                "{labels:?}"
            );
        }
    }

    #[test]
    fn a_linear_axis_is_round_in_the_unit_it_shows() {
        let axis = Axis::linear("memory", Unit::Bytes, 5.4 * 1_048_576.0);
        let labels: Vec<_> = axis.labels(200.0, |_| 15.0).into_iter().map(|(_, label)| label).collect();
        assert_eq!((axis.title.as_str(), labels.join(" ").as_str()), ("memory, MiB", "0 2 4 6"));
    }
}
