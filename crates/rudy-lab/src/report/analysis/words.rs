//! What was found, as sentences.

use rudy_stats::compare::{Delta, Verdict};

use super::{Answer, Compared};
use crate::report::unit::{Figure, digits};

/// How it is said of a subject that it has a figure: `rudy needs 0.74 times the CPU per request of nginx`.
const PHRASES: [(&str, &str, &str); 15] = [
    ("requests_per_s", "answers", "requests per second"),
    ("knee_per_s", "holds", "rate"),
    ("time_s", "takes", "time"),
    ("errors", "has", "errors"),
    ("cpu_us_per_request", "needs", "CPU per request"),
    ("cpu_user_us_per_request", "needs", "CPU per request in user mode"),
    ("cpu_system_us_per_request", "needs", "CPU per request in the kernel"),
    ("private_bytes", "needs", "private memory"),
    ("private_bytes_per_connection", "needs", "private memory per connection"),
    ("p50_ns", "has", "median latency"),
    ("p90_ns", "has", "p90 latency"),
    ("p99_ns", "has", "p99 latency"),
    ("p999_ns", "has", "p99.9 latency"),
    ("max_ns", "has", "longest latency"),
    ("late_p99_ns", "has", "p99 lateness"),
];

/// The verb and the noun of a figure.
pub(super) fn phrase(figure: &Figure) -> (&str, &str) {
    let known = PHRASES.iter().find(|(name, ..)| *name == figure.name);
    known.map_or(("has", figure.title.as_str()), |(_, verb, noun)| (*verb, *noun))
}

/// `1 round`, `2 rounds`.
pub(super) fn rounds(count: usize) -> String {
    if count == 1 { "1 round".to_owned() } else { format!("{count} rounds") }
}

/// A ratio in two decimals; in more where that would make it 1, which it is not.
pub(crate) fn ratio(value: f64) -> String {
    if format!("{value:.2}") == "1.00" && (value - 1.0).abs() >= 0.0005 {
        return format!("{value:.3}");
    }
    digits_of_ratio(value)
}

fn digits_of_ratio(value: f64) -> String {
    match value {
        v if v < 0.00995 => format!("{v:.4}"),
        v if v < 0.0995 => format!("{v:.3}"),
        v if v < 9.995 => format!("{v:.2}"),
        v => digits(v),
    }
}

/// A comparison in a sentence.
pub(super) fn sentence(compared: &Compared, delta: Delta) -> String {
    let Compared { subject, with, load, figure, .. } = compared;
    let (verb, noun) = phrase(figure);
    let under = if *load == noun { String::new() } else { format!(" under {load}") };
    let finding = match &compared.answer {
        Answer::Judged(finding) => finding,
        Answer::Open { ratio: Some(times), why } => {
            return format!("{subject} {verb} {} times the {noun} of {with}{under}; {why}", ratio(*times));
        }
        Answer::Open { ratio: None, why } => return format!("{subject} and {with}, {noun}{under}: {why}"),
    };
    let interval = format!("{} to {}", ratio(finding.interval.low), ratio(finding.interval.high));
    let said =
        format!("{subject} {verb} {} times the {noun} of {with}{under} ({interval})", ratio(finding.ratio));
    let verdict = match finding.verdict {
        Verdict::Better => "better".to_owned(),
        Verdict::Worse => "worse".to_owned(),
        Verdict::Equivalent => format!("equivalent, within {} %", digits(delta.get() * 100.0)),
        Verdict::Inconclusive => "neither better nor worse was shown".to_owned(),
    };
    let too_few = finding.too_few.map_or(String::new(), |few| format!("; {few}"));
    let flag = if finding.is_flagged { "; it rests on a subject that differs from itself" } else { "" };
    let doubt = if compared.is_doubtful { "; runs of it are doubted" } else { "" };
    format!("{said}: {verdict}{too_few}{flag}{doubt}")
}

/// The answer to what was asked, as far as it goes: for each two subjects in what one is better, worse, or the same.
pub(super) fn headline(comparisons: &[Compared]) -> Vec<String> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for compared in comparisons {
        if !pairs.contains(&(compared.subject, compared.with)) {
            pairs.push((compared.subject, compared.with));
        }
    }
    let of_pair = |(subject, with): &(&str, &str)| {
        let own: Vec<_> =
            comparisons.iter().filter(|one| (one.subject, one.with) == (*subject, *with)).collect();
        summary(subject, with, &own)
    };
    pairs.iter().map(of_pair).collect()
}

