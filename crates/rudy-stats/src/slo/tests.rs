use proptest::prelude::*;

use super::*;

fn slo(text: &str) -> Slo {
    text.parse().unwrap()
}

/// Latencies of 1 to 100 ms, ten each.
fn latencies() -> Histogram {
    let mut histogram = Histogram::new();
    (1..=100).for_each(|ms| histogram.record_n(Duration::from_millis(ms), 10));
    histogram
}

#[test]
fn the_strictest_bound_of_late_responses_decides_before_the_timeout() {
    let at_most = |text| slo(text).late_at_most().map(|(limit, share)| format!("{limit:?} {share:.3}"));
    assert_eq!(at_most("p50<5ms, p99<20ms, errors<0.01%").as_deref(), Some("20ms 0.010"));
    assert_eq!(at_most("p99<20ms, max<1s").as_deref(), Some("1s 0.000"));
    assert_eq!(at_most("mean<1ms, errors<1%"), None);
}

fn passes_and_text(text: &str, succeeded: u64, total: u64) -> (bool, String) {
    let evaluation = slo(text).evaluate(&latencies(), SuccessRate::new(succeeded, total))[0];
    (evaluation.passes(), evaluation.to_string())
}

/// The first responses took 1 ms, and the last ones, `slow`, a second.
fn evaluate_slow(fast: u64, slow: u64) -> Evaluation {
    let mut latency = Histogram::new();
    latency.record_n(Duration::from_millis(1), fast);
    latency.record_n(Duration::from_secs(1), slow);
    slo("p99<20ms").evaluate(&latency, SuccessRate::new(fast + slow, fast + slow))[0]
}

#[test]
fn a_percentile_needs_enough_requests() {
    assert_eq!(slo("p99<20ms, errors<1%").requests_needed(), 299);
    assert_eq!(slo("p99.9<20ms, p50<1ms").requests_needed(), 2995);
    assert_eq!(slo("p50<1ms, max<1s").requests_needed(), 5);
    let few = evaluate_slow(298, 0);
    assert!(!few.passes() && few.has_too_few_requests());
    assert_eq!(few.to_string(), "p99 needs 299 requests, after 298 requests");
    assert!(evaluate_slow(299, 0).passes());
    // 1 of 11 is no proof that more than 1 % are slow; 2 of 12 are.
    assert!(evaluate_slow(10, 1).has_too_few_requests());
    let slow = evaluate_slow(10, 2);
    assert!(!slow.passes() && !slow.has_too_few_requests(), "{slow}");
}

/// The numbers of requests that show p99 with 95 % confidence, for each number of requests above the limit: the sample sizes of
/// Wilks ("Determination of sample sizes for setting tolerance limits", Annals of Mathematical Statistics 12, 1941).
#[test]
fn a_percentile_is_met_from_the_sample_sizes_of_wilks_on() {
    for (slow, needed) in [(0, 299), (1, 473), (2, 628), (3, 773), (4, 913), (5, 1049)] {
        let enough = evaluate_slow(needed - slow, slow);
        assert!(enough.passes() && !enough.has_too_few_requests(), "{needed}: {enough}");
        let few = evaluate_slow(needed - slow - 1, slow);
        assert!(!few.passes() && few.has_too_few_requests(), "{needed}: {few}");
    }
    let undecided = evaluate_slow(399, 1).to_string();
    assert_eq!(undecided, "p99 1.00 ms, undecided: too near the limit after 400 requests");
}

#[test]
fn a_server_above_the_limit_in_more_than_1_percent_passes_in_at_most_one_step_of_twenty() {
    // The probability that `n` requests of which 1.1 % are slow have so few that the step passes.
    for n in [299_u32, 473, 1000, 2000] {
        let (mut probability, mut passing) = (0.989_f64.powi(n.cast_signed()), 0.0);
        for slow in 0..n / 50 {
            if evaluate_slow(u64::from(n - slow), slow.into()).passes() {
                passing += probability;
            }
            probability *= f64::from(n - slow) / f64::from(slow + 1) * 0.011 / 0.989;
        }
        assert!(passing > 0.0 && passing <= 0.05, "{n}: {passing}");
    }
}

