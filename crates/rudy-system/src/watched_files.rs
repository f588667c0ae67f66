//! Files that a running server reads again when they change.
//!
//! The files are compared every few seconds. Notifications of the kernel would be faster, but miss changes behind symbolic
//! links, as certbot and Kubernetes make them, and on network file systems.

use std::fmt::Debug;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::OFlags;

/// The time between two comparisons.
pub const INTERVAL: Duration = Duration::from_secs(2);

/// What identifies the content of a file: device, inode, size, and time of change. `None` without a file.
pub type Stamp = Option<(u64, u64, u64, i64, i64)>;

/// Returns the stamp of a file. It is taken before the file is read, so that a change in between is found later.
#[must_use]
pub fn stamp(path: &Path) -> Stamp {
    let data = fs::metadata(path).ok()?;
    Some((data.dev(), data.ino(), data.size(), data.ctime(), data.ctime_nsec()))
}

/// Returns the folders in which a file must be readable, also after a new file has replaced it: its own and, if it is a link, that of
/// its target. The parent of a name without a slash is the working directory.
pub fn folders_of(file: &Path) -> Vec<PathBuf> {
    let own = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let target = fs::canonicalize(file).ok();
    let target = target.as_deref().and_then(Path::parent);
    let elsewhere = target.filter(|target| !fs::canonicalize(own).is_ok_and(|own| own == *target));
    [Some(own), elsewhere].into_iter().flatten().map(Path::to_owned).collect()
}

/// Opens a file to read it. Fails for a named pipe, which would wait for a writer, and a device, which may have no end.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let kind = file.metadata()?.file_type();
    // Reading a folder fails with an error that names it.
    if kind.is_file() || kind.is_dir() {
        Ok(file)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
    }
}

/// Reads a file as [`open`] opens it.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Files as they were read last.
#[derive(Debug, Default)]
pub struct Seen {
    /// Empty if nothing was read yet.
    stamps: Vec<Stamp>,
    /// Why they could not be read since, as it was reported last.
    failure: Option<String>,
}

impl Seen {
    /// Files that were read after these stamps were taken.
    #[must_use]
    pub fn new(stamps: Vec<Stamp>) -> Self {
        Self { stamps, failure: None }
    }

    /// Returns whether the files were never read.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.stamps.is_empty()
    }

    /// Returns whether files with these stamps must be read: they have changed, or could not be read before.
    #[must_use]
    pub fn is_outdated(&self, stamps: &[Stamp]) -> bool {
        self.failure.is_some() || self.stamps != stamps
    }

    /// Reads the files with `read` if they are outdated. After a failure the next call tries again, because its cause may be
    /// elsewhere: without descriptors, for example, no file can be read for a while. `None` if nothing is new, as after the same
    /// failure again.
    pub fn update<T>(
        &mut self,
        stamps: Vec<Stamp>,
        read: impl FnOnce() -> Result<T, String>,
    ) -> Option<Result<T, String>> {
        if self.is_outdated(&stamps) { self.read(stamps, read) } else { None }
    }

    /// Reads the files with `read`, outdated or not, as [`Self::update`].
    pub fn read<T>(
        &mut self,
        stamps: Vec<Stamp>,
        read: impl FnOnce() -> Result<T, String>,
    ) -> Option<Result<T, String>> {
        match read() {
            Ok(new) => {
                *self = Self::new(stamps);
                Some(Ok(new))
            }
            Err(why) => {
                let before = self.failure.replace(why.clone());
                (before.as_ref() != Some(&why)).then_some(Err(why))
            }
        }
    }
}

/// What was read from a file.
pub trait Watched: Debug + Send + Sync {
    /// Reads the file again if it has changed. Returns a line for the log: an error if the old content stays in use.
    fn update(&self) -> Option<Result<String, String>>;
}

/// The watched files of all configurations of a process.
#[derive(Debug, Default)]
pub struct WatchedFiles {
    files: Mutex<Vec<Weak<dyn Watched>>>,
    /// What the operator should know, until it is logged.
    notices: Mutex<Vec<String>>,
}

impl WatchedFiles {
    /// Watches a file for as long as its content is in use.
    pub fn add<W: Watched + 'static>(&self, file: &Arc<W>) {
        let file: Weak<W> = Arc::downgrade(file);
        self.files.lock().push(file);
    }

    /// Keeps lines for the log.
    pub fn notify(&self, lines: impl IntoIterator<Item = String>) {
        self.notices.lock().extend(lines);
    }

    /// Returns the notices since the last call.
    pub fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *self.notices.lock())
    }

    /// Returns whether the content of a file is in use.
    pub fn is_in_use(&self) -> bool {
        self.files.lock().iter().any(|file| file.strong_count() > 0)
    }

    /// Reads the files that have changed. Returns a line for the log about each.
    pub fn update(&self) -> Vec<Result<String, String>> {
        let mut files = self.files.lock();
        files.retain(|file| file.strong_count() > 0);
        let in_use: Vec<_> = files.iter().filter_map(Weak::upgrade).collect();
        // Reading may take long, and a reload must not wait for it.
        drop(files);
        in_use.iter().filter_map(|file| file.update()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_could_not_be_read_are_read_again_and_a_failure_is_reported_once() {
        let stamps = |size| vec![Some((1, 1, size, 0, 0))];
        let mut seen = Seen::new(stamps(1));
        let failing = |why: &str| Err::<(), _>(why.to_owned());
        assert_eq!(seen.update(stamps(1), || panic!("unchanged")), None::<Result<(), _>>);
        assert_eq!(seen.update(stamps(2), || failing("no descriptors")), Some(failing("no descriptors")));
        assert_eq!(seen.update(stamps(2), || failing("no descriptors")), None);
        assert_eq!(seen.update(stamps(2), || failing("invalid")), Some(failing("invalid")));
        assert_eq!(seen.update(stamps(2), || Ok(())), Some(Ok(())));
        assert_eq!(seen.update(stamps(2), || panic!("unchanged")), None::<Result<(), _>>);
        // The same failure is reported again after a success.
        assert_eq!(seen.update(stamps(3), || failing("invalid")), Some(failing("invalid")));
    }
}
