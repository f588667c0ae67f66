//! An experiment on the page.

use std::fmt::Write as _;

use super::{all, escaped, findings, repeat};
use crate::report::analysis::trouble::Trouble;
use crate::report::analysis::words::ratio;
use crate::report::analysis::{Cell, Section, Table, then};
use crate::report::chart::{self, Chart};
use crate::report::rows::{self, Rows};
use crate::report::unit::Figure;

/// The whole section, from the question to the commands.
pub(super) fn write(section: &Section, number: usize, judged: usize) -> String {
    let mut page = format!("<section id=\"experiment-{number}\">\n{}", answer(section));
    let mut part = |title: &str, body: &str| {
        if !body.is_empty() {
            // Writing to a string does not fail.
            let _ = write!(page, "<h2>{title}</h2>\n{body}");
        }
    };
    let is_compared = !section.comparisons.is_empty();
    let tables = tables(section);
    // Without comparisons, the figures are the answer, and the headline says so.
    let (first, later) = if is_compared { ("", tables.as_str()) } else { (tables.as_str(), "") };
    part("Findings", &findings::write(section, judged));
    part("Everything that was measured", first);
    part("Charts", &charts(&chart::charts(section.experiment), number));
    part("Then and now", &then(section));
    part("Everything that was measured", later);
    part("Doubts", &list(&section.doubts, "A number that rests on them is marked † and stays."));
    part("Failures", &list(&section.failures, "These runs have no figures."));
    part("Controls", &controls(section));
    part("Notes", &list(&section.notes, "They change no figure."));
    part("To repeat it", &repeat::write(section.experiment));
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
    format!("<div class=\"charts\">\n{}</div>\n", all(charts.iter().map(|chart| figure(chart, number))))
}

/// A chart with its data. The link contains the data, so that it works without scripts.
fn figure(chart: &Chart, number: usize) -> String {
    let Chart { id, title, caption, svg, csv } = chart;
    format!(
        "<figure id=\"chart-{number}-{id}\" aria-label=\"{}\">\n<div class=\"picture\">{svg}</div>\n<figcaption>{}<p class=\"save\">\
         <a class=\"svg needs-js\" href=\"#chart-{number}-{id}\" download=\"{id}.svg\">SVG</a>\
         <a class=\"csv\" href=\"data:text/csv;charset=utf-8,{}\" download=\"{id}.csv\">CSV</a></p></figcaption>\n</figure>\n",
        escaped(title),
        escaped(caption),
        percent_encoded(csv),
    )
}

/// Escapes the data part of a data URL (RFC 2397).
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b',' => {
                encoded.push(char::from(byte));
            }
            other => {
                // Writing to a string does not fail.
                let _ = write!(encoded, "%{other:02X}");
            }
        }
    }
    encoded
}

/// Older results, each next to today's.
fn then(section: &Section) -> String {
    if section.then.is_empty() {
        return String::new();
    }
    let head = ["then", "it was", "now", "it is", "now / then"];
    let head = all(head.map(|title| format!("<th scope=\"col\">{title}</th>")));
    let mut body = String::new();
    let mut last = None;
    for row in &section.then {
        let figure = row.figure.as_ref().map(|figure| figure.title.as_str());
        if last.replace((row.load, figure)) != Some((row.load, figure)) {
            let figure = figure.map_or(String::new(), |figure| format!(", {}", escaped(figure)));
            let load = escaped(row.load);
            // Writing to a string does not fail.
            let _ = writeln!(
                body,
                "<tr class=\"group\"><th colspan=\"5\" scope=\"rowgroup\">{load}{figure}</th></tr>"
            );
        }
        body.push_str(&of_then(row));
    }
    let source = &section.experiment.plan().source;
    let source = if source.is_empty() {
        String::new()
    } else {
        format!("<p class=\"note\">Then: {}</p>\n", escaped(source))
    };
    format!(
        "<div class=\"wide\" tabindex=\"0\"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n{source}"
    )
}

