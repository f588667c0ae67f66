//! From records to sentences.

use rudy_stats::compare::{Outcome, Verdict};

use super::*;
use crate::experiment::Experiment;
use crate::record::{Run, Warning};
use crate::report::fixtures::{self, RunId};
use crate::report::rows;

/// Two variants, one of them a control, one workload, one metric.
fn plan(rounds: usize, metrics: &str) -> String {
    format!(
        "name = \"made\"\nquestion = \"Which?\"\nrounds = {rounds}\n\
         [[variant]]\nname = \"new\"\ncommand = [\"new\"]\n\
         [[variant]]\nname = \"old\"\ncommand = [\"old\"]\ncontrol = true\n\
         [[workload]]\nname = \"1k\"\nkind = \"bench\"\n\
         [[compare]]\nvariant = \"new\"\nwith = \"old\"\nmetrics = [{metrics}]\n"
    )
}

/// CPU per request, by the run.
fn cpu(rounds: usize, value: impl Fn(&RunId) -> Option<f64>) -> Experiment {
    fixtures::experiment(&plan(rounds, "\"cpu_us_per_request\""), |id| {
        Some(vec![("cpu_us_per_request", value(id)?)])
    })
}

/// Steele, Lea and Flood's `SplitMix64`, so that every run of a test has the same noise.
struct Noise(u64);

impl Noise {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let high = u32::try_from((mixed ^ (mixed >> 31)) >> 32).expect("the high half has 32 bits");
        (f64::from(high) + 0.5) / 4_294_967_296.0
    }

    /// About 1, with a deviation of 2 %: the sum of twelve is nearly normal.
    fn factor(&mut self) -> f64 {
        let sum: f64 = (0..12).map(|_| self.unit()).sum();
        1.0 + 0.02 * (sum - 6.0)
    }
}

/// An experiment of ten rounds in which `new` costs a multiple of `old`; each round affects all variants.
fn noisy(seed: u64, times: f64) -> Experiment {
    let mut noise = Noise(seed);
    let rounds: Vec<f64> = (0..10).map(|_| noise.factor().powi(3)).collect();
    let noise = std::cell::RefCell::new(noise);
    cpu(10, |id| {
        let level = if id.variant == "new" { 10.0 * times } else { 10.0 };
        Some(level * rounds[id.round] * noise.borrow_mut().factor())
    })
}

fn verdict(experiment: Experiment) -> Verdict {
    analyse(&[experiment]).sections[0].comparisons[0].verdict().expect("ten rounds are judged")
}

#[test]
fn ten_rounds_detect_a_difference_of_10_percent() {
    let found = (0..200).filter(|seed| verdict(noisy(*seed, 1.10)) == Verdict::Worse).count();
    assert_eq!(found, 200);
}

#[test]
fn equal_variants_are_neither_better_nor_worse() {
    let verdicts: Vec<_> = (0..400).map(|seed| verdict(noisy(seed, 1.0))).collect();
    let wrong = verdicts.iter().filter(|verdict| verdict.is_difference()).count();
    // 5 % plus three standard errors are 33; differences within 5 % do not count, so there are fewer.
    assert!(wrong <= 20, "{wrong} of 400");
    let same = verdicts.iter().filter(|verdict| **verdict == Verdict::Equivalent).count();
    assert!(same > 350, "{same} of 400");
}

