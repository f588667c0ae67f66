//! Replaces placeholders in braces, and creates the files of a plan.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rudy_experiment::plan::{Contents, Plan};
use rudy_experiment::programs;
use rudy_tls::KeyType;
use tempfile::TempDir;

/// The files that all runs of an experiment share. Removed on drop.
#[derive(Debug)]
pub(crate) struct Folders {
    files: TempDir,
    built: TempDir,
}

impl Folders {
    /// Creates the folder with the plan's files; builds nothing yet.
    pub(crate) fn make(plan: &Plan) -> io::Result<Self> {
        Ok(Self { files: make_files(plan)?, built: readable("rudy-lab-built-")? })
    }

    /// The folder of the plan's files.
    pub(crate) fn files(&self) -> &Path {
        self.files.path()
    }

    /// The folder of the plan's programs.
    pub(crate) fn built(&self) -> &Path {
        self.built.path()
    }
}

/// The values of placeholders that are known before a variant starts.
pub(crate) struct Placeholders<'a> {
    pub(crate) port: u16,
    pub(crate) tls_port: u16,
    /// The number of cores of the servers.
    pub(crate) cores: usize,
    /// The ports of the companion programs, by name.
    pub(crate) companions: &'a BTreeMap<&'a str, u16>,
    /// The process ids of the companion programs that run already, by name.
    pub(crate) pids: &'a BTreeMap<&'a str, u32>,
    pub(crate) folders: &'a Folders,
    pub(crate) temp: &'a Path,
    pub(crate) config: &'a Path,
    /// The variant's own placeholders.
    pub(crate) own: &'a BTreeMap<String, String>,
    /// The value of `{n}`, for a variant that runs to its end.
    pub(crate) n: Option<u32>,
}

impl Placeholders<'_> {
    /// Replaces the known placeholders. Others remain, because a configuration may use braces itself.
    pub(crate) fn fill(&self, text: &str) -> String {
        let rudy = std::env::current_exe().unwrap_or_else(|_| "rudy".into());
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let known = [
            ("rudy", path(&rudy)),
            ("programs", path(&programs::folder())),
            ("port", self.port.to_string()),
            ("tls-port", self.tls_port.to_string()),
            ("folder", path(self.folders.files())),
            ("built", path(self.folders.built())),
            ("temp", path(self.temp)),
            ("config", path(self.config)),
            ("cores", self.cores.to_string()),
        ];
        let known = known.into_iter().map(|(word, value)| (word.to_owned(), value));
        let n = self.n.map(|n| ("n".to_owned(), n.to_string()));
        let ports = self.companions.iter().map(|(name, port)| (format!("{name}.port"), port.to_string()));
        let pids = self.pids.iter().map(|(name, pid)| (format!("{name}.pid"), pid.to_string()));
        // The variant's own placeholders come first, because their values may contain others.
        let own = self.own.iter().map(|(word, value)| (word.clone(), value.clone()));
        own.chain(known)
            .chain(n)
            .chain(ports)
            .chain(pids)
            .fold(text.to_owned(), |text, (word, value)| text.replace(&format!("{{{word}}}"), &value))
    }
}

/// The number of cores that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Replaces numbers in lines that end in `# port` or `# cores`: the port after `127.0.0.1:`, otherwise the
/// first number of the line. The configurations of the peers are therefore also valid without the lab.
pub(crate) fn adapted(text: &str, port: u16, cores: usize) -> String {
    let mut adapted = String::with_capacity(text.len());
    for line in text.lines() {
        let number = match line.rsplit_once("# ") {
            Some((_, "port")) => Some(usize::from(port)),
            Some((_, "cores")) => Some(cores),
            _ => None,
        };
        // Writing to a string does not fail.
        let _ = match (number, number_at(line)) {
            (Some(number), Some((before, rest))) => writeln!(adapted, "{before}{number}{rest}"),
            _ => writeln!(adapted, "{line}"),
        };
    }
    adapted
}

