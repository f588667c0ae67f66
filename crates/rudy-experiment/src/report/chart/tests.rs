//! All charts with arbitrary records.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::record::{Interval, Outcome, Run, Step, Warning};
use crate::report::fixtures::{self, sample};

/// A workload of each kind; those that are drawn together more than once.
const WORKLOADS: &str = "\
[[workload]]\nname = \"1k\"\nkind = \"bench\"\npath = \"/1k\"\n\
[[workload]]\nname = \"slow\"\nkind = \"bench\"\npath = \"/r\"\nrate = 100\n\
[[workload]]\nname = \"fast\"\nkind = \"bench\"\npath = \"/r\"\nrate = 10000\n\
[[workload]]\nname = \"burst 9\"\nkind = \"burst\"\nrequests = 9\n\
[[workload]]\nname = \"burst-9\"\nkind = \"burst\"\nrequests = 90\n\
[[workload]]\nname = \"b\"\nkind = \"burst\"\nrequests = 900\n\
[[workload]]\nname = \"s\"\nkind = \"sequence\"\nrequests = 9\n\
[[workload]]\nname = \"k\"\nkind = \"max-rate\"\nslo = \"p99<20ms\"\n\
[[workload]]\nname = \"f\"\nkind = \"flood\"\nconnections = 100\nramp = \"5s\"\ntime = \"5s\"\n\
[[workload]]\nname = \"i\"\nkind = \"idle\"\nconnections = 100\nramp = \"5s\"\ntime = \"5s\"\n";

const METRICS: [&str; 9] = [
    "nines",
    "requests_per_s",
    "cpu_us_per_request",
    "p99_ns",
    "time_s",
    "errors",
    "max_rate_per_s",
    "private_bytes_per_connection",
    "schedule_delay_p99_ns",
];

/// This number of variants, and older metrics for each workload.
fn plan(variants: &[String], rounds: usize) -> String {
    let variant = |(index, variant): (usize, &String)| {
        let name = toml::Value::from(variant.as_str());
        let is_control = index == 0;
        format!(
            "[[variant]]\nname = {name}\ncommand = [\"x\"]\ncontrol = {is_control}\n\
             [[baseline]]\nname = \"old {index}\"\nvariant = {name}\nworkload = \"b\"\nmetrics = {{ time_s = {index} }}\n"
        )
    };
    let variants: String = variants.iter().enumerate().map(variant).collect();
    format!("rounds = {rounds}\nsource = \"long ago, in <1999> & before\"\n{WORKLOADS}{variants}")
}

/// Fills a run with these numbers, over and over.
fn fill(run: &mut Run, numbers: &[f64]) {
    let mut numbers = numbers.iter().copied().cycle();
    let mut next = || numbers.next().unwrap_or(0.0);
    run.metrics = METRICS.iter().map(|name| ((*name).to_owned(), next())).collect();
    run.latency = Some([0.0, 0.5, 0.9, 0.99, 1.0].iter().map(|quantile| [*quantile, next()]).collect());
    run.samples = (0..5_u32)
        .map(|second| sample(f64::from(second), &[("core-0", next()), ("core-1", next())]))
        .collect();
    for (second, sample) in run.samples.iter_mut().enumerate() {
        (sample.connections, sample.private_bytes) = (second as u64 * 25, 1 << (20 + second));
        let odd = next();
        if odd.is_nan() || odd < 1e-3 {
            sample.t_s = odd;
        }
    }
    let interval = |second: u32| Interval {
        t_s: f64::from(second),
        requests_per_s: next(),
        p50_ns: None,
        p99_ns: (second != 2).then(&mut next),
    };
    run.intervals = (1..5).map(interval).collect();
    let step =
        |passed| Step { rate_per_s: next(), p99_ns: Some(next()), passed, reason: "so & so".to_owned() };
    run.steps = [true, false].map(step).to_vec();
    run.steps.push(Step { rate_per_s: 5.0, p99_ns: None, passed: false, reason: String::new() });
    if next() > 0.0 {
        let concerns = METRICS.map(str::to_owned).to_vec();
        run.warnings = vec![Warning { sentence: "why".to_owned(), concerns }];
    }
}