#[test]
fn comparisons_use_rounds_with_both_variants_and_no_controls() {
    let experiment = cpu(10, |id| match (id.variant, id.round, id.is_control) {
        ("new", 3, _) => None,
        (_, _, true) => Some(1000.0),
        ("new", round, _) => Some([5.0, 5.1, 5.2][round % 3]),
        (_, round, _) => Some([10.0, 10.3, 10.1][round % 3]),
    });
    let all = [experiment];
    let report = analyse(&all);
    let section = &report.sections[0];
    let compared = &section.comparisons[0];
    assert_eq!((compared.rounds, compared.rounds_run, report.evaluated), (9, 10, 1));
    let Evaluation::Done(finding) = &compared.evaluation else { panic!("nine rounds are judged") };
    assert!((0.48..0.52).contains(&finding.ratio), "{}", finding.ratio);
    assert!(
        compared.sentence.starts_with("new needs 0.50 times the CPU per request of old in workload 1k (0.")
    );
    assert_eq!(
        events::lines(&section.failures),
        ["1k, new, 1 of 10 runs: it ended (exit code 1) under the workload"]
    );
    // Its second measurement costs a hundred times its first.
    let control = section.controls[0].outcome.as_ref().expect("it has ten rounds");
    assert_eq!((control.outcome, finding.is_flagged), (Outcome::Differs, true));
    assert!(compared.sentence.contains("a variant differs from itself"));
    assert_eq!(
        section.headline,
        [
            "new is better than old in CPU per request (0.50 times) in workload 1k. Some of these results depend on only \
          9 of 10 rounds (†), or on a variant that differs from itself (‡)."
        ]
    );
}

#[test]
fn a_value_with_missing_rounds_is_marked_with_their_number() {
    type Value = fn(&RunId) -> bool;
    let cases: [(Value, usize, &str, &str); 4] = [
        (|_| true, 10, "", "better"),
        (|id| id.variant == "old" || id.round < 6, 6, "†", "better; 6 of 10 rounds"),
        (|id| id.variant == "new" || id.round > 2, 7, "†", "better; 7 of 10 rounds"),
        (|id| id.round > 5, 4, "†", "too few rounds"),
    ];
    for (is_measured, rounds, mark, verdict) in cases {
        let all = [cpu(10, |id| is_measured(id).then_some(if id.variant == "new" { 5.0 } else { 10.0 }))];
        let report = analyse(&all);
        let section = &report.sections[0];
        let compared = &section.comparisons[0];
        assert_eq!((compared.rounds, compared.rounds_run), (rounds, 10));
        assert_eq!(
            (rows::ratio_with_marks(compared), rows::verdict(compared)),
            (format!("0.50{mark}"), verdict.to_owned())
        );
        let of = format!("{rounds} of 10 rounds");
        assert_eq!(compared.sentence.contains(&of), rounds < 10, "{}", compared.sentence);
        assert_eq!(section.headline[0].contains(&of), rounds < 10, "{}", section.headline[0]);
        let new = &section.tables[0].rows[0].1[0];
        assert_eq!(rows::median(new, &compared.metric).contains('†'), new.misses_rounds());
    }
}

#[test]
fn a_metric_with_missing_rounds_has_their_number() {
    let text =
        plan(10, "\"max_rate_per_s\"").replace("kind = \"bench\"", "kind = \"max-rate\"\nslo = \"p99<20ms\"");
    let mut experiment = fixtures::experiment(&text, |id| {
        let held = id.variant == "old" || id.round < 6;
        Some(if held { vec![("max_rate_per_s", 100.0)] } else { vec![] })
    });
    for run in experiment.runs.iter_mut().filter(|run| run.metrics.is_empty()) {
        let concerns = vec!["max_rate_per_s".to_owned()];
        run.warnings.push(Warning { sentence: "no rate held p99<20ms".to_owned(), concerns });
    }
    let all = [experiment];
    let section = analyse(&all).sections.remove(0);
    let compared = &section.comparisons[0];
    assert_eq!((compared.rounds, compared.is_suspect, compared.is_marked()), (6, true, true));
    let new = &section.tables[0].rows[0].1[0];
    assert_eq!(rows::spread(new, &compared.metric), "100/s† (6 of 10 rounds)");
}

#[test]
fn a_variant_that_failed_in_every_round_stays_in_the_table() {
    let all = [cpu(8, |id| (id.variant == "old").then_some(1.0))];
    let section = analyse(&all).sections.remove(0);
    let table = rows::table(&section.tables[0]);
    assert_eq!(table.head, ["", "new", "old"]);
    assert_eq!(table.body, [["CPU per request", "failed", "1.00 µs"]]);
}

