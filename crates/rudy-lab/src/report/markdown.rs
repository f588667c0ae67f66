//! A report in GitHub's Markdown.

use super::analysis::trouble::Trouble;
use super::analysis::{Report, Section};
use super::rows::{self, Rows};
use super::shell;

/// The whole report.
pub(super) fn write(report: &Report) -> String {
    report.sections.iter().map(section).collect::<Vec<_>>().join("\n")
}

fn section(section: &Section) -> String {
    let plan = section.experiment.plan();
    let mut text = format!("# {}\n\n", escaped(&section.title));
    let mut say = |line: &str| text.extend([line, "\n\n"]);
    if !plan.question.is_empty() {
        say(&escaped(&plan.question));
    }
    for sentence in &section.headline {
        say(&format!("**{}**", escaped(sentence)));
    }
    for remark in &section.remarks {
        say(&format!("Note: {}.", escaped(remark)));
    }
    let mut part = |title: &str, rows: &Rows, about: Option<String>| {
        if !rows.body.is_empty() {
            say(&format!("## {}\n\n{}", escaped(title), table(rows)));
            if let Some(about) = about {
                say(&about);
            }
        }
    };
    part(
        "Findings",
        &rows::findings(section),
        all([rows::too_few(&section.comparisons), rows::confidence(rows::intervals(section))]),
    );
    for table in &section.tables {
        part(&format!("Workload {}", table.workload), &rows::table(table), None);
    }
    part("Baselines", &rows::baselines(section), None);
    let about =
        all([rows::controls_by_chance(section), rows::confidence(rows::intervals_of_controls(section))]);
    part("Controls: each variant against itself", &rows::controls(section), about);
    if !section.baselines.is_empty() && !plan.source.is_empty() {
        say(&format!("Source of the baselines: {}", escaped(&plan.source)));
    }
    for (title, troubles) in
        [("Validity warnings", &section.warnings), ("Failures", &section.failures), ("Notes", &section.notes)]
    {
        if !troubles.is_empty() {
            say(&format!("## {title}\n\n{}", list(troubles)));
        }
    }
    say(rows::LEGEND);
    text.push_str(&conditions(section));
    text
}

/// The sentences that exist, in one paragraph.
fn all<const N: usize>(sentences: [Option<String>; N]) -> Option<String> {
    let sentences: Vec<String> = sentences.into_iter().flatten().collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

fn list(troubles: &[Trouble]) -> String {
    let line = |trouble: &Trouble| format!("- {}", escaped(&trouble.to_string()));
    troubles.iter().map(line).collect::<Vec<_>>().join("\n")
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

pub(super) fn table(rows: &Rows) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<_> = cells.iter().map(|cell| escaped(cell)).collect();
        format!("| {} |", cells.join(" | "))
    };
    let rule = format!("|{}", " --- |".repeat(rows.head.len()));
    let body = rows.body.iter().map(|row| line(row));
    [line(&rows.head), rule].into_iter().chain(body).collect::<Vec<_>>().join("\n")
}

/// Escapes markup and line ends in text.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\r' => escaped.push(' '),
            '|' | '*' | '_' | '`' | '<' | '>' | '[' | ']' | '\\' | '#' | '~' => {
                escaped.push('\\');
                escaped.push(character);
            }
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{analysis, fixtures};

    #[test]
    fn the_command_can_be_given_to_a_shell_again() {
        let plan = "rounds = 1\n[[variant]]\nname = \"a\"\ncommand = [\"a\"]\n\
            [[workload]]\nname = \"1k\"\nkind = \"bench\"\n";
        let mut made = [fixtures::experiment(plan, |_| Some(vec![("p99_ns", 1e6)]))];
        made[0].heads[0].command =
            ["rudy", "lab", "run", "my plan.toml", "two\nlines"].map(str::to_owned).to_vec();
        let text = write(&analysis::analyse(&made));
        assert!(text.ends_with("\n\n    rudy lab run 'my plan.toml' 'two\n    lines'\n"), "{text}");
    }

    #[test]
    fn a_name_is_no_markup() {
        let rows = Rows { head: vec!["a|b".to_owned()], body: vec![vec!["<b>*x*</b>\n# y".to_owned()]] };
        assert_eq!(table(&rows), "| a\\|b |\n| --- |\n| \\<b\\>\\*x\\*\\</b\\> \\# y |");
    }
}
