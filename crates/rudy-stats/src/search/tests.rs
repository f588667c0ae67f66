use proptest::prelude::*;

use super::*;

const FAILED: StepResult = StepResult::Failed(Cause::Latency);

/// Runs a search on a simulated server: the result and the steps.
fn search(
    options: Options,
    ceiling: f64,
    mut server: impl FnMut(Step) -> StepResult,
) -> (SearchResult, Vec<(Step, StepResult)>) {
    let mut search = Search::new(options, ceiling);
    let mut steps = Vec::new();
    loop {
        match search.next() {
            Next::Done(result) => return (result, steps),
            Next::Step(step) => {
                assert!((options.lowest..=options.highest).contains(&step.rate), "{step:?}");
                let report = server(step);
                steps.push((step, report));
                assert!(steps.len() <= (STEPS_MAX + HOLDS_MAX) as usize, "{steps:?}");
                search.report(report);
            }
        }
    }
}

fn hard(limit: f64) -> impl FnMut(Step) -> StepResult {
    move |step| if step.rate <= limit { StepResult::Passed } else { FAILED }
}

#[test]
fn it_doubles_bisects_votes_and_confirms() {
    let (result, steps) = search(Options::default(), 16_000.0, hard(11_000.0));
    let seen: Vec<_> = steps.iter().map(|(step, _)| (step.kind, step.rate)).collect();
    assert_eq!(
        seen,
        [
            (Kind::Bracket, 2000.0),
            (Kind::Bracket, 4000.0),
            (Kind::Bracket, 8000.0),
            (Kind::Bracket, 16_000.0),
            (Kind::Bisect, 11_310.0),
            (Kind::Bisect, 9512.0),
            (Kind::Vote, 10_370.0),
            (Kind::Vote, 10_370.0),
            (Kind::Vote, 10_830.0),
            (Kind::Vote, 10_830.0),
            (Kind::Vote, 11_310.0),
            (Kind::Hold, 10_830.0),
        ]
    );
    assert_eq!(
        result,
        SearchResult { passed: Some(10_830.0), failed: Some((11_310.0, Cause::Latency)), incomplete: None }
    );
    assert!(!result.is_lower_bound());
}

#[test]
fn a_single_failed_step_does_not_decide() {
    let mut is_first = true;
    let (result, _) = search(Options::default(), 16_000.0, |step| {
        // The first step at 4000 is disturbed.
        if same(step.rate, 4000.0) && std::mem::take(&mut is_first) {
            return StepResult::Failed(Cause::Errors);
        }
        hard(11_000.0)(step)
    });
    assert!((10_400.0..=11_000.0).contains(&result.passed.unwrap()), "{result:?}");
    assert_eq!(result.failed.unwrap().1, Cause::Latency);
}

#[test]
fn a_server_that_never_passes_is_tried_down_to_the_lowest_rate() {
    let options = Options { lowest: 10.0, ..Options::default() };
    let (result, steps) = search(options, 16_000.0, |_| StepResult::Failed(Cause::Errors));
    assert_eq!(result, SearchResult { passed: None, failed: Some((10.0, Cause::Errors)), incomplete: None });
    assert_eq!(steps.len(), 6, "2000, 500, 125, 31.25, 10, and a vote: {steps:?}");
}

#[test]
fn a_server_that_never_fails_is_tried_up_to_the_highest_rate() {
    let options = Options { highest: 100_000.0, ..Options::default() };
    let (result, steps) = search(options, 16_000.0, |_| StepResult::Passed);
    assert_eq!(result, SearchResult { passed: Some(100_000.0), failed: None, incomplete: None });
    assert!(result.is_lower_bound());
    assert_eq!(steps.last().unwrap().0.kind, Kind::Hold);
}

#[test]
fn a_failure_of_the_client_or_for_want_of_connections_makes_the_result_a_lower_bound() {
    for cause in [Cause::Client, Cause::Connections] {
        let (result, _) = search(Options::default(), 16_000.0, |step| {
            if step.rate > 9000.0 { StepResult::Failed(cause) } else { StepResult::Passed }
        });
        assert!(result.is_lower_bound() && result.passed.unwrap() <= 9000.0, "{result:?}");
    }
}

#[test]
fn after_a_failed_hold_it_bisects_with_holds_to_the_resolution() {
    for (long, holds) in [(10_500.0, 2), (9500.0, 6), (7000.0, 8), (5600.0, 10), (1000.0, 12)] {
        // Short steps pass up to 11,000.
        let server = |step: Step| hard(if step.kind == Kind::Hold { long } else { 11_000.0 })(step);
        let (result, steps) = search(Options::default(), 16_000.0, server);
        let (passed, (failed, _)) = (result.passed.unwrap(), result.failed.unwrap());
        assert!(passed <= long && long < failed && failed <= passed * 1.05, "{result:?}");
        assert_eq!(result.incomplete, None);
        let count = steps.iter().filter(|(step, _)| step.kind == Kind::Hold).count();
        assert!(count <= holds, "{long}: {count} holds, {steps:?}");
    }
}

