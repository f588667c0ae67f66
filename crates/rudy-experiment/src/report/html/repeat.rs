//! The information to repeat an experiment: plan, machine, versions, commands.

use crate::experiment::Experiment;
use crate::plan::{Companion, Plan, Program};
use crate::record::{Head, Run};
use crate::report::html::{all, escaped};
use crate::report::rows::float;
use crate::report::shell::command;

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
        details("Companion programs", &companions(experiment.plan())),
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
            entry(
                "cores",
                &format!("{}{}", machine.cores, if machine.has_smt { " hardware threads (SMT)" } else { "" }),
            ),
            entry("memory", &rudy_units::Unit::Bytes.text(float(machine.memory_bytes))),
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

/// The commands of each variant and of each workload, as they ran.
fn commands(experiment: &Experiment) -> String {
    let plan = experiment.plan();
    let first = |is_it: &dyn Fn(&Run) -> bool, arguments: fn(&Run) -> &Vec<String>| {
        let run = experiment.runs.iter().find(|run| is_it(run) && !arguments(run).is_empty())?;
        Some(command(arguments(run)))
    };
    let variants = plan.variants.iter().filter_map(|variant| {
        let arguments = first(&|run| run.variant == variant.name, |run| &run.commands.variant)?;
        Some(format!("# {}\n{arguments}\n", variant.name))
    });
    let workloads = plan.workloads.iter().filter_map(|workload| {
        let arguments = first(&|run| run.workload == workload.name, |run| &run.commands.workload)?;
        Some(format!("# {}\n{arguments}\n", workload.name))
    });
    let (variants, workloads) = (variants.collect::<Vec<_>>(), workloads.collect::<Vec<_>>());
    if variants.is_empty() && workloads.is_empty() {
        return String::new();
    }
    format!(
        "<p class=\"note\">The commands of the first run; ports and folders differ in each run.</p>\n<pre>{}</pre>\n<pre>{}</pre>\n",
        escaped(&variants.join("\n")),
        escaped(&workloads.join("\n"))
    )
}

/// The commands of companion programs, from the plan, because the records do not contain them.
fn companions(plan: &Plan) -> String {
    let one = |companion: &Companion| format!("# {}\n{}\n", companion.name, command(&companion.command));
    let commands: Vec<_> = plan.companions.iter().map(one).collect();
    if commands.is_empty() {
        return String::new();
    }
    format!("<p class=\"note\">{WORDS}</p>\n<pre>{}</pre>\n", escaped(&commands.join("\n")))
}

/// The explanation of texts with placeholders.
const WORDS: &str = "As in the plan, with placeholders in braces.";

/// Each configuration once, with the names of all its users.
fn configurations(plan: &Plan) -> String {
    let of_variants = plan.variants.iter().map(|variant| (&variant.name, &variant.config));
    let of_companions = plan.companions.iter().map(|companion| (&companion.name, &companion.config));
    let mut texts: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, config) in of_variants.chain(of_companions) {
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
    use crate::report::fixtures;

    #[test]
    fn files_of_the_plan_are_on_the_page() {
        let text = r#"
            rounds = 1
            [[program]]
            name = "tool"
            source = "tool.c"
            build = ["cc", "-o", "{target}", "{source}"]
            [[companion]]
            name = "app"
            command = ["{built}/tool", "two words"]
            config_text = "app <port>"
            [[variant]]
            name = "a"
            command = ["a", "{config}"]
            config_text = "listen {port}"
            companions = ["app"]
            [[variant]]
            name = "b"
            command = ["b", "{config}"]
            config_text = "listen {port}"
            [[workload]]
            name = "1k"
            kind = "bench"
        "#;
        let folder = tempfile::tempdir().expect("a temp folder can be created");
        std::fs::write(folder.path().join("tool.c"), "int main(void) { return 0 < 1; }")
            .expect("it can be written");
        let mut experiment = fixtures::experiment(
            "rounds = 1\n[[variant]]\nname = \"a\"\ncommand = [\"a\"]\n\
            [[workload]]\nname = \"1k\"\nkind = \"bench\"\n",
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
