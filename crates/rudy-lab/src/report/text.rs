//! The findings of a report for a terminal.

use super::analysis::trouble::Trouble;
use super::analysis::{Cell, Report, Section, Table};
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
    let remarks = section.remarks.iter().map(|remark| format!("note: {remark}"));
    for line in section.headline.iter().cloned().chain(remarks) {
        say(&wrapped(&line, WIDTH).join("\n"));
    }
    if section.comparisons.is_empty() {
        for table in &section.tables {
            say(&format!("\n{}", medians(table)));
        }
    } else {
        let findings = findings(section);
        say(&format!("\n{findings}"));
        if let Some(sureness) = rows::sureness(rows::intervals(section)) {
            say(&sureness);
        }
        if findings.contains(['†', '‡']) {
            say(&wrapped(rows::LEGEND, WIDTH).join("\n"));
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

/// The table of findings, without the medians where there is no room for them.
fn findings(section: &Section) -> String {
    let mut findings = rows::findings(section);
    for row in &mut findings.body {
        row.iter_mut().take(3).for_each(|cell| *cell = cut(cell));
    }
    let all = aligned(&findings);
    if all.lines().all(|line| line.chars().count() <= WIDTH) {
        return all;
    }
    for row in std::iter::once(&mut findings.head).chain(&mut findings.body) {
        row.remove(3);
    }
    aligned(&findings)
}

/// As wide as the name of a subject, a load or a figure may be.
const NAME: usize = 28;

/// So many subjects stand beside each other.
const SUBJECTS: usize = 4;

fn cut(name: &str) -> String {
    if name.chars().count() <= NAME {
        return name.to_owned();
    }
    name.chars().take(NAME - 1).chain(['…']).collect()
}

/// The medians of a load, a figure in each line: of what is compared with nothing.
fn medians(table: &Table) -> String {
    let some = |subjects: &[(&str, Vec<Cell>)]| {
        let names = subjects.iter().map(|(subject, _)| subject.chars().take(NAME / 2).collect());
        let line = |(column, figure): (usize, &Figure)| {
            let cells = subjects.iter().map(|(_, cells)| rows::median(&cells[column], figure));
            std::iter::once(cut(&figure.title)).chain(cells).collect()
        };
        aligned(&Rows {
            head: std::iter::once(cut(&format!("{}, median", table.load))).chain(names).collect(),
            body: table.figures.iter().enumerate().map(line).collect(),
        })
    };
    table.rows.chunks(SUBJECTS).map(some).collect::<Vec<_>>().join("\n\n")
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
        let last = wrapped(&row[columns], WIDTH.saturating_sub(before).max(NAME / 2));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{analysis, made};

    /// Two subjects with names of this length, compared or not.
    fn shown(length: usize, compare: &str) -> String {
        let [one, two] = ["a", "b"].map(|letter| letter.repeat(length));
        let plan = format!(
            "rounds = 3\n[[subject]]\nname = \"{one}\"\ncommand = [\"a\"]\n[[subject]]\nname = \"{two}\"\ncommand = [\"b\"]\n\
             [[load]]\nname = \"1k\"\nkind = \"bench\"\n{}",
            compare.replace("ONE", &one).replace("TWO", &two)
        );
        let figures = |_: &made::Turn| Some(vec![("cpu_us_per_request", 7.0), ("private_bytes", 5e6)]);
        let made = [made::experiment(&plan, figures)];
        write(&analysis::analyse(&made))
    }

    const COMPARE: &str =
        "[[compare]]\nsubject = \"ONE\"\nwith = \"TWO\"\nfigures = [\"cpu_us_per_request\"]\n";

    #[test]
    fn findings_stand_below_each_other() {
        let expected = "made\n\
            a and b under 1k: no verdict: 3 rounds, it takes 6.\n\n\
            compared  under  in               medians   ratio  between  verdict\n\
            a / b     1k     CPU per request  7 / 7 µs  1.00            no verdict: 3 rounds, it takes 6\n";
        assert_eq!(shown(1, COMPARE), expected);
    }

    #[test]
    fn lines_have_a_hundred_characters_at_most() {
        for length in [1, 15, 30, 90] {
            for text in [shown(length, COMPARE), shown(length, "")] {
                let widest = text.lines().map(|line| line.chars().count()).max();
                assert!(widest <= Some(WIDTH) && text.lines().count() > 3, "{text}");
            }
        }
    }

    #[test]
    fn a_word_that_is_longer_than_a_line_has_one_of_its_own() {
        assert_eq!(wrapped("a bb ccccccc d", 4), ["a bb", "ccccccc", "d"]);
    }
}