fn of_then(row: &then::Row) -> String {
    let figure = row.figure.as_ref();
    let name = |name: Option<&str>| escaped(name.unwrap_or("–"));
    let then = row.then.as_ref();
    let was = then.and_then(|then| Some((then.value?, figure?)));
    let was = was.map(|(value, figure)| figure.unit.text(value * figure.factor));
    let said = then.and_then(|then| then.said);
    let (was, said) = match was {
        Some(was) => (was, said.unwrap_or_default()),
        None => (said.unwrap_or("–").to_owned(), ""),
    };
    let is =
        row.now.zip(figure).map_or("<td>–</td>".to_owned(), |((_, cell), figure)| spread(&cell, figure));
    format!(
        "<tr><td>{}</td><td class=\"said\">{}<span class=\"range\">{}</span></td><td>{}</td>{is}<td>{}</td></tr>\n",
        name(then.map(|then| then.subject)),
        escaped(&was),
        escaped(said),
        name(row.now.map(|(subject, _)| subject)),
        row.ratio().map_or("–".to_owned(), ratio),
    )
}

fn controls(section: &Section) -> String {
    if section.controls.is_empty() {
        return String::new();
    }
    let about = "Subjects that were measured twice in each round, the one time against the other: \
                 what the machine does by itself.";
    let sureness = rows::sureness(rows::intervals_of_controls(section)).unwrap_or_default();
    format!("<p class=\"note\">{about} {sureness}</p>\n{}", table(&rows::controls(section)))
}

/// Maximum number of expanded tables; further ones are collapsed. Without comparisons, all are expanded.
const OPEN_MAX: usize = 3;

/// A table for each load, with a figure per row, since its values share a unit.
fn tables(section: &Section) -> String {
    if section.tables.is_empty() {
        return String::new();
    }
    let note =
        "<p class=\"note\">The median of the rounds, and from the lowest to the highest of them.</p>\n";
    let is_open = section.tables.len() <= OPEN_MAX || section.comparisons.is_empty();
    let of_load = |table: &Table| {
        let (load, body) = (escaped(table.load), of_load(table));
        if is_open {
            format!("<h3>Under {load}</h3>\n{body}")
        } else {
            format!("<details><summary>Under {load}</summary>\n{body}</details>\n")
        }
    };
    let tables = all(section.tables.iter().map(of_load));
    let legend = if tables.contains(rows::DOUBTFUL) { legend() } else { String::new() };
    [note, &legend, &tables].concat()
}

/// The explanation of the marks of a table.
pub(super) fn legend() -> String {
    format!("<p class=\"note\">{}</p>\n", escaped(rows::LEGEND))
}

fn of_load(table: &Table) -> String {
    let names = table.rows.iter().map(|(subject, _)| format!("<th scope=\"col\">{}</th>", escaped(subject)));
    let row = |(column, figure): (usize, &Figure)| {
        let cells = all(table.rows.iter().map(|(_, cells)| spread(&cells[column], figure)));
        format!("<tr><th scope=\"row\">{}</th>{cells}</tr>\n", escaped(&figure.title))
    };
    format!(
        "<div class=\"wide\" tabindex=\"0\"><table><thead><tr><th></th>{}</tr></thead>\n<tbody>\n{}</tbody></table></div>\n",
        all(names),
        all(table.figures.iter().enumerate().map(row)),
    )
}

fn spread(cell: &Cell, figure: &Figure) -> String {
    format!(
        "<td class=\"number\">{}<span class=\"range\">{}</span></td>",
        escaped(&rows::median(cell, figure)),
        escaped(&rows::range(cell, figure))
    )
}

fn list(troubles: &[Trouble], about: &str) -> String {
    if troubles.is_empty() {
        return String::new();
    }
    let line = |trouble: &Trouble| format!("<li>{}</li>\n", escaped(&trouble.to_string()));
    let lines: String = troubles.iter().map(line).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_are_whole_in_a_link() {
        assert_eq!(percent_encoded("a,b\n\"ü\"\r#%&"), "a,b%0A%22%C3%BC%22%0D%23%25%26");
    }
}
