//! All charts with arbitrary records.

use std::collections::HashSet;

use proptest::prelude::*;

use super::wellformed;
use super::*;
use crate::record::{Doubt, Interval, Outcome, Run, Step};
use crate::report::chart::threads::made::sample;
use crate::report::made;

/// A load of each kind; those that are drawn together more than once.
const LOADS: &str = "\
[[load]]\nname = \"1k\"\nkind = \"bench\"\npath = \"/1k\"\n\
[[load]]\nname = \"slow\"\nkind = \"bench\"\npath = \"/r\"\nrate = 100\n\
[[load]]\nname = \"fast\"\nkind = \"bench\"\npath = \"/r\"\nrate = 10000\n\
[[load]]\nname = \"burst 9\"\nkind = \"burst\"\nrequests = 9\n\
[[load]]\nname = \"burst-9\"\nkind = \"burst\"\nrequests = 90\n\
[[load]]\nname = \"b\"\nkind = \"burst\"\nrequests = 900\n\
[[load]]\nname = \"s\"\nkind = \"sequence\"\nrequests = 9\n\
[[load]]\nname = \"k\"\nkind = \"knee\"\nslo = \"p99<20ms\"\n\
[[load]]\nname = \"f\"\nkind = \"flood\"\nconnections = 100\nramp = \"5s\"\ntime = \"5s\"\n\
[[load]]\nname = \"i\"\nkind = \"idle\"\nconnections = 100\nramp = \"5s\"\ntime = \"5s\"\n";

const FIGURES: [&str; 9] = [
    "nines",
    "requests_per_s",
    "cpu_us_per_request",
    "p99_ns",
    "time_s",
    "errors",
    "knee_per_s",
    "private_bytes_per_connection",
    "late_p99_ns",
];

/// This number of subjects, and older figures for each load.
fn plan(subjects: &[String], rounds: usize) -> String {
    let subject = |(index, subject): (usize, &String)| {
        let name = toml::Value::from(subject.as_str());
        let is_control = index == 0;
        format!(
            "[[subject]]\nname = {name}\ncommand = [\"x\"]\ncontrol = {is_control}\n\
             [[then]]\nsubject = \"old {index}\"\nbeside = {name}\nload = \"b\"\nfigures = {{ time_s = {index} }}\n"
        )
    };
    let subjects: String = subjects.iter().enumerate().map(subject).collect();
    format!("rounds = {rounds}\nsource = \"long ago, in <1999> & before\"\n{LOADS}{subjects}")
}

/// Fills a run with these numbers, over and over.
fn fill(run: &mut Run, numbers: &[f64]) {
    let mut numbers = numbers.iter().copied().cycle();
    let mut next = || numbers.next().unwrap_or(0.0);
    run.figures = FIGURES.iter().map(|name| ((*name).to_owned(), next())).collect();
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
    let step = |held| Step { rate_per_s: next(), p99_ns: Some(next()), held, words: "so & so".to_owned() };
    run.steps = [true, false].map(step).to_vec();
    run.steps.push(Step { rate_per_s: 5.0, p99_ns: None, held: false, words: String::new() });
    if next() > 0.0 {
        let concerns = FIGURES.map(str::to_owned).to_vec();
        run.doubts = vec![Doubt { sentence: "why".to_owned(), concerns }];
    }
}

fn experiment(subjects: &[String], rounds: usize, numbers: &[f64]) -> Experiment {
    let mut experiment = made::experiment(&plan(subjects, rounds), |_| Some(Vec::new()));
    for (index, run) in experiment.runs.iter_mut().enumerate() {
        fill(run, &numbers[index % numbers.len()..]);
    }
    experiment
}

/// What holds for every chart.
fn check(charts: &[Chart]) -> Result<(), String> {
    let mut ids = HashSet::new();
    for chart in charts {
        let wrong = |what: String| format!("{}: {what}\n{}", chart.id, chart.svg);
        wellformed::check(&chart.svg).map_err(&wrong)?;
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if !chart.id.bytes().all(is_plain) || !ids.insert(&chart.id) {
            return Err(wrong("its id is no name of a file, or not its own".to_owned()));
        }
        let numbers = chart.svg.split(['"', ' ', ',']).filter(|word| ["NaN", "inf", "-inf"].contains(word));
        if numbers.count() > 0 {
            return Err(wrong("a number that is none".to_owned()));
        }
        if chart.csv.lines().count() < 2 || chart.title.is_empty() || chart.caption.is_empty() {
            return Err(wrong("it has no text".to_owned()));
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
    fn any_records_give_documents_that_can_be_shown(
        subjects in proptest::collection::hash_set("[^\\\\p{C}]{1,40}", 1..10),
        rounds in 1..4_usize,
        numbers in proptest::collection::vec(number(), 1..60),
    ) {
        let subjects: Vec<String> = subjects.into_iter().filter(|name| !name.trim().is_empty()).collect();
        prop_assume!(!subjects.is_empty());
        prop_assert_eq!(check(&charts(&experiment(&subjects, rounds, &numbers))), Ok(()));
    }
}

fn usual(subjects: usize) -> Experiment {
    let subjects: Vec<String> = (0..subjects).map(|number| format!("subject {number}")).collect();
    experiment(&subjects, 3, &[1e6, 2e6, 3e6, 1.5e6, 4e6])
}

#[test]
fn every_kind_of_chart_is_there_and_none_without_data() {
    let kinds: HashSet<String> =
        charts(&usual(2)).iter().filter_map(|chart| Some(chart.id.split('-').next()?.to_owned())).collect();
    let expected = [
        "cpu", "errors", "heat", "knee", "late", "latency", "memory", "nines", "private", "rates",
        "requests", "seconds", "then", "threads", "time",
    ];
    assert!(expected.iter().all(|kind| kinds.contains(*kind)), "{kinds:?}");
    let mut empty = usual(2);
    empty.heads[0].plan.then.clear();
    for run in &mut empty.runs {
        run.outcome = Outcome::Failed { why: "it ended".to_owned() };
    }
    assert_eq!(charts(&empty).len(), 0, "of failures there is nothing to draw");
}

#[test]
fn a_chart_stands_alone() {
    for chart in charts(&usual(8)) {
        assert_eq!(check(std::slice::from_ref(&chart)), Ok(()));
        let svg = &chart.svg;
        assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 480 "), "{svg}");
        assert!(svg.contains("prefers-color-scheme: dark") && svg.contains("<rect class=\"paper\""));
        assert!(svg.contains(" data-tip=\""), "{}", chart.id);
        assert!(!svg.contains("http://www.w3.org/1999") && !svg.contains("<script") && !svg.contains("url("));
        let is_inside = |x: &str| {
            x.split('"')
                .next()
                .and_then(|x| x.parse::<f64>().ok())
                .is_some_and(|x| (0.0..=480.0).contains(&x))
        };
        assert!(svg.split(" x=\"").skip(1).all(is_inside), "{}: something is beside the sheet", chart.id);
    }
}

#[test]
fn a_subject_looks_the_same_in_every_chart() {
    for chart in charts(&usual(3)).iter().filter(|chart| chart.id.starts_with("latency")) {
        assert!(chart.svg.contains("class=\"line s2\""), "{}", chart.id);
    }
}
