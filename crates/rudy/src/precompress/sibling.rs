//! A compressed file beside its original.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;

use rudy_message::semantics::negotiation::Coding;
use rudy_pipeline::compression::{Effort, Encoder, PIECE_BYTES};

use super::files::{SourceFile, modified_ns};

/// The compressed form of a file.
#[derive(Debug)]
pub(super) struct Sibling<'f> {
    pub(super) file: &'f SourceFile,
    pub(super) path: PathBuf,
    coding: Coding,
    level: u8,
}

/// What became of a sibling.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was written, and has this size.
    Written(u64),
    /// It belongs to the current version of the file.
    Current,
    /// The file does not become smaller. A sibling of an earlier version was removed, because it would be sent instead of the file.
    NotSmaller { removed: bool },
}

impl<'f> Sibling<'f> {
    pub(super) fn new(file: &'f SourceFile, coding: Coding, level: Option<u8>) -> Self {
        let max = match coding {
            Coding::Brotli => 11,
            Coding::Zstd => 19,
            Coding::Gzip | Coding::Identity => 9,
        };
        let mut path = OsString::from(&file.path);
        path.push(coding.extension());
        Self { file, path: path.into(), coding, level: level.unwrap_or(max).min(max) }
    }

    /// Writes the sibling unless it is current. `is_own` is whether an earlier run made it.
    pub(super) fn write(&self, is_own: bool, dry_run: bool) -> io::Result<Outcome> {
        let found = match fs::symlink_metadata(&self.path) {
            Ok(metadata) => Some(modified_ns(&metadata)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        // A build tool writes its siblings after the files. Our own have the same time: also a file that was replaced by an older one
        // is a change.
        let is_current = |found| {
            if is_own { found == self.file.modified_ns } else { found >= self.file.modified_ns }
        };
        if found.is_some_and(is_current) {
            return Ok(Outcome::Current);
        }
        let mut output = if dry_run { None } else { Some(self.temporary()?) };
        let size = match &mut output {
            Some(file) => self.compress(file)?,
            None => self.compress(&mut io::sink())?,
        };
        if size >= self.file.size {
            let removed = found.is_some();
            if removed && !dry_run {
                fs::remove_file(&self.path)?;
            }
            return Ok(Outcome::NotSmaller { removed });
        }
        if let Some(output) = output {
            self.copy_metadata(output.as_file())?;
            output.persist(&self.path).map_err(|failed| failed.error)?;
        }
        Ok(Outcome::Written(size))
    }

    /// Creates a file in the same folder, so that it can be renamed. Its name is hidden, so that it is not served.
    fn temporary(&self) -> io::Result<tempfile::NamedTempFile> {
        let folder = self.path.parent().unwrap_or(&self.path);
        tempfile::Builder::new().prefix(".rudy-precompress-").tempfile_in(folder)
    }

    /// Compresses the file. Returns the size of the result.
    fn compress(&self, output: &mut impl Write) -> io::Result<u64> {
        let mut encoder = Encoder::new(self.coding, self.level, Some(self.file.size), Effort::Once)?;
        let (mut input, mut buffer, mut size) = (File::open(&self.file.path)?, vec![0; PIECE_BYTES], 0);
        let mut write = |bytes: &[u8]| {
            size += bytes.len() as u64;
            output.write_all(bytes)
        };
        loop {
            let length = input.read(&mut buffer)?;
            if length == 0 {
                break;
            }
            encoder.write(&buffer[..length])?;
            write(&encoder.take())?;
        }
        let now = input.metadata()?;
        if SourceFile::new(self.file.path.clone(), &now) != *self.file {
            return Err(io::Error::other("the file changed meanwhile; run the command again"));
        }
        write(&encoder.finish()?)?;
        Ok(size)
    }

    /// Gives the sibling the permissions and the modification time of the file.
    fn copy_metadata(&self, output: &File) -> io::Result<()> {
        let metadata = fs::metadata(&self.file.path)?;
        output.set_permissions(metadata.permissions())?;
        output.set_modified(metadata.modified()?)
    }
}
