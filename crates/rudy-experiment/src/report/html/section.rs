//! An experiment on the page.

use std::fmt::Write as _;

use super::{all, escaped, findings, repeat};
use crate::metric::Metric;
use crate::report::analysis::events::{self, Event};
use crate::report::analysis::sentences::ratio;
use crate::report::analysis::{Cell, Section, Table, baseline};
use crate::report::chart::{self, Chart};
use crate::report::rows::{self, Rows};

/// The whole section, from the question to the commands.
pub(super) fn write(section: &Section, number: usize, evaluated: usize) -> String {
    let mut page = format!("<section id=\"experiment-{number}\">\n{}", answer(section));
    let mut part = |title: &str, body: &str| {
        if !body.is_empty() {
            // Writing to a string does not fail.
            let _ = write!(page, "<h2>{title}</h2>\n{body}");
        }
    };
    let is_compared = !section.comparisons.is_empty();
    let tables = tables(section);
    // Without comparisons, the metrics are the answer, and the headline says so.
    let (first, later) = if is_compared { ("", tables.as_str()) } else { (tables.as_str(), "") };
    part("Findings", &findings::write(section, evaluated));
    part("All metrics", first);
    part("Charts", &charts(&chart::charts(section.experiment), number));
    part("Baselines", &baselines(section));
    part("All metrics", later);
    part(
        "Validity warnings",
        &list(&section.warnings, "Values of these runs are marked †. They stay in the report."),
    );
    part("Failures", &list(&section.failures, "These runs have no metrics."));
    part("Controls", &controls(section));
    part("Notes", &list(&section.notes, "They affect no metric."));
    part("How to repeat it", &repeat::write(section.experiment));
    page + "</section>\n"
}

/// The question and the answer.
fn answer(section: &Section) -> String {
    let question = &section.experiment.plan().question;
    let mut page = format!("<h1>{}</h1>\n", escaped(&section.title));
    if !question.is_empty() {
        let _ = writeln!(page, "<p class=\"lead\">{}</p>", escaped(question));
    }
    let paragraphs = |lines: &[String]| all(lines.iter().map(|line| format!("<p>{}</p>\n", escaped(line))));
    if !section.headline.is_empty() {
        let _ = writeln!(page, "<div class=\"verdict\">\n{}</div>", paragraphs(&section.headline));
    }
    for remark in &section.remarks {
        let _ = writeln!(page, "<div class=\"remark\"><p>Note: {}.</p></div>", escaped(remark));
    }
    page
}

fn charts(charts: &[Chart], number: usize) -> String {
    if charts.is_empty() {
        return String::new();
    }
    format!("<div class=\"charts\">\n{}</div>\n", all(charts.iter().map(|chart| metric(chart, number))))
}

/// A chart, and a link that saves it.
fn metric(chart: &Chart, number: usize) -> String {
    let Chart { id, title, caption, svg } = chart;
    format!(
        "<figure id=\"chart-{number}-{id}\" aria-label=\"{}\">\n<div class=\"picture\">{svg}</div>\n<figcaption>{}<p class=\"save\">\
         <a class=\"svg needs-js\" href=\"#chart-{number}-{id}\" download=\"{id}.svg\">SVG</a></p></figcaption>\n</figure>\n",
        escaped(title),
        escaped(caption),
    )
}

/// Older results, each next to today's.
fn baselines(section: &Section) -> String {
    if section.baselines.is_empty() {
        return String::new();
    }
    let head = ["baseline", "its result", "variant", "its result", "ratio"];
    let head = all(head.map(|title| format!("<th scope=\"col\">{title}</th>")));
    let mut body = String::new();
    let mut last = None;
    for row in &section.baselines {
        let metric = row.metric.as_ref().map(|metric| metric.title.as_str());
        if last.replace((row.workload, metric)) != Some((row.workload, metric)) {
            let metric = metric.map_or(String::new(), |metric| format!(", {}", escaped(metric)));
            let workload = escaped(row.workload);
            // Writing to a string does not fail.
            let _ = writeln!(
                body,
                "<tr class=\"group\"><th colspan=\"5\" scope=\"rowgroup\">{workload}{metric}</th></tr>"
            );
        }
        body.push_str(&baseline_row(row));
    }
    let source = &section.experiment.plan().source;
    let source = if source.is_empty() {
        String::new()
    } else {
        format!("<p class=\"note\">Source of the baselines: {}</p>\n", escaped(source))
    };
    format!(
        "<div class=\"wide\" tabindex=\"0\"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n{source}"
    )
}

