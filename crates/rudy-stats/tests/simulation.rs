//! What the verdicts are worth: subjects whose difference is known, measured again and again.
//!
//! The seeds are fixed, so each of these shows the same figures every time; the bounds leave three standard errors beside
//! what theory expects.

use rudy_stats::compare::{Better, Comparison, Delta, Finding, Paired, Summary, Verdict, judge};

/// Vigna's splitmix64, <https://prng.di.unimi.it/splitmix64.c>.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // Above 0, so that it has a logarithm; 32 bits are enough here.
        let high = u32::try_from((mixed ^ (mixed >> 31)) >> 32).expect("the high half has 32 bits");
        (f64::from(high) + 0.5) / 4_294_967_296.0
    }

    /// Box and Muller, 1958.
    fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Student's, of two degrees of freedom, whose variance is infinite.
    fn heavy(&mut self) -> f64 {
        self.normal() / (-self.unit().ln()).sqrt()
    }
}

/// By what a round multiplies a value.
type Noise = fn(&mut Random) -> f64;

const NOISES: [(&str, Noise); 3] = [
    ("normal, 3 %", |random| 1.0 + 0.03 * random.normal()),
    ("lognormal, 30 %", |random| (0.3 * random.normal()).exp()),
    ("heavy tails", |random| (0.03 * random.heavy()).exp()),
];

fn values(random: &mut Random, rounds: usize, level: f64, noise: Noise) -> Vec<f64> {
    (0..rounds).map(|_| level * noise(random)).collect()
}

fn comparison(a: &[f64], b: &[f64]) -> Comparison {
    Comparison {
        paired: Paired::new(a, b).expect("noise leaves a level positive"),
        better: Better::Lower,
        delta: Delta::default(),
        controls: Vec::new(),
    }
}

/// A report of subjects at these levels against one at 1, in ten rounds.
fn report(random: &mut Random, levels: &[f64], noise: Noise) -> Vec<Finding> {
    let baseline = values(random, 10, 1.0, noise);
    let of_level = |level: &f64| comparison(&values(random, 10, *level, noise), &baseline);
    judge(&levels.iter().map(of_level).collect::<Vec<_>>())
}

/// The share of `times` in which it is so.
fn share(times: u32, mut is_so: impl FnMut() -> bool) -> f64 {
    f64::from((0..times).map(|_| u32::from(is_so())).sum::<u32>()) / f64::from(times)
}

#[test]
fn the_interval_holds_the_true_ratio_in_95_of_100_cases_whatever_the_noise() {
    for (name, noise) in NOISES {
        for rounds in [10, 20] {
            let mut random = Random(1);
            let held = share(1500, || {
                let a = values(&mut random, rounds, 1.1, noise);
                let b = values(&mut random, rounds, 1.0, noise);
                Paired::new(&a, &b).unwrap().interval(0.95).unwrap().contains(1.1)
            });
            assert!((0.93..=0.97).contains(&held), "{name}, {rounds} rounds: {held}");
        }
    }
}

#[test]
fn of_few_rounds_the_interval_holds_the_true_ratio_as_often_as_it_says() {
    for rounds in 6..10 {
        let mut random = Random(2);
        let mut said = 0.0;
        let held = share(2000, || {
            let a = values(&mut random, rounds, 2.0, NOISES[1].1);
            let b = values(&mut random, rounds, 1.0, NOISES[1].1);
            let interval = Paired::new(&a, &b).unwrap().interval(0.95).unwrap();
            said = interval.confidence;
            interval.contains(2.0)
        });
        assert!((held - said).abs() < 0.014 && said >= 0.95, "{rounds} rounds: {held} {said}");
    }
}

#[test]
fn the_interval_of_one_subjects_rounds_holds_their_median() {
    let mut random = Random(3);
    let mut said = 0.0;
    let held = share(3000, || {
        let interval = Summary::of(&values(&mut random, 12, 1.0, NOISES[1].1)).unwrap().interval.unwrap();
        said = interval.confidence;
        interval.contains(1.0)
    });
    assert!((held - said).abs() < 0.012 && said >= 0.95, "{held} {said}");
}

#[test]
fn a_subject_is_called_different_from_itself_in_5_of_100_cases_at_most() {
    for ((name, noise), most) in NOISES.into_iter().zip([0.04, 0.05, 0.05]) {
        let mut random = Random(4);
        let differs = share(3000, || report(&mut random, &[1.0], noise)[0].verdict.is_difference());
        // Theory has 50 in 1024, less what lies within the margins.
        assert!(differs <= most, "{name}: {differs}");
    }
}

#[test]
fn of_five_comparisons_without_a_difference_one_is_found_in_5_of_100_reports_at_most() {
    for (name, noise) in NOISES {
        let mut random = Random(5);
        let any = share(600, || {
            report(&mut random, &[1.0; 5], noise).iter().any(|finding| finding.verdict.is_difference())
        });
        assert!(any <= 0.05, "{name}: {any}");
    }
}

#[test]
fn true_differences_beside_them_do_not_make_the_others_different() {
    // Four are found, so Holm holds the fifth against 5 %.
    let mut random = Random(6);
    let any = share(600, || {
        let findings = report(&mut random, &[4.0, 4.0, 1.0, 4.0, 4.0], NOISES[1].1);
        assert_eq!(findings[0].verdict, Verdict::Worse);
        findings[2].verdict.is_difference()
    });
    assert!(any <= 0.05, "{any}");
}

#[test]
fn five_intervals_hold_their_ratios_all_at_once() {
    let mut random = Random(7);
    let levels = [0.9, 1.0, 1.0, 1.02, 1.3];
    let held = share(800, || {
        let findings = report(&mut random, &levels, NOISES[1].1);
        findings.iter().zip(levels).all(|(finding, level)| finding.interval.contains(level))
    });
    // 95.4 % of 10,000 reports: those that Holm narrows take a little from what Bonferroni leaves.
    assert!(held >= 0.93, "{held}");
}

#[test]
fn a_subject_that_is_10_percent_slower_is_found_out_in_ten_rounds_of_3_percent_noise() {
    let mut random = Random(8);
    // Of 10,000 all.
    let alone = share(1000, || report(&mut random, &[1.1], NOISES[0].1)[0].verdict == Verdict::Worse);
    assert!(alone >= 0.999, "{alone}");
    // As one of five comparisons it is held against 1 %: of 5000 it is found in 99.7 %.
    let of_five = share(400, || {
        report(&mut random, &[1.0, 1.0, 1.1, 1.0, 1.0], NOISES[0].1)[2].verdict == Verdict::Worse
    });
    assert!(of_five >= 0.98, "{of_five}");
}

#[test]
fn an_equal_one_is_called_equivalent_where_the_noise_lets_one_see_it() {
    let mut random = Random(9);
    let quiet: Noise = |random| 1.0 + 0.01 * random.normal();
    let equivalent = share(500, || report(&mut random, &[1.0], quiet)[0].verdict == Verdict::Equivalent);
    assert!(equivalent >= 0.99, "{equivalent}");
}

#[test]
fn one_that_is_worse_by_just_what_matters_is_called_equivalent_in_one_case_of_forty_at_most() {
    for (name, noise) in NOISES {
        let mut random = Random(10);
        let equivalent =
            share(1500, || report(&mut random, &[1.05], noise)[0].verdict == Verdict::Equivalent);
        assert!(equivalent <= 0.025 + 0.012, "{name}: {equivalent}");
    }
}
