//! Simulated processes, healthy and leaking, sampled each second.

#![expect(clippy::cast_precision_loss, reason = "an hour has 3600 seconds")]

use super::*;
use crate::random::SplitMix64;

/// A source of random events.
struct Events(SplitMix64);

impl Events {
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.0.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.0.unit()).cos()
    }

    /// A number of independent events, approximately.
    fn poisson(&mut self, mean: f64) -> f64 {
        if mean > 20.0 {
            return (mean + mean.sqrt() * self.normal()).round().max(0.0);
        }
        let (limit, mut product, mut number) = ((-mean).exp(), self.0.unit(), 0.0);
        while product > limit {
            product *= self.0.unit();
            number += 1.0;
        }
        number
    }

    /// Connections that arrive at random and last for `lifetime_s` on average, `mean` at a time.
    fn connections(&mut self, seconds: usize, mean: f64, lifetime_s: f64, begin: f64) -> Vec<f64> {
        let mut open = begin;
        let leaving = 1.0 - (-1.0 / lifetime_s).exp();
        let next = |_| {
            let now = open;
            open = (open - self.poisson(open * leaving).min(open) + self.poisson(mean * leaving)).max(0.0);
            now
        };
        (0..seconds).map(next).collect()
    }

    /// Sockets that are never closed.
    fn leak(&mut self, seconds: usize, per_s: f64) -> Vec<f64> {
        let mut open = 0.0;
        let next = |_| {
            open += self.poisson(per_s);
            open
        };
        (0..seconds).map(next).collect()
    }
}

fn seconds(number: usize) -> Vec<f64> {
    (0..number).map(|second| second as f64).collect()
}

fn evaluate(counts: &[f64]) -> Option<Growth> {
    persistent(&seconds(counts.len()), counts)
}

/// The time after which a watch that judges all the time, but not before `from_s`, finds a leak.
fn found_after(counts: &[f64], from_s: usize) -> Option<usize> {
    let mut end = from_s;
    while end <= counts.len() {
        if evaluate(&counts[..end]).is_some() {
            return Some(end);
        }
        end += 1 + end / 25;
    }
    None
}

/// The number of `runs` in which a leak is found.
fn false_alarms(runs: u64, from_s: usize, mut process: impl FnMut(&mut Events) -> Vec<f64>) -> u64 {
    let finds = |seed: &u64| found_after(&process(&mut Events(SplitMix64(*seed))), from_s).is_some();
    (1..=runs).filter(finds).count() as u64
}

const HOUR: usize = 3600;

#[test]
fn an_even_leak_is_found_with_its_slope() {
    let counts: Vec<f64> = (0..100).map(|second| 80.0 + 2.0 * f64::from(second)).collect();
    let growth = evaluate(&counts).unwrap();
    assert!((growth.per_s - 2.0).abs() < 0.05, "{growth:?}");
    assert!((growth.at_start - counts[0]).abs() < 3.0, "{growth:?}");
    assert!(growth.per_s_low < 2.0 && growth.per_s_high > 2.0 && growth.per_s_low > 1.9, "{growth:?}");
}

#[test]
fn the_interval_of_a_random_leak_has_its_slope() {
    let mut missed = 0;
    for seed in 0..200 {
        let leak = Events(SplitMix64(seed)).leak(600, 1.0);
        let growth = evaluate(&leak).unwrap();
        missed += u64::from(growth.per_s_low > 1.0 || growth.per_s_high < 1.0);
    }
    // Nominally ten.
    assert!(missed <= 20, "{missed}");
}

#[test]
fn a_count_that_does_not_grow_or_shrinks_is_no_leak() {
    assert_eq!(evaluate(&[100.0; 600]), None);
    let shrinks: Vec<f64> = (0..600).map(|second| 2000.0 - f64::from(second)).collect();
    assert_eq!(evaluate(&shrinks), None);
    assert_eq!(evaluate(&[]), None);
    assert_eq!(persistent(&[0.0; 40], &[1.0; 40]), None);
    assert_eq!(evaluate(&(0..19).map(|second| f64::from(second) * 10.0).collect::<Vec<_>>()), None);
}

