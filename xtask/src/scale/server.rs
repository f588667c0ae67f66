//! The servers: Rudy with a configuration of its own, and the Go program.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::bench::server::free_address;
use crate::process::Program;
use crate::{Outcome, command, workspace};

/// How long a server may take until it can be connected to.
const START_TIME: Duration = Duration::from_secs(20);

/// What Rudy serves: all that is measured here.
const SITE: &str = r#"
[limits]
connections = 12000

[[site]]

[[site.route]]
path = "/test/*"
stream = {}

[[site.route]]
path = "/topic/*"
broadcast = {}

[[site.route]]
path = "/delay"
delay = { time = "40ms" }
"#;

/// A running server.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    program: Program,
    _folder: TempDir,
}

impl Server {
    pub(super) fn rudy(engine: &str) -> Outcome<Self> {
        let folder = folder()?;
        let file = folder.path().join("rudy.toml");
        fs::write(&file, SITE).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        let address = free_address()?;
        let mut command = Command::new(workspace::target().join("release/rudy"));
        command.args(["serve", "--engine", engine, "--listen", &address.to_string(), "--config"]).arg(&file);
        Self::start(&mut command, address, folder)
    }

    /// The program that `labs/peers` has, built here.
    pub(super) fn go() -> Outcome<Self> {
        let folder = folder()?;
        let program = folder.path().join("goconntest");
        let source = workspace::root().join("labs/peers/goconntest");
        let go = command::find("go").ok_or("Go is not installed")?;
        let mut build = Command::new(go);
        command::run(build.current_dir(source).args(["build", "-o"]).arg(&program).arg("."))?;
        let address = free_address()?;
        let mut command = Command::new(program);
        command.args(["-listen", &address.to_string()]);
        Self::start(&mut command, address, folder)
    }

    pub(super) fn pid(&self) -> u32 {
        self.program.pid()
    }

    fn start(command: &mut Command, address: SocketAddr, folder: TempDir) -> Outcome<Self> {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut program = Program::start(quiet)?;
        let deadline = Instant::now() + START_TIME;
        while TcpStream::connect(address).is_err() {
            if let Some(status) = program.ended() {
                return Err(format!("`{}` ended ({status})", command::line(command)));
            }
            if Instant::now() > deadline {
                return Err(format!("`{}` does not listen", command::line(command)));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Self { address, program, _folder: folder })
    }
}

fn folder() -> Outcome<TempDir> {
    tempfile::tempdir().map_err(|error| format!("cannot make a temporary folder: {error}"))
}
