//! The settings of cargo for tests that have their own ones.

use std::path::PathBuf;

/// Returns the URL of the sparse index that cargo has used on this machine: its host is the name of a folder.
pub fn cargo_index() -> Option<String> {
    let cargo_home = std::env::var_os("CARGO_HOME").map_or_else(|| home().join(".cargo"), Into::into);
    let folders = std::fs::read_dir(cargo_home.join("registry/index")).ok()?;
    let mut names = folders.filter_map(|folder| folder.ok()?.file_name().into_string().ok());
    let name = names.find(|name| name.starts_with("index."))?;
    Some(format!("https://{}", name.rsplit_once('-')?.0))
}

/// Returns a `config.toml` with which cargo uses this sparse index instead of that of crates.io.
pub fn cargo_source(url: &str) -> String {
    format!("[source.crates-io]\nreplace-with = \"other\"\n[source.other]\nregistry = \"sparse+{url}/\"\n")
}

/// Returns the folder with the toolchains, for a cargo with another home.
pub fn rustup_home() -> PathBuf {
    std::env::var_os("RUSTUP_HOME").map_or_else(|| home().join(".rustup"), Into::into)
}

fn home() -> PathBuf {
    std::env::var_os("HOME").map_or_else(|| "/root".into(), Into::into)
}
