//! External programs for tests, and skipped tests if one is missing.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;

/// Programs of the long checks only, because their packages take minutes to install. The list in `xtask/src/setup.rs` is the same.
const NIGHTLY: &[&str] = &[
    "chromium",
    "crun",
    "escript",
    "firefox-esr",
    "h2load",
    "h2o",
    "mvn",
    "nghttpd",
    "npm",
    "php",
    "prometheus",
    "promtool",
    "qemu-aarch64-static",
    "runc",
    "skopeo",
    "slowhttptest",
    "systemd-nspawn",
    "testssl",
    "umoci",
];

/// Returns from a test that lacks what it needs: a condition that is true, such as [`long()`].
///
/// ```no_run
/// fn a_test() {
///     rudy_tests::needs!(rudy_tests::long());
/// }
/// ```
#[macro_export]
macro_rules! needs {
    ($condition:expr) => {
        if !$condition {
            return;
        }
    };
}

/// Returns the path of a program, or `None` after [`skip`]. Then the test must return. Some programs are only for [`long`] checks.
///
/// ```no_run
/// let Some(curl) = rudy_tests::program("curl") else { return };
/// ```
pub fn program(name: &str) -> Option<PathBuf> {
    if NIGHTLY.contains(&name) && !long() {
        return None;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        // Servers and Go are installed here, and the PATH of a user often lacks these folders.
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/go/bin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file());
    if found.is_none() {
        skip(&format!("{name} is not installed; `cargo xtask setup` installs it"));
    }
    found
}

/// Returns the path of php-fpm, whose name includes the version on Debian, or `None` after [`skip`].
pub fn php_fpm() -> Option<PathBuf> {
    let folder = std::fs::read_dir("/usr/sbin").into_iter().flatten().flatten();
    let mut found: Vec<_> = folder.map(|entry| entry.path()).collect();
    found.retain(|path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"php-fpm")));
    found.sort();
    found.pop().or_else(|| program("php-fpm"))
}

/// Returns the path of `redbot`, which `cargo xtask setup` installs into a virtual environment, or `None` after [`skip`]. Also `None`
/// if [`long`] checks are disabled.
pub fn redbot() -> Option<PathBuf> {
    long_program("redbot")
}

/// Returns the path of `sslyze`, in the same way.
pub fn sslyze() -> Option<PathBuf> {
    long_program("sslyze")
}

/// Returns the path of a program in the virtual environment with applications behind a proxy, in the same way.
pub fn application(name: &str) -> Option<PathBuf> {
    program_in("applications", name)
}

/// Returns the path of an `OpenID` provider with a login page, in the same way.
pub fn oidc_provider() -> Option<PathBuf> {
    program_in("oidc", "oidc-provider-mock")
}

/// Returns the path of the script of axe-core, which checks pages for accessibility, in the same way.
pub fn axe() -> Option<PathBuf> {
    if !long() {
        return None;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/axe/node_modules/axe-core/axe.min.js");
    if !path.is_file() {
        skip("axe-core is not installed; `cargo xtask setup` installs it");
        return None;
    }
    Some(path)
}

/// Returns the path of a Python with gRPC, in the same way.
pub fn grpc() -> Option<PathBuf> {
    program_in("applications", "python")
}

/// Returns the path of a program in the virtual environment with implementations of HTTP/3, in the same way.
pub fn http3_program(name: &str) -> Option<PathBuf> {
    program_in("http3", name)
}

/// Returns the path of a program or a schema in the virtual environment for manifests of Kubernetes, in the same way.
pub fn kubernetes_program(name: &str) -> Option<PathBuf> {
    program_in("kubernetes", name)
}

/// Returns the path of a program in a virtual environment of the same name.
fn long_program(name: &str) -> Option<PathBuf> {
    program_in(name, name)
}

fn program_in(environment: &str, name: &str) -> Option<PathBuf> {
    if !long() {
        return None;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../target/{environment}/bin/{name}"));
    if !path.is_file() {
        skip(&format!("{name} is not installed; `cargo xtask setup` installs it"));
        return None;
    }
    Some(path)
}

/// Returns the path of a Python with flup, which `cargo xtask setup` installs, or `None` after [`skip`].
pub fn flup() -> Option<PathBuf> {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/flup/bin/python");
    if !python.is_file() {
        skip("flup is not installed; `cargo xtask setup` installs it");
        return None;
    }
    Some(python)
}

/// Returns the path of a program that `cargo xtask setup` builds with Go, or `None` after [`skip`].
pub fn go_program(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/go").join(name);
    if !path.is_file() {
        skip(&format!("{name} is not installed; `cargo xtask setup` builds it with Go"));
        return None;
    }
    Some(path)
}

/// Counts this test as skipped. `cargo xtask test` lists the skipped tests at its end.
/// Panics in CI (`CI` is set), where all programs must be installed.
pub fn skip(reason: &str) {
    assert!(!is_ci(), "{} must not be skipped in CI: {reason}", test_name());
    record_skipped(reason);
}

/// Counts this test as skipped because the kernel or a file system lacks a feature. Allowed in CI too, because no package provides it.
pub fn skip_unsupported(reason: &str) {
    record_skipped(reason);
}

fn test_name() -> String {
    thread::current().name().unwrap_or("a test").to_owned()
}

/// Adds this test to the list that `cargo xtask test` prints.
fn record_skipped(reason: &str) {
    let Some(list) = std::env::var_os("RUDY_SKIPPED_TESTS") else { return };
    // Each line in one write, so that lines of concurrent tests do not mix.
    let line = format!("{}: {reason}\n", test_name());
    let written = OpenOptions::new().create(true).append(true).open(&list);
    let written = written.and_then(|mut file| file.write_all(line.as_bytes()));
    assert!(written.is_ok(), "cannot record a skipped test in {}: {written:?}", list.display());
}

/// Returns whether the long checks are enabled, as in `cargo xtask nightly`. If not, counts this test as skipped. Then the test must
/// return.
///
/// ```no_run
/// if !rudy_tests::long() { return };
/// ```
pub fn long() -> bool {
    let is_enabled = is_long();
    if !is_enabled {
        record_skipped("a long check; `cargo xtask nightly tests` runs it");
    }
    is_enabled
}

/// Returns whether `cargo xtask nightly` has enabled the long checks: for tests that then do more of the same.
pub fn is_long() -> bool {
    std::env::var_os("RUDY_TEST_LONG").is_some_and(|value| !value.is_empty() && value != "0")
}

fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|ci| !ci.is_empty() && ci != "false")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_is_found() {
        assert!(program("sh").is_some_and(|path| path.is_absolute()));
    }
}
