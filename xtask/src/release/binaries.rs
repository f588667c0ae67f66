//! The static programs, and their symbols for debuggers.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::facts;
use crate::steps::Run;
use crate::{Outcome, command, setup, workspace};

/// The C compiler for both processors. It contains the C library, so that no header of the machine is used.
const ZIG: &[&str] = &["ziglang==0.17.1", "cargo-zigbuild==0.24.1"];

/// Puts the list of crates into the program.
const AUDITABLE: (&str, &str) = ("cargo-auditable", "0.7.7");

/// The options of cargo that it needs to know.
const AUDITABLE_ARGUMENTS: &str = r#"{"offline":false,"locked":true,"frozen":false,"config":[]}"#;

/// What is built: the name in file names, and the target of Rust.
pub(super) const TARGETS: &[(&str, &str)] =
    &[("x86_64", "x86_64-unknown-linux-musl"), ("aarch64", "aarch64-unknown-linux-musl")];

/// The linker and the C library of Rust: with those of zig, the program would have a fixed address.
const LINKER: &str = "-C linker=rust-lld -C linker-flavor=ld.lld -C link-self-contained=yes";

/// The allocator contains when it was compiled: an earlier commit may have.
const WITHOUT_TIME: &str = r#"-Wno-builtin-macro-redefined -D__DATE__="" -D__TIME__="""#;

/// Returns the path of the program for a processor.
pub(super) fn program(processor: &str) -> PathBuf {
    facts::folder().join("programs").join(processor).join("rudy")
}

/// Builds the programs.
pub(super) fn run(_: &mut Run) -> Outcome {
    let zig = workspace::environment("zig");
    setup::python(&zig, ZIG)?;
    let tools = [zig.join("bin"), setup::cargo_command(AUDITABLE.0, AUDITABLE.1)?];
    let targets = TARGETS.iter().map(|(_, target)| target);
    command::run(
        Command::new("rustup").args(["target", "add"]).args(targets).current_dir(workspace::root()),
    )?;
    TARGETS.iter().try_for_each(|(processor, target)| {
        build(target, &tools)?;
        split(&workspace::target().join(target).join("dist/rudy"), processor)
    })
}

fn build(target: &str, tools: &[PathBuf]) -> Outcome {
    let mut cargo = workspace::cargo();
    let paths = env::var_os("PATH").unwrap_or_default();
    let paths = tools.iter().cloned().chain(env::split_paths(&paths));
    cargo.env("PATH", env::join_paths(paths).map_err(|error| format!("PATH: {error}"))?);
    cargo.env("RUDY_COMMIT", facts::commit()?).env("SOURCE_DATE_EPOCH", facts::time()?);
    let folders = folders()?;
    let of_rust = folders.iter().map(|(from, to)| format!(" --remap-path-prefix={from}={to}"));
    cargo.env("RUSTFLAGS", LINKER.to_owned() + &of_rust.collect::<String>());
    let of_c = folders.iter().map(|(from, to)| format!(" -ffile-prefix-map={from}={to}"));
    cargo.env("CFLAGS", WITHOUT_TIME.to_owned() + &of_c.collect::<String>());
    // As `cargo auditable` does, but with a name instead of its path: the names of symbols depend on it.
    cargo.env("RUSTC_WORKSPACE_WRAPPER", AUDITABLE.0).env("CARGO_AUDITABLE_ORIG_ARGS", AUDITABLE_ARGUMENTS);
    cargo.args(["zigbuild", "--profile", "dist", "--locked", "--package", "rudy"]);
    command::run(cargo.args(["--features", "rudy/resolver", "--target", target]))
}

/// Returns the folders that differ between builds, and their names in the program. A later one that matches takes precedence.
fn folders() -> Outcome<[(String, &'static str); 4]> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let home = home.ok_or("neither CARGO_HOME nor HOME is set")?;
    let zig = workspace::environment("zig");
    let folders = [
        (home, "/cargo"),
        (workspace::root().into(), "/rudy"),
        (workspace::target(), "/build"),
        (zig, "/zig"),
    ];
    Ok(folders.map(|(folder, name)| (folder.display().to_string(), name)))
}

/// Copies a program without its symbols, which become a file of their own.
fn split(built: &Path, processor: &str) -> Outcome {
    let program = program(processor);
    let folder = program.parent().expect("the program is in a folder");
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let symbols = facts::folder().join(format!("rudy-{}-{processor}-linux.debug", facts::VERSION));
    objcopy(&[&"--only-keep-debug", &"--compress-debug-sections=zlib", &built, &symbols])?;
    let mut link = OsString::from("--add-gnu-debuglink=");
    link.push(&symbols);
    // The list of crates.
    objcopy(&[&"--strip-all", &"--keep-section=.dep-v0", &link, &built, &program])
}

/// Runs the objcopy of Rust, which knows all processors.
fn objcopy(arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> Outcome {
    let mut rustc = Command::new("rustc");
    let root = command::output(rustc.args(["--print", "sysroot"]).current_dir(workspace::root()))?;
    let mut rustc = Command::new("rustc");
    let libraries = command::output(rustc.args(["--print", "target-libdir"]).current_dir(workspace::root()))?;
    let mut objcopy = Command::new(Path::new(libraries.trim()).with_file_name("bin/rust-objcopy"));
    objcopy.env("LD_LIBRARY_PATH", Path::new(root.trim()).join("lib"));
    for argument in arguments {
        objcopy.arg(argument.as_ref());
    }
    command::run(&mut objcopy)
}