fn experiment(variants: &[String], rounds: usize, numbers: &[f64]) -> Experiment {
    let mut experiment = fixtures::experiment(&plan(variants, rounds), |_| Some(Vec::new()));
    for (index, run) in experiment.runs.iter_mut().enumerate() {
        fill(run, &numbers[index % numbers.len()..]);
    }
    experiment
}

/// The properties of every chart; `rudy-charts` tests that its documents are valid.
fn check(charts: &[Chart]) -> Result<(), String> {
    let mut ids = HashSet::new();
    for chart in charts {
        let wrong = |what: String| format!("{}: {what}\n{}", chart.id, chart.svg);
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if !chart.id.bytes().all(is_plain) || !ids.insert(&chart.id) {
            return Err(wrong("its id is no name of a file, or not its own".to_owned()));
        }
        if !chart.svg.contains(" data-tip=\"") || chart.title.is_empty() || chart.caption.is_empty() {
            return Err(wrong("it has no text or no tip".to_owned()));
        }
    }
    Ok(())
}

/// Numbers as they may stand in a file: measured, nothing, tiny, huge, and none.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![4 => 0.0..1e10_f64, 1 => Just(0.0), 1 => proptest::num::f64::ANY, 1 => 1e-12..1e-3_f64]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_records_give_charts(
        variants in proptest::collection::hash_set("[^\\\\p{C}]{1,40}", 1..10),
        rounds in 1..4_usize,
        numbers in proptest::collection::vec(number(), 1..60),
    ) {
        let variants: Vec<String> = variants.into_iter().filter(|name| !name.trim().is_empty()).collect();
        prop_assume!(!variants.is_empty());
        prop_assert_eq!(check(&charts(&experiment(&variants, rounds, &numbers))), Ok(()));
    }
}

/// Records that the property has found: rounds with no percentile in common but that of the fastest request, and seconds
/// without a value.
#[test]
fn records_with_few_values_give_no_empty_chart() {
    let mut sparse = [0.0; 13];
    (sparse[4], sparse[7], sparse[8]) = (1e-12, -5.8e155, -4.2e46);
    let cases = [(&["D", "a", "|"][..], 3, &sparse[..]), (&["a"], 1, &[0.0, 0.0, f64::INFINITY])];
    for (variants, rounds, numbers) in cases {
        let variants: Vec<String> = variants.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(check(&charts(&experiment(&variants, rounds, numbers))), Ok(()));
    }
}

fn usual(variants: usize) -> Experiment {
    let variants: Vec<String> = (0..variants).map(|number| format!("variant {number}")).collect();
    experiment(&variants, 3, &[1e6, 2e6, 3e6, 1.5e6, 4e6])
}

#[test]
fn every_kind_of_chart_is_there_and_none_without_data() {
    let kinds: HashSet<String> =
        charts(&usual(2)).iter().filter_map(|chart| Some(chart.id.split('-').next()?.to_owned())).collect();
    let expected = [
        "cpu", "errors", "heat", "max", "schedule", "latency", "memory", "nines", "private", "rates",
        "requests", "seconds", "baseline", "threads", "time",
    ];
    assert!(expected.iter().all(|kind| kinds.contains(*kind)), "{kinds:?}");
    let mut empty = usual(2);
    empty.heads[0].plan.baselines.clear();
    for run in &mut empty.runs {
        run.outcome = Outcome::Failed { why: "it ended".to_owned() };
    }
    assert_eq!(charts(&empty).len(), 0, "of failures there is nothing to draw");
}

#[test]
fn a_variant_has_the_same_style_in_every_chart() {
    for chart in charts(&usual(3)).iter().filter(|chart| chart.id.starts_with("latency")) {
        assert!(chart.svg.contains("class=\"line s2\""), "{}", chart.id);
    }
}