/// The parts of a line before and after its number.
fn number_at(line: &str) -> Option<(&str, &str)> {
    const HOST: &str = "127.0.0.1:";
    let is_digit = |c: char| c.is_ascii_digit();
    let at = line.find(HOST).map(|at| at + HOST.len()).or_else(|| line.find(is_digit))?;
    Some((&line[..at], line[at..].trim_start_matches(is_digit)))
}

/// The modification time of all files: Wed, 01 Jan 2025 00:00:00 GMT. A fixed time makes conditional requests
/// and entity tags the same for all servers and runs.
const MODIFIED: Duration = Duration::from_hours(20_089 * 24);

/// Makes a folder readable for all users, because a server that root starts may run as another user.
pub(crate) fn readable(prefix: &str) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix(prefix).permissions(fs::Permissions::from_mode(0o755)).tempdir()
}

fn make_files(plan: &Plan) -> io::Result<TempDir> {
    let folder = readable("rudy-lab-files-")?;
    for (path, contents) in &plan.files {
        let path = folder.path().join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        match contents {
            Contents::Size(size) => write_lines(&File::create(&path)?, size.0)?,
            Contents::Text(text) => fs::write(&path, text)?,
            Contents::Key(key) => fs::write(&path, certificate(key)?)?,
        }
        File::options().write(true).open(&path)?.set_modified(SystemTime::UNIX_EPOCH + MODIFIED)?;
    }
    Ok(folder)
}

/// A key of this type and its certificate, in PEM.
fn certificate(key: &str) -> io::Result<String> {
    let key: KeyType = key.parse().map_err(io::Error::other)?;
    let names = ["localhost", "127.0.0.1"].map(str::to_owned);
    rudy_tls::self_signed_with(key, &names, SystemTime::now()).map_err(io::Error::other)
}

/// Writes numbered lines up to `size` bytes, with a buffer.
fn write_lines(file: impl Write, size: u64) -> io::Result<()> {
    let mut file = BufWriter::new(file);
    let (mut left, mut number) = (size, 0_u64);
    while left > 0 {
        let line = format!("line {number}\n");
        let length = usize::try_from(left).map_or(line.len(), |left| left.min(line.len()));
        file.write_all(&line.as_bytes()[..length])?;
        left -= length as u64;
        number += 1;
    }
    file.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_braces_are_put_in_and_others_stay() {
        let folders = Folders { files: readable("files-").unwrap(), built: readable("built-").unwrap() };
        let (companions, pids) = (BTreeMap::from([("app", 82)]), BTreeMap::from([("app", 4711)]));
        let own = BTreeMap::from([("socket".to_owned(), "{temp}/socket".to_owned())]);
        let (temp, config) = (Path::new("/t"), Path::new("/t/config"));
        let placeholders = Placeholders {
            own: &own,
            port: 81,
            tls_port: 83,
            cores: 2,
            companions: &companions,
            pids: &pids,
            folders: &folders,
            temp,
            config,
            n: None,
        };
        assert_eq!(
            placeholders.fill("{port} {tls-port} {temp} {config} {app.port} {app.pid} {n}"),
            "81 83 /t /t/config 82 4711 {n}"
        );
        assert_eq!(placeholders.fill("{socket} {other}"), "/t/socket {other}");
        assert_eq!(Placeholders { n: Some(50), ..placeholders }.fill("{n} {other}"), "50 {other}");
    }

    #[test]
    fn marked_lines_get_the_port_and_the_cores_and_no_others_do() {
        let text = "workers 2; # cores\nlisten 127.0.0.1:7101 reuseport backlog=4096; # port\nport = 7102 # port\nother 2 127.0.0.1:9\n";
        let expected = format!(
            "workers {}; # cores\nlisten 127.0.0.1:81 reuseport backlog=4096; # port\nport = 81 # port\nother 2 127.0.0.1:9\n",
            3
        );
        assert_eq!(adapted(text, 81, 3), expected);
    }

    #[test]
    fn a_file_has_exactly_the_requested_size() {
        for size in [0, 1, 1024, 100_000] {
            let mut file = Vec::new();
            write_lines(&mut file, size).unwrap();
            assert_eq!(file.len() as u64, size);
            assert!(b"line 0\nline 1\n".starts_with(&file[..file.len().min(14)]));
        }
    }
}
