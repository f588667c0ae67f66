//! Where a run takes place: a folder, and a port for each program in it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use tempfile::TempDir;

use super::spawn;
use crate::place::{Folders, Place, adapted, readable};
use crate::plan::{Kind, Load, Subject};

/// The file in which a program may note, a line each, that it was started.
const STARTS: &str = "starts";

/// The place of one run. Its folder goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    subject: &'a Subject,
    folders: &'a Folders,
    folder: TempDir,
    n: Option<u32>,
    /// The port of the subject.
    port: u16,
    /// The port of each program beside it, by its name.
    beside: BTreeMap<&'a str, u16>,
}

impl<'a> Scene<'a> {
    /// For this subject under this load. In its folder `www` is a link to the plan's files.
    pub(crate) fn new(subject: &'a Subject, load: &Load, folders: &'a Folders) -> io::Result<Self> {
        let folder = readable("rudy-lab-")?;
        symlink(folders.files(), folder.path().join("www"))?;
        // Whoever a server is started as may note in it that it was.
        let starts = folder.path().join(STARTS);
        fs::write(&starts, "")?;
        fs::set_permissions(&starts, fs::Permissions::from_mode(0o666))?;
        let mut ports = free_ports(1 + subject.beside.len())?.into_iter();
        let port = ports.next().unwrap_or_default();
        let beside = subject.beside.iter().map(String::as_str).zip(ports).collect();
        let n = if let Kind::Run { n, .. } = load.kind { n } else { None };
        Ok(Self { subject, folders, folder, n, port, beside })
    }

    /// Where programs are started.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// How often a program was started that notes it; nothing where none does.
    pub(crate) fn starts(&self) -> Option<usize> {
        let noted = fs::read_to_string(self.folder().join(STARTS)).unwrap_or_default();
        Some(noted.lines().count()).filter(|count| *count > 0)
    }

    /// Where one of them is to listen: the one beside the subject of this name, or the subject itself.
    pub(crate) fn address(&self, beside: Option<&str>) -> SocketAddr {
        let port = beside.and_then(|name| self.beside.get(name).copied()).unwrap_or(self.port);
        (Ipv4Addr::LOCALHOST, port).into()
    }

    /// The command of a program with everything in place, its configuration written.
    pub(crate) fn command(
        &self,
        command: &[String],
        config: Option<&str>,
        beside: Option<&str>,
    ) -> io::Result<Vec<String>> {
        let port = self.address(beside).port();
        let path =
            self.folder().join(beside.map_or_else(|| "config".to_owned(), |name| format!("{name}.config")));
        let place = Place {
            port,
            beside: &self.beside,
            folders: self.folders,
            temp: self.folder(),
            config: &path,
            words: &self.subject.words,
            n: self.n,
        };
        if let Some(text) = config {
            fs::write(&path, adapted(&place.fill(text), port))?;
        }
        let mut command: Vec<String> = command.iter().map(|word| place.fill(word)).collect();
        if let Some(first) = command.first_mut() {
            *first = spawn::program(first);
        }
        Ok(command)
    }
}

/// So many, all of them held until the last is found, so that no two are the same.
fn free_ports(count: usize) -> io::Result<Vec<u16>> {
    let bind = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listeners: Vec<_> = (0..count).map(bind).collect::<io::Result<_>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}