/// What is said of two subjects: `rudy is better than nginx in CPU per request under 1k and 304 (0.61 to 0.74 times)`.
fn summary(subject: &str, with: &str, own: &[&Compared]) -> String {
    let is = |verdict: Verdict| {
        own.iter()
            .copied()
            .filter(move |one| matches!(&one.answer, Answer::Judged(found) if found.verdict == verdict))
    };
    let loads = loads(own);
    let mut parts = Vec::new();
    for (verdict, said) in [
        (Verdict::Better, "better than"),
        (Verdict::Worse, "worse than"),
        (Verdict::Equivalent, "equivalent to"),
    ] {
        let list = places(&is(verdict).collect::<Vec<_>>(), loads.len(), true);
        if !list.is_empty() {
            parts.push(format!("{said} {with} in {list}"));
        }
    }
    let judged = own.iter().filter(|one| matches!(one.answer, Answer::Judged(_))).count();
    let open: Vec<_> = own.iter().copied().filter(|one| is_open(one)).collect();
    let rest = match (parts.is_empty(), open.is_empty()) {
        (_, true) => String::new(),
        (true, _) if judged == 0 => return format!("{subject} beside {with}: {}", unjudged(&open)),
        (true, _) => {
            return format!(
                "Nothing was shown of {subject} beside {with}, in {}.",
                places(&open, loads.len(), false)
            );
        }
        (false, _) => format!(" Not settled: {}.", places(&open, loads.len(), false)),
    };
    let flagged = own.iter().any(|one| matches!(&one.answer, Answer::Judged(found) if found.is_flagged));
    let flag = if flagged {
        " Some of it rests on a subject that differs from itself: see the controls."
    } else {
        ""
    };
    format!("{subject} is {}.{rest}{flag}", parts.join("; "))
}

fn is_open(compared: &Compared) -> bool {
    match &compared.answer {
        Answer::Judged(finding) => finding.verdict == Verdict::Inconclusive,
        Answer::Open { .. } => true,
    }
}

/// Why nothing of it was judged; one reason where all have the same.
fn unjudged(open: &[&Compared]) -> String {
    let why = |one: &Compared| match &one.answer {
        Answer::Open { why, .. } => why.clone(),
        Answer::Judged(_) => String::new(),
    };
    let first = open.first().map(|one| why(one)).unwrap_or_default();
    if open.iter().all(|one| why(one) == first) {
        format!("{first}.")
    } else {
        "nothing could be judged; the table says why.".to_owned()
    }
}

fn loads<'a>(own: &[&Compared<'a>]) -> Vec<&'a str> {
    let mut loads: Vec<&str> = Vec::new();
    for one in own {
        if !loads.contains(&one.load) {
            loads.push(one.load);
        }
    }
    loads
}

/// Figures, each with its loads and, if wanted, the ratios: `CPU per request under 1k and 304 (0.61 to 0.74 times)`.
fn places(found: &[&Compared], loads_of_pair: usize, with_ratios: bool) -> String {
    let mut figures: Vec<&str> = Vec::new();
    for one in found {
        if !figures.contains(&one.figure.name.as_str()) {
            figures.push(&one.figure.name);
        }
    }
    let of_figure = |name: &&str| {
        let own: Vec<_> = found.iter().copied().filter(|one| one.figure.name == *name).collect();
        let loads = loads(&own);
        let under = match loads.len() {
            all if all == loads_of_pair && all > 2 => format!("all {all} loads"),
            _ => and(&loads),
        };
        let ratios = if with_ratios { ratios(&own) } else { String::new() };
        format!("{} under {under}{ratios}", phrase(&own[0].figure).1)
    };
    and(&figures.iter().map(of_figure).collect::<Vec<_>>())
}

/// ` (0.74 times)`, ` (0.61 to 0.74 times)`.
fn ratios(found: &[&Compared]) -> String {
    let mut values: Vec<f64> = found
        .iter()
        .filter_map(|one| match &one.answer {
            Answer::Judged(finding) => Some(finding.ratio),
            Answer::Open { .. } => None,
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
fn and<T: AsRef<str>>(words: &[T]) -> String {
    match words {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [first @ .., last] => {
            let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", first.join(", "), last.as_ref())
        }
    }
}
