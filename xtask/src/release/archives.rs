//! The archives with the program and what belongs to it, for the install script and for distributions without a package.

use std::fs;
use std::path::PathBuf;

use super::tree::{self, Layout};
use super::{binaries, facts, tar};
use crate::steps::Run;
use crate::{Outcome, workspace};

const LAYOUT: Layout = Layout { units: "", zsh: "usr/share/zsh/site-functions" };

/// Files of the repository, and their places in the archive.
const FILES: &[(&str, &str)] = &[
    ("packaging/rudy.service", "lib/systemd/system/rudy.service"),
    ("packaging/rudy.socket", "lib/systemd/system/rudy.socket"),
    ("packaging/rudy.sysusers", "lib/sysusers.d/rudy.conf"),
    ("packaging/rudy.tmpfiles", "lib/tmpfiles.d/rudy.conf"),
    ("packaging/rudy.toml", "share/doc/rudy/rudy.toml"),
    ("CHANGELOG.md", "share/doc/rudy/CHANGELOG.md"),
    ("LICENSE-APACHE", "share/licenses/rudy/LICENSE-APACHE"),
    ("LICENSE-MIT", "share/licenses/rudy/LICENSE-MIT"),
];

/// Makes an archive for each processor.
pub(super) fn run(_: &mut Run) -> Outcome {
    binaries::TARGETS.iter().try_for_each(|(processor, _)| archive(processor))
}

/// Returns the path of the archive for a processor.
pub(super) fn path(processor: &str) -> PathBuf {
    facts::folder().join(format!("{}.tar.gz", name(processor)))
}

fn name(processor: &str) -> String {
    format!("rudy-{}-{processor}-linux", facts::VERSION)
}

fn archive(processor: &str) -> Outcome {
    let (work, name) = (tree::folder("archive", processor), name(processor));
    tree::remove(&work)?;
    tree::documentation(&work)?;
    tree::generated(&work, &LAYOUT)?;
    let folder = work.join(&name);
    fs::rename(work.join("usr"), &folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    tree::copy(&binaries::program(processor), &folder.join("bin/rudy"))?;
    for (source, place) in FILES {
        tree::copy(&workspace::root().join(source), &folder.join(place))?;
    }
    tree::set_permissions(&folder)?;
    let archive = path(processor).with_extension("");
    tar::begin(&archive)?;
    tar::pack(&archive, &work, "0", "u+r", &[&name])?;
    tar::compress(&archive).map(|_| ())
}
