//! What a release has, installed and used as by users. `cargo xtask release` makes it; `RUDY_RELEASE` names the folder.

#![allow(unused_qualifications, reason = "the prelude has more names than a module uses")]

mod containers;
mod image;
mod kubernetes;

use rudy_tests::prelude::*;

/// The version in the names of files.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the path of a file of the release. `None` if the test is skipped.
fn released(name: &str) -> Option<PathBuf> {
    if !long() {
        return None;
    }
    let Some(folder) = std::env::var_os("RUDY_RELEASE") else {
        skip_unsupported("no release to test; `cargo xtask nightly packages` makes one");
        return None;
    };
    let path = PathBuf::from(folder).join(name);
    assert!(path.is_file(), "the release has no {}: run `cargo xtask release`", path.display());
    Some(path)
}
