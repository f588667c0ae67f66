//! Scales: positions of values on an axis, and its ticks.

/// A scale. Positions are fractions of the axis, from 0 to 1; values beyond an end are drawn at that end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scale {
    /// Linear, from zero.
    Linear {
        /// The value at its end.
        end: f64,
        /// The distance of ticks.
        step: f64,
    },
    /// Logarithmic.
    Log {
        /// The value at its start.
        start: f64,
        /// The value at its end.
        end: f64,
        /// The kind of its ticks.
        ticks: Ticks,
        /// Zero has no logarithm, so it gets a separate position before the start.
        has_zero: bool,
    },
    /// Quantiles by the remaining fraction: 0, 0.9, 0.99, 0.999 have equal distances. The maximum is drawn
    /// slightly beyond the last nine.
    Percentiles {
        /// The number of nines.
        nines: f64,
    },
}

/// The ticks of a logarithmic axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Ticks {
    /// 1 to 9 of each power of ten.
    Decimal,
    /// At powers of two.
    Binary,
    /// At this distance, for values within the same power.
    Steps(f64),
}

/// A tick.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Tick {
    /// Its value.
    pub(crate) value: f64,
    /// The rank of its label; `None` without a label.
    pub(crate) rank: Option<Rank>,
}

/// Labels of the first rank have priority over those of the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// The maximum, which readers cannot infer.
    Always,
    /// A decade.
    First,
    /// Between decades.
    Second,
}

/// Maximum number of steps of a linear axis.
const STEPS_MAX: f64 = 5.0;

/// Up to this number of decades, 2 and 5 get labels.
const DECADES_OF_ALL: f64 = 2.5;

/// Values within this factor do not use ticks at powers of ten.
const NARROW: f64 = 3.0;

/// The room for zero on an axis.
const ZERO: f64 = 0.1;

/// The highest value of an axis: above all measured values, and small enough to avoid overflow.
pub(crate) const VALUE_MAX: f64 = 1e18;

/// The lowest value of a logarithmic axis.
pub(crate) const LOG_MIN: f64 = 1e-12;

impl Scale {
    /// From zero to a round number above the highest value.
    pub(crate) fn linear(highest: f64) -> Self {
        let highest = if highest > LOG_MIN { highest.min(VALUE_MAX) } else { 1.0 };
        let step = round_up(highest / STEPS_MAX);
        Self::Linear { end: step * (highest / step - 1e-9).ceil(), step }
    }

    /// Between round numbers around the positive values.
    pub(crate) fn log(values: impl Iterator<Item = f64>, ticks: Ticks) -> Self {
        let (mut lowest, mut highest, mut has_zero) = (f64::INFINITY, 0.0_f64, false);
        for value in values.filter(|value| value.is_finite()).map(|value| value.min(VALUE_MAX)) {
            if value < LOG_MIN {
                has_zero = true;
            } else {
                (lowest, highest) = (lowest.min(value), highest.max(value));
            }
        }
        if lowest > highest {
            (lowest, highest) = (1.0, 1.0);
        }
        if highest < lowest * NARROW {
            // Between the next decades, close values would merge; some room around them shows that the
            // difference is small.
            (lowest, highest) = (lowest / 1.1, highest * 1.1);
            let step = round_up((highest - lowest) / STEPS_MAX);
            let (start, end) = ((lowest / step).floor() * step, (highest / step).ceil() * step);
            return Self::Log { start: start.max(step), end, ticks: Ticks::Steps(step), has_zero };
        }
        let (start, end) = match ticks {
            Ticks::Binary => (lowest.log2().floor().exp2(), highest.log2().ceil().exp2()),
            _ => (round_down(lowest), round_up(highest)),
        };
        Self::Log { start, end, ticks, has_zero }
    }

