//! Writes batches of lines to a file or another log, and counts what is lost.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::sync::atomic::Ordering;

use rudy_runtime::clock;

use super::rotation::Rotation;
use super::{Datagrams, LOST, LogFailure, OnLogFailure};

/// Maximum size of an atomic write to a pipe (`PIPE_BUF` of Linux, pipe(7)).
const PIPE_BYTES: usize = 4096;

/// The output of a thread, and what it has lost.
pub(super) struct Output {
    target: Target,
    /// Lines lost since the last successful write.
    lost: u64,
}

/// Where lines go.
pub(crate) enum Target {
    /// A file, pipe or terminal.
    File(FileOutput),
    /// Another log, which gets a datagram for each line.
    Datagrams(Datagrams),
}

impl From<File> for Target {
    fn from(file: File) -> Self {
        Self::File(FileOutput::new(file, None))
    }
}

impl From<Datagrams> for Target {
    fn from(datagrams: Datagrams) -> Self {
        Self::Datagrams(datagrams)
    }
}

impl Target {
    /// A file that is rotated.
    pub(crate) fn rotated(file: File, rotation: Rotation) -> Self {
        Self::File(FileOutput::new(file, Some(rotation)))
    }
}

/// The current file.
pub(crate) struct FileOutput {
    file: File,
    /// Maximum size of one write in bytes.
    chunk_bytes: usize,
    /// Whether the file ends with an incomplete line.
    is_torn: bool,
    rotation: Option<Rotation>,
}

impl Output {
    pub(super) fn new(target: Target) -> Self {
        Self { target, lost: 0 }
    }

    /// Continues with another file. Has no effect for other logs.
    pub(super) fn replace(&mut self, file: File) {
        if let Target::File(output) = &mut self.target {
            let mut rotation = output.rotation.take();
            if let Some(rotation) = &mut rotation {
                rotation.opened(&file);
            }
            *output = FileOutput::new(file, rotation);
        }
    }

    pub(super) fn write_batch(&mut self, lines: &[u8], on_failure: &mut OnLogFailure) {
        if !lines.is_empty() {
            for failure in self.rotate(lines.len()) {
                self.report(&failure, on_failure);
            }
        }
        match self.write_lines(lines) {
            Err((error, lost)) => {
                self.lost += lost;
                LOST.fetch_add(lost, Ordering::Relaxed);
                self.report(&LogFailure::Failed(error, self.lost), on_failure);
            }
            // Writes work again: report in the file how many lines are missing.
            Ok(()) if self.lost > 0 && !lines.is_empty() => {
                let lost = std::mem::take(&mut self.lost);
                self.report(&LogFailure::Dropped(lost), on_failure);
            }
            Ok(()) => {}
        }
    }

    /// Rotates the file if the time has come, and tidies its rotated files. Returns what failed.
    fn rotate(&mut self, bytes: usize) -> Vec<LogFailure> {
        let Target::File(FileOutput { file, rotation: Some(rotation), is_torn, .. }) = &mut self.target
        else {
            return Vec::new();
        };
        let tidied = rotation.tidy_when_due(clock::now()).map_err(LogFailure::NotTidied);
        let rotated = rotation.before_write(file, bytes, clock::utc()).map_err(LogFailure::NotRotated);
        *is_torn &= !matches!(rotated, Ok(true));
        tidied.err().into_iter().chain(rotated.err()).collect()
    }

    /// Reports the number of lines missing before the next one. While writes fail, a report in the file would fail, too: it follows
    /// the next successful write.
    pub(super) fn dropped(&mut self, lines: u64, on_failure: &mut OnLogFailure) {
        if self.lost > 0 {
            self.lost += lines;
        } else {
            self.report(&LogFailure::Dropped(lines), on_failure);
        }
    }

    fn report(&mut self, failure: &LogFailure, on_failure: &mut OnLogFailure) {
        if let Some(line) = on_failure(failure) {
            // The callback has reported the failure, even if this line is lost.
            let _ = self.write_lines(line.as_bytes());
        }
    }

    fn write_lines(&mut self, lines: &[u8]) -> Result<(), (io::Error, u64)> {
        match &mut self.target {
            Target::File(output) => output.write_lines(lines),
            Target::Datagrams(datagrams) => datagrams.write_lines(lines),
        }
    }
}

impl FileOutput {
    fn new(file: File, rotation: Option<Rotation>) -> Self {
        // An append to a regular file is atomic at any size. A larger write to a pipe can mix with those of other writers.
        let is_pipe = file
            .metadata()
            .is_ok_and(|metadata| metadata.file_type().is_fifo() || metadata.file_type().is_socket());
        let chunk_bytes = if is_pipe { PIPE_BYTES } else { usize::MAX };
        Self { file, chunk_bytes, is_torn: false, rotation }
    }

    /// Writes lines. The error includes the number of lines lost.
    fn write_lines(&mut self, mut lines: &[u8]) -> Result<(), (io::Error, u64)> {
        while !lines.is_empty() {
            let (chunk, rest) = lines.split_at(chunk_length(lines, self.chunk_bytes));
            if let Err((error, written)) = self.write_chunk(chunk) {
                let lost = lines[written..].split_inclusive(|byte| *byte == b'\n').count();
                return Err((error, lost as u64));
            }
            lines = rest;
        }
        Ok(())
    }

    /// Writes all of `chunk`. The error includes the number of bytes written. A full disk can cut a line in half: the next write
    /// then begins with a newline, so that it does not continue the incomplete line.
    fn write_chunk(&mut self, chunk: &[u8]) -> Result<(), (io::Error, usize)> {
        if self.is_torn {
            self.file.write_all(b"\n").map_err(|error| (error, 0))?;
            self.is_torn = false;
        }
        let mut written = 0;
        while written < chunk.len() {
            match self.file.write(&chunk[written..]) {
                Ok(0) => return Err((io::ErrorKind::WriteZero.into(), written)),
                Ok(n) => written += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err((error, written)),
            }
            self.is_torn = chunk[written - 1] != b'\n';
        }
        Ok(())
    }
}

/// Returns the length of the next write: whole lines, at most `max` bytes unless the first line is longer.
fn chunk_length(lines: &[u8], max: usize) -> usize {
    if lines.len() <= max {
        return lines.len();
    }
    let end_of_line = |byte: &u8| *byte == b'\n';
    let fitting = lines[..max].iter().rposition(end_of_line);
    fitting.or_else(|| lines.iter().position(end_of_line)).map_or(lines.len(), |end| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_holds_whole_lines() {
        for (lines, max, expected) in [
            ("", 4, 0),
            ("ab\n", 4, 3),
            ("ab\ncd\n", 4, 3),
            ("ab\ncd\n", 5, 3),
            ("ab\ncd\n", 6, 6),
            ("abcdefgh\nij\n", 4, 9),
        ] {
            assert_eq!(chunk_length(lines.as_bytes(), max), expected, "{lines:?} with {max}");
        }
    }
}