#[test]
fn stationary_connections_are_no_leak() {
    for (mean, lifetime_s) in [(20.0, 1.0), (100.0, 10.0), (1000.0, 60.0), (1000.0, 300.0)] {
        let false_alarms = false_alarms(200, 100, |events| events.connections(HOUR, mean, lifetime_s, mean));
        assert!(false_alarms <= 2, "{false_alarms} of 200: {mean} of {lifetime_s} s");
    }
}

#[test]
fn bursts_are_no_leak() {
    let false_alarms = false_alarms(200, 100, |events| {
        let mut burst = 0.0;
        let next = |_| {
            if events.0.unit() < 0.02 {
                burst += 300.0 * events.0.unit();
            }
            burst *= 0.9;
            (50.0 + burst + 5.0 * events.normal()).round()
        };
        (0..HOUR).map(next).collect()
    });
    assert_eq!(false_alarms, 0);
}

#[test]
fn a_pool_that_fills_and_then_is_stable_is_no_leak() {
    for lifetime_s in [10.0, 60.0, 120.0] {
        let false_alarms = false_alarms(50, 300, |events| events.connections(HOUR, 1000.0, lifetime_s, 0.0));
        assert_eq!(false_alarms, 0, "{lifetime_s}");
    }
    let false_alarms = false_alarms(50, 100, |events| {
        let next = |second: usize| (500.0 * (second as f64 / 60.0).min(1.0) + 5.0 * events.normal()).round();
        (0..HOUR).map(next).collect()
    });
    assert_eq!(false_alarms, 0);
}

#[test]
fn a_saw_tooth_is_no_leak_once_two_periods_are_known() {
    for period_s in [20.0, 60.0, 150.0, 400.0] {
        let false_alarms = false_alarms(50, 800, |events| {
            let phase = events.0.unit();
            let next = |second: usize| {
                (100.0 + 200.0 * (second as f64 / period_s + phase).fract() + 2.0 * events.normal()).round()
            };
            (0..HOUR).map(next).collect()
        });
        assert_eq!(false_alarms, 0, "{period_s}");
    }
}

#[test]
fn a_step_is_no_leak() {
    for step in [50, 150, 250] {
        let counts: Vec<f64> = (0..300).map(|second| if second < step { 10.0 } else { 500.0 }).collect();
        assert_eq!(evaluate(&counts), None, "{step}");
    }
}

#[test]
fn a_leak_is_found_in_noise() {
    for (per_s, noise, within_s) in
        [(2.0, 0.0, 120), (2.0, 5.0, 120), (2.0, 30.0, 300), (0.2, 0.0, 300), (0.5, 30.0, 1200)]
    {
        let mut late = 0;
        for seed in 0..50 {
            let mut events = Events(SplitMix64(seed));
            let leak = events.leak(within_s, per_s);
            let counts: Vec<f64> =
                leak.iter().map(|leaked| (200.0 + leaked + noise * events.normal()).round()).collect();
            late += u64::from(found_after(&counts, 100).is_none());
        }
        assert!(late <= 2, "{late} of 50: {per_s}/s, deviation {noise}");
    }
}

#[test]
fn a_leak_is_found_among_healthy_connections() {
    for (per_s, mean, lifetime_s, within_s) in [(2.0, 100.0, 10.0, 240), (2.0, 1000.0, 60.0, 600)] {
        let mut late = 0;
        for seed in 0..50 {
            let mut events = Events(SplitMix64(seed));
            let leak = events.leak(within_s, per_s);
            let healthy = events.connections(within_s, mean, lifetime_s, mean);
            let counts: Vec<f64> =
                leak.iter().zip(healthy).map(|(leaked, healthy)| leaked + healthy).collect();
            late += u64::from(found_after(&counts, 100).is_none());
        }
        assert!(late <= 2, "{late} of 50: {per_s}/s among {mean} of {lifetime_s} s");
    }
}
