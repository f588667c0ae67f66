//! The findings as sentences.

use rudy_stats::compare::{Delta, Interval, Verdict};
use rudy_units::digits;

use super::{ComparisonResult, Evaluation};

/// `1 round`, `2 rounds`.
pub(super) fn rounds(count: usize) -> String {
    if count == 1 { "1 round".to_owned() } else { format!("{count} rounds") }
}

/// The number of rounds, if some are missing: `6 of 10 rounds`.
pub(crate) fn rounds_of(count: usize, of: usize) -> String {
    if count < of { format!("{count} of {}", rounds(of)) } else { rounds(count) }
}

/// The rounds that exist, and those that a verdict needs.
pub(super) fn too_few(rounds: usize, of: usize, needed: usize) -> String {
    format!("{}, {needed} needed", rounds_of(rounds, of))
}

/// A suffix for results with missing rounds: `; 6 of 10 rounds`.
pub(crate) fn missing(count: usize, of: usize) -> String {
    if (1..of).contains(&count) { format!("; {}", rounds_of(count, of)) } else { String::new() }
}

/// A ratio with two decimals; with more if it would otherwise be shown as 1.
pub(crate) fn ratio(value: f64) -> String {
    if format!("{value:.2}") == "1.00" && (value - 1.0).abs() >= 0.0005 {
        return format!("{value:.3}");
    }
    digits_of_ratio(value)
}

/// The confidence level, rounded down, because 99.96 % is not 100 %.
pub(crate) fn percent(confidence: f64) -> String {
    format!("{:.1} %", (confidence * 1000.0 + 1e-9).floor() / 10.0)
}

fn digits_of_ratio(value: f64) -> String {
    match value {
        v if v < 0.00995 => format!("{v:.4}"),
        v if v < 0.0995 => format!("{v:.3}"),
        v if v < 9.995 => format!("{v:.2}"),
        v => digits(v),
    }
}

/// A comparison as a sentence.
pub(super) fn sentence(compared: &ComparisonResult, delta: Delta) -> String {
    let ComparisonResult { variant, with, workload, metric, .. } = compared;
    let (verb, noun) = metric.phrase();
    let under = if *workload == noun { String::new() } else { format!(" in workload {workload}") };
    let finding = match &compared.evaluation {
        Evaluation::Done(finding) => finding,
        Evaluation::NotDone { ratio: Some(times), reason, .. } => {
            return format!("{variant} {verb} {} times the {noun} of {with}{under}; {reason}", ratio(*times));
        }
        Evaluation::NotDone { ratio: None, reason, .. } => {
            return format!("{variant} and {with}, {noun}{under}: {reason}");
        }
    };
    let Interval { low, high, confidence } = finding.interval;
    let interval = format!("{} to {}, {} CI", ratio(low), ratio(high), percent(confidence));
    let measured =
        format!("{variant} {verb} {} times the {noun} of {with}{under} ({interval})", ratio(finding.ratio));
    let verdict = match finding.verdict {
        Verdict::Better => "better".to_owned(),
        Verdict::Worse => "worse".to_owned(),
        Verdict::Equivalent => format!("equivalent, within {} %", digits(delta.get() * 100.0)),
        Verdict::Inconclusive => "inconclusive".to_owned(),
    };
    let too_few = finding.too_few.map_or(String::new(), |few| format!("; {few}"));
    let flag = if finding.is_flagged { "; a variant differs from itself" } else { "" };
    let warning = if compared.is_suspect { "; some runs are suspect" } else { "" };
    let missing = missing(compared.rounds, compared.rounds_run);
    format!("{measured}: {verdict}{too_few}{missing}{flag}{warning}")
}

