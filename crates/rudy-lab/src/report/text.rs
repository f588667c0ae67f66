//! The findings of a report for a terminal.

use super::analysis::trouble::Trouble;
use super::analysis::{Cell, Report, Section, Table};
use super::rows::{self, Rows};

/// The maximum width of lines.
const WIDTH: usize = 100;

/// The headlines, the findings and their warnings; other formats contain the rest.
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
    let tables: Vec<String> = if section.comparisons.is_empty() {
        section.tables.iter().map(medians).collect()
    } else {
        vec![findings(section)]
    };
    for table in &tables {
        say(&format!("\n{table}"));
    }
    if let Some(confidence) = rows::confidence(rows::intervals(section)) {
        say(&confidence);
    }
    if let Some(too_few) = rows::too_few(&section.comparisons) {
        say(&too_few);
    }
    if let Some(controls) = rows::controls_by_chance(section) {
        say(&controls);
    }
    if tables.concat().contains(['†', '‡']) {
        say(&wrapped(rows::LEGEND, WIDTH).join("\n"));
    }
    let baselines = baselines(section);
    if !baselines.is_empty() {
        say(&format!("\nbaselines:\n{baselines}"));
    }
    for (title, troubles) in [("validity warnings", &section.warnings), ("failures", &section.failures)] {
        if !troubles.is_empty() {
            say(&format!("\n{title}:"));
        }
        for line in troubles.iter().map(Trouble::to_string).flat_map(|line| wrapped(&line, WIDTH - 2)) {
            say(&format!("  {line}"));
        }
    }
    text
}

/// Older results with today's, one per line, because a table would be too wide.
fn baselines(section: &Section) -> String {
    let one = |row: &Vec<String>| {
        let [workload, metric, baseline, was, variant, is, _] = row.as_slice() else { return Vec::new() };
        let today = if variant == rows::NONE { String::new() } else { format!("; {variant}: {is}") };
        wrapped(&format!("{workload}, {metric}: {baseline}: {was}{today}"), WIDTH - 2)
    };
    let rows = rows::baselines(section).body;
    let lines = rows.iter().filter(|row| row[2] != rows::NONE).flat_map(one);
    lines.map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// The table of findings; if it is too wide, without the medians, and then with shortened names.
fn findings(section: &Section) -> String {
    let mut findings = rows::findings(section);
    let has_room = |text: &String| text.lines().all(|line| line.chars().count() <= WIDTH);
    let whole = aligned(&findings);
    if has_room(&whole) {
        return whole;
    }
    for row in std::iter::once(&mut findings.head).chain(&mut findings.body) {
        row.remove(3);
    }
    let without_medians = aligned(&findings);
    if has_room(&without_medians) {
        return without_medians;
    }
    for column in 0..3 {
        let names: Vec<String> = findings.body.iter().map(|row| row[column].clone()).collect();
        let short = short(&names);
        findings.body.iter_mut().zip(short).for_each(|(row, name)| row[column] = name);
    }
    aligned(&findings)
}

/// The maximum width of the name of a variant, a workload or a metric.
const NAME: usize = 28;

/// Shortens names to a maximum length. If different names would become the same, they get a number.
fn short(names: &[String]) -> Vec<String> {
    let mut distinct: Vec<&String> = Vec::new();
    for name in names {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    let one = |name: &String| {
        let alike = || distinct.iter().filter(|other| cut(other, NAME) == cut(name, NAME));
        match alike().position(|other| *other == name) {
            Some(place) if alike().count() > 1 => {
                let number = format!("~{}", place + 1);
                cut(name, NAME - number.len()) + &number
            }
            _ => cut(name, NAME),
        }
    };
    names.iter().map(one).collect()
}

/// Cuts the middle, because similar names usually differ at the end.
fn cut(name: &str, width: usize) -> String {
    let characters: Vec<char> = name.chars().collect();
    if characters.len() <= width {
        return name.to_owned();
    }
    let (start, end) = (width / 2, width - width / 2 - 1);
    characters[..start].iter().chain(&['…']).chain(&characters[characters.len() - end..]).collect()
}

/// The medians of a workload without comparisons, a metric per line, with as many variants per table as fit.
fn medians(table: &Table) -> String {
    let titles = table.metrics.iter().map(|metric| cut(&metric.title, NAME));
    let first: Vec<String> =
        std::iter::once(cut(&format!("{}, median", table.workload), NAME)).chain(titles).collect();
    let names: Vec<String> = table.rows.iter().map(|(variant, _)| (*variant).to_owned()).collect();
    let column = |(name, (_, cells)): (String, &(&str, Vec<Cell>))| -> Vec<String> {
        let cells = cells.iter().zip(&table.metrics).map(|(cell, metric)| rows::median(cell, metric));
        std::iter::once(name).chain(cells).collect()
    };
    let columns: Vec<Vec<String>> = short(&names).into_iter().zip(&table.rows).map(column).collect();
    let blocks = blocks(&first, &columns).into_iter().map(|columns| {
        let row = |line: usize| {
            std::iter::once(&first).chain(columns).map(|column| column[line].clone()).collect::<Vec<_>>()
        };
        aligned(&Rows { head: row(0), body: (1..first.len()).map(row).collect() })
    });
    blocks.collect::<Vec<_>>().join("\n\n")
}

/// Groups columns so that they fit next to the first one.
fn blocks<'a>(first: &[String], columns: &'a [Vec<String>]) -> Vec<&'a [Vec<String>]> {
    let width = |column: &[String]| column.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
    let mut blocks = Vec::new();
    let mut rest = columns;
    while !rest.is_empty() {
        let mut filled = width(first);
        let fits = rest.iter().take_while(|column| {
            filled += 2 + width(column);
            filled <= WIDTH
        });
        let (block, left) = rest.split_at(fits.count().max(1));
        blocks.push(block);
        rest = left;
    }
    blocks
}

