//! The file with the keys of session tickets: sessions survive a restart, and processes on one folder share them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rudy_config::{Location, Problem};
use rudy_system::watched_files::{Seen, stamp};
use rudy_system::{state_dir, watched_files};
use rudy_tls::{TICKET_KEY_BYTES, TicketKey, TicketKeys};

use super::files::unusable;

/// The age at which a key of our own is replaced. An attacker who gets hold of the keys can decrypt the sessions of TLS 1.2 that
/// were resumed meanwhile.
const ROTATION: Duration = Duration::from_hours(6);

/// The number of keys of our own. A ticket is valid for 12 hours, so its key has been replaced twice at most.
const KEPT: usize = 3;

/// The maximum number of keys in a file.
const KEYS_MAX: usize = 100;

/// Where the keys come from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    /// Random keys, for this process only.
    Memory,
    /// A file in the state folder, with keys of our own.
    Own(PathBuf),
    /// A file of the operator, which is only read.
    Given(PathBuf),
}

/// Keeps [`TicketKeys`] up to date.
#[derive(Debug)]
pub(super) struct KeyFile {
    folder: Option<PathBuf>,
    source: Source,
    seen: Seen,
    /// The keys of our own, and when the first was made.
    own: Vec<u8>,
    made: SystemTime,
}

impl KeyFile {
    /// Keys in this state folder, or in memory. They are made or read by the first [`Self::update`].
    pub(super) fn in_folder(folder: Option<PathBuf>) -> Self {
        let (seen, own) = (Seen::default(), Vec::new());
        Self { folder, source: Source::Memory, seen, own, made: SystemTime::UNIX_EPOCH }
    }

    /// Uses the file of the operator from now on, or without one keys of our own.
    pub(super) fn use_file(
        &mut self,
        given: Option<&Path>,
        keys: &TicketKeys,
        now: SystemTime,
    ) -> Option<Result<String, String>> {
        let own = || self.folder.as_ref().map(|folder| Source::Own(folder.join("ticket-keys")));
        let source = given.map(|path| Source::Given(path.to_owned())).or_else(own).unwrap_or(Source::Memory);
        if self.source != source {
            (self.source, self.seen) = (source, Seen::default());
        }
        self.update(keys, now)
    }

    /// Reads the keys again if the file has changed, and replaces keys of our own in time. Returns a line for the log.
    pub(super) fn update(&mut self, keys: &TicketKeys, now: SystemTime) -> Option<Result<String, String>> {
        match self.source.clone() {
            Source::Memory => {
                self.rotate(keys, now);
                None
            }
            Source::Own(path) => self.update_own(&path, keys, now),
            Source::Given(path) => {
                let is_first = self.seen.is_new();
                let set = || read(&path).map(|bytes| keys.set_from(&bytes));
                match self.seen.update(vec![stamp(&path)], set)? {
                    Ok(_) if is_first => None,
                    Ok(_) => {
                        Some(Ok(format!("replaced the keys of session tickets: {} changed", path.display())))
                    }
                    Err(why) => Some(Err(unusable_line(&path, &why))),
                }
            }
        }
    }

    fn update_own(
        &mut self,
        path: &Path,
        keys: &TicketKeys,
        now: SystemTime,
    ) -> Option<Result<String, String>> {
        let stamp_now = stamp(path);
        match self.seen.update(vec![stamp_now], || read_own(path)) {
            Some(Ok(Some((bytes, made)))) if keys.set_from(&bytes) => (self.own, self.made) = (bytes, made),
            Some(Err(why)) if !self.own.is_empty() => return Some(Err(unusable_line(path, &why))),
            // A missing or damaged file is replaced in time.
            _ => {}
        }
        if !self.rotate(keys, now) {
            return None;
        }
        let error = match state_dir::write(path, &self.own, stamp_now.is_some()) {
            // Another process was faster: the next update reads its keys.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return None,
            Err(error) => error,
            Ok(()) => {
                self.seen = Seen::new(vec![stamp(path)]);
                return None;
            }
        };
        // Not tried again.
        self.source = Source::Memory;
        Some(Err(format!(
            "TLS sessions do not survive a restart, because {} cannot be written: {error}; set `StateDirectory=rudy` \
             in the systemd unit, or $XDG_STATE_HOME",
            path.display()
        )))
    }

    /// Adds a key if the first one is too old. Two processes may do so at once: the tickets of one of them are then
    /// not accepted, and their clients make a full handshake.
    fn rotate(&mut self, keys: &TicketKeys, now: SystemTime) -> bool {
        let age = now.duration_since(self.made).unwrap_or_default();
        if age < ROTATION && !self.own.is_empty() {
            return false;
        }
        // Without random bytes, the old keys stay.
        let Ok(new) = TicketKey::random() else { return false };
        // After a long stop, no client has a valid ticket.
        let kept = if age < ROTATION * 3 { (KEPT - 1) * TICKET_KEY_BYTES } else { 0 };
        self.own.truncate(kept);
        self.own.splice(0..0, new);
        self.made = now;
        keys.set_from(&self.own)
    }
}

/// Reports a file with keys that cannot be used. The keys in use stay, because a reload may fail later.
#[must_use]
pub fn ticket_keys_problem(path: &Path, location: &Location) -> Option<Problem> {
    let why = read(path).err()?;
    Some(*unusable(path, location, why))
}

fn unusable_line(path: &Path, why: &str) -> String {
    format!("cannot use {}: {why}; the old keys of session tickets stay in use", path.display())
}

