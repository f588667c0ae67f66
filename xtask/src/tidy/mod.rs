//! Project rules that the compiler does not check. Each check reads texts or `cargo metadata`, and reports each violation. The checks
//! are pure functions, and their tests show that they can fail.

mod deny;
mod documents;
mod layers;
mod modules;
mod picture;
mod sources;
mod words;

use crate::{Outcome, command, workspace};

/// Runs all checks and prints their violations.
pub(crate) fn run() -> Outcome {
    let metadata = workspace::metadata()?;
    let graph = layers::Graph::new(&metadata)?;
    let rules = deny::Rules::new(&workspace::read("deny.toml")?)?;
    let sources = read_all("rs")?;
    let manifests = read_all("toml")?;
    let documents = read_all("md")?;
    let texts = read_each(words::EXTENSIONS)?;
    let checks = [
        ("crates depend only downward", layers::layer_violations(&graph)),
        ("no modules import each other", modules::circles(&sources)),
        ("ARCHITECTURE.md has the picture of the crates", picture::outdated(&graph, &documents)),
        ("layer 0 is free of runtimes and sockets", layers::banned_dependencies(&graph)),
        ("layer 0 denies the clock, files and sockets", layers::missing_lints(&sources)),
        ("every member uses the lints of the workspace", sources::without_lints(&manifests)),
        (
            "the version is only in Cargo.toml",
            sources::versions(&read_packaging()?, env!("CARGO_PKG_VERSION")),
        ),
        ("connections end in one place", sources::closes(&sources)),
        ("files are short", sources::too_long(&sources)),
        ("no code is unfinished", sources::unfinished(&sources)),
        ("texts are in plain words", words::phrases(&texts)),
        ("names are the glossary's", words::names(&sources)),
        ("every direct dependency has a reason", documents::dependencies(&graph, &documents)),
        ("every licence is allowed", deny::licences(&workspace::tree("normal,build")?, &rules)?),
        ("banned crates stay out", deny::bans(&workspace::tree("normal,build,dev")?, &rules)?),
        ("crates are from crates.io", deny::sources(&metadata)?),
        ("every relative link works", documents::dead_links(&documents)),
        ("every claim about security has a test", documents::untested_claims(&documents, &sources)),
    ];
    let mut found = 0;
    for (rule, problems) in checks {
        println!("{} {rule}", if problems.is_empty() { "ok  " } else { "FAIL" });
        for problem in &problems {
            println!("       {problem}");
        }
        found += problems.len();
    }
    if found == 0 { Ok(()) } else { Err(format!("tidy found {found} violations, listed above")) }
}

/// A file of the repository: its path relative to the root, with `/` as the separator, and its text.
struct File {
    path: String,
    text: String,
}

fn read_all(extension: &str) -> Outcome<Vec<File>> {
    let read = |path: std::path::PathBuf| {
        Ok(File { text: workspace::read(&path)?, path: path.to_string_lossy().into_owned() })
    };
    workspace::files(extension)?.into_iter().map(read).collect()
}

/// Reads what packages contain, and the recipes.
fn read_packaging() -> Outcome<Vec<File>> {
    let mut git = std::process::Command::new("git");
    let names = command::output(git.current_dir(workspace::root()).args(["ls-files", "--", "packaging"]))?;
    let read = |path: &str| Ok(File { path: path.to_owned(), text: workspace::read(path)? });
    names.lines().map(read).collect()
}

fn read_each(extensions: &[&str]) -> Outcome<Vec<File>> {
    let files: Outcome<Vec<_>> = extensions.iter().map(|extension| read_all(extension)).collect();
    Ok(files?.into_iter().flatten().collect())
}

#[cfg(test)]
fn file(path: &str, text: &str) -> File {
    File { path: path.into(), text: text.into() }
}