#[test]
fn a_comparison_that_cannot_be_evaluated_has_a_reason() {
    type Value = fn(&RunId) -> Option<f64>;
    let cases: [(usize, Value, Option<f64>, &str); 6] = [
        (
            2,
            |id| Some(if id.variant == "new" { 5.0 } else { 10.0 }),
            Some(0.5),
            "no verdict: 2 rounds, 6 needed",
        ),
        (1, |_| Some(1.0), Some(1.0), "no verdict: 1 round, 6 needed"),
        (8, |id| (id.variant == "new").then_some(1.0), None, "old failed in every round"),
        (8, |_| Some(0.0), None, "both have 0 in each of 8 rounds, which is no ratio"),
        (
            8,
            |id| Some(if id.variant == "new" && id.round < 3 { 0.0 } else { 2.0 }),
            Some(1.0),
            "of 8 rounds new has 0 in 3, old has 0 in 0, which is no ratio",
        ),
        (
            8,
            |id| ((id.round < 4) == (id.variant == "new")).then_some(1.0),
            None,
            "there is no round with both",
        ),
    ];
    for (rounds, value, expected, expected_reason) in cases {
        let all = [cpu(rounds, value)];
        let report = analyse(&all);
        let compared = &report.sections[0].comparisons[0];
        let Evaluation::NotDone { ratio, reason, .. } = &compared.evaluation else {
            panic!("{expected_reason}: {}", compared.sentence)
        };
        assert_eq!((*ratio, reason.as_str()), (expected, expected_reason));
        assert!(compared.sentence.contains(expected_reason), "{}", compared.sentence);
        assert_eq!(report.sections[0].headline.len(), 1);
    }
}

#[test]
fn a_missing_metric_is_named() {
    let experiment = fixtures::experiment(&plan(8, "\"p99_ns\""), |id| {
        Some(if id.variant == "new" { vec![("p99_ns", 1e6)] } else { vec![] })
    });
    let all = [experiment];
    let report = analyse(&all);
    assert_eq!(
        report.sections[0].comparisons[0].sentence,
        "new and old, p99 latency in workload 1k: old shows no latency, p99"
    );
}

#[test]
fn a_value_from_a_suspect_run_is_marked_and_kept() {
    let warning = |run: &mut Run, metric: &str| {
        let sentence = format!("the generator was busy {} % of its time", 80 + run.round);
        run.warnings.push(Warning { sentence, concerns: vec![metric.to_owned()] });
    };
    for (metric, is_suspect) in [("cpu_us_per_request", true), ("p99_ns", false)] {
        let mut experiment = cpu(8, |id| Some(if id.variant == "new" { 5.0 } else { 10.0 }));
        let runs = experiment.runs.iter_mut().filter(|run| run.variant == "new" && run.round < 3);
        runs.for_each(|run| warning(run, metric));
        let all = [experiment];
        let report = analyse(&all);
        let section = &report.sections[0];
        let compared = &section.comparisons[0];
        assert_eq!((compared.is_suspect, compared.verdict()), (is_suspect, Some(Verdict::Better)));
        assert_eq!(section.tables[0].rows[0].1[0].is_suspect, is_suspect);
        let expected = "1k, new, 3 of 8 runs: for example: the generator was busy 80 % of its time";
        assert_eq!(events::lines(&section.warnings), [expected]);
        assert_eq!(section.headline[0].contains('†'), is_suspect, "{}", section.headline[0]);
    }
}

#[test]
fn the_correction_covers_all_experiments_of_a_report() {
    let better = || cpu(7, |id| Some(if id.variant == "new" { 5.0 } else { 10.0 }));
    let evaluated = |all: &[Experiment]| analyse(all).sections[0].comparisons[0].verdict();
    // Seven rounds are enough for three comparisons and not for four.
    assert_eq!(evaluated(&[better(), better(), better()]), Some(Verdict::Better));
    let four = [better(), better(), better(), better()];
    let report = analyse(&four);
    assert_eq!(report.evaluated, 4);
    assert_eq!(report.sections[3].comparisons[0].verdict(), Some(Verdict::Inconclusive));
    assert_eq!(report.sections[0].title, "made (made)");
}

