use proptest::prelude::*;

use super::*;

fn constant(rate: f64) -> Schedule {
    Schedule::new(Profile::Constant(rate), Arrivals::Uniform, Share::WHOLE).unwrap()
}

fn linear_ramp(from: f64, to: f64, seconds: u64) -> Schedule {
    let profile = Profile::Ramp { from, to, over: Duration::from_secs(seconds) };
    Schedule::new(profile, Arrivals::Uniform, Share::WHOLE).unwrap()
}

fn poisson(rate: f64, seed: u64, share: Share) -> Schedule {
    Schedule::new(Profile::Constant(rate), Arrivals::Poisson { seed }, share).unwrap()
}

#[test]
fn jitter_moves_each_gap_by_a_tenth_at_most_and_keeps_the_rate() {
    let schedule =
        Schedule::new(Profile::Constant(1000.0), Arrivals::Jitter { seed: 7 }, Share::WHOLE).unwrap();
    let due: Vec<_> = schedule.due().take(10_001).map(|due| due.as_secs_f64()).collect();
    let gaps: Vec<_> = due.windows(2).map(|pair| (pair[1] - pair[0]) * 1000.0).collect();
    assert!(gaps.iter().all(|gap| (0.899..1.101).contains(gap)));
    assert!(gaps.iter().any(|gap| *gap < 0.92) && gaps.iter().any(|gap| *gap > 1.08));
    assert!((due[10_000] - 10.0).abs() < 0.02, "{}", due[10_000]);
}

#[test]
fn request_k_of_a_constant_rate_is_due_at_k_over_r() {
    let due: Vec<_> = constant(4.0).due().take(4).map(|due| due.as_millis()).collect();
    assert_eq!(due, [0, 250, 500, 750]);
}

#[test]
fn the_ten_thousand_millionth_request_is_due_to_the_nanosecond() {
    // 10^10 requests at 100,000 a second take 10^5 seconds; a sum of 10 µs steps in an f64 is off by milliseconds.
    assert_eq!(constant(100_000.0).due_at(10_000_000_000), Duration::from_secs(100_000));
    assert_eq!(constant(100_000.0).due_at(9_999_999_999), Duration::from_micros(99_999_999_990));
    // Where the result is no whole number of nanoseconds it is off by less than one: 10^7 / 3 s are 38 days.
    let off = constant(3.0).due_at(10_000_000).abs_diff(Duration::from_nanos(3_333_333_333_333_333));
    assert!(off <= Duration::from_nanos(1), "{off:?}");
}

#[test]
fn a_ramp_has_the_area_under_its_line_as_count() {
    // From 0 to 1000 a second over 10 s: 50 t² requests, so the 800th is due at 4 s; 5000 in all; then 1000 a second.
    let ramp = linear_ramp(0.0, 1000.0, 10);
    assert_eq!(ramp.due_at(0), Duration::ZERO);
    assert_eq!(ramp.due_at(800), Duration::from_secs(4));
    assert_eq!(ramp.due_at(5000), Duration::from_secs(10));
    assert_eq!(ramp.due_at(6500), Duration::from_millis(11_500));
    assert_eq!(ramp.planned(Duration::from_secs(10)), 5000);
    // Falling, from 1000 to 500 over 10 s: 1000 t − 25 t².
    let ramp = linear_ramp(1000.0, 500.0, 10);
    assert_eq!(ramp.due_at(3600), Duration::from_secs(4));
    assert_eq!(ramp.due_at(7500), Duration::from_secs(10));
    assert_eq!(ramp.due_at(8000), Duration::from_secs(11));
}

#[test]
fn a_level_ramp_is_a_constant_rate() {
    let (level, constant) = (linear_ramp(1000.0, 1000.0, 10), constant(1000.0));
    for k in [0, 1, 999, 9_999, 10_000, 123_456] {
        assert_eq!(level.due_at(k), constant.due_at(k), "{k}");
    }
    // All but level: where the textbook's formula has lost every digit.
    let nearly = linear_ramp(1000.0, 1_000.000_000_001, 10);
    assert_eq!(nearly.due_at(5000), Duration::from_secs(5));
}

#[test]
fn a_request_due_at_the_end_is_not_planned() {
    let second = Duration::from_secs(1);
    assert_eq!(constant(10.0).planned(second), 10);
    assert_eq!(constant(10.0).planned(second + Duration::from_nanos(1)), 11);
    assert_eq!(constant(0.1).planned(30 * second), 3);
    assert_eq!(constant(10.0).planned(Duration::ZERO), 0);
    let share = Schedule { share: Share::new(2, 3).unwrap(), ..constant(10.0) };
    assert_eq!(share.planned(second), 3, "the 3rd, 6th and 9th");
}

#[test]
fn a_share_of_a_share_is_a_share() {
    let machine = Share::new(1, 3).unwrap();
    assert_eq!(machine.split(Share::new(2, 4).unwrap()), Share::new(7, 12));
    assert_eq!(Share::new(3, 3), None);
    let many = Share::new(0, u32::MAX).unwrap();
    assert_eq!(many.split(many), None);
}

