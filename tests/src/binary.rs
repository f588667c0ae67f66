//! Paths of the binaries that the tests run. The tests build them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns the path of `rudy` in the build folder of the test. The first call runs `cargo build`, so that the binary is never stale.
/// `RUDY_BINARY` overrides the path.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os("RUDY_BINARY") {
        Some(path) => path.into(),
        None => build("rudy"),
    })
}

/// Returns the path of the example app `fastcgi-info`. The first call builds it.
pub fn fastcgi_info() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| build("fastcgi-info"))
}

/// Returns the path of the example app `weblog`. The first call builds it.
pub fn weblog() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| build("weblog"))
}

/// Returns the path of the tasks of the repository. The first call builds them.
pub fn xtask() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| build("xtask"))
}

/// Builds the programs, and returns the path of the one with this name. If `RUDY_BUILT` is set, the caller has already built it: nextest starts a
/// process for each test, and each would run cargo again.
fn build(program: &str) -> PathBuf {
    // target/debug/deps/cli-0123456789abcdef, or target/release/soak
    let test = std::env::current_exe().expect("a test runs from a file");
    let folder = test.ancestors().skip(1).find(|folder| !folder.ends_with("deps"));
    let folder = folder.expect("a test is built in target/PROFILE");
    if std::env::var_os("RUDY_BUILT").is_some() {
        return folder.join(program);
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // As xtask builds them: with another selection, cargo would unify the features of dependencies differently, and compile them
    // again. `--examples` includes the dependencies of tests in that.
    command.args(["build", "--quiet", "--workspace", "--locked", "--features", "rudy/resolver"]);
    command.args(["--bins", "--examples"]);
    if folder.ends_with("release") {
        command.arg("--release");
    }
    let target = folder.parent().expect("target/PROFILE is in target");
    command.arg("--target-dir").arg(target).current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    let status = command.status().expect("cargo can be run");
    assert!(status.success(), "the programs do not build");
    folder.join(program)
}