/// Returns the keys in a file of our own, and when the first was made. `None` without usable keys.
fn read_own(path: &Path) -> Result<Option<(Vec<u8>, SystemTime)>, String> {
    match watched_files::read(path).and_then(|bytes| Ok((bytes, fs::metadata(path)?.modified()?))) {
        Ok((bytes, made)) => Ok(checked(bytes).ok().map(|bytes| (bytes, made))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns the keys in a file, at least one.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    watched_files::read(path).map_err(|error| error.to_string()).and_then(checked)
}

/// Returns the content of a file if it consists of keys.
fn checked(bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    let is_whole = bytes.len().is_multiple_of(TICKET_KEY_BYTES) && !bytes.is_empty();
    if !is_whole || bytes.len() > KEYS_MAX * TICKET_KEY_BYTES {
        return Err(format!(
            "{} bytes, expected 1 to {KEYS_MAX} keys of {TICKET_KEY_BYTES} bytes: `openssl rand {TICKET_KEY_BYTES}`",
            bytes.len()
        ));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::Arc;

    use rudy_tls::{Policy, Ticketer};

    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    /// A process with the keys in this file.
    struct Process {
        file: KeyFile,
        keys: Arc<TicketKeys>,
    }

    impl Process {
        fn new(folder: Option<&Path>) -> Self {
            Self { file: KeyFile::in_folder(folder.map(Path::to_owned)), keys: Arc::default() }
        }

        fn start(folder: &Path, now: SystemTime) -> Self {
            let mut process = Self::new(Some(folder));
            assert_eq!(process.use_file(None, now), None);
            process
        }

        fn use_file(&mut self, given: Option<&Path>, now: SystemTime) -> Option<Result<String, String>> {
            self.file.use_file(given, &self.keys, now)
        }

        fn update(&mut self, now: SystemTime) -> Option<Result<String, String>> {
            self.file.update(&self.keys, now)
        }

        fn ticketer(&self) -> Ticketer {
            Ticketer::new(self.keys.clone(), Policy::default(), false)
        }

        fn ticket(&self) -> Vec<u8> {
            self.ticketer().encrypt_at(b"state", SystemTime::UNIX_EPOCH).unwrap()
        }

        fn accepts(&self, ticket: &[u8]) -> bool {
            self.ticketer().decrypt_at(ticket, SystemTime::UNIX_EPOCH).is_some()
        }
    }

    #[test]
    fn processes_on_one_folder_share_keys_which_are_replaced_in_time() {
        let folder = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        let mut first = Process::start(folder.path(), now);
        let ticket = first.ticket();
        let mut second = Process::start(folder.path(), now + HOUR);
        assert!(second.accepts(&ticket));
        let path = folder.path().join("ticket-keys");
        let length = || fs::read(&path).unwrap().len() / TICKET_KEY_BYTES;
        let written_at = |time| File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        // The second process replaces the key, and the first notices.
        assert_eq!(second.update(now + 7 * HOUR), None);
        written_at(now + 7 * HOUR);
        let newer = second.ticket();
        assert!(!first.accepts(&newer));
        assert_eq!(first.update(now + 7 * HOUR), None);
        assert!(first.accepts(&newer) && first.accepts(&ticket));
        assert_eq!(length(), 2);
        second.update(now + 14 * HOUR);
        assert!(second.accepts(&ticket));
        written_at(now + 14 * HOUR);
        second.update(now + 21 * HOUR);
        assert!(!second.accepts(&ticket));
        assert_eq!(length(), KEPT);
        written_at(now + 21 * HOUR);
        assert!(!Process::start(folder.path(), now + 100 * HOUR).accepts(&newer), "after a long stop");
        // A damaged file is replaced.
        fs::write(&path, b"x").unwrap();
        let other = Process::start(folder.path(), now);
        assert!(Process::start(folder.path(), now).accepts(&other.ticket()));
    }

    #[test]
    fn without_a_folder_keys_are_in_memory() {
        let mut process = Process::new(Some("/proc/no".as_ref()));
        let problem = process.use_file(None, SystemTime::now()).unwrap().unwrap_err();
        assert!(problem.contains("/proc/no/ticket-keys"), "{problem}");
        let ticket = process.ticket();
        assert_eq!(process.update(SystemTime::now() + 7 * HOUR), None);
        assert!(process.accepts(&ticket));
    }

    #[test]
    fn a_given_file_is_read_and_never_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        fs::write(&path, [1; TICKET_KEY_BYTES]).unwrap();
        let mut process = Process::new(None);
        assert_eq!(process.use_file(Some(&path), SystemTime::now()), None);
        let ticket = process.ticket();
        assert_eq!(process.update(SystemTime::now() + 100 * HOUR), None);
        fs::write(&path, [[2; TICKET_KEY_BYTES], [1; TICKET_KEY_BYTES]].concat()).unwrap();
        assert!(process.update(SystemTime::now()).unwrap().unwrap().contains("replaced the keys"));
        assert!(process.accepts(&ticket));
        let newer = process.ticket();
        for content in [&b""[..], &[1; 47]] {
            fs::write(&path, content).unwrap();
            let problem = process.update(SystemTime::now()).unwrap().unwrap_err();
            assert!(problem.contains("expected 1 to 100 keys of 48 bytes"), "{problem}");
            assert!(process.accepts(&newer));
        }
        fs::remove_file(&path).unwrap();
        assert!(process.update(SystemTime::now()).unwrap().is_err());
        assert_eq!(process.update(SystemTime::now()), None, "reported once");
    }
}