#[test]
fn an_invalid_plan_is_rejected_with_its_reason() {
    for (profile, reason) in [
        (Profile::Constant(0.0), "a plan from 0 to 0 requests per second"),
        (Profile::Constant(f64::NAN), "a plan from NaN to NaN"),
        (Profile::Constant(2e9), "at most 1000000000"),
        (Profile::Ramp { from: -1.0, to: 5.0, over: Duration::from_secs(1) }, "a plan from -1 to 5"),
        (Profile::Ramp { from: 1.0, to: 5.0, over: Duration::ZERO }, "a ramp needs a duration"),
    ] {
        let error = Schedule::new(profile, Arrivals::Uniform, Share::WHOLE).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn a_rate_of_one_a_century_does_not_overflow() {
    assert_eq!(constant(1e-300).due_at(u64::MAX), Duration::MAX);
    assert_eq!(constant(1e9).planned(Duration::MAX), u64::MAX);
}

#[test]
fn the_seed_and_the_share_determine_the_times() {
    let random_positions = |seed, share| poisson(1000.0, seed, share).due().take(5).collect::<Vec<_>>();
    let half = |index| Share::new(index, 2).unwrap();
    assert_eq!(random_positions(1, Share::WHOLE), random_positions(1, Share::WHOLE));
    assert_ne!(random_positions(1, Share::WHOLE), random_positions(2, Share::WHOLE));
    assert_ne!(random_positions(1, half(0)), random_positions(1, half(1)));
}

/// The mean and the standard deviation of the gaps, in seconds.
fn gaps(mut due: Vec<Duration>) -> (f64, f64) {
    due.sort_unstable();
    let gaps: Vec<f64> =
        due.windows(2).map(|pair| pair[1].checked_sub(pair[0]).unwrap().as_secs_f64()).collect();
    let count = float(gaps.len() as u64);
    let mean = gaps.iter().sum::<f64>() / count;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count;
    (mean, variance.sqrt())
}

#[test]
fn the_gaps_of_a_poisson_plan_are_exponential_whole_and_in_joined_shares() {
    // An exponential's mean and standard deviation are one number; of 100,000 each is within 2 % of it.
    let whole = poisson(1000.0, 7, Share::WHOLE).due().take(100_000).collect();
    let until = Duration::from_secs(100);
    let shares = (0..5).flat_map(|index| {
        poisson(1000.0, 7, Share::new(index, 5).unwrap()).due().take_while(move |due| *due < until)
    });
    for (mean, stdev) in [gaps(whole), gaps(shares.collect())] {
        assert!((mean * 1000.0 - 1.0).abs() < 0.02 && (stdev * 1000.0 - 1.0).abs() < 0.02, "{mean} {stdev}");
    }
}

#[test]
fn a_poisson_ramp_has_the_expected_count() {
    let profile = Profile::Ramp { from: 0.0, to: 10_000.0, over: Duration::from_secs(10) };
    let schedule = Schedule::new(profile, Arrivals::Poisson { seed: 3 }, Share::WHOLE).unwrap();
    for (seconds, expected) in [(5, 12_500.0_f64), (10, 50_000.0), (12, 70_000.0)] {
        let seen = schedule.due().take_while(|due| *due < Duration::from_secs(seconds)).count();
        let off = (float(seen as u64) - expected).abs() / expected.sqrt();
        assert!(off < 4.0, "{seen} of {expected}: {off} standard deviations");
    }
}

#[test]
fn late_gaps_are_as_exact_as_the_first() {
    let mut early = RandomPositions::new(Gap::Exponential, 1, Share::WHOLE);
    let mut late = early.clone();
    late.whole = 10_000_000_000;
    for _ in 0..1000 {
        let (early, late) = (early.next(), late.next() - 1e10);
        assert!((early - late).abs() < 2e-6, "{early} {late}");
    }
    assert_eq!(early.fraction.to_bits(), late.fraction.to_bits());
}

proptest! {
    #[test]
    fn shares_together_are_the_plan(
        rate in 0.01..1e6_f64, to in 0.01..1e6_f64, seconds in 1..1000_u64, of in 1..20_u32,
    ) {
        let whole = linear_ramp(rate, to, seconds);
        let shares = (0..of).map(|index| Schedule { share: Share::new(index, of).unwrap(), ..whole });
        let mut due: Vec<_> = shares.clone().flat_map(|share| share.due().take(10)).collect();
        due.sort_unstable();
        prop_assert_eq!(due, whole.due().take(10 * of as usize).collect::<Vec<_>>());
        let total = Duration::from_secs(seconds * 2);
        prop_assert_eq!(shares.map(|share| share.planned(total)).sum::<u64>(), whole.planned(total));
    }

    #[test]
    fn the_planned_count_is_where_the_formula_passes_the_end(
        rate in 0.01..1e6_f64, to in 0.01..1e6_f64, seconds in 1..1000_u64, milliseconds in 0..2_000_000_u64,
    ) {
        let (plan, total) = (linear_ramp(rate, to, seconds), Duration::from_millis(milliseconds));
        let planned = plan.planned(total);
        prop_assert!(plan.due_at(planned) >= total);
        prop_assert!(planned == 0 || plan.due_at(planned - 1) < total);
    }

    #[test]
    fn time_does_not_run_backward(from in 0.0..1e6_f64, to in 0.01..1e6_f64, seconds in 1..1000_u64, k in 0..1_u64 << 40) {
        let plan = linear_ramp(from, to, seconds);
        prop_assert!(plan.due_at(k) <= plan.due_at(k + 1));
    }
}
