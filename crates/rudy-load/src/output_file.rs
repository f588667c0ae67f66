//! A file for results that keeps its earlier content until there are new ones.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file that is opened before a measurement, so that errors appear early, and emptied by the first write, so that a run without a
/// result leaves the earlier one. It is not replaced by a rename: the path may be a link, a pipe or a device.
#[derive(Debug)]
pub(crate) struct OutputFile {
    file: File,
    /// What remains to do before the first write.
    untouched: Option<Untouched>,
}

#[derive(Debug)]
struct Untouched {
    path: PathBuf,
    /// Whether the file was created here.
    is_new: bool,
}

impl OutputFile {
    /// Opens a file, and creates it if it is missing.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let is_new = fs::symlink_metadata(path).is_err();
        let file = File::options().write(true).create(true).truncate(false).open(path)?;
        Ok(Self { file, untouched: Some(Untouched { path: path.to_owned(), is_new }) })
    }

    /// Removes the earlier content, if that has not happened.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        // A pipe has no length.
        if self.untouched.take().is_some() && self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        Ok(())
    }
}

/// A stream that is open already.
impl From<File> for OutputFile {
    fn from(file: File) -> Self {
        Self { file, untouched: None }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.clear()?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for OutputFile {
    /// Leaves no empty file without a result.
    fn drop(&mut self) {
        if let Some(Untouched { path, is_new: true }) = &self.untouched {
            // If it stays, it is empty.
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_result_stays_until_there_is_a_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        drop(OutputFile::open(&path).unwrap());
        assert!(!path.exists(), "no empty file");
        fs::write(&path, "an earlier result").unwrap();
        drop(OutputFile::open(&path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "an earlier result");
        let mut file = OutputFile::open(&path).unwrap();
        file.write_all(b"a ").unwrap();
        file.write_all(b"new one").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a new one");
        OutputFile::open(&path).unwrap().clear().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
    }
}
