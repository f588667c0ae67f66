//! A report in GitHub's Markdown, as a document and for a terminal.

use super::analysis::events::{self, Event};
use super::analysis::{Report, Section};
use super::rows::{self, Rows};
use super::shell;

/// The maximum width of lines in a terminal.
const WIDTH: usize = 100;

/// The parts of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// All of them.
    Whole,
    /// The answer, and what limits its validity.
    Findings,
}

/// The whole report.
pub(super) fn write(report: &Report) -> String {
    sections(report, Scope::Whole)
}

/// The findings for a terminal; the page contains the rest.
pub(super) fn findings(report: &Report) -> String {
    let text = sections(report, Scope::Findings);
    let lines = text
        .lines()
        .flat_map(|line| if line.starts_with('|') { vec![line.to_owned()] } else { wrapped(line) });
    lines.flat_map(|line| [line, "\n".to_owned()]).collect()
}

fn sections(report: &Report, scope: Scope) -> String {
    report.sections.iter().map(|section| write_section(section, scope)).collect::<Vec<_>>().join("\n")
}

fn write_section(section: &Section, scope: Scope) -> String {
    let plan = section.experiment.plan();
    let is_whole = scope == Scope::Whole;
    let mut text = format!("# {}\n\n", escaped(&section.title));
    let mut paragraph = |line: &str| text.extend([line, "\n\n"]);
    if !plan.question.is_empty() {
        paragraph(&escaped(&plan.question));
    }
    for sentence in &section.headline {
        paragraph(&format!("**{}**", escaped(sentence)));
    }
    for remark in &section.remarks {
        paragraph(&format!("Note: {}.", escaped(remark)));
    }
    let mut part = |title: &str, rows: &Rows, about: Option<String>| {
        if !rows.body.is_empty() {
            let rows = if is_whole { table(rows) } else { fitting(rows) };
            paragraph(&format!("## {}\n\n{rows}", escaped(title)));
            if let Some(about) = about {
                paragraph(&about);
            }
        }
    };
    part(
        "Findings",
        &rows::findings(section),
        all([rows::too_few(&section.comparisons), rows::confidence(rows::intervals(section))]),
    );
    // Without comparisons, the metrics are the findings.
    for table in section.tables.iter().filter(|_| is_whole || section.comparisons.is_empty()) {
        part(&format!("Workload {}", table.workload), &rows::table(table), None);
    }
    part("Baselines", &rows::baselines(section), None);
    let about =
        all([rows::controls_by_chance(section), rows::confidence(rows::intervals_of_controls(section))]);
    if is_whole {
        part("Controls: each variant against itself", &rows::controls(section), about);
        if !section.baselines.is_empty() && !plan.source.is_empty() {
            paragraph(&format!("Source of the baselines: {}", escaped(&plan.source)));
        }
    } else if let Some(controls) = rows::controls_by_chance(section) {
        paragraph(&controls);
    }
    let notes: &[Event] = if is_whole { &section.notes } else { &[] };
    for (title, events) in
        [("Validity warnings", &*section.warnings), ("Failures", &section.failures), ("Notes", notes)]
    {
        if !events.is_empty() {
            paragraph(&format!("## {title}\n\n{}", list(events)));
        }
    }
    if let Some(legend) = rows::legend(&text) {
        text.extend([&legend, "\n\n"]);
    }
    if is_whole {
        text.push_str(&conditions(section));
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

/// The sentences that exist, in one paragraph.
fn all<const N: usize>(sentences: [Option<String>; N]) -> Option<String> {
    let sentences: Vec<String> = sentences.into_iter().flatten().collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

fn list(events: &[Event]) -> String {
    let line = |line: &String| format!("- {}", escaped(line));
    events::lines(events).iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The machine, the versions and the commands.
fn conditions(section: &Section) -> String {
    let head = &section.experiment.heads[0];
    let machine = &head.machine;
    let versions: Vec<_> = head.versions.iter().map(|(name, version)| format!("{name}: {version}")).collect();
    format!(
        "{} rounds, started {}, seed {}. {}, {} cores, {}, Linux {}. {}.\n\n    {}\n",
        head.plan.rounds,
        head.started,
        head.seed,
        escaped(&machine.cpu),
        machine.cores,
        rudy_units::Unit::Bytes.text(rows::float(machine.memory_bytes)),
        escaped(&machine.kernel),
        escaped(&versions.join("; ")),
        // Indented text is code; a carriage return would end it.
        shell::command(&head.command).replace('\r', " ").replace('\n', "\n    "),
    )
}

/// A table whose columns are aligned, so that it is readable as text too.
pub(super) fn table(rows: &Rows) -> String {
    let cells = |row: &Vec<String>| row.iter().map(|cell| escaped(cell)).collect::<Vec<_>>();
    let lines: Vec<Vec<String>> = std::iter::once(&rows.head).chain(&rows.body).map(cells).collect();
    // A rule has three dashes at least.
    let width = |column: usize| lines.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).max(3);
    let widths: Vec<usize> = (0..rows.head.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!(" {cell:<width$} |"));
        format!("|{}", cells.collect::<String>())
    };
    let rule = widths.iter().map(|width| "-".repeat(*width)).collect();
    let mut table: Vec<String> = lines.iter().map(line).collect();
    table.insert(1, line(&rule));
    table.join("\n")
}

/// A table that fits into a terminal, if necessary without medians, or else a list: `- CPU per request: rudy 7.31 µs;
/// nginx 9.88 µs`.
fn fitting(rows: &Rows) -> String {
    let fits = |table: &String| table.lines().all(|line| line.chars().count() <= WIDTH);
    let column = rows.head.iter().position(|head| head == rows::MEDIANS);
    let without = |row: &Vec<String>| {
        row.iter()
            .enumerate()
            .filter(|(place, _)| Some(*place) != column)
            .map(|(_, cell)| cell.clone())
            .collect()
    };
    let narrow = || table(&Rows { head: without(&rows.head), body: rows.body.iter().map(without).collect() });
    if let Some(table) = Some(table(rows)).filter(fits).or_else(|| Some(narrow()).filter(fits)) {
        return table;
    }
    let item = |row: &Vec<String>| {
        let cells =
            rows.head.iter().zip(row).skip(1).filter(|(_, cell)| !matches!(cell.as_str(), "" | rows::NONE));
        let cells: Vec<String> =
            cells.map(|(head, cell)| format!("{} {}", escaped(head), escaped(cell))).collect();
        format!("- {}: {}", escaped(&row[0]), cells.join("; "))
    };
    rows.body.iter().map(item).collect::<Vec<_>>().join("\n")
}

/// Wraps a line at spaces; lines of a list item are indented.
fn wrapped(line: &str) -> Vec<String> {
    let indent = if line.starts_with("- ") { "  " } else { "" };
    let mut lines = vec![String::new()];
    for word in line.split(' ') {
        let last = lines.last_mut().expect("there is one from the beginning");
        if last.trim().is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= WIDTH {
            last.extend([" ", word]);
        } else {
            lines.push(format!("{indent}{word}"));
        }
    }
    lines
}

/// Escapes markup and line ends in text.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut last = ' ';
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        // An underscore in a word is no markup in GitHub's Markdown.
        let is_in_word = last.is_alphanumeric() && rest.peek().is_some_and(|next| next.is_alphanumeric());
        match character {
            '\n' | '\r' => escaped.push(' '),
            '_' if is_in_word => escaped.push('_'),
            '|' | '*' | '_' | '`' | '<' | '>' | '[' | ']' | '\\' | '#' | '~' => {
                escaped.push('\\');
                escaped.push(character);
            }
            _ => escaped.push(character),
        }
        last = character;
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{analysis, fixtures};

    #[test]
    fn a_command_is_quoted_for_a_shell() {
        let plan = "rounds = 1\n[[variant]]\nname = \"a\"\ncommand = [\"a\"]\n\
            [[workload]]\nname = \"1k\"\nkind = \"bench\"\n";
        let mut experiments = [fixtures::experiment(plan, |_| Some(vec![("p99_ns", 1e6)]))];
        experiments[0].heads[0].command =
            ["rudy", "lab", "run", "my plan.toml", "two\nlines"].map(str::to_owned).to_vec();
        let text = write(&analysis::analyse(&experiments));
        assert!(text.ends_with("\n\n    rudy lab run 'my plan.toml' 'two\n    lines'\n"), "{text}");
    }

    #[test]
    fn markup_in_a_table_is_escaped() {
        let rows = Rows { head: vec!["a|b".to_owned()], body: vec![vec!["<b>*x*</b>\n# y_z _".to_owned()]] };
        let expected = "| a\\|b                       |\n\
            | -------------------------- |\n\
            | \\<b\\>\\*x\\*\\</b\\> \\# y_z \\_ |";
        assert_eq!(table(&rows), expected);
    }

    /// The findings of two variants whose names have a length.
    fn with_names(length: usize, rest: &str) -> String {
        let [one, two] = ["a", "b"].map(|letter| letter.repeat(length));
        let variant = |name: &String| format!("[[variant]]\nname = \"{name}\"\ncommand = [\"a\"]\n");
        let rest = rest.replace("ONE", &one).replace("TWO", &two);
        let plan = format!(
            "rounds = 3\n{}{}[[workload]]\nname = \"1k\"\nkind = \"bench\"\n{rest}",
            variant(&one),
            variant(&two)
        );
        let metrics = |_: &fixtures::RunId| Some(vec![("cpu_us_per_request", 7.0), ("private_bytes", 5e6)]);
        findings(&analysis::analyse(&[fixtures::experiment(&plan, metrics)]))
    }

    const COMPARE: &str =
        "[[compare]]\nvariant = \"ONE\"\nwith = \"TWO\"\nmetrics = [\"cpu_us_per_request\"]\n";

    #[test]
    fn the_terminal_shows_the_findings_in_an_aligned_table() {
        let expected = "# made\n\n\
            **a and b in workload 1k: no verdict: 3 rounds, 6 needed.**\n\n\
            ## Findings\n\n\
            | compared | workload | metric          | medians  | ratio | CI  | verdict        |\n\
            | -------- | -------- | --------------- | -------- | ----- | --- | -------------- |\n\
            | a / b    | 1k       | CPU per request | 7 / 7 µs | 1.00  |     | too few rounds |\n\n\
            Too few rounds for a verdict: 3 rounds, 6 needed.\n";
        assert_eq!(with_names(1, COMPARE), expected);
    }

    #[test]
    fn a_line_in_a_terminal_has_at_most_100_characters() {
        for (length, has_tables) in
            [(1, [true, true]), (15, [true, true]), (30, [false, true]), (90, [false, false])]
        {
            for (rest, has_table) in [COMPARE, ""].into_iter().zip(has_tables) {
                let text = with_names(length, rest);
                assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
                assert_eq!(text.contains("| ---"), has_table, "{text}");
            }
        }
        let text = with_names(40, "");
        let [one, two] = ["a", "b"].map(|letter| letter.repeat(40));
        assert!(text.contains(&format!("- CPU per request: {one} 7.00 µs;\n  {two} 7.00 µs\n")), "{text}");
    }

    #[test]
    fn a_legend_explains_only_the_marks_in_use() {
        let text = with_names(1, COMPARE);
        assert!(!text.contains(['†', '‡']), "{text}");
        assert_eq!(rows::legend("7.00 µs"), None);
        let suspect = rows::legend("7.00 µs†").unwrap();
        assert!(suspect.starts_with("† depends on suspect runs") && !suspect.contains('‡'), "{suspect}");
        assert!(rows::legend("0.50†‡").unwrap().contains("‡ depends on a variant"));
    }

    #[test]
    fn a_baseline_in_words_is_shown_without_a_guessed_metric() {
        let text = with_names(
            1,
            "[[baseline]]\nname = \"Old\"\nvariant = \"a\"\nworkload = \"1k\"\ntext = \"no growth\"\n",
        );
        let baseline = text.lines().find(|line| line.contains("no growth")).unwrap();
        assert!(!baseline.contains("CPU") && !baseline.contains("7.00"), "{text}");
    }
}