/// The answer to the question: for each compared pair, the metrics in which one is better, worse or
/// equivalent.
pub(super) fn headline(comparisons: &[ComparisonResult]) -> Vec<String> {
    if comparisons.is_empty() {
        return vec!["The plan compares nothing; the tables show the metrics of each variant.".to_owned()];
    }
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for compared in comparisons {
        if !pairs.contains(&(compared.variant, compared.with)) {
            pairs.push((compared.variant, compared.with));
        }
    }
    let of_pair = |(variant, with): &(&str, &str)| {
        let own: Vec<_> =
            comparisons.iter().filter(|one| (one.variant, one.with) == (*variant, *with)).collect();
        summary(variant, with, &own)
    };
    pairs.iter().map(of_pair).collect()
}

/// The result for two variants: `rudy is better than nginx in CPU per request in workloads 1k and 304 (0.61 to 0.74
/// times)`.
fn summary(variant: &str, with: &str, own: &[&ComparisonResult]) -> String {
    let workloads = workloads(own);
    let lists = [(Verdict::Better, "than"), (Verdict::Worse, "than"), (Verdict::Equivalent, "to")];
    let found = lists.map(|(verdict, than)| {
        let of_verdict: Vec<_> = own.iter().copied().filter(|one| one.verdict() == Some(verdict)).collect();
        (verdict, than, metrics_with_workloads(&of_verdict, workloads.len(), true))
    });
    let parts: Vec<_> = found.iter().filter(|(.., list)| !list.is_empty()).collect();
    let undecided: Vec<_> = own.iter().copied().filter(|one| !one.is_decided()).collect();
    let under = if let [workload] = workloads.as_slice() {
        format!(" in workload {workload}")
    } else {
        String::new()
    };
    let Some(((first, than, list), rest)) = parts.split_first() else {
        let (without, evaluated): (Vec<&ComparisonResult>, Vec<&ComparisonResult>) =
            undecided.iter().copied().partition(|one| one.reason_without_verdict().is_some());
        if evaluated.is_empty() {
            return format!("{variant} and {with}{under}: {}", not_evaluated(&without));
        }
        let without = match metrics_with_workloads(&without, workloads.len(), false) {
            none if none.is_empty() => none,
            metrics_with_workloads => format!(" No verdict: {metrics_with_workloads}."),
        };
        let evaluated = metrics_with_workloads(&evaluated, workloads.len(), false);
        return format!("{variant} and {with}{under}: inconclusive in {evaluated}.{without}");
    };
    let rest: Vec<_> = rest.iter().map(|(verdict, _, list)| format!("; {verdict} in {list}")).collect();
    let settled = format!("{variant} is {first} {than} {with} in {list}{}{under}.", rest.concat());
    let not_settled = if undecided.is_empty() {
        String::new()
    } else {
        format!(" Inconclusive: {}.", metrics_with_workloads(&undecided, workloads.len(), false))
    };
    settled + &not_settled + &caveats(own)
}

/// Remarks about settled comparisons.
fn caveats(own: &[&ComparisonResult]) -> String {
    let settled = || own.iter().filter(|one| one.is_decided());
    let is_flagged =
        |one: &ComparisonResult| matches!(&one.evaluation, Evaluation::Done(found) if found.is_flagged);
    let mut caveats_of_pair = Vec::new();
    if settled().any(|one| one.is_suspect) {
        caveats_of_pair.push("on suspect runs (†)".to_owned());
    }
    // Of several, the one with the most missing rounds.
    let missing = settled().filter(|one| one.misses_rounds());
    if let Some(fewest) = missing.max_by_key(|one| one.rounds_run - one.rounds) {
        caveats_of_pair.push(format!("on only {} (†)", rounds_of(fewest.rounds, fewest.rounds_run)));
    }
    if settled().any(|one| is_flagged(one)) {
        caveats_of_pair.push("on a variant that differs from itself (‡)".to_owned());
    }
    if caveats_of_pair.is_empty() {
        String::new()
    } else {
        format!(" Some of these results depend {}.", caveats_of_pair.join(", or "))
    }
}

