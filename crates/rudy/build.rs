//! Writes what `rudy --version --verbose` prints of the build.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Libraries that process what clients, upstreams and authorities send: advisories about them concern servers.
const LIBRARIES: &[&str] = &[
    "aws-lc-rs",
    "aws-lc-sys",
    "brotli",
    "flate2",
    "hickory-proto",
    "hickory-resolver",
    "http",
    "instant-acme",
    "regex",
    "rustls",
    "rustls-webpki",
    "serde_json",
    "tokio",
    "x509-parser",
    "zlib-rs",
    "zstd-sys",
];

fn main() {
    // Not the commit of the work tree: each new one would build the program again.
    println!("cargo::rerun-if-env-changed=RUDY_COMMIT");
    let is_resolver = env::var_os("CARGO_FEATURE_RESOLVER").is_some();
    let text = format!(
        "commit: {}\ntarget: {}\nfeatures: {}\ncompiler: {}\nlibraries in Cargo.lock: {}\n",
        env::var("RUDY_COMMIT").unwrap_or_else(|_| packaged_commit()),
        variable("TARGET"),
        if is_resolver { "resolver" } else { "none" },
        compiler(),
        libraries(is_resolver),
    );
    let file = Path::new(&variable("OUT_DIR")).join("build.txt");
    fs::write(&file, text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|error| panic!("cargo sets {name} for build scripts: {error}"))
}

/// Returns the commit that `cargo package` has written into a crate, for `cargo install`.
fn packaged_commit() -> String {
    let text = read(".cargo_vcs_info.json");
    let commit = text.split_once("\"sha1\": \"").and_then(|(_, rest)| rest.split('"').next());
    commit.unwrap_or("unknown, built from source").to_owned()
}

fn compiler() -> String {
    let output = Command::new(variable("RUSTC")).arg("--version").output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {}: {error}", variable("RUSTC")));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Returns the names and versions of the libraries. Only builds with `--locked` are sure to have these versions.
fn libraries(is_resolver: bool) -> String {
    // A crate from a registry has a `Cargo.lock` of its own.
    let lock = [read("Cargo.lock"), read("../../Cargo.lock")].concat();
    let packages = lock.split("[[package]]\nname = \"").filter_map(|package| {
        let (name, rest) = package.split_once("\"\nversion = \"")?;
        let is_listed = LIBRARIES.contains(&name) && (is_resolver || !name.starts_with("hickory"));
        is_listed.then_some(format!("{name} {}", rest.split('"').next()?))
    });
    packages.collect::<Vec<_>>().join(", ")
}

/// Returns the text of a file beside this one; empty if it does not exist.
fn read(name: &str) -> String {
    let path = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join(name);
    // Of a missing file, cargo would assume a change at each build.
    if !path.exists() {
        return String::new();
    }
    println!("cargo::rerun-if-changed={name}");
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