#[test]
fn a_change_of_the_machine_is_reported() {
    let mut experiment = cpu(6, |_| Some(1.0));
    let mut later = experiment.heads[0].clone();
    later.machine.cores = 64;
    later.started = "2026-11-22T08:00:00Z".to_owned();
    experiment.heads.push(later);
    experiment.runs.pop();
    let all = [experiment];
    let remarks = analyse(&all).sections.remove(0).remarks;
    assert_eq!(remarks[0], "runs from 2026-11-22T08:00:00Z on were made on another machine");
    assert!(remarks[1].starts_with("17 of 18 runs were made"), "{}", remarks[1]);
}

#[test]
fn a_control_is_evaluated_without_comparisons() {
    let text = plan(8, "").split("[[compare]]").next().expect("there is something before it").to_owned();
    let all = [fixtures::experiment(&text, |_| Some(vec![("p99_ns", 1e6), ("errors", 0.0)]))];
    let section = analyse(&all).sections.remove(0);
    assert_eq!(section.headline, ["The plan compares nothing; the tables show the metrics of each variant."]);
    let metrics: Vec<_> = section.controls.iter().map(|control| control.metric.name.as_str()).collect();
    assert_eq!(metrics, ["p99_ns"]);
    assert_eq!(section.controls[0].outcome.as_ref().map(|shown| shown.outcome), Ok(Outcome::Agrees));
}

#[test]
fn a_baseline_is_next_to_the_current_result() {
    let baseline = "[[baseline]]\nname = \"Jetty\"\nvariant = \"new\"\nworkload = \"1k\"\ntext = \"three nines\"\n\
        [baseline.metrics]\ncpu_us_per_request = 20\n";
    let text = format!("source = \"a seminar of 2014\"\n{}{baseline}", plan(1, "\"cpu_us_per_request\""));
    let all = [fixtures::experiment(&text, |_| Some(vec![("cpu_us_per_request", 5.0)]))];
    let report = analyse(&all);
    let [jetty, old] = report.sections[0].baselines.as_slice() else {
        panic!("one then, and one more today")
    };
    let baseline = jetty.baseline.expect("it was shown then");
    assert_eq!((baseline.name, baseline.text, jetty.ratio()), ("Jetty", Some("three nines"), Some(0.25)));
    assert_eq!((old.current.map(|(variant, _)| variant), old.ratio()), (Some("old"), None));
}

#[test]
fn a_baseline_in_words_is_shown_next_to_the_nines_or_alone() {
    let baseline = "[[baseline]]\nname = \"lighttpd\"\nvariant = \"new\"\nworkload = \"1k\"\ntext = \"three nines\"\n\
        [[baseline]]\nname = \"Apache\"\nworkload = \"1k\"\ntext = \"fail\"\n";
    let text = plan(2, "\"cpu_us_per_request\"") + baseline;
    let baselines = |metrics: Option<&[(&'static str, f64)]>| {
        let all = [fixtures::experiment(&text, |_| metrics.map(<[_]>::to_vec))];
        let section = analyse(&all).sections.remove(0);
        rows::baselines(&section).body
    };
    let with_nines = [
        ["1k", "nines", "lighttpd", "three nines", "new", "4", "–"],
        ["1k", "nines", "Apache", "fail", "–", "–", "–"],
        ["1k", "nines", "–", "–", "old", "4", "–"],
    ];
    assert_eq!(baselines(Some(&[("cpu_us_per_request", 5.0), ("nines", 4.0)])), with_nines);
    let alone =
        [["1k", "–", "lighttpd", "three nines", "–", "–", "–"], ["1k", "–", "Apache", "fail", "–", "–", "–"]];
    for metrics in [Some([("cpu_us_per_request", 5.0)].as_slice()), None] {
        assert_eq!(baselines(metrics), alone);
    }
}
