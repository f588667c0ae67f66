//! The files of a release, installed and used as a newcomer would. `RUDY_RELEASE` is their folder, which `cargo xtask release` makes.

#![allow(unused_qualifications, reason = "the prelude has more names than a module uses")]
#![expect(clippy::print_stdout, reason = "the nightly run shows times and counts")]

mod bill;
mod containers;
mod debian;
mod image;
mod install_script;
mod kubernetes;
mod recipes;
mod registry;
mod rpm;
mod system;

use rudy_tests::prelude::*;

/// The version in the names of files.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the path of a file of the release. `None` if the test is skipped.
fn released(name: &str) -> Option<PathBuf> {
    let path = system::release()?.join(name);
    assert!(path.is_file(), "the release has no {}: run `cargo xtask release`", path.display());
    Some(path)
}
