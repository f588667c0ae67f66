//! The packages for Debian and Ubuntu.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::facts;
use super::tree::{self, Layout};
use crate::steps::Run;
use crate::{Outcome, command, setup, workspace};

/// Programs that make and check a package, and their packages.
const PROGRAMS: &[(&str, &str)] = &[("dpkg-deb", "dpkg"), ("lintian", "lintian")];

const LAYOUT: Layout = Layout { units: "lib/systemd/system", zsh: "usr/share/zsh/vendor-completions" };

/// Debian's names of the processors.
const ARCHITECTURES: &[(&str, &str)] = &[("x86_64", "amd64"), ("aarch64", "arm64")];

/// Debian's part of the version: packages of the same version of Rudy.
const REVISION: &str = "1";

/// Counts KiB as dpkg does, which does not depend on the file system.
const SIZE: &str = "find . -printf '%y %s\\n' | awk '{ kib += $1 == \"f\" ? int(($2 + 1023) / 1024) : 1 } END { print kib }'";

const SUMS: &str = "find * -type f -print0 | LC_ALL=C sort --zero-terminated | xargs --null md5sum";

const MAINTAINER: &str = "The Rudy contributors <maintainers@rudy.example>";

/// Makes a package for each processor, and checks it.
pub(super) fn run(_: &mut Run) -> Outcome {
    setup::programs(PROGRAMS)?;
    let version = format!("{}-{REVISION}", facts::VERSION);
    for (processor, architecture) in ARCHITECTURES {
        let package = package(processor, architecture, &version)?;
        command::run(
            Command::new("lintian")
                .args(["--allow-root", "--fail-on=error,warning", "--tag-display-limit=0"])
                .arg(package),
        )?;
    }
    Ok(())
}

/// Makes the package, and returns its path.
fn package(processor: &str, architecture: &str, version: &str) -> Outcome<PathBuf> {
    let folder = tree::folder("deb", processor);
    tree::make(&folder, processor, &LAYOUT)?;
    documentation(&folder, version)?;
    control(&folder, architecture, version)?;
    tree::set_permissions(&folder)?;
    let package = facts::folder().join(format!("rudy_{version}_{architecture}.deb"));
    let mut build = Command::new("dpkg-deb");
    // With several threads, the result would depend on their number.
    build.args(["--root-owner-group", "-Zxz", "--threads-max=1", "--build"]).arg(&folder).arg(&package);
    command::output(build.env("SOURCE_DATE_EPOCH", facts::time()?))?;
    Ok(package)
}

/// What Debian's policy requires beside the documentation of all packages.
fn documentation(folder: &Path, version: &str) -> Outcome {
    let place = folder.join("usr/share/doc/rudy");
    let packaging = workspace::root().join("packaging/debian");
    tree::copy(&packaging.join("copyright"), &place.join("copyright"))?;
    tree::copy(&packaging.join("lintian-overrides"), &folder.join("usr/share/lintian/overrides/rudy"))?;
    tree::copy(&workspace::root().join("CHANGELOG.md"), &place.join("changelog"))?;
    let time = format!("@{}", facts::time()?);
    let date = command::output(Command::new("date").args(["--utc", "--rfc-email", "--date", &time]))?;
    let change = "  * The changes of this version are in changelog.gz, in the same folder.";
    let entry = format!("rudy ({version}) stable; urgency=medium\n\n{change}\n\n -- {MAINTAINER}  {date}");
    tree::write(&place.join("changelog.Debian"), entry)?;
    tree::compress(&place.join("changelog"))?;
    tree::compress(&place.join("changelog.Debian"))
}

/// The folder `DEBIAN`: the fields of the package, its scripts, and sums of its files.
fn control(folder: &Path, architecture: &str, version: &str) -> Outcome {
    let shell = |script: &str| command::output(Command::new("sh").args(["-c", script]).current_dir(folder));
    let size = shell(SIZE)?;
    let page = shell("sha256sum < usr/share/rudy/index.html")?;
    let replacements = [
        ("@VERSION@", version),
        ("@ARCHITECTURE@", architecture),
        ("@MAINTAINER@", MAINTAINER),
        ("@SIZE_KIB@", size.trim()),
        ("@PAGE_SHA256@", page.trim_end_matches([' ', '-', '\n'])),
    ];
    let sums = shell(SUMS)?;
    let place = folder.join("DEBIAN");
    for name in ["control", "postinst", "prerm", "postrm"] {
        tree::fill(&format!("packaging/debian/{name}"), &place.join(name), &replacements)?;
    }
    tree::write(&place.join("conffiles"), "/etc/rudy/rudy.toml\n")?;
    tree::write(&place.join("md5sums"), sums)
}
