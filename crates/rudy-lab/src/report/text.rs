//! The findings of a report for a terminal.

use super::analysis::trouble::Trouble;
use super::analysis::{Report, Section, Table};
use super::rows::{self, Rows};
use super::unit::Figure;

/// As wide as lines may be.
const WIDTH: usize = 100;

/// The headlines, the findings and what is doubtful in them; the rest stands in the other formats.
pub(super) fn write(report: &Report) -> String {
    report.sections.iter().map(section).collect::<Vec<_>>().join("\n")
}

fn section(section: &Section) -> String {
    let mut text = String::new();
    let mut say = |line: &str| text.extend([line, "\n"]);
    say(&section.title);
    for line in section.headline.iter().chain(&section.remarks).flat_map(|line| wrapped(line, WIDTH)) {
        say(&line);
    }
    let findings = rows::findings(section);
    if findings.body.is_empty() {
        for table in &section.tables {
            say(&format!("\n{}", aligned(&medians(table))));
        }
    } else {
        say(&format!("\n{}", aligned(&findings)));
        if findings.body.iter().flatten().any(|cell| cell.contains(['†', '‡'])) {
            wrapped(rows::LEGEND, WIDTH).iter().for_each(|line| say(line));
        }
    }
    for (title, troubles) in [("doubts", &section.doubts), ("failures", &section.failures)] {
        if !troubles.is_empty() {
            say(&format!("\n{title}:"));
        }
        for line in troubles.iter().map(Trouble::to_string).flat_map(|line| wrapped(&line, WIDTH - 2)) {
            say(&format!("  {line}"));
        }
    }
    text
}

/// The medians of a load, a figure in each line: of what is compared with nothing.
fn medians(table: &Table) -> Rows {
    let subjects = table.rows.iter().map(|(subject, _)| (*subject).to_owned());
    let line = |(column, figure): (usize, &Figure)| {
        let cells = table.rows.iter().map(|(_, cells)| rows::median(&cells[column], figure));
        std::iter::once(figure.title.clone()).chain(cells).collect()
    };
    Rows {
        head: std::iter::once(format!("{}, median", table.load)).chain(subjects).collect(),
        body: table.figures.iter().enumerate().map(line).collect(),
    }
}

/// Each column as wide as its widest cell; the last takes what is left, in several lines if it must.
fn aligned(rows: &Rows) -> String {
    let lines = || std::iter::once(&rows.head).chain(&rows.body);
    let columns = rows.head.len() - 1;
    let width = |column: usize| lines().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let before: usize = widths.iter().map(|width| width + 2).sum();
    let mut text = String::new();
    for row in lines() {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}  "));
        let start: String = cells.collect();
        let last = wrapped(&row[columns], WIDTH.saturating_sub(before).max(20));
        let indent = format!("\n{:before$}", "");
        text.extend([format!("{start}{}", last.join(&indent)).trim_end(), "\n"]);
    }
    text.trim_end().to_owned()
}

/// Lines of so many characters at most, as far as the words allow.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is one from the beginning");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}
