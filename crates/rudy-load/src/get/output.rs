//! The output of bodies, unbuffered, and unchanged unless it is a terminal.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;

use crate::output_file::OutputFile;
use crate::units::VisibleStream;

/// An output for bodies.
#[derive(Debug)]
pub(super) enum Output {
    /// A file, or standard output without the buffer of the standard library, so that data appears at once.
    File(OutputFile),
    /// Standard output, if it is a terminal: the server does not control it.
    Terminal(File, VisibleStream),
    /// No output: bodies are only counted.
    Discard,
}

impl Output {
    pub(super) fn standard() -> io::Result<Self> {
        let stdout = io::stdout();
        let file = File::from(stdout.as_fd().try_clone_to_owned()?);
        Ok(if stdout.is_terminal() {
            Self::Terminal(file, VisibleStream::default())
        } else {
            Self::File(file.into())
        })
    }

    pub(super) fn file(path: &Path) -> io::Result<Self> {
        OutputFile::open(path).map(Self::File)
    }
}

impl rudy_request::Output for Output {
    fn end(&mut self) -> io::Result<()> {
        match self {
            Self::Terminal(file, shown) => file.write_all(shown.finish().as_bytes()),
            // A body may be empty.
            Self::File(file) => file.clear(),
            Self::Discard => Ok(()),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::File(file) => file.write_all(bytes),
            Self::Terminal(file, shown) => file.write_all(shown.push(bytes).as_bytes()),
            Self::Discard => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use rudy_request::Output as _;

    use super::*;

    #[test]
    fn a_body_cannot_control_the_terminal() {
        let mut file = tempfile::tempfile().unwrap();
        let mut output = Output::Terminal(file.try_clone().unwrap(), VisibleStream::default());
        for piece in [&b"a\r\nb\x1b]0;title\x07\xc2"[..], b"\x9b2J\xc3\xa9\xe2\x80", b"\xaex\xe6"] {
            output.write(piece).unwrap();
        }
        output.end().unwrap();
        let mut shown = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut shown).unwrap();
        assert_eq!(shown, "a\nb\\u{1b}]0;title\\u{7}\\u{9b}2Jé\\u{202e}x\u{fffd}");
    }
}
