//! Request bodies from the command line: text, or the contents of a file.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;

/// Maximum size of a file in bytes, which is read into memory.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Maximum size of all files together, in bytes. Each generator thread has another copy in its requests.
const TOTAL_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The contents of files, each read once.
#[derive(Debug, Default)]
pub(crate) struct Bodies {
    read: HashMap<PathBuf, Bytes>,
    bytes: u64,
}

impl Bodies {
    /// Reads the value of a flag: text, or `@` and a file name; `@-` is standard input.
    pub(crate) fn read_value(&mut self, text: &str) -> Result<Bytes, String> {
        match text.strip_prefix('@') {
            Some(path) => self.read_file(Path::new(path)),
            None => Ok(Bytes::copy_from_slice(text.as_bytes())),
        }
    }

    /// The contents of a file, which is read once.
    pub(crate) fn read_file(&mut self, path: &Path) -> Result<Bytes, String> {
        if let Some(body) = self.read.get(path) {
            return Ok(body.clone());
        }
        let body = Bytes::from(read(path)?);
        self.bytes += body.len() as u64;
        if self.bytes > TOTAL_BYTES_MAX {
            return Err(format!(
                "cannot read {}: the files have more than {TOTAL_BYTES_MAX} bytes in total",
                path.display()
            ));
        }
        self.read.insert(path.to_owned(), body.clone());
        Ok(body)
    }
}

/// Reads a file; `-` is standard input.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    if path == Path::new("-") {
        let read = read_limited(io::stdin().lock());
        return read.map_err(|error| format!("cannot read standard input: {error}"));
    }
    let read = File::open(path).and_then(read_limited);
    read.map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Reads to the end, up to the maximum size. Only regular files report their size.
fn read_limited(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {FILE_BYTES_MAX} bytes, the maximum")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_once_and_shared() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("body");
        std::fs::write(&path, "first").unwrap();
        let mut bodies = Bodies::default();
        let first = bodies.read_file(&path).unwrap();
        std::fs::write(&path, "other").unwrap();
        let again = bodies.read_value(&format!("@{}", path.display())).unwrap();
        assert_eq!((&first[..], first.as_ptr()), (&b"first"[..], again.as_ptr()));
        assert_eq!(bodies.read_value("typed").unwrap(), "typed");
    }

    #[test]
    fn an_endless_file_is_read_up_to_the_maximum() {
        let error = read(Path::new("/dev/zero")).unwrap_err();
        assert!(error.starts_with("cannot read /dev/zero: it has more than 67108864 bytes"), "{error}");
    }

    #[test]
    fn all_files_together_have_a_maximum_size() {
        let folder = tempfile::tempdir().unwrap();
        let mut bodies = Bodies::default();
        for number in 0..5 {
            let path = folder.path().join(number.to_string());
            // A hole in the file, so nothing is written to disk.
            File::create(&path).unwrap().set_len(FILE_BYTES_MAX).unwrap();
            let body = bodies.read_file(&path);
            assert_eq!(body.is_ok(), number < 4, "{number}");
        }
    }
}
