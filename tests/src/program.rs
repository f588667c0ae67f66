//! Programs that the tests need beside `rudy`, and what becomes of a test where one is missing.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;

/// Where the program `name` is, or `None` after [`skip`]: then the test returns.
///
/// ```no_run
/// let Some(curl) = rudy_tests::program("curl") else { return };
/// ```
#[must_use]
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        // Servers and Go stand here, and an ordinary user's PATH often leaves these out.
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/go/bin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file());
    if found.is_none() {
        skip(&format!("{name} is not installed; `cargo xtask setup` installs it"));
    }
    found
}

/// Where php-fpm is, which has its version in its name on Debian, or `None` after [`skip`].
#[must_use]
pub fn php_fpm() -> Option<PathBuf> {
    let folder = std::fs::read_dir("/usr/sbin").into_iter().flatten().flatten();
    let mut found: Vec<_> = folder.map(|entry| entry.path()).collect();
    found.retain(|path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"php-fpm")));
    found.sort();
    found.pop().or_else(|| program("php-fpm"))
}

/// Where `redbot` is, which `cargo xtask setup` installs into an environment of its own, or `None` after [`skip`] and where
/// [`long`] checks do not run.
#[must_use]
pub fn redbot() -> Option<PathBuf> {
    if !long() {
        return None;
    }
    let redbot = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/redbot/bin/redbot");
    if !redbot.is_file() {
        skip("redbot is not installed; `cargo xtask setup` installs it");
        return None;
    }
    Some(redbot)
}

/// Where the Python stands that has flup, which `cargo xtask setup` installs, or `None` after [`skip`].
#[must_use]
pub fn flup() -> Option<PathBuf> {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/flup/bin/python");
    if !python.is_file() {
        skip("flup is not installed; `cargo xtask setup` installs it");
        return None;
    }
    Some(python)
}

/// Where `go-httpbin` is, which `cargo xtask setup` builds, or `None` after [`skip`].
#[must_use]
pub fn go_httpbin() -> Option<PathBuf> {
    let httpbin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/go/go-httpbin");
    if !httpbin.is_file() {
        skip("go-httpbin is not installed; `cargo xtask setup` builds it with Go");
        return None;
    }
    Some(httpbin)
}

/// Counts this test as skipped, by name: `cargo xtask test` lists them at its end.
///
/// # Panics
///
/// On a build machine (`CI` set), where everything has to be there.
pub fn skip(reason: &str) {
    assert!(!on_build_machine(), "{} cannot be skipped on a build machine: {reason}", test_name());
    note_skipped(reason);
}

/// Counts this test as skipped for what the kernel or a file system of this machine does not have: nothing can install it, so a
/// build machine may do without.
pub fn skip_here(reason: &str) {
    note_skipped(reason);
}

fn test_name() -> String {
    thread::current().name().unwrap_or("a test").to_owned()
}

/// Adds this test to the list that `cargo xtask test` prints.
fn note_skipped(reason: &str) {
    let Some(list) = std::env::var_os("RUDY_SKIPPED_TESTS") else { return };
    // Each line in one write, so that tests that run at the same time do not mix theirs.
    let line = format!("{}: {reason}\n", test_name());
    let written = OpenOptions::new().create(true).append(true).open(&list);
    let written = written.and_then(|mut file| file.write_all(line.as_bytes()));
    assert!(written.is_ok(), "cannot note a skipped test in {}: {written:?}", list.display());
}

/// Whether the long checks with real programs run, as in `cargo xtask test --peers`. Where they do not, this test counts as
/// skipped, by name, and returns.
///
/// ```no_run
/// if !rudy_tests::long() { return };
/// ```
#[must_use]
pub fn long() -> bool {
    let asked = std::env::var_os(PEERS).is_some_and(|value| !value.is_empty() && value != "0");
    if !asked {
        note_skipped("a long check; `cargo xtask test --peers` runs it");
    }
    asked
}

/// The variable with which `cargo xtask test --peers` asks for the long checks.
const PEERS: &str = "RUDY_TEST_PEERS";

fn on_build_machine() -> bool {
    std::env::var("CI").is_ok_and(|ci| !ci.is_empty() && ci != "false")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_every_system_has_is_found() {
        assert!(program("sh").is_some_and(|path| path.is_absolute()));
    }
}
