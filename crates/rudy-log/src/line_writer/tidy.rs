//! Compresses and removes rotated files, on a thread of their own.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;

use flate2::write::GzEncoder;
use parking_lot::Mutex;

/// The length of the timestamp in a name: `.20261121T030506Z`.
const STAMP_BYTES: usize = 17;

/// The end of the name of a file that is being compressed.
const PART: &str = ".part";

/// The level of `zstd`: its default.
const ZSTD_LEVEL: i32 = 3;

/// The compression of a rotated file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// `NAME.zst`.
    Zstd,
    /// `NAME.gz`.
    Gzip,
}

impl Compression {
    fn extension(self) -> &'static str {
        match self {
            Self::Zstd => ".zst",
            Self::Gzip => ".gz",
        }
    }

    fn copy(self, mut from: File, to: File) -> io::Result<()> {
        match self {
            Self::Zstd => zstd::stream::copy_encode(from, to, ZSTD_LEVEL),
            Self::Gzip => {
                let mut encoder = GzEncoder::new(to, flate2::Compression::default());
                io::copy(&mut from, &mut encoder)?;
                encoder.finish().map(drop)
            }
        }
    }
}

/// Tidies the rotated files of a log. At most one thread does so at a time.
pub(super) struct Tidy(Arc<Shared>);

struct Shared {
    path: PathBuf,
    keep: usize,
    compression: Option<Compression>,
    state: AtomicU8,
    /// The first failure of the last time, until the writing thread takes it.
    failure: Mutex<Option<io::Error>>,
}

/// No thread runs.
const IDLE: u8 = 0;
/// A thread runs.
const RUNS: u8 = 1;
/// A thread runs, or is about to, and must look once more.
const AGAIN: u8 = 2;

impl Tidy {
    pub(super) fn new(path: &Path, keep: usize, compression: Option<Compression>) -> Self {
        let (path, state, failure) = (path.to_owned(), AtomicU8::new(IDLE), Mutex::default());
        Self(Arc::new(Shared { path, keep, compression, state, failure }))
    }

    /// Starts to tidy, or has the thread that does look once more.
    pub(super) fn start(&self) {
        if self.0.state.swap(AGAIN, Ordering::SeqCst) != IDLE {
            return;
        }
        let shared = self.0.clone();
        let started = thread::Builder::new().name("log-rotation".to_owned()).spawn(move || shared.run());
        if let Err(error) = started {
            *self.0.failure.lock() =
                Some(cannot("start a thread for the rotated files of", &self.0.path, &error));
            self.0.state.store(IDLE, Ordering::SeqCst);
        }
    }

    /// Returns what failed since the last call.
    pub(super) fn take_failure(&self) -> Option<io::Error> {
        self.0.failure.lock().take()
    }
}

impl Shared {
    fn run(&self) {
        loop {
            self.state.store(RUNS, Ordering::SeqCst);
            let tidied = tidy(&self.path, self.keep, self.compression);
            *self.failure.lock() = tidied.err();
            if self.state.compare_exchange(RUNS, IDLE, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                return;
            }
        }
    }
}

/// Removes all rotated files but the newest, then compresses these without the newest of all, to which another process may still
/// write. Compression needs space, so it comes last.
///
/// # Errors
///
/// The first failure. It does not stop the others.
fn tidy(path: &Path, keep: usize, compression: Option<Compression>) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let _lock = lock(folder);
    let Rotated { whole, parts } =
        rotated_files(folder, path).map_err(|error| cannot("read the folder", folder, &error))?;
    let (kept, old) = whole.split_at(keep.min(whole.len()));
    let removed =
        parts.iter().chain(old).map(|file| attempt("remove the rotated file", file, fs::remove_file(file)));
    let is_compressed = |file: &Path| file.extension().is_some_and(|extension| !is_stamp(extension));
    let compressed =
        kept.iter().skip(1).filter(|file| !is_compressed(file)).filter_map(|file| {
            Some(attempt("compress the rotated file", file, compress(file, compression?)))
        });
    removed.chain(compressed).fold(Ok(()), io::Result::and)
}

/// Locks a folder, so that no other log and no other process tidies it at the same time and takes a file that is being compressed for
/// one of a killed process. A file system without locks has none: logs are rarely tidied at the same time.
fn lock(folder: &Path) -> Option<File> {
    let opened = File::open(folder).ok()?;
    opened.lock().ok()?;
    Some(opened)
}

/// Adds the attempt to an error. A file that another program has removed is none.
fn attempt(what: &str, file: &Path, result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(cannot(what, file, &error)),
        _ => Ok(()),
    }
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot {what} {}: {error}", path.display()))
}

/// The rotated files of a log.
struct Rotated {
    /// The newest first.
    whole: Vec<PathBuf>,
    /// Incomplete ones of a process that was killed.
    parts: Vec<PathBuf>,
}

