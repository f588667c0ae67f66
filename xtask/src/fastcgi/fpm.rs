//! A php-fpm of its own for each gateway: eight processes, each of which serves one connection at a time. The connections that
//! one gateway keeps to it would starve the other.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::CHILDREN;
use crate::bench::server::write;
use crate::process::Program;
use crate::{Outcome, command};

/// Answers at once.
pub(super) const HELLO: &str = "hello.php";

/// Answers when all that waits for it has long gone.
pub(super) const WAITS: &str = "waits.php";

const SCRIPTS: [(&str, &str); 2] =
    [(HELLO, "<?php echo \"hello, this is \", getmypid(), \"\\n\";"), (WAITS, "<?php sleep(86400);")];

/// How long it may take to listen, and how often we look.
const START_TIME: Duration = Duration::from_secs(10);
const POLL_TIME: Duration = Duration::from_millis(20);

/// A running php-fpm with its scripts. It ends, and they go, when this is dropped.
pub(super) struct Fpm {
    _process: Program,
    folder: TempDir,
}

impl Fpm {
    pub(super) fn start() -> Outcome<Self> {
        let program = command::php_fpm().ok_or("php-fpm is not installed")?;
        // Started by root, its processes read the scripts as somebody else, and nginx's connect as somebody else.
        let readable = Permissions::from_mode(0o755);
        let folder = tempfile::Builder::new().prefix("rudy-fastcgi-").permissions(readable).tempdir();
        let folder = folder.map_err(|error| format!("cannot make a temporary folder: {error}"))?;
        let scripts = folder.path().join("www");
        fs::create_dir(&scripts).map_err(|error| format!("cannot make a folder: {error}"))?;
        for (name, text) in SCRIPTS {
            write(&scripts.join(name), text)?;
        }
        let configuration = folder.path().join("fpm.conf");
        write(&configuration, &settings(folder.path()))?;
        let mut command = Command::new(program);
        command.args(["-n", "-F", "-y"]).arg(&configuration);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut fpm = Self { _process: Program::start(&mut command)?, folder };
        fpm.wait_until_it_listens()?;
        Ok(fpm)
    }

    /// Where it listens.
    pub(super) fn socket(&self) -> PathBuf {
        socket(self.folder.path())
    }

    /// The folder of its scripts is `www` in this one.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What it has complained of so far, line by line.
    pub(super) fn complaints(&self) -> Outcome<Vec<String>> {
        let log = log(self.folder.path());
        let text =
            fs::read_to_string(&log).map_err(|error| format!("cannot read {}: {error}", log.display()))?;
        Ok(text.lines().filter(|line| !line.contains("] NOTICE: ")).map(str::to_owned).collect())
    }

    fn wait_until_it_listens(&mut self) -> Outcome {
        let deadline = Instant::now() + START_TIME;
        while UnixStream::connect(self.socket()).is_err() {
            if Instant::now() > deadline {
                let said = fs::read_to_string(log(self.folder.path())).unwrap_or_default();
                return Err(format!("php-fpm does not listen:\n{}", said.trim_end()));
            }
            thread::sleep(POLL_TIME);
        }
        Ok(())
    }
}

fn settings(folder: &Path) -> String {
    // nginx has as many connections as there are requests, which the kernel has to hold.
    format!(
        "[global]\nerror_log = {log}\ndaemonize = no\n\
         [www]\nlisten = {socket}\nlisten.mode = 0666\nlisten.backlog = 4096\nuser = nobody\ngroup = nogroup\n\
         pm = static\npm.max_children = {CHILDREN}\ncatch_workers_output = yes\n",
        log = log(folder).display(),
        socket = socket(folder).display(),
    )
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("fpm.sock")
}

fn log(folder: &Path) -> PathBuf {
    folder.join("fpm.log")
}