#[test]
fn a_rate_that_passed_short_steps_is_reported_without_a_passing_hold() {
    let never = |step: Step| if step.kind == Kind::Hold { FAILED } else { hard(11_000.0)(step) };
    let (result, _) = search(Options::default(), 16_000.0, never);
    assert_eq!((result.passed, result.incomplete), (Some(2000.0), Some(Incomplete::Unconfirmed)));
    assert!(!result.is_lower_bound(), "{result:?}");
}

#[test]
fn a_step_lasts_until_it_has_enough_requests_and_no_longer_than_a_hold() {
    let options = Options { lowest: 20.0, requests: 450.0, ..Options::default() };
    let (_, steps) = search(options, 16_000.0, hard(25.0));
    let time = |rate: f64| steps.iter().find(|(step, _)| same(step.rate, rate)).unwrap().0.time.as_secs_f64();
    assert!((time(2000.0) - 6.0).abs() < 1e-9);
    assert!((time(31.25) - 14.4).abs() < 1e-9);
    assert!((time(20.0) - 22.5).abs() < 1e-9);
    let low = Options { lowest: 1.0, ..options };
    let (_, steps) = search(low, 8.0, hard(25.0));
    assert_eq!(steps[0].0.time, options.hold, "one request per second has no 450 within a hold");
}

#[test]
fn a_ceiling_of_0_starts_at_the_lowest_rate() {
    for ceiling in [0.0, f64::NAN, -1.0, f64::INFINITY] {
        let (result, steps) = search(Options::default(), ceiling, hard(100.0));
        assert_eq!(steps[0].0.rate.to_bits(), 1.0_f64.to_bits());
        assert!(result.passed.unwrap() <= 100.0);
    }
}

/// The probability to pass falls from 98 % to 2 % between 0.9 and 1.1 of the limit. Returns the result
/// relative to the limit.
fn soft(ceiling: f64, seed: u64) -> f64 {
    let (limit, mut random) = (5000.0, seed);
    let (result, _) = search(Options::default(), limit * ceiling, |step| {
        // Knuth's MMIX, of which the upper half is random enough.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let drawn = f64::from(u32::try_from(random >> 32).unwrap()) / f64::from(u32::MAX);
        let chance = 1.0 / (1.0 + (40.0 * (step.rate / limit).ln()).exp());
        if drawn < chance { StepResult::Passed } else { FAILED }
    });
    let (passed, (failed, _)) = (result.passed.unwrap(), result.failed.unwrap());
    assert!(passed < failed, "{result:?}");
    assert!(failed <= passed * 1.05 || result.incomplete.is_some(), "{result:?}");
    passed / limit
}

#[test]
fn a_soft_limit_is_found_near_where_half_of_the_steps_pass() {
    let found: Vec<f64> = (0..1000_u32).map(|n| soft(0.5 + f64::from(n) / 250.0, n.into())).collect();
    let near = found.iter().filter(|found| (0.88..1.08).contains(*found)).count();
    assert!(near >= 950, "{near} of 1000");
    // In the others, the long step failed by chance.
    assert!(found.iter().all(|found| (0.4..1.2).contains(found)));
}

proptest! {
    #[test]
    fn a_hard_limit_is_bracketed_to_the_resolution(
        limit in 2.0..1e6_f64, ceiling in 1.0..1e7_f64, resolution in 0.01..0.5_f64,
    ) {
        let options = Options { resolution, ..Options::default() };
        let (result, _) = search(options, ceiling, hard(limit));
        let (passed, (failed, _)) = (result.passed.unwrap(), result.failed.unwrap());
        prop_assert!(passed <= limit && limit < failed, "{result:?}");
        prop_assert!(failed <= passed * (1.0 + resolution), "{result:?}");
    }

    #[test]
    fn any_server_gets_a_bracket_of_the_resolution_or_a_reason(
        reports in prop::collection::vec(0..4_u8, 100), ceiling in 0.0..1e9_f64,
    ) {
        let mut reports = reports.into_iter();
        let (result, steps) = search(Options::default(), ceiling, |_| match reports.next() {
            Some(0 | 1) => StepResult::Passed,
            Some(2) => StepResult::Failed(Cause::Client),
            _ => FAILED,
        });
        let Some(passed) = result.passed else {
            // Nothing passed but rates that were voted down, or that failed their hold.
            let failures = |rate: f64| steps.iter().filter(|(step, report)| same(step.rate, rate) && *report != StepResult::Passed).count();
            let passing = steps.iter().filter(|(_, report)| *report == StepResult::Passed);
            for (step, _) in passing {
                prop_assert!(failures(step.rate) > 0, "{} was denied: {:?}", step.rate, steps);
            }
            return Ok(());
        };
        prop_assert!(steps.iter().any(|(step, report)| same(step.rate, passed) && *report == StepResult::Passed));
        if let Some((failed, _)) = result.failed {
            prop_assert!(passed < failed, "{:?}", result);
            prop_assert!(failed <= passed * 1.05 || result.incomplete.is_some(), "{:?}", result);
        }
        if result.incomplete != Some(Incomplete::Unconfirmed) {
            let is_hold = |(step, report): &(Step, StepResult)| {
                step.kind == Kind::Hold && same(step.rate, passed) && *report == StepResult::Passed
            };
            prop_assert!(steps.iter().any(is_hold), "{:?}", result);
        }
    }
}