/// Finds the rotated files of the log `path` in its folder.
fn rotated_files(folder: &Path, path: &Path) -> io::Result<Rotated> {
    let prefix = path.file_name().unwrap_or_default().as_bytes();
    let mut rotated = Rotated { whole: Vec::new(), parts: Vec::new() };
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let Some(end) = name.as_bytes().strip_prefix(prefix) else { continue };
        let Some((stamp, end)) = end.split_at_checked(STAMP_BYTES) else { continue };
        if !stamp.strip_prefix(b".").is_some_and(|stamp| is_stamp(OsStr::from_bytes(stamp))) {
            continue;
        }
        if end.ends_with(PART.as_bytes()) {
            rotated.parts.push(folder.join(name));
        } else if matches!(end, b"" | b".zst" | b".gz") {
            rotated.whole.push(folder.join(name));
        }
    }
    rotated.whole.sort_unstable_by(|one, other| other.cmp(one));
    Ok(rotated)
}

/// Whether a text is a timestamp such as `20261121T030506Z`.
fn is_stamp(text: &OsStr) -> bool {
    let text = text.as_bytes();
    let is_part = |(index, byte): (usize, &u8)| match index {
        8 => *byte == b'T',
        15 => *byte == b'Z',
        _ => byte.is_ascii_digit(),
    };
    text.len() == STAMP_BYTES - 1 && text.iter().enumerate().all(is_part)
}

/// Replaces a file by a compressed one. A crash leaves the file, or both.
fn compress(path: &Path, compression: Compression) -> io::Result<()> {
    let with = |end: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    let (compressed, part) =
        (with(compression.extension()), with(&format!("{}{PART}", compression.extension())));
    let from = File::open(path)?;
    let mode = from.metadata()?.mode() & 0o777;
    let to = File::options().write(true).create_new(true).mode(mode).open(&part)?;
    let copied = to.try_clone().and_then(|copy| compression.copy(from, copy)).and_then(|()| to.sync_all());
    if let Err(error) = copied.and_then(|()| fs::rename(&part, compressed)) {
        let _ = fs::remove_file(&part);
        return Err(error);
    }
    fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    impl Tidy {
        /// Waits until no thread runs.
        pub(in crate::line_writer) fn wait(&self) {
            while self.0.state.load(Ordering::SeqCst) != IDLE {
                thread::yield_now();
            }
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_newest_files_are_kept_and_the_others_compressed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        for name in [
            "a.log",
            "a.log.20260101T000000Z.gz",
            "a.log.20260102T000000Z",
            "a.log.20260103T000000Z",
            "a.log.20260104T000000Z",
            "a.log.20260103T000000Z.zst.part",
            "a.log.1",
            "a.log.20260101",
            "b.log.20260101T000000Z",
        ] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        tidy(&path, 2, Some(Compression::Zstd)).unwrap();
        assert_eq!(
            names(folder.path()),
            [
                "a.log",
                "a.log.1",
                "a.log.20260101",
                "a.log.20260103T000000Z.zst",
                "a.log.20260104T000000Z",
                "b.log.20260101T000000Z"
            ]
        );
    }

    #[test]
    fn a_failure_stops_neither_the_removal_nor_the_compression_of_other_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let rotated = |day: u32| folder.path().join(format!("a.log.2026010{day}T000000Z"));
        for day in [1, 2, 3, 5] {
            fs::write(rotated(day), "a line").unwrap();
        }
        // A folder cannot be compressed.
        fs::create_dir(rotated(4)).unwrap();
        let tidy = Tidy::new(&path, 3, Some(Compression::Gzip));
        tidy.0.run();
        assert_eq!(
            names(folder.path()),
            ["a.log.20260103T000000Z.gz", "a.log.20260104T000000Z", "a.log.20260105T000000Z"]
        );
        let failure = tidy.take_failure().unwrap().to_string();
        let expected = format!("cannot compress the rotated file {}: ", rotated(4).display());
        assert!(failure.starts_with(&expected), "{failure}");
        assert!(tidy.take_failure().is_none());
        fs::remove_dir(rotated(4)).unwrap();
        tidy.0.run();
        assert!(tidy.take_failure().is_none());
    }

    #[test]
    fn a_compressed_file_has_the_lines_and_the_permissions() {
        for compression in [Compression::Zstd, Compression::Gzip] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.log.20260101T000000Z");
            File::options().write(true).create_new(true).mode(0o600).open(&path).unwrap();
            let text = "a line\n".repeat(1000);
            fs::write(&path, &text).unwrap();
            compress(&path, compression).unwrap();
            let compressed = folder.path().join(names(folder.path()).remove(0));
            assert!(compressed.to_str().unwrap().ends_with(compression.extension()));
            assert_eq!(fs::metadata(&compressed).unwrap().mode() & 0o777, 0o600);
            let (file, mut read) = (File::open(&compressed).unwrap(), String::new());
            match compression {
                Compression::Gzip => flate2::read::GzDecoder::new(file).read_to_string(&mut read).unwrap(),
                Compression::Zstd => {
                    read = String::from_utf8(zstd::stream::decode_all(file).unwrap()).unwrap();
                    read.len()
                }
            };
            assert_eq!(read, text);
        }
    }
}
