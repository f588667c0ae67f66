//! `rudy --version`, and with `--verbose` the build: what a report of a bug needs, and what an advisory about a library is compared with.

use rudy_server::run::{self, Exit};

/// Commit, target, features, compiler and libraries, as `build.rs` writes them.
const BUILD: &str = include_str!(concat!(env!("OUT_DIR"), "/build.txt"));

pub(crate) fn print(is_verbose: bool) -> Exit {
    let build = if is_verbose { BUILD } else { "" };
    run::print(format!("rudy {}\n{build}", env!("CARGO_PKG_VERSION")).as_bytes())
}