/// The reason that none of them was evaluated; one if all have the same.
fn not_evaluated(undecided: &[&ComparisonResult]) -> String {
    let why = |one: &&ComparisonResult| one.reason_without_verdict().unwrap_or_default();
    let first = undecided.first().map(why).unwrap_or_default();
    if undecided.iter().all(|one| why(one) == first) {
        format!("{first}.")
    } else {
        "no comparison has a verdict; the table has the reasons.".to_owned()
    }
}

fn workloads<'a>(own: &[&ComparisonResult<'a>]) -> Vec<&'a str> {
    let mut workloads: Vec<&str> = Vec::new();
    for one in own {
        if !workloads.contains(&one.workload) {
            workloads.push(one.workload);
        }
    }
    workloads
}

/// Metrics with their workloads, and optionally the ratios: `CPU per request in workloads 1k and 304 (0.61 to 0.74
/// times)`.
fn metrics_with_workloads(
    found: &[&ComparisonResult],
    workloads_of_pair: usize,
    with_ratios: bool,
) -> String {
    let mut metrics: Vec<&str> = Vec::new();
    for one in found {
        if !metrics.contains(&one.metric.name.as_str()) {
            metrics.push(&one.metric.name);
        }
    }
    let of_metric = |name: &&str| {
        let own: Vec<_> = found.iter().copied().filter(|one| one.metric.name == *name).collect();
        let workloads = workloads(&own);
        let under = match (workloads.as_slice(), workloads_of_pair) {
            ([_], 1) => String::new(),
            (these, all) if these.len() == all && all > 2 => format!(" in all {all} workloads"),
            ([workload], _) => format!(" in workload {workload}"),
            _ => format!(" in workloads {}", and(&workloads)),
        };
        let ratios = if with_ratios { ratios(&own) } else { String::new() };
        format!("{}{under}{ratios}", own[0].metric.phrase().1)
    };
    and(&metrics.iter().map(of_metric).collect::<Vec<_>>())
}

/// ` (0.74 times)`, ` (0.61 to 0.74 times)`.
fn ratios(found: &[&ComparisonResult]) -> String {
    let mut values: Vec<f64> = found
        .iter()
        .filter_map(|one| match &one.evaluation {
            Evaluation::Done(finding) => Some(finding.ratio),
            Evaluation::NotDone { .. } => None,
        })
        .collect();
    values.sort_by(f64::total_cmp);
    match values.as_slice() {
        [] => String::new(),
        [first, .., last] if ratio(*first) != ratio(*last) => {
            format!(" ({} to {} times)", ratio(*first), ratio(*last))
        }
        [first, ..] => format!(" ({} times)", ratio(*first)),
    }
}

/// `a`, `a and b`, `a, b and c`.
fn and<T: AsRef<str>>(sentences: &[T]) -> String {
    match sentences {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [first @ .., last] => {
            let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", first.join(", "), last.as_ref())
        }
    }
}

#[cfg(test)]
mod tests {
    use rudy_stats::compare::{Finding, TooFew};

    use super::super::pairs::Failures;
    use super::*;
    use crate::metric::Metric;

