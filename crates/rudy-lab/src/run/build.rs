//! Programs that a plan brings as source, built once before its first run.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::place::{self, Folders};
use crate::plan::{Plan, Program};

/// So much of what a compiler says is shown.
const SAID_LINES: usize = 20;

/// Builds what subjects of the plan need.
pub(super) fn build(plan: &Plan, folders: &Folders, say: impl Fn(&str)) -> Result<(), String> {
    for program in plan.programs.iter().filter(|program| plan.uses(program)) {
        say(&format!("building {}", program.name));
        one(program, folders).map_err(|why| format!("cannot build {}: {why}", program.name))?;
    }
    Ok(())
}

fn one(program: &Program, folders: &Folders) -> Result<(), String> {
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
        .map(|word| fill(&place::programs(), "{programs}", word))
        .map(|word| fill(&target, "{target}", &fill(&source, "{source}", &word)))
        .collect();
    let output = Command::new(&words[0])
        .args(&words[1..])
        .current_dir(&folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{:?} cannot be started: {error}", words[0]))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said: Vec<_> = said.lines().take(SAID_LINES).collect();
    Err(format!("`{}` ended with {}\n{}", words.join(" "), output.status, said.join("\n")))
}