fn baseline_row(row: &baseline::Row) -> String {
    let metric = row.metric.as_ref();
    let name = |name: Option<&str>| escaped(name.unwrap_or("–"));
    let baseline = row.baseline.as_ref();
    let old_value = baseline.and_then(|baseline| Some((baseline.value?, metric?)));
    let old_value = old_value.map(|(value, metric)| metric.unit.text(value * metric.factor));
    let text = baseline.and_then(|baseline| baseline.text);
    let (old_value, text) = match old_value {
        Some(old_value) => (old_value, text.unwrap_or_default()),
        None => (text.unwrap_or("–").to_owned(), ""),
    };
    let new_value = row
        .current
        .zip(metric)
        .map_or("<td>–</td>".to_owned(), |((_, cell), metric)| spread(&cell, metric));
    format!(
        "<tr><td>{}</td><td class=\"text\">{}<span class=\"range\">{}</span></td><td>{}</td>{new_value}<td>{}</td></tr>\n",
        name(baseline.map(|baseline| baseline.name)),
        escaped(&old_value),
        escaped(text),
        name(row.current.map(|(variant, _)| variant)),
        row.ratio().map_or("–".to_owned(), ratio),
    )
}

fn controls(section: &Section) -> String {
    if section.controls.is_empty() {
        return String::new();
    }
    let about = "Variants that were measured twice in each round, compared with themselves. \
                 The differences are those of the machine.";
    let notes = [rows::controls_by_chance(section), rows::confidence(rows::intervals_of_controls(section))];
    let notes = notes.into_iter().flatten().collect::<Vec<_>>().join(" ");
    format!("<p class=\"note\">{about} {notes}</p>\n{}", table(&rows::controls(section)))
}

/// Maximum number of expanded tables; further ones are collapsed. Without comparisons, all are expanded.
const OPEN_MAX: usize = 3;

/// A table for each workload, with a metric per row, since its values share a unit.
fn tables(section: &Section) -> String {
    if section.tables.is_empty() {
        return String::new();
    }
    let note =
        "<p class=\"note\">The median of the rounds, and from the lowest to the highest of them.</p>\n";
    let is_open = section.tables.len() <= OPEN_MAX || section.comparisons.is_empty();
    let workload_table = |table: &Table| {
        let (workload, body) = (escaped(table.workload), workload_table(table));
        if is_open {
            format!("<h3>Workload {workload}</h3>\n{body}")
        } else {
            format!("<details><summary>Workload {workload}</summary>\n{body}</details>\n")
        }
    };
    let tables = all(section.tables.iter().map(workload_table));
    [note, &legend(&tables), &tables].concat()
}

/// The explanation of the marks of a table; empty without marks.
pub(super) fn legend(table: &str) -> String {
    rows::legend(table)
        .map_or(String::new(), |legend| format!("<p class=\"note\">{}</p>\n", escaped(&legend)))
}

fn workload_table(table: &Table) -> String {
    let names = table.rows.iter().map(|(variant, _)| format!("<th scope=\"col\">{}</th>", escaped(variant)));
    let row = |(column, metric): (usize, &Metric)| {
        let cells = all(table.rows.iter().map(|(_, cells)| spread(&cells[column], metric)));
        format!("<tr><th scope=\"row\">{}</th>{cells}</tr>\n", escaped(&metric.title))
    };
    format!(
        "<div class=\"wide\" tabindex=\"0\"><table><thead><tr><th></th>{}</tr></thead>\n<tbody>\n{}</tbody></table></div>\n",
        all(names),
        all(table.metrics.iter().enumerate().map(row)),
    )
}

fn spread(cell: &Cell, metric: &Metric) -> String {
    format!(
        "<td class=\"number\">{}<span class=\"range\">{}</span></td>",
        escaped(&rows::median(cell, metric)),
        escaped(&rows::range(cell, metric))
    )
}

fn list(events: &[Event], about: &str) -> String {
    if events.is_empty() {
        return String::new();
    }
    let line = |line: &String| format!("<li>{}</li>\n", escaped(line));
    let lines: String = events::lines(events).iter().map(line).collect();
    format!("<p class=\"note\">{about}</p>\n<ul class=\"plain\">\n{lines}</ul>\n")
}

/// A table of text.
fn table(rows: &Rows) -> String {
    let head = all(rows.head.iter().map(|cell| format!("<th scope=\"col\">{}</th>", escaped(cell))));
    let row = |cells: &Vec<String>| {
        let cells = all(cells.iter().map(|cell| format!("<td>{}</td>", escaped(cell))));
        format!("<tr>{cells}</tr>\n")
    };
    let body: String = rows.body.iter().map(row).collect();
    format!(
        "<div class=\"wide\" tabindex=\"0\"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n"
    )
}
