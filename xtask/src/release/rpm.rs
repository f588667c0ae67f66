//! The packages for Fedora, RHEL, openSUSE and their relatives.

use std::path::Path;
use std::process::Command;

use super::tree::{self, Layout};
use super::{binaries, facts};
use crate::steps::Run;
use crate::{Outcome, command, setup, workspace};

/// Programs that make and check a package, and their packages.
const PROGRAMS: &[(&str, &str)] = &[("rpmbuild", "rpm"), ("rpmlint", "rpmlint")];

const LAYOUT: Layout = Layout { units: "usr/lib/systemd/system", zsh: "usr/share/zsh/site-functions" };

/// Makes a package for each processor, and checks it.
pub(super) fn run(_: &mut Run) -> Outcome {
    setup::programs(PROGRAMS)?;
    for (processor, _) in binaries::TARGETS {
        let folder = tree::folder("rpm", processor);
        tree::make(&folder, processor, &LAYOUT)?;
        for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
            tree::copy(&workspace::root().join(file), &folder.join("usr/share/licenses/rudy").join(file))?;
        }
        tree::copy(&workspace::root().join("CHANGELOG.md"), &folder.join("usr/share/doc/rudy/CHANGELOG.md"))?;
        tree::set_permissions(&folder)?;
        build(&folder, processor)?;
        let package = facts::folder().join(format!("rudy-{}-1.{processor}.rpm", facts::VERSION));
        let config = workspace::root().join("packaging/rpmlint.toml");
        command::run(Command::new("rpmlint").arg("--config").arg(config).arg(package))?;
    }
    Ok(())
}

fn build(tree: &Path, processor: &str) -> Outcome {
    let top = workspace::target().join("rpmbuild");
    let define = |name: &str, value: &Path| format!("{name} {}", value.display());
    let mut build = Command::new("rpmbuild");
    build.args(["-bb", "--quiet", "--target", &format!("{processor}-linux")]);
    for definition in [
        format!("rudy_version {}", facts::VERSION),
        define("tree", tree),
        // Not those of the machine.
        define("_topdir", &top),
        define("_dbpath", &top.join("database")),
        define("_rpmdir", &facts::folder()),
        "_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm".to_owned(),
    ] {
        build.args(["--define", &definition]);
    }
    command::run(
        build.arg(workspace::root().join("packaging/rudy.spec")).env("SOURCE_DATE_EPOCH", facts::time()?),
    )
}
