//! The table of ratios, with drawn intervals.

use std::fmt::Write as _;

use rudy_stats::compare::{CONFIDENCE, Delta, Finding, Interval, Verdict};
use rudy_units::digits;

use super::{all, escaped, section};
use crate::report::analysis::{ComparisonResult, Evaluation, Section};
use crate::report::rows;

/// The width of a drawn interval, in its own units.
const WIDTH: f64 = 176.0;
const HEIGHT: f64 = 24.0;

/// All comparisons, grouped by pair; empty if there are none.
pub(super) fn write(section: &Section, evaluated: usize) -> String {
    let Some(scale) = Scale::of(section) else { return String::new() };
    let head = ["", "ratio", "verdict", "CI", "", "medians"];
    let head = all(head.map(|title| format!("<th scope=\"col\">{title}</th>")));
    let mut page = format!(
        "<div class=\"wide\" tabindex=\"0\"><table class=\"findings\"><thead><tr>{head}</tr></thead>\n<tbody>\n"
    );
    let mut last = None;
    for compared in &section.comparisons {
        let pair = (compared.variant, compared.with);
        if last.replace(pair) != Some(pair) {
            let (variant, with) = (escaped(pair.0), escaped(pair.1));
            // Writing to a string does not fail, here and below.
            let _ = writeln!(
                page,
                "<tr class=\"group\"><th colspan=\"6\" scope=\"rowgroup\">{variant} compared with {with}</th></tr>"
            );
        }
        page.push_str(&row(compared, &scale));
    }
    page + "</tbody></table></div>\n" + &about(section, evaluated)
}

fn row(compared: &ComparisonResult, scale: &Scale) -> String {
    let metric = escaped(&compared.metric.title);
    let mut row = format!(
        "<tr><th scope=\"row\" class=\"what\">{metric}<small>workload {}</small></th>",
        escaped(compared.workload)
    );
    let medians = rows::medians(compared);
    let _ = match &compared.evaluation {
        Evaluation::Done(finding) => write!(
            row,
            "<td class=\"number ratio\" data-label=\"ratio\">{}</td><td>{}</td>\
             <td class=\"number interval\" data-label=\"CI\">{}</td><td class=\"drawn\">{}</td>\
             <td class=\"number faded medians\" data-label=\"medians\">{}</td>",
            rows::ratio_with_marks(compared),
            badge(compared, finding),
            rows::interval(&compared.evaluation),
            scale.bar(finding, &compared.sentence),
            escaped(&medians)
        ),
        Evaluation::NotDone { .. } => write!(
            row,
            "<td class=\"number ratio\" data-label=\"ratio\">{}</td><td colspan=\"3\" class=\"why faded\">{}</td>\
             <td class=\"number faded medians\" data-label=\"medians\">{}</td>",
            rows::ratio_with_marks(compared),
            escaped(&rows::verdict(compared)),
            escaped(&medians)
        ),
    };
    row + "</tr>\n"
}

fn badge(compared: &ComparisonResult, finding: &Finding) -> String {
    format!("<span class=\"badge {}\">{}</span>", finding.verdict, escaped(&rows::verdict(compared)))
}

/// The legend of the table: marks, confidence levels, and method.
fn about(section: &Section, evaluated: usize) -> String {
    let marks = section.comparisons.iter().map(rows::ratio_with_marks).collect::<String>();
    let legend = section::legend(&marks);
    let notes = [rows::too_few(&section.comparisons), rows::confidence(rows::intervals(section))];
    let notes =
        all(notes.into_iter().flatten().map(|note| format!("<p class=\"note\">{}</p>\n", escaped(&note))));
    let details = [ratios(section), verdicts(section, evaluated)].concat();
    format!(
        "{notes}{legend}<details class=\"note\"><summary>How to read this</summary><p>{details}</p></details>\n"
    )
}

/// The explanation of the ratios.
fn ratios(section: &Section) -> String {
    let of_medians = section
        .comparisons
        .iter()
        .any(|one| matches!(one.evaluation, Evaluation::NotDone { ratio: Some(_), .. }));
    let estimated = "A ratio with an interval is estimated from the rounds in pairs (Hodges and Lehmann), and the interval is \
                     that of the signed-rank test. Intervals are drawn on one logarithmic scale; the line is at 1, no difference. ";
    let plain = "A ratio without an interval is that of the medians. ";
    let is_evaluated = rows::intervals(section).next().is_some();
    [if is_evaluated { estimated } else { "" }, if of_medians { plain } else { "" }].concat()
}

