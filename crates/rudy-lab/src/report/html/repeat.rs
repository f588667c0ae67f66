//! The information to repeat an experiment: plan, machine, versions, commands.

use crate::experiment::Experiment;
use crate::plan::{Beside, Plan, Program};
use crate::record::{Head, Run};
use crate::report::html::{all, escaped};
use crate::report::rows::float;
use crate::report::shell::command;
use crate::report::unit::Unit;

pub(super) fn write(experiment: &Experiment) -> String {
    let head = &experiment.heads[0];
    let line = format!("<p>The command line was</p>\n<pre>{}</pre>\n", escaped(&command(&head.command)));
    let plan = experiment.plan_text.as_ref().map_or(String::new(), |text| {
        format!("<p class=\"note\">The plan as written; options of the command line may have changed its values.</p>\n<pre>{}</pre>", escaped(text))
    });
    [
        line,
        details("Machine and versions", &conditions(experiment)),
        details("Plan", &plan),
        details("Commands", &commands(experiment)),
        details("What runs beside the subjects", &beside(experiment.plan())),
        details("Configurations", &configurations(experiment.plan())),
        details("Programs that are built", &programs(experiment.plan())),
    ]
    .concat()
}

fn details(summary: &str, body: &str) -> String {
    if body.is_empty() {
        return String::new();
    }
    format!("<details><summary>{summary}</summary>\n{body}</details>\n")
}

/// The heads of each start, if there are several.
fn conditions(experiment: &Experiment) -> String {
    let entry = |name: &str, value: &str| format!("<dt>{}</dt><dd>{}</dd>\n", escaped(name), escaped(value));
    let of_head = |head: &Head| {
        let machine = &head.machine;
        let governor = machine.governor.as_deref().unwrap_or("unknown");
        let mut list = vec![
            entry("started", &head.started),
            entry("processor", &machine.cpu),
            entry("cores", &machine.cores.to_string()),
            entry("memory", &Unit::Bytes.text(float(machine.memory_bytes))),
            entry("kernel", &machine.kernel),
            entry("clock governor", governor),
            entry("rounds", &head.plan.rounds.to_string()),
            entry("warm-up", &head.plan.warmup.to_string()),
            entry("random seed of the order", &head.seed.to_string()),
        ];
        list.extend(head.versions.iter().map(|(name, version)| entry(name, version)));
        format!("<dl>\n{}</dl>\n", list.concat())
    };
    experiment.heads.iter().map(of_head).collect::<Vec<_>>().concat()
}

/// The commands of each subject and of each load, as they ran.
fn commands(experiment: &Experiment) -> String {
    let plan = experiment.plan();
    let first = |is_it: &dyn Fn(&Run) -> bool, words: fn(&Run) -> &Vec<String>| {
        let run = experiment.runs.iter().find(|run| is_it(run) && !words(run).is_empty())?;
        Some(command(words(run)))
    };
    let subjects = plan.subjects.iter().filter_map(|subject| {
        let words = first(&|run| run.subject == subject.name, |run| &run.commands.subject)?;
        Some(format!("# {}\n{words}\n", subject.name))
    });
    let loads = plan.loads.iter().filter_map(|load| {
        let words = first(&|run| run.load == load.name, |run| &run.commands.load)?;
        Some(format!("# {}\n{words}\n", load.name))
    });
    let (subjects, loads) = (subjects.collect::<Vec<_>>(), loads.collect::<Vec<_>>());
    if subjects.is_empty() && loads.is_empty() {
        return String::new();
    }
    format!(
        "<p class=\"note\">The commands of the first run; ports and folders differ in each run.</p>\n<pre>{}</pre>\n<pre>{}</pre>\n",
        escaped(&subjects.join("\n")),
        escaped(&loads.join("\n"))
    )
}

/// The commands of companion programs, from the plan, because the records do not contain them.
fn beside(plan: &Plan) -> String {
    let one = |beside: &Beside| format!("# {}\n{}\n", beside.name, command(&beside.command));
    let commands: Vec<_> = plan.beside.iter().map(one).collect();
    if commands.is_empty() {
        return String::new();
    }
    format!("<p class=\"note\">{WORDS}</p>\n<pre>{}</pre>\n", escaped(&commands.join("\n")))
}

/// The explanation of texts with placeholders.
const WORDS: &str = "As in the plan, with placeholders in braces.";

/// Each configuration once, with the names of all its users.
fn configurations(plan: &Plan) -> String {
    let of_subjects = plan.subjects.iter().map(|subject| (&subject.name, &subject.config));
    let of_beside = plan.beside.iter().map(|beside| (&beside.name, &beside.config));
    let mut texts: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, config) in of_subjects.chain(of_beside) {
        let Some(config) = config else { continue };
        match texts.iter_mut().find(|(text, _)| *text == config.as_str()) {
            Some((_, names)) => names.push(name),
            None => texts.push((config.as_str(), vec![name.as_str()])),
        }
    }
    if texts.is_empty() {
        return String::new();
    }
    let one = |(text, names): &(&str, Vec<&str>)| listing(&names.join(", "), text);
    format!("<p class=\"note\">{WORDS}</p>\n{}", all(texts.iter().map(one)))
}

/// The source of each program, and its build command.
fn programs(plan: &Plan) -> String {
    let one = |program: &Program| {
        let title = format!("{}: {}", program.file, command(&program.build));
        listing(&title, &program.source)
    };
    all(plan.programs.iter().map(one))
}

fn listing(title: &str, text: &str) -> String {
    format!("<p>{}</p>\n<pre>{}</pre>\n", escaped(title), escaped(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan;
    use crate::report::made;

    #[test]
    fn what_the_plan_reads_from_other_files_is_on_the_page() {
        let text = r#"
            rounds = 1
            [[program]]
            name = "tool"
            source = "tool.c"
            build = ["cc", "-o", "{target}", "{source}"]
            [[beside]]
            name = "app"
            command = ["{built}/tool", "two words"]
            config_text = "app <port>"
            [[subject]]
            name = "a"
            command = ["a", "{config}"]
            config_text = "listen {port}"
            beside = ["app"]
            [[subject]]
            name = "b"
            command = ["b", "{config}"]
            config_text = "listen {port}"
            [[load]]
            name = "1k"
            kind = "bench"
        "#;
        let folder = tempfile::tempdir().expect("a temp folder can be created");
        std::fs::write(folder.path().join("tool.c"), "int main(void) { return 0 < 1; }")
            .expect("it can be written");
        let mut experiment = made::experiment(
            "rounds = 1\n[[subject]]\nname = \"a\"\ncommand = [\"a\"]\n\
            [[load]]\nname = \"1k\"\nkind = \"bench\"\n",
            |_| None,
        );
        assert!(!write(&experiment).contains("Configurations"));
        experiment.heads[0].plan = plan::parse(text, "made.toml", Some(folder.path())).expect("it is right");
        let page = write(&experiment);
        for text in [
            "# app\n&#39;{built}/tool&#39; &#39;two words&#39;\n",
            "<p>a, b</p>\n<pre>listen {port}</pre>",
            "<p>app</p>\n<pre>app &lt;port&gt;</pre>",
            "<p>tool.c: cc -o &#39;{target}&#39; &#39;{source}&#39;</p>\n<pre>int main(void) { return 0 &lt; 1; }</pre>",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
    }
}