/// Sets each column to its widest cell; the last one gets the remaining width, with line breaks if necessary.
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

/// Wraps text at words to lines of a maximum length.
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
    use crate::report::{analysis, fixtures};

    /// Two variants with names of this length, compared or not.
    fn shown(length: usize, compare: &str) -> String {
        let [one, two] = ["a", "b"].map(|letter| letter.repeat(length));
        written(&[&one, &two], &compare.replace("ONE", &one).replace("TWO", &two))
    }

    fn written(variants: &[&str], compare: &str) -> String {
        let variant = |name: &&str| format!("[[variant]]\nname = \"{name}\"\ncommand = [\"a\"]\n");
        let variants: String = variants.iter().map(variant).collect();
        let plan = format!("rounds = 3\n{variants}[[workload]]\nname = \"1k\"\nkind = \"bench\"\n{compare}");
        let metrics = |_: &fixtures::Turn| Some(vec![("cpu_us_per_request", 7.0), ("private_bytes", 5e6)]);
        let made = [fixtures::experiment(&plan, metrics)];
        write(&analysis::analyse(&made))
    }

    const COMPARE: &str =
        "[[compare]]\nvariant = \"ONE\"\nwith = \"TWO\"\nmetrics = [\"cpu_us_per_request\"]\n";

    #[test]
    fn findings_stand_below_each_other() {
        let expected = "made\n\
            a and b in workload 1k: no verdict: 3 rounds, 6 needed.\n\n\
            compared  workload  metric           medians   ratio  CI  verdict\n\
            a / b     1k        CPU per request  7 / 7 µs  1.00       too few rounds\n\
            Too few rounds for a verdict: 3 rounds, 6 needed.\n";
        assert_eq!(shown(1, COMPARE), expected);
    }

    #[test]
    fn what_was_shown_then_stands_beside_what_is_shown_now() {
        let then = "[[baseline]]\nname = \"Old\"\nvariant = \"a\"\nworkload = \"1k\"\nmetrics = { cpu_us_per_request = 70.0 }\n";
        let text = shown(1, then);
        assert!(text.contains("\nbaselines:\n  1k, CPU per request: Old: 70.0 µs; a: 7.00 µs\n"), "{text}");
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
    fn names_stay_apart() {
        let long = |middle: &str| format!("{}{middle}{}", "a".repeat(40), "z".repeat(40));
        let names = ["apache-fcgid-tasks", "apache-fcgid-threads"].map(str::to_owned);
        assert_eq!(short(&names), names, "there is room for them");
        assert_eq!(
            short(&[long("1"), long("2"), long("1")]),
            ["aaaaaaaaaaaaa…zzzzzzzzzzzz~1", "aaaaaaaaaaaaa…zzzzzzzzzzzz~2", "aaaaaaaaaaaaa…zzzzzzzzzzzz~1"]
        );
        let names = ["lighttpd-fcgi-tasks", "apache-fcgid-tasks", "apache-fcgid-threads", "nginx", "h2o"];
        let text = written(&names, "");
        for name in names {
            assert_eq!(text.matches(name).count(), 1, "{text}");
        }
    }

    #[test]
    fn a_word_that_is_longer_than_a_line_has_one_of_its_own() {
        assert_eq!(wrapped("a bb ccccccc d", 4), ["a bb", "ccccccc", "d"]);
    }
}