/// The explanation of the verdicts, if any.
fn verdicts(section: &Section, evaluated: usize) -> String {
    if rows::intervals(section).next().is_none() {
        return "No comparison has a verdict; the table states the reason for each.".to_owned();
    }
    let delta = digits(section.experiment.plan().delta * 100.0);
    let confidence = digits(CONFIDENCE * 100.0);
    let corrected = if evaluated == 1 {
        format!(
            "With {confidence} % confidence, the verdict and the interval of the only comparison of this report are right."
        )
    } else {
        format!(
            "Verdicts and intervals are corrected for the {evaluated} comparisons of this report (Bonferroni): with \
             {confidence} % confidence, all verdicts are right, and so are all intervals."
        )
    };
    format!(
        "{corrected} Equivalent means that two one-sided tests (TOST) show the ratio to be within {delta} %, the grey zone."
    )
}

/// The range of logarithms of the drawn intervals.
struct Scale {
    low: f64,
    high: f64,
    zone: (f64, f64),
}

impl Scale {
    /// Covers the widest interval and the zone of equivalence; `None` without comparisons.
    fn of(section: &Section) -> Option<Self> {
        section.comparisons.first()?;
        let zone = Delta::new(section.experiment.plan().delta).unwrap_or_default().margins();
        let ends = |(low, high): (f64, f64), Interval { low: from, high: to, .. }: Interval| {
            (low.min(from), high.max(to))
        };
        let (low, high) = rows::intervals(section).fold(zone, ends);
        Some(Self { low: low.ln(), high: high.ln(), zone })
    }

    fn place(&self, ratio: f64) -> f64 {
        let edge = 8.0;
        edge + (WIDTH - 2.0 * edge) * (ratio.ln() - self.low) / (self.high - self.low)
    }

    fn bar(&self, finding: &Finding, sentence: &str) -> String {
        let [low, high, ratio, one] =
            [finding.interval.low, finding.interval.high, finding.ratio, 1.0].map(|ratio| self.place(ratio));
        let (from, to) = (self.place(self.zone.0), self.place(self.zone.1));
        let middle = HEIGHT / 2.0;
        let point = match finding.verdict {
            Verdict::Inconclusive => format!(
                "<rect class=\"point\" x=\"{:.1}\" y=\"{:.1}\" width=\"8\" height=\"8\"/>",
                ratio - 4.0,
                middle - 4.0
            ),
            _ => format!("<circle class=\"point\" cx=\"{ratio:.1}\" cy=\"{middle}\" r=\"4.5\"/>"),
        };
        format!(
            "<svg class=\"bar {}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" data-tip=\"{}\" role=\"img\" aria-label=\"{}\">\
             <rect class=\"zone\" x=\"{from:.1}\" y=\"0\" width=\"{:.1}\" height=\"{HEIGHT}\"/>\
             <path class=\"one\" d=\"M{one:.1} 0V{HEIGHT}\"/><path class=\"span\" d=\"M{low:.1} {middle}H{high:.1}\"/>{point}</svg>",
            finding.verdict,
            escaped(sentence),
            escaped(sentence),
            to - from,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{analysis, fixtures};

    /// The text below a table of comparisons with this number of rounds.
    fn read(rounds: usize, metrics: &str) -> String {
        let plan = format!(
            "rounds = {rounds}\n[[variant]]\nname = \"a\"\ncommand = [\"a\"]\n\
             [[variant]]\nname = \"b\"\ncommand = [\"b\"]\n[[workload]]\nname = \"1k\"\nkind = \"bench\"\n\
             [[compare]]\nvariant = \"a\"\nwith = \"b\"\nmetrics = [{metrics}]\n"
        );
        let shown = |_: &fixtures::RunId| Some(vec![("p50_ns", 1e6), ("p99_ns", 2e6)]);
        let made = [fixtures::experiment(&plan, shown)];
        let report = analysis::analyse(&made);
        about(&report.sections[0], report.evaluated)
    }

    #[test]
    fn only_methods_in_use_are_explained() {
        let none = read(3, "\"p50_ns\", \"p99_ns\"");
        assert!(
            none.contains("No comparison has a verdict") && none.contains("that of the medians"),
            "{none}"
        );
        assert!(
            !none.contains("Hodges") && !none.contains("Bonferroni") && !none.contains("intervals:"),
            "{none}"
        );
        let two = read(8, "\"p50_ns\", \"p99_ns\"");
        assert!(two.contains("Confidence intervals: 97.6 %.") && two.contains("the 2 comparisons"), "{two}");
        assert!(two.contains("Hodges") && !two.contains("that of the medians"), "{two}");
        let one = read(8, "\"p50_ns\"");
        assert!(one.contains("the only comparison of this report"), "{one}");
    }

    #[test]
    fn a_drawn_interval_is_where_its_logarithm_is() {
        let scale = Scale { low: 0.25_f64.ln(), high: 4.0_f64.ln(), zone: (0.95, 1.05) };
        let places = [0.25, 0.5, 1.0, 4.0].map(|ratio| scale.place(ratio).round());
        assert_eq!(places.map(|place| format!("{place}")), ["8", "48", "88", "168"]);
    }
}