#[test]
fn a_written_objective_can_be_parsed() {
    for (given, written) in [
        ("p99<20ms, errors<0.01%", "p99<20ms, errors<0.01%"),
        (" p99.9 <= 1.5 s,max<1000ms ", "p99.9<=1.5s, max<1s"),
        ("mean<250us,p50<0.1ms", "mean<250us, p50<100us"),
        ("errors <= 0 %", "errors<=0%"),
        ("p99.99<20µs", "p99.99<20us"),
    ] {
        assert_eq!(slo(given).to_string(), written);
        assert_eq!(slo(written), slo(given));
    }
}

#[test]
fn an_invalid_objective_is_reported_with_its_position() {
    for (given, error) in [
        ("", "at character 1: expected a term: p50, p99, p99.9"),
        ("p99<20ms, ", "at character 11: expected a term"),
        ("p99<20ms, eror<1%", "at character 11, \"eror\": expected a term"),
        ("p100<1s", "at character 1, \"p100\": expected a term"),
        ("p99", "at character 1, \"p99\": expected < or <="),
        ("p99>20ms", "at character 1, \"p99>20ms\": expected a term"),
        ("p99<20", "at character 5, \"20\": expected a time above 0 with its unit"),
        ("p99<=  -1ms", "at character 8, \"-1ms\": expected a time"),
        ("p99<0ms", "at character 5, \"0ms\": expected a time"),
        ("p99<=0.0001us", "at character 6, \"0.0001us\": expected a time"),
        ("p99<1%", "at character 5, \"1%\": expected a time"),
        ("p99<99999999999999999999s", "expected a time"),
        ("max<1s,errors<1", "at character 15, \"1\": expected a percentage"),
        ("errors<0%", "at character 8, \"0%\": expected a percentage"),
        ("errors<101%", "at character 8, \"101%\": expected a percentage"),
        ("ä<1s", "at character 1, \"ä\": expected a term"),
    ] {
        let found = given.parse::<Slo>().unwrap_err().to_string();
        assert!(found.starts_with(error) || found.contains(error) && !error.starts_with("at"), "{found}");
    }
}

#[test]
fn each_term_is_compared_with_its_metric() {
    for (given, passes, text) in [
        ("p99<100ms", true, "p99 99.0 ms"),
        ("p99<20ms", false, "p99 99.0 ms >= 20 ms"),
        ("p50<=49ms", false, "p50 50.0 ms > 49 ms"),
        ("max<101ms", true, "max 100 ms"),
        ("mean<50us", false, "mean 50.5 ms >= 50 µs"),
        ("errors<=0%", true, "errors 0 %"),
    ] {
        assert_eq!(passes_and_text(given, 1000, 1000), (passes, text.into()), "{given}");
    }
}

#[test]
fn the_relation_decides_at_the_bound() {
    // 1 of 128 is a percentage that binary fractions hold.
    assert_eq!(passes_and_text("errors<0.78125%", 127, 128), (false, "errors 0.781 % >= 0.78125 %".into()));
    assert_eq!(passes_and_text("errors<=0.78125%", 127, 128), (true, "errors 0.781 %".into()));
}

#[test]
fn failed_requests_count_as_infinite_latencies() {
    // 1000 of 2000 succeed: their maximum is the median of all, and the 51st percentile has no value.
    assert_eq!(
        passes_and_text("p50<=101ms", 1000, 2000),
        (false, "p50 100 ms, undecided: too near the limit after 2,000 requests".into())
    );
    assert_eq!(passes_and_text("p48<=101ms", 1000, 2000), (true, "p48 96.0 ms".into()));
    assert_eq!(passes_and_text("p51<10s", 1000, 2000), (false, "p51 without a response".into()));
    assert_eq!(passes_and_text("max<10s", 1000, 1001), (false, "max without a response".into()));
    assert_eq!(passes_and_text("mean<51ms", 1000, 1001), (true, "mean 50.5 ms".into()));
    let nothing =
        slo("p50<10s, mean<10s, max<10s, errors<1%").evaluate(&Histogram::new(), SuccessRate::new(0, 0));
    assert!(nothing.iter().all(|evaluation| !evaluation.passes()));
}

proptest! {
    #[test]
    fn any_text_is_rejected_or_survives_a_round_trip(text in "(p|max|mean|errors|[0-9]|<|=|\\.|,| |ms|us|s|%|ä){0,12}") {
        if let Ok(slo) = text.parse::<Slo>() {
            prop_assert_eq!(slo.to_string().parse::<Slo>(), Ok(slo));
        }
    }
}
