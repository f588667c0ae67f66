//! The files that are worth compressing.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rudy_message::semantics::media_type;
use rudy_message::semantics::negotiation::Coding;
use rudy_pipeline::compression::Compression;

/// A file, as it was when the folder was listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceFile {
    pub(super) path: PathBuf,
    pub(super) size: u64,
    /// The modification time, in nanoseconds since 1970.
    pub(super) modified_ns: i128,
}

impl SourceFile {
    pub(super) fn new(path: PathBuf, metadata: &fs::Metadata) -> Self {
        Self { path, size: metadata.size(), modified_ns: modified_ns(metadata) }
    }
}

pub(super) fn modified_ns(metadata: &fs::Metadata) -> i128 {
    i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec())
}

/// Lists the files below `folder` in the order of their paths. Calls `report` with each folder in it that cannot be read.
pub(super) fn list(folder: &Path, mut report: impl FnMut(&Path, io::Error)) -> io::Result<Vec<SourceFile>> {
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    add(folder, &mut files, &mut folders)?;
    while let Some(folder) = folders.pop() {
        if let Err(error) = add(&folder, &mut files, &mut folders) {
            report(&folder, error);
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn add(folder: &Path, files: &mut Vec<SourceFile>, folders: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // As `files`, which serves no other hidden names by default.
        if name.starts_with('.') && name != ".well-known" {
            continue;
        }
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            folders.push(entry.path());
        } else if metadata.is_file()
            && media_type::coding_of_name(&name) == Coding::Identity
            && Compression::default().includes(Some(metadata.size()), media_type::of_name(&name).as_bytes())
        {
            files.push(SourceFile::new(entry.path(), &metadata));
        }
    }
    Ok(())
}
