//! Finds the process to observe by its id or its name.

use std::convert::Infallible;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use super::folder::Folder;
use super::thread::Stat;
use crate::Error;

/// The process to observe, as a user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The id of the process, or of one of its threads.
    Pid(u32),
    /// The name of the process, or the file name of its program.
    Name(String),
}

impl FromStr for Target {
    type Err = Infallible;

    /// A number is an id. A process with a number as its name can be observed by its id only.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.parse().map_or_else(|_| Self::Name(text.to_owned()), Self::Pid))
    }
}

impl Target {
    /// The id of the process. Fails if no process has this name, or several have.
    pub fn pid(&self) -> Result<u32, Error> {
        let name = match self {
            Self::Pid(pid) => return Ok(*pid),
            Self::Name(name) => name,
        };
        let own = std::process::id();
        let mut found = all()?.into_iter().filter(|pid| *pid != own && has_name(*pid, name));
        let Some(pid) = found.next() else { return Err(Error::NoSuchName { name: name.clone() }) };
        let others: Vec<u32> = found.collect();
        if others.is_empty() {
            return Ok(pid);
        }
        let pids = [&[pid], others.as_slice()].concat();
        Err(Error::SeveralProcesses { name: name.clone(), pids })
    }
}

/// The ids of all processes that are visible.
fn all() -> Result<Vec<u32>, Error> {
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
    fn a_number_is_an_id_and_anything_else_is_a_name() {
        assert_eq!("4711".parse(), Ok(Target::Pid(4711)));
        assert_eq!("java".parse(), Ok(Target::Name("java".to_owned())));
        assert_eq!("7zip".parse(), Ok(Target::Name("7zip".to_owned())));
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
    fn a_name_that_no_process_has_is_reported() {
        let error = Target::Name("rudy-nothing-has-this-name".to_owned()).pid().unwrap_err();
        assert!(matches!(error, Error::NoSuchName { .. }), "{error}");
    }
}
