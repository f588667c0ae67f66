//! What both servers serve: files of three sizes in a temporary folder.

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Outcome;

pub(crate) const KIB_1: &str = "1k.html";
pub(crate) const KIB_100: &str = "100k.html";
pub(crate) const MIB_10: &str = "10m.bin";

/// The folder, removed when this is dropped.
pub(crate) struct Site {
    folder: TempDir,
}

impl Site {
    /// Writes the files.
    pub(crate) fn new() -> Outcome<Self> {
        // nginx started by root reads the files as somebody else.
        let readable = Permissions::from_mode(0o755);
        let folder = tempfile::Builder::new().prefix("rudy-bench-").permissions(readable).tempdir();
        let site =
            Self { folder: folder.map_err(|error| format!("cannot make a temporary folder: {error}"))? };
        fs::create_dir(site.files()).map_err(|error| format!("cannot make a folder: {error}"))?;
        for (name, size) in [(KIB_1, 1024), (KIB_100, 100 * 1024), (MIB_10, 10 * 1024 * 1024)] {
            fs::write(site.files().join(name), contents(size))
                .map_err(|error| format!("cannot write {name}: {error}"))?;
        }
        Ok(site)
    }

    /// The folder above the files, where a server may keep what is its own.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The folder that is served.
    pub(crate) fn files(&self) -> PathBuf {
        self.folder.path().join("www")
    }

    /// The size of one of its files in bytes.
    pub(crate) fn size(&self, file: &str) -> Outcome<u64> {
        let path = self.files().join(file);
        fs::metadata(&path)
            .map(|m| m.len())
            .map_err(|error| format!("cannot look at {}: {error}", path.display()))
    }
}

/// Numbered lines, cut at `size` bytes.
fn contents(size: usize) -> String {
    let mut text = String::with_capacity(size + 16);
    for number in 0.. {
        if text.len() >= size {
            break;
        }
        writeln!(text, "line {number}").expect("writing to a string does not fail");
    }
    text.truncate(size);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_have_exactly_the_size_asked_for() {
        for size in [0, 1, 1024, 100 * 1024] {
            assert_eq!(contents(size).len(), size);
        }
    }
}