    fn evaluated(
        metric: &str,
        workload: &'static str,
        ratio: f64,
        verdict: Verdict,
    ) -> ComparisonResult<'static> {
        let interval = Interval { low: ratio - 0.03, high: ratio + 0.03, confidence: 0.99 };
        let finding = Finding {
            ratio,
            interval,
            p_value: 0.001,
            p_adjusted: 0.01,
            verdict,
            too_few: None,
            is_flagged: false,
        };
        ComparisonResult {
            variant: "rudy",
            with: "nginx",
            workload,
            metric: Metric::named(metric),
            rounds: 10,
            rounds_run: 10,
            medians: None,
            is_suspect: false,
            failures: Failures::default(),
            evaluation: Evaluation::Done(finding),
            sentence: String::new(),
        }
    }

    #[test]
    fn a_finding_is_a_sentence() {
        use Verdict::{Better, Equivalent, Inconclusive, Worse};
        for (metric, ratio, verdict, expected) in [
            (
                "cpu_us_per_request",
                0.74,
                Better,
                "rudy needs 0.74 times the CPU per request of nginx in workload 1k (0.71 to 0.77, 99.0 % CI): better",
            ),
            (
                "requests_per_s",
                0.9,
                Worse,
                "rudy serves 0.90 times the requests per second of nginx in workload 1k (0.87 to 0.93, 99.0 % CI): worse",
            ),
            (
                "p99_ns",
                1.0,
                Equivalent,
                "rudy has 1.00 times the p99 latency of nginx in workload 1k (0.97 to 1.03, 99.0 % CI): equivalent, within 5 %",
            ),
            (
                "time_s",
                1.02,
                Inconclusive,
                "rudy takes 1.02 times the time of nginx in workload 1k (0.99 to 1.05, 99.0 % CI): inconclusive",
            ),
            (
                "messages_per_s",
                2.0,
                Better,
                "rudy has 2.00 times the messages of nginx in workload 1k (1.97 to 2.03, 99.0 % CI): better",
            ),
        ] {
            assert_eq!(sentence(&evaluated(metric, "1k", ratio, verdict), Delta::default()), expected);
        }
    }

    #[test]
    fn a_headline_has_a_sentence_for_each_pair() {
        use Verdict::{Better, Equivalent, Inconclusive, Worse};
        let cpu = "cpu_us_per_request";
        for (found, expected) in [
            (
                vec![
                    (cpu, "1k", 0.74, Better),
                    (cpu, "304", 0.61, Better),
                    ("p99_ns", "1k", 1.3, Worse),
                    ("p99_ns", "304", 1.0, Inconclusive),
                ],
                "rudy is better than nginx in CPU per request in workloads 1k and 304 (0.61 to 0.74 times); \
                 worse in p99 latency in workload 1k (1.30 times). Inconclusive: p99 latency in workload 304.",
            ),
            (
                vec![(cpu, "1k", 0.7, Better), (cpu, "304", 0.7, Better), (cpu, "10m", 0.7, Better)],
                "rudy is better than nginx in CPU per request in all 3 workloads (0.70 times).",
            ),
            (
                vec![(cpu, "1k", 1.0, Equivalent)],
                "rudy is equivalent to nginx in CPU per request (1.00 times) in workload 1k.",
            ),
            (
                vec![(cpu, "1k", 1.0, Inconclusive)],
                "rudy and nginx in workload 1k: inconclusive in CPU per request.",
            ),
        ] {
            let all: Vec<_> = found
                .into_iter()
                .map(|(metric, workload, ratio, verdict)| evaluated(metric, workload, ratio, verdict))
                .collect();
            assert_eq!(headline(&all), [expected]);
        }
    }

    #[test]
    fn a_headline_reports_too_few_rounds() {
        let few = |workload| {
            let mut compared = evaluated("p99_ns", workload, 0.7, Verdict::Inconclusive);
            compared.rounds = 6;
            let Evaluation::Done(finding) = &mut compared.evaluation else { panic!("it was judged") };
            finding.too_few = Some(TooFew { rounds: 6, comparisons: 6, needed: 8 });
            compared
        };
        let enough = evaluated("p99_ns", "1m", 1.0, Verdict::Inconclusive);
        for (found, expected) in [
            (vec![few("1k"), few("304")], "rudy and nginx: no verdict: 6 of 10 rounds, 8 needed."),
            (
                vec![few("1k"), enough],
                "rudy and nginx: inconclusive in p99 latency in workload 1m. No verdict: p99 latency in workload 1k.",
            ),
        ] {
            assert_eq!(headline(&found), [expected]);
        }
    }

    #[test]
    fn a_ratio_other_than_1_is_not_shown_as_1() {
        let shown = [0.742, 0.9981, 1.0, 1.0004, 12.34, 0.0123, 0.0012].map(ratio);
        assert_eq!(shown, ["0.74", "0.998", "1.00", "1.00", "12.3", "0.012", "0.0012"]);
    }
}
