//! A mount namespace in which a server has its own `/etc/hosts`.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::fs::{FileType, Mode, mknodat};

use crate::{Folder, skip};

/// A replacement of `/etc/hosts`.
pub struct Hosts {
    folder: Folder,
}

impl Hosts {
    /// Creates a file with these lines. Returns `None` after [`skip`].
    pub fn new(lines: &str) -> Option<Self> {
        let hosts = Self::unwritten()?;
        hosts.set(lines);
        Some(hosts)
    }

    /// Creates a pipe instead, so that each lookup hangs until [`Self::end_lookup`].
    pub fn hanging() -> Option<Self> {
        let hosts = Self::unwritten()?;
        let made = mknodat(rustix::fs::CWD, hosts.path(), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0);
        made.expect("the folder is ours");
        Some(hosts)
    }

    fn unwritten() -> Option<Self> {
        // Use the file only, and no DNS.
        let folder = Folder::with(&[("nsswitch.conf", "hosts: files\n")]);
        let mut try_it = Command::new("unshare");
        let mount = "mount --bind /etc/nsswitch.conf /etc/hosts";
        try_it.args(["-rm", "sh", "-c", mount]).stdout(Stdio::null()).stderr(Stdio::null());
        if !try_it.status().is_ok_and(|status| status.success()) {
            skip("this user may not mount anything in a name space of their own (`unshare -rm`)");
            return None;
        }
        Some(Self { folder })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> PathBuf {
        self.folder.join("hosts")
    }

    /// Writes the lines.
    pub fn set(&self, lines: &str) {
        fs::write(self.path(), lines).expect("the file is ours");
    }

    /// Ends a lookup that hangs, after waiting for one to begin. The lookup fails, because a pipe cannot seek.
    pub fn end_lookup(&self) {
        drop(fs::OpenOptions::new().write(true).open(self.path()).expect("the pipe is ours"));
    }

    /// Returns a script for the shell that starts a program.
    pub fn script(&self) -> String {
        let mount = |name| format!("mount --bind '{}/{name}' /etc/{name}", self.folder.path().display());
        let (hosts, switch) = (mount("hosts"), mount("nsswitch.conf"));
        format!("exec unshare -rm sh -c \"{hosts} && {switch} && exec \\\"\\$@\\\"\" sh \"$@\"")
    }
}
