//! Makes a release, and installs and uses its files on a new Debian.

use std::fs;
use std::process::Command;

use crate::steps::Run;
use crate::{Outcome, command, release, setup, test, workspace};

/// Programs that make machines or use what a release has, and their packages.
const PROGRAMS: &[(&str, &str)] = &[
    ("debootstrap", "debootstrap"),          // installs a Debian into a folder
    ("systemd-nspawn", "systemd-container"), // boots it
    ("minisign", "minisign"),                // signs a release with a key of a test
    ("ruby", "ruby"),                        // runs the formula of Homebrew
    ("nix-instantiate", "nix-bin"),          // evaluates the expressions of Nix
    ("makepkg", "makepkg"),                  // makes the package of Arch Linux, with the next two
    ("pacman", "pacman-package-manager"),
    ("bsdtar", "libarchive-tools"),
];

/// What a Debian has beside its smallest set of packages. rpm installs the RPM package.
const DEBIAN: &str = "--include=systemd-sysv,libnss-systemd,ca-certificates,curl,procps,rpm";

/// Runs the tests of packages with a release of this commit.
pub(crate) fn run(run: &mut Run) -> Outcome {
    setup::programs(PROGRAMS)?;
    install_debian()?;
    release::run(&[])?;
    test::release_tests(run, &release::folder())
}

/// Installs a Debian into `target/debian`. The file `installed` marks a complete installation.
fn install_debian() -> Outcome {
    let folder = workspace::environment("debian");
    if folder.join("installed").exists() {
        return Ok(());
    }
    println!("installing Debian into {}", folder.display());
    let mut debootstrap = Command::new("debootstrap");
    command::output(debootstrap.args(["--variant=minbase", DEBIAN, "bookworm"]).arg(&folder))?;
    fs::write(folder.join("installed"), DEBIAN).map_err(|error| format!("{}: {error}", folder.display()))
}