    /// The position of a value.
    pub(crate) fn share(self, value: f64) -> f64 {
        let share = match self {
            Self::Linear { end, .. } => value / end,
            Self::Log { has_zero, .. } if value < LOG_MIN => return if has_zero { ZERO * 0.3 } else { 0.0 },
            Self::Log { start, end, has_zero, .. } => {
                let before = if has_zero { ZERO } else { 0.0 };
                let share = (value / start).ln() / (end / start).ln();
                before + share.clamp(0.0, 1.0) * (1.0 - before)
            }
            Self::Percentiles { .. } if value >= 1.0 => 1.0,
            Self::Percentiles { nines } => -(1.0 - value).max(LOG_MIN).log10() / (nines + beyond(nines)),
        };
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// The ticks in ascending order.
    pub(crate) fn ticks(self) -> Vec<Tick> {
        let first = |value| Tick { value, rank: Some(Rank::First) };
        match self {
            Self::Linear { end, step } => (0..=20)
                .map(|n| f64::from(n) * step)
                .take_while(|value| *value < end + step / 2.0)
                .map(first)
                .collect(),
            Self::Log { start, end, ticks, has_zero } => {
                let zero = has_zero.then(|| first(0.0));
                let ticks = match ticks {
                    Ticks::Decimal => factors(start, end),
                    Ticks::Binary => powers_of_two(start, end),
                    Ticks::Steps(step) => steps(start, end, step),
                };
                zero.into_iter().chain(ticks).collect()
            }
            Self::Percentiles { nines } => {
                let median = Tick { value: 0.5, rank: Some(Rank::Second) };
                let decades = (1..=12)
                    .take_while(|n| f64::from(*n) <= nines + 1e-9)
                    .map(|n| first(1.0 - 10_f64.powi(-n)));
                [first(0.0), median]
                    .into_iter()
                    .chain(decades)
                    .chain([Tick { value: 1.0, rank: Some(Rank::Always) }])
                    .collect()
            }
        }
    }
}

/// The distance of the maximum from the last nine: room for its label.
fn beyond(nines: f64) -> f64 {
    (nines * 0.17).max(0.4)
}

/// Powers of two, with labels at those of 1024, and at those of 4 or 16 if these are too few.
fn powers_of_two(start: f64, end: f64) -> Vec<Tick> {
    let doublings = (end / start).log2();
    let second = if doublings < 11.0 { 2 } else { 5 };
    let tick = |power: i32| {
        let rank = match power {
            _ if power % 10 == 0 => Some(Rank::First),
            _ if power % second == 0 => Some(Rank::Second),
            _ => None,
        };
        Tick { value: f64::from(power).exp2(), rank }
    };
    let ticks = (-40..=60).map(tick);
    ticks.filter(|tick| tick.value > start * 0.999 && tick.value < end * 1.001).collect()
}

/// Equal steps between two values of about the same size.
fn steps(start: f64, end: f64, step: f64) -> Vec<Tick> {
    let ticks = (0..=20).map(|n| start + f64::from(n) * step).take_while(|value| *value < end + step / 2.0);
    ticks.map(|value| Tick { value, rank: Some(Rank::First) }).collect()
}

/// 1 to 9 of each decade between two values.
fn factors(start: f64, end: f64) -> Vec<Tick> {
    let shows_all = (end / start).log10() <= DECADES_OF_ALL;
    let mut ticks = Vec::new();
    for exponent in exponent(start)..=exponent(end) {
        for digit in 1..=9 {
            let value = f64::from(digit) * 10_f64.powi(exponent);
            if value < start * 0.999 || value > end * 1.001 {
                continue;
            }
            let rank = match digit {
                1 => Some(Rank::First),
                2 | 5 if shows_all => Some(Rank::Second),
                _ => None,
            };
            ticks.push(Tick { value, rank });
        }
    }
    ticks
}

/// The smallest of 1, 2, 5, 10, … that is not less than a positive number. Tolerates rounding errors, so that
/// a computed 0.2 stays 0.2.
fn round_up(number: f64) -> f64 {
    let decade = 10_f64.powi(exponent(number));
    let steps = [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * decade);
    steps.into_iter().find(|step| *step >= number * (1.0 - 1e-9)).unwrap_or(number)
}

/// The largest of 1, 2, 5, 10, … that is not larger.
fn round_down(number: f64) -> f64 {
    let decade = 10_f64.powi(exponent(number));
    [10.0, 5.0, 2.0]
        .into_iter()
        .map(|step| step * decade)
        .find(|step| *step <= number * (1.0 + 1e-9))
        .unwrap_or(decade)
}

/// Of the power of ten that is not above a number.
fn exponent(number: f64) -> i32 {
    #[expect(clippy::cast_possible_truncation, reason = "the logarithm of a finite number is below 309")]
    let exponent = (number.log10() + 1e-9).floor() as i32;
    exponent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_ends_at_a_round_number() {
        for (number, end) in [
            (0.013, 0.02),
            (0.5, 0.5),
            (0.51, 1.0),
            (7.0, 10.0),
            (0.1 + 0.2 - 0.1, 0.2),
            (123_456.0, 200_000.0),
        ] {
            assert!((round_up(number) - end).abs() < end * 1e-9, "{number}");
        }
    }

    fn labelled(scale: Scale, rank: Rank) -> Vec<f64> {
        let ticks = scale.ticks().into_iter();
        ticks.filter(|tick| tick.rank == Some(rank)).map(|tick| tick.value).collect()
    }

    #[test]
    fn a_linear_axis_has_up_to_six_round_ticks_from_zero() {
        for (highest, ticks) in [
            (1.0, vec![0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
            (0.9, vec![0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
            (61_120.0, vec![0.0, 20_000.0, 40_000.0, 60_000.0, 80_000.0]),
            (7.0, vec![0.0, 2.0, 4.0, 6.0, 8.0]),
            (0.0, vec![0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        ] {
            let found = labelled(Scale::linear(highest), Rank::First);
            assert_eq!(found.len(), ticks.len(), "{highest}: {found:?}");
            assert!(
                found.iter().zip(&ticks).all(|(a, b)| (a - b).abs() < 1e-9 * highest.max(1.0)),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_logarithmic_axis_ends_at_round_numbers_and_has_its_decades() {
        let scale = Scale::log([130e3, 3.4e6].into_iter(), Ticks::Decimal);
        assert_eq!(scale, Scale::Log { start: 1e5, end: 5e6, ticks: Ticks::Decimal, has_zero: false });
        assert_eq!(labelled(scale, Rank::First), [1e5, 1e6]);
        assert_eq!(labelled(scale, Rank::Second), [2e5, 5e5, 2e6, 5e6]);
        assert_eq!(scale.ticks().len(), 14);
        let wide = Scale::log([1.0, 9e8].into_iter(), Ticks::Decimal);
        assert_eq!((labelled(wide, Rank::First).len(), labelled(wide, Rank::Second).len()), (10, 0));
    }

    #[test]
    fn close_values_are_between_round_numbers() {
        for (lowest, highest, ticks) in [
            (40.0, 46.0, [35.0, 40.0, 45.0, 50.0, 55.0].as_slice()),
            (5.0, 5.0, &[4.4, 4.6, 4.8, 5.0, 5.2, 5.4, 5.6]),
        ] {
            let found = labelled(Scale::log([lowest, highest].into_iter(), Ticks::Decimal), Rank::First);
            assert!(
                found.len() == ticks.len() && found.iter().zip(ticks).all(|(a, b)| (a - b).abs() < 1e-9),
                "{found:?}"
            );
        }
    }

    #[test]
    fn bytes_have_their_ticks_at_powers_of_two() {
        let scale = Scale::log([0.4, 41.0].into_iter(), Ticks::Binary);
        assert_eq!(scale, Scale::Log { start: 0.25, end: 64.0, ticks: Ticks::Binary, has_zero: false });
        assert_eq!(
            (labelled(scale, Rank::First), labelled(scale, Rank::Second)),
            (vec![1.0], vec![0.25, 4.0, 16.0, 64.0])
        );
    }

    #[test]
    fn zero_is_before_the_logarithmic_range() {
        let scale = Scale::log([0.0, 10.0, 1000.0].into_iter(), Ticks::Decimal);
        let places = [0.0, 10.0, 100.0, 1000.0].map(|value| scale.share(value));
        assert!(places.is_sorted() && places[0] < places[1] - 0.05, "{places:?}");
        assert!((places[3] - 1.0).abs() < 1e-12);
        assert!(scale.ticks()[0].value.abs() < 1e-12);
        assert!(Scale::log([0.0].into_iter(), Ticks::Decimal).ticks().len() > 2);
    }

    #[test]
    fn each_nine_has_the_same_width_and_the_maximum_is_beyond() {
        let scale = Scale::Percentiles { nines: 4.0 };
        for (quantile, share) in [(0.0, 0.0), (0.9, 0.25), (0.99, 0.5), (0.999, 0.75), (0.9999, 1.0)] {
            let end = scale.share(0.9999);
            assert!((scale.share(quantile) - share * end).abs() < 1e-9, "{quantile}");
        }
        assert!(scale.share(1.0) > scale.share(0.9999) + 0.05);
        assert_eq!(labelled(scale, Rank::First).len(), 5);
    }

    #[test]
    fn values_without_a_position_are_drawn_at_an_end() {
        for scale in [
            Scale::linear(1.0),
            Scale::log([1.0].into_iter(), Ticks::Decimal),
            Scale::Percentiles { nines: 3.0 },
        ] {
            for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 1e300] {
                assert!((0.0..=1.0).contains(&scale.share(value)), "{scale:?} {value}");
            }
        }
    }
}
