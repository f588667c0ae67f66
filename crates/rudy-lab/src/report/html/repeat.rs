//! What anyone needs to repeat an experiment: plan, machine, versions, commands.

use crate::experiment::Experiment;
use crate::record::{Head, Run};
use crate::report::html::escaped;
use crate::report::rows::float;
use crate::report::unit::Unit;

pub(super) fn write(experiment: &Experiment) -> String {
    let head = &experiment.heads[0];
    let command = format!("<p>The command line was</p>\n<pre>{}</pre>\n", escaped(&shell(&head.command)));
    let plan = experiment.plan_text.as_ref().map_or(String::new(), |text| {
        format!("<p class=\"note\">As it was given; flags of the command line may have changed it.</p>\n<pre>{}</pre>", escaped(text))
    });
    [
        command,
        details("Machine and versions", &conditions(experiment)),
        details("Plan", &plan),
        details("Commands", &commands(experiment)),
    ]
    .concat()
}

fn details(summary: &str, body: &str) -> String {
    if body.is_empty() {
        return String::new();
    }
    format!("<details><summary>{summary}</summary>\n{body}</details>\n")
}

/// Of each time that it was begun, if there are several.
fn conditions(experiment: &Experiment) -> String {
    let entry = |name: &str, value: &str| format!("<dt>{}</dt><dd>{}</dd>\n", escaped(name), escaped(value));
    let of_head = |head: &Head| {
        let machine = &head.machine;
        let governor = machine.governor.as_deref().unwrap_or("not said");
        let mut list = vec![
            entry("begun", &head.started),
            entry("processor", &machine.cpu),
            entry("cores", &machine.cores.to_string()),
            entry("memory", &Unit::Bytes.text(float(machine.memory_bytes))),
            entry("kernel", &machine.kernel),
            entry("clock governor", governor),
            entry("rounds", &head.plan.rounds.to_string()),
            entry("warm-up", &head.plan.warmup.to_string()),
            entry("seed of the order", &head.seed.to_string()),
        ];
        list.extend(head.versions.iter().map(|(name, version)| entry(name, version)));
        format!("<dl>\n{}</dl>\n", list.concat())
    };
    experiment.heads.iter().map(of_head).collect::<Vec<_>>().concat()
}

/// One of each subject and one of each load, as they were run.
fn commands(experiment: &Experiment) -> String {
    let plan = experiment.plan();
    let first = |is_it: &dyn Fn(&Run) -> bool, words: fn(&Run) -> &Vec<String>| {
        let run = experiment.runs.iter().find(|run| is_it(run) && !words(run).is_empty())?;
        Some(shell(words(run)))
    };
    let subjects = plan.subjects.iter().filter_map(|subject| {
        let command = first(&|run| run.subject == subject.name, |run| &run.commands.subject)?;
        Some(format!("# {}\n{command}\n", subject.name))
    });
    let loads = plan.loads.iter().filter_map(|load| {
        let command = first(&|run| run.load == load.name, |run| &run.commands.load)?;
        Some(format!("# {}\n{command}\n", load.name))
    });
    let (subjects, loads) = (subjects.collect::<Vec<_>>(), loads.collect::<Vec<_>>());
    if subjects.is_empty() && loads.is_empty() {
        return String::new();
    }
    format!(
        "<p class=\"note\">Of each the first; ports and folders differ from run to run.</p>\n<pre>{}</pre>\n<pre>{}</pre>\n",
        escaped(&subjects.join("\n")),
        escaped(&loads.join("\n"))
    )
}

/// Words as a shell takes them.
fn shell(words: &[String]) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "/.:=_-+,@%".contains(character);
    let quoted = |word: &String| {
        if !word.is_empty() && word.chars().all(is_plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_a_shell_would_read_otherwise_is_quoted() {
        let words = ["rudy", "serve", "a b", "it's", "", "http://[::1]:80/"].map(str::to_owned);
        assert_eq!(shell(&words), r"rudy serve 'a b' 'it'\''s' '' 'http://[::1]:80/'");
    }
}
