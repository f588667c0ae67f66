//! A lock in a folder that several machines may share.
//!
//! Its holder changes the file every few seconds. A process that waits for it compares the file at two times of its own clock, so
//! that the clocks of the machines do not matter. `flock` is not enough: not every network file system supports it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

use rudy_runtime::is_planted;
use rudy_system::state_dir;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// How often the holder changes the file.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// How long an unchanged lock counts. Longer than a machine or a file server hangs now and then.
const EXPIRY: Duration = Duration::from_mins(1);

/// How often the lock of another is read.
const POLL: Duration = Duration::from_secs(2);

/// A lock that is held. Dropping it releases it.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    owner: String,
    heartbeat: JoinHandle<()>,
}

impl Lock {
    /// Waits for the lock.
    pub(super) async fn acquire(path: &Path) -> io::Result<Self> {
        let owner = owner();
        let mut seen = (String::new(), Instant::now());
        loop {
            let replaces = is_planted("a lock that two processes have");
            match state_dir::write(path, content(&owner, 0).as_bytes(), replaces) {
                Ok(()) => {
                    let heartbeat = rudy_runtime::spawn(beat(path.to_owned(), owner.clone()));
                    return Ok(Self { path: path.to_owned(), owner, heartbeat });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
            let Some(current) = read(path)? else { continue };
            if current != seen.0 {
                seen = (current.clone(), Instant::now());
            }
            if seen.1.elapsed() >= EXPIRY || has_ended(&current, &owner) {
                remove_if(path, &owner, |known| known == current)?;
                continue;
            }
            sleep(POLL).await;
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.heartbeat.abort();
        // A lock that stays expires.
        let _ = remove_if(&self.path, &self.owner, |known| known.starts_with(&self.owner));
    }
}

/// Changes the file, for as long as it is ours.
async fn beat(path: PathBuf, owner: String) {
    for count in 1_u64.. {
        sleep(HEARTBEAT).await;
        if !fs::read_to_string(&path).is_ok_and(|known| known.starts_with(&owner)) {
            return;
        }
        // After an error, the lock expires: another process may order too, which does no harm.
        let _ = state_dir::write(&path, content(&owner, count).as_bytes(), true);
    }
}

/// Returns the content of a lock. `None` if there is none; a link that leads nowhere is an empty one, which expires.
fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(fs::symlink_metadata(path).is_ok().then(String::new))
        }
        read => read.map(Some),
    }
}

/// Removes the lock if it is the expected one. It is renamed first, so that only one of two processes removes it, and the next
/// holder's lock stays.
fn remove_if(path: &Path, owner: &str, is_expected: impl Fn(&str) -> bool) -> io::Result<()> {
    let moved = path.with_extension(format!("expired-{}", super::folder::hash(&[owner])));
    match fs::rename(path, &moved) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        result => result?,
    }
    if !read(&moved).is_ok_and(|known| known.is_some_and(|known| is_expected(&known))) {
        // Fails if there is another one by now: then there are two, which does no harm.
        let _ = fs::hard_link(&moved, path);
    }
    fs::remove_file(&moved)
}

/// Identifies this process on all machines: boot, namespace of process ids, process id, and a number for this lock.
fn owner() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!(
        "{} {} {} {:016x} ",
        boot.trim(),
        namespace.display(),
        process::id(),
        rudy_runtime::random::bits()
    )
}

fn content(owner: &str, count: u64) -> String {
    format!("{owner}{count}\n")
}

/// Whether the lock is of a process on this machine that has ended.
fn has_ended(lock: &str, owner: &str) -> bool {
    let parts = |text: &str| text.split(' ').take(3).map(str::to_owned).collect::<Vec<_>>();
    match (&parts(lock)[..], &parts(owner)[..]) {
        ([boot, namespace, pid], [own_boot, own_namespace, own_pid]) => {
            boot == own_boot
                && namespace == own_namespace
                && pid != own_pid
                && !Path::new("/proc").join(pid).exists()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(future)
    }

    #[test]
    fn one_of_two_holds_the_lock() {
        run(async {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("locks/a");
            let first = Lock::acquire(&path).await.unwrap();
            let waiting = tokio::spawn({
                let path = path.clone();
                async move { Lock::acquire(&path).await.unwrap() }
            });
            // Much longer than a lock without a heartbeat lasts.
            sleep(10 * EXPIRY).await;
            assert!(!waiting.is_finished());
            drop(first);
            drop(waiting.await.unwrap());
            assert_eq!(fs::read_dir(folder.path().join("locks")).unwrap().count(), 0);
        });
    }

    #[test]
    fn a_lock_without_a_heartbeat_expires() {
        run(async {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a");
            fs::write(&path, "another machine 7 1 0\n").unwrap();
            let start = Instant::now();
            let _lock = Lock::acquire(&path).await.unwrap();
            assert!(start.elapsed() >= EXPIRY);
        });
    }

    #[test]
    fn a_link_that_leads_nowhere_expires() {
        run(async {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a");
            std::os::unix::fs::symlink("missing", &path).unwrap();
            let start = Instant::now();
            let lock = Lock::acquire(&path).await.unwrap();
            assert!(start.elapsed() >= EXPIRY);
            drop(lock);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        });
    }

    #[test]
    fn the_lock_of_a_process_that_was_killed_is_taken_over_at_once() {
        run(async {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a");
            let mut child = process::Command::new("true").spawn().unwrap();
            child.wait().unwrap();
            let own = owner();
            let dead = own.replacen(&format!(" {} ", process::id()), &format!(" {} ", child.id()), 1);
            fs::write(&path, content(&dead, 3)).unwrap();
            let start = Instant::now();
            let _lock = Lock::acquire(&path).await.unwrap();
            assert!(start.elapsed() < POLL);
        });
    }
}
