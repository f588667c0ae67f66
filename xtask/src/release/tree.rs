//! The files that all packages of one processor have, as a tree of the root folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{binaries, facts};
use crate::{Outcome, command, workspace};

/// Files of the repository, and their places.
const FILES: &[(&str, &str)] = &[
    ("packaging/rudy.sysusers", "usr/lib/sysusers.d/rudy.conf"),
    ("packaging/rudy.tmpfiles", "usr/lib/tmpfiles.d/rudy.conf"),
    ("packaging/rudy.toml", "etc/rudy/rudy.toml"),
    ("packaging/index.html", "usr/share/rudy/index.html"),
    ("packaging/after-install", "usr/libexec/rudy/after-install"),
];

/// What users read: patterns of git.
const DOCUMENTATION: &[&str] =
    &["README.md", "docs/*.md", "docs/examples", "docs/rudy.schema.json", "docs/rudy-fail2ban.conf"];

/// Units, in which the program is where packages have it.
const UNITS: &[&str] = &["rudy.service", "rudy.socket"];

/// Returns the folder for the tree of a kind of package.
pub(super) fn folder(kind: &str, processor: &str) -> PathBuf {
    workspace::target().join("package-trees").join(format!("{kind}-{processor}"))
}

/// What differs between distributions.
pub(super) struct Layout {
    /// The folder of systemd's units.
    pub(super) units: &'static str,
    /// The folder in which zsh finds completions of packages.
    pub(super) zsh: &'static str,
}

/// Makes the tree in a folder, which is empty then.
pub(super) fn make(folder: &Path, processor: &str, layout: &Layout) -> Outcome {
    remove(folder)?;
    copy(&binaries::program(processor), &folder.join("usr/bin/rudy"))?;
    for (source, place) in FILES {
        copy(&workspace::root().join(source), &folder.join(place))?;
    }
    for unit in UNITS {
        let place = folder.join(layout.units).join(unit);
        fill(&format!("packaging/{unit}"), &place, &[("/usr/local/bin/", "/usr/bin/")])?;
    }
    documentation(folder)?;
    generated(folder, layout)
}

/// Removes a folder, if it exists.
pub(crate) fn remove(folder: &Path) -> Outcome {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    Ok(())
}

/// Makes the permissions independent of those in the work tree and of the umask.
pub(super) fn set_permissions(folder: &Path) -> Outcome {
    command::run(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(folder))
}

/// Compresses a file, without its name and time.
pub(super) fn compress(file: &Path) -> Outcome {
    command::run(Command::new("gzip").args(["-9", "--no-name", "--force"]).arg(file))
}

/// Writes a file, and creates the folders above it.
pub(super) fn write(path: &Path, content: impl AsRef<[u8]>) -> Outcome {
    create_parent(path)?;
    fs::write(path, content).map_err(|error| format!("{}: {error}", path.display()))
}

/// Copies a file of the repository with its permissions, and replaces texts in it.
pub(super) fn fill(source: &str, path: &Path, replacements: &[(&str, &str)]) -> Outcome {
    copy(&workspace::root().join(source), path)?;
    let text = workspace::read(source)?;
    write(path, replacements.iter().fold(text, |text, (from, to)| text.replace(from, to)))
}

/// Copies a file with its permissions, and creates the folders above it.
pub(super) fn copy(source: &Path, path: &Path) -> Outcome {
    create_parent(path)?;
    fs::copy(source, path).map_err(|error| format!("cannot copy {}: {error}", source.display()))?;
    Ok(())
}

fn create_parent(path: &Path) -> Outcome {
    let parent = path.parent().expect("files are in folders");
    fs::create_dir_all(parent).map_err(|error| format!("{}: {error}", parent.display()))
}

/// The documentation of users, as committed.
pub(super) fn documentation(folder: &Path) -> Outcome {
    let place = folder.join("usr/share/doc/rudy");
    for file in facts::files(DOCUMENTATION)?.lines() {
        copy(&workspace::root().join(file), &place.join(file.trim_start_matches("docs/")))?;
    }
    Ok(())
}

/// What the program itself writes: manual pages and completions. Those of the program for this machine are the same.
pub(super) fn generated(folder: &Path, layout: &Layout) -> Outcome {
    let program = binaries::program(std::env::consts::ARCH);
    let manual = folder.join("usr/share/man");
    for page in command::output(Command::new(&program).arg("manual").arg(&manual))?.lines() {
        compress(Path::new(page))?;
    }
    let zsh = format!("{}/_rudy", layout.zsh);
    let completions = [
        ("bash", "usr/share/bash-completion/completions/rudy"),
        ("zsh", &zsh),
        ("fish", "usr/share/fish/vendor_completions.d/rudy.fish"),
    ];
    for (shell, place) in completions {
        let script = command::output(Command::new(&program).args(["completions", shell]))?;
        write(&folder.join(place), script)?;
    }
    Ok(())
}
