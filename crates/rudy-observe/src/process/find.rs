//! Finds the process to observe.

use std::fs;
use std::path::Path;

use super::thread::Stat;
use crate::folder::Folder;
use crate::sockets::{has_any, listening_inodes};
use crate::{Error, Target};

impl Target {
    /// Whether it is an id.
    pub(super) fn is_pid(&self) -> bool {
        matches!(self, Self::Pid(_))
    }

    /// The ids of all processes that match.
    pub fn pids(&self) -> Result<Vec<u32>, Error> {
        let own = std::process::id();
        let mut pids = match self {
            Self::Pid(pid) => return Ok(vec![*pid]),
            Self::Name(name) => {
                all()?.into_iter().filter(|pid| *pid != own && has_name(*pid, name)).collect()
            }
            Self::Port(port) => {
                let inodes = listening_inodes(*port);
                all()?.into_iter().filter(|pid| has_any(*pid, &inodes)).collect::<Vec<_>>()
            }
        };
        pids.sort_unstable();
        Ok(pids)
    }

    /// The id of the process. Fails if no process matches, or several do.
    pub fn pid(&self) -> Result<u32, Error> {
        let pids = self.pids()?;
        match pids[..] {
            [pid] => Ok(pid),
            [] => Err(Error::NotFound { target: self.clone() }),
            _ => Err(Error::SeveralProcesses { target: self.clone(), pids }),
        }
    }
}

/// The ids of all processes that are visible.
pub fn all() -> Result<Vec<u32>, Error> {
    let unreadable = |source| Error::Unreadable { path: "/proc".to_owned(), source };
    let entries = fs::read_dir("/proc").map_err(unreadable)?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// Whether a process has this name, or its program has. The kernel cuts the name of a process to 15 bytes; the command line has
/// all of it.
fn has_name(pid: u32, name: &str) -> bool {
    let mut buffer = Vec::new();
    let Ok(folder) = Folder::open(pid) else { return false };
    if folder.read("stat", &mut buffer).is_ok() && Stat::parse(&buffer).is_some_and(|stat| stat.name == name)
    {
        return true;
    }
    if folder.read("cmdline", &mut buffer).is_err() {
        return false;
    }
    let program = buffer.split(|byte| *byte == 0).next().unwrap_or_default();
    let program = String::from_utf8_lossy(program);
    Path::new(program.as_ref()).file_name().is_some_and(|file| file == name)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::fs::symlink;
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// Children that run `cat` under another name until they are dropped.
    struct Cats(Vec<Child>);

    impl Cats {
        fn start(name: &str, count: usize) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let program = folder.path().join(name);
            symlink("/bin/cat", &program).unwrap();
            let start = |_| Command::new(&program).stdin(Stdio::piped()).spawn().unwrap();
            Self((0..count).map(start).collect())
        }
    }

    impl Drop for Cats {
        fn drop(&mut self) {
            for child in &mut self.0 {
                drop(child.stdin.take());
                let _ = child.wait();
            }
        }
    }

    #[test]
    fn a_process_is_found_by_its_name_although_the_kernel_cuts_it() {
        let cats = Cats::start("rudy-target-with-a-long-name", 1);
        for name in ["rudy-target-with-a-long-name", "rudy-target-wit"] {
            assert_eq!(Target::Name(name.to_owned()).pid().unwrap(), cats.0[0].id(), "{name}");
        }
    }

    #[test]
    fn a_name_that_several_processes_have_is_refused_with_their_ids() {
        let cats = Cats::start("rudy-several", 2);
        let error = Target::Name("rudy-several".to_owned()).pid().unwrap_err().to_string();
        for child in &cats.0 {
            assert!(error.contains(&child.id().to_string()), "{error}");
        }
    }

    #[test]
    fn a_process_is_found_by_the_port_on_which_it_listens() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(Target::Port(port).pid().unwrap(), std::process::id());
        drop(listener);
        let error = Target::Port(port).pid().unwrap_err();
        assert!(error.to_string().contains(&format!("listening socket on port {port}")), "{error}");
    }

    #[test]
    fn a_name_that_no_process_has_is_reported() {
        let error = Target::Name("rudy-nothing-has-this-name".to_owned()).pid().unwrap_err();
        assert!(matches!(error, Error::NotFound { .. }), "{error}");
    }
}
