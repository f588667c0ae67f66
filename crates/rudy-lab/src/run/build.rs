//! Compiles the programs of a plan once before the first run.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rudy_command::print_line;
use rudy_experiment::plan::{Plan, Program};
use rudy_experiment::programs;
use rudy_request::Interrupt;

use crate::folders::Folders;
use crate::variant::{StartError, tool};

/// Timeout of a build: a large program with many libraries takes minutes.
const WITHIN: Duration = Duration::from_mins(30);

/// Builds the programs that variants of the plan use.
pub(super) fn build(plan: &Plan, folders: &Folders, interrupt: &Interrupt) -> Result<(), String> {
    for program in plan.programs.iter().filter(|program| plan.uses(program)) {
        print_line(&format!("building {}", program.name));
        one(program, folders, interrupt).map_err(|why| format!("cannot build {}: {why}", program.name))?;
    }
    Ok(())
}

fn one(program: &Program, folders: &Folders, interrupt: &Interrupt) -> Result<(), String> {
    let folder = folders.built().join(format!("{}.source", program.name));
    let source = folder.join(&program.file);
    fs::create_dir(&folder)
        .and_then(|()| fs::write(&source, &program.source))
        .map_err(|error| format!("cannot write {}: {error}", source.display()))?;
    let target = folders.built().join(&program.name);
    let fill = |path: &Path, word: &str, text: &str| text.replace(word, &path.to_string_lossy());
    let words: Vec<String> = program
        .build
        .iter()
        .map(|word| fill(&programs::folder(), "{programs}", word))
        .map(|word| fill(&target, "{target}", &fill(&source, "{source}", &word)))
        .collect();
    let used = tool::run(&words, &folder, WITHIN, interrupt);
    for note in &used.notes {
        print_line(&format!("    {note}"));
    }
    used.ended.map_err(|error| match error {
        StartError::Failed(why) => format!("`{}`: {why}", words.join(" ")),
        StartError::Interrupted => "it was interrupted".to_owned(),
    })
}
