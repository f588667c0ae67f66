//! The folder and the ports of a run.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rudy_experiment::plan::{Kind, Variant, Workload};
use tempfile::TempDir;

use super::{Cores, spawn};
use crate::folders::{self, Folders, Placeholders, adapted, readable};

/// The file to which a program can append a line at its start.
const STARTS: &str = "starts";

/// Maximum size that is read of it.
const STARTS_BYTES_MAX: u64 = 64 << 20;

/// The folder and the ports of a run. Removes the folder on drop.
#[derive(Debug)]
pub(crate) struct Workspace<'a> {
    variant: &'a Variant,
    folders: &'a Folders,
    folder: TempDir,
    n: Option<u32>,
    /// The port of the variant.
    port: u16,
    /// Its second port, for TLS.
    tls_port: u16,
    is_https: bool,
    /// The ports of companion programs, by name.
    companions: BTreeMap<&'a str, u16>,
    /// The cores of its programs.
    pub(crate) cores: Cores,
}

impl<'a> Workspace<'a> {
    /// Creates the folder for a variant under a workload, with a link `www` to the plan's files.
    pub(crate) fn new(variant: &'a Variant, workload: &Workload, folders: &'a Folders) -> io::Result<Self> {
        let folder = readable("rudy-lab-")?;
        symlink(folders.files(), folder.path().join("www"))?;
        // Writable for all users, because a server may run as another user.
        let starts = folder.path().join(STARTS);
        fs::write(&starts, "")?;
        fs::set_permissions(&starts, fs::Permissions::from_mode(0o666))?;
        let mut ports = free_ports(2 + variant.companions.len())?.into_iter();
        let [free, tls_port] = [(); 2].map(|()| ports.next().unwrap_or_default());
        let port = variant.url.as_deref().and_then(fixed_port).unwrap_or(free);
        let companions = variant.companions.iter().map(String::as_str).zip(ports).collect();
        let n = if let Kind::Run { n, .. } = workload.kind { n } else { None };
        let cores = if workload.separate_cores { Cores::separate()? } else { Cores::default() };
        let is_https = workload.is_https;
        Ok(Self { variant, folders, folder, n, port, tls_port, is_https, companions, cores })
    }

    /// The working folder of programs.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The number of recorded starts; `None` without any, or if the file is too long.
    pub(crate) fn starts(&self) -> Option<usize> {
        lines(File::open(self.folder().join(STARTS)).ok()?, STARTS_BYTES_MAX).filter(|count| *count > 0)
    }

    /// The address of the companion program with this name, or of the variant.
    pub(crate) fn address(&self, companion: Option<&str>) -> SocketAddr {
        let port = companion.and_then(|name| self.companions.get(name).copied()).unwrap_or(self.port);
        (Ipv4Addr::LOCALHOST, port).into()
    }

    /// The URL of the variant, to which the path of a workload is appended.
    pub(crate) fn url(&self) -> String {
        let own = self.variant.url.as_deref().unwrap_or("http://127.0.0.1:{port}");
        self.fill(if self.is_https { "https://127.0.0.1:{tls-port}" } else { own })
    }

    /// A file of the plan.
    pub(crate) fn file(&self, path: &str) -> PathBuf {
        self.folders.files().join(path)
    }

    /// A text of the workload without placeholders.
    pub(crate) fn fill(&self, text: &str) -> String {
        let (config, no_pids) = (self.folder().join("config"), BTreeMap::new());
        self.placeholders(None, &config, &no_pids).fill(text)
    }

    /// The command of a program without placeholders; writes its configuration. `pids` are those of the
    /// companion programs that run already.
    pub(crate) fn command(
        &self,
        command: &[String],
        config: Option<&str>,
        companion: Option<&str>,
        pids: &BTreeMap<&str, u32>,
    ) -> io::Result<Vec<String>> {
        let path = self
            .folder()
            .join(companion.map_or_else(|| "config".to_owned(), |name| format!("{name}.config")));
        let placeholders = self.placeholders(companion, &path, pids);
        if let Some(text) = config {
            fs::write(&path, adapted(&placeholders.fill(text), placeholders.port, placeholders.cores))?;
        }
        let mut command: Vec<String> = command.iter().map(|word| placeholders.fill(word)).collect();
        if let Some(first) = command.first_mut() {
            *first = spawn::program(first);
        }
        Ok(command)
    }

    fn placeholders<'b>(
        &'b self,
        companion: Option<&str>,
        config: &'b Path,
        pids: &'b BTreeMap<&'b str, u32>,
    ) -> Placeholders<'b> {
        let cores = if self.cores.servers.is_empty() { folders::cores() } else { self.cores.servers.len() };
        Placeholders {
            port: self.address(companion).port(),
            tls_port: self.tls_port,
            cores,
            companions: &self.companions,
            pids,
            folders: self.folders,
            temp: self.folder(),
            config,
            own: &self.variant.placeholders,
            n: self.n,
        }
    }
}

/// The port in a URL; `None` if it has the placeholder, and that of its scheme if it has no port.
fn fixed_port(url: &str) -> Option<u16> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split('/').next()?;
    match authority.rsplit_once(':') {
        // The last colon may be inside an IPv6 address.
        Some((_, port)) if !port.contains(']') => port.parse().ok(),
        _ if scheme == "https" => Some(443),
        _ => Some(80),
    }
}

/// The number of lines, including an incomplete last one; `None` if the file exceeds the size.
fn lines(file: impl Read, bytes_max: u64) -> Option<usize> {
    let mut file = BufReader::new(file.take(bytes_max + 1));
    let (mut bytes, mut ends, mut is_whole) = (0, 0, true);
    loop {
        let piece = file.fill_buf().ok()?;
        let Some(last) = piece.last() else { break };
        is_whole = *last == b'\n';
        ends += piece.split(|byte| *byte == b'\n').count() - 1;
        let length = piece.len();
        bytes += length as u64;
        file.consume(length);
    }
    (bytes <= bytes_max).then_some(ends + usize::from(!is_whole))
}

/// Finds this number of free ports. Holds all until the last is found, so that they differ.
fn free_ports(count: usize) -> io::Result<Vec<u16>> {
    let bind = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listeners: Vec<_> = (0..count).map(bind).collect::<io::Result<_>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_port_or_the_placeholder() {
        for (url, port) in [
            ("http://127.0.0.1:{port}/a", None),
            ("http://localhost:8080/a", Some(8080)),
            ("http://localhost/a:1", Some(80)),
            ("http://[::1]/", Some(80)),
            ("http://[::1]:81/", Some(81)),
        ] {
            assert_eq!(fixed_port(url), port, "{url}");
        }
    }

    #[test]
    fn lines_are_counted_whatever_is_in_them_and_not_beyond_the_bound() {
        for (text, expected) in [
            (&b""[..], Some(0)),
            (b"one\ntwo\n", Some(2)),
            (b"one\n\xff", Some(2)),
            (b"12345678", Some(1)),
            (b"123456789", None),
        ] {
            assert_eq!(lines(text, 8), expected, "{text:?}");
        }
        assert_eq!(lines(io::repeat(b'\n'), 1 << 20), None);
    }
}
