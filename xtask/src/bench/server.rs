//! A server under measurement: started, awaited, asked, ended with everything it started.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::site::{self, Site};
use crate::process::Program;
use crate::{Outcome, command, workspace};

/// The peer's configuration, which `Server::nginx` adapts to the machine.
const NGINX_CONFIGURATION: &str = "labs/peers/nginx-static.conf";

/// How long a server may take to answer for the first time.
const START_TIME: Duration = Duration::from_secs(20);

/// How often we look whether it has.
const POLL_TIME: Duration = Duration::from_millis(50);

/// Which server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Rudy,
    Nginx,
    Floor,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rudy => "rudy",
            Self::Nginx => "nginx",
            Self::Floor => "floor",
        }
    }

    /// How it is started, for whoever wants to do the same by hand.
    pub(crate) fn started_as(self) -> String {
        match self {
            Self::Rudy => "rudy serve DIR/www --listen 127.0.0.1:PORT".into(),
            Self::Nginx => format!("nginx -c {NGINX_CONFIGURATION} -p DIR/"),
            Self::Floor => "cargo xtask floor 127.0.0.1:PORT".into(),
        }
    }

    /// The program that is started.
    pub(crate) fn program(self) -> PathBuf {
        match self {
            Self::Rudy => workspace::target().join("release/rudy"),
            Self::Nginx => command::find("nginx").unwrap_or_else(|| "nginx".into()),
            Self::Floor => std::env::current_exe().unwrap_or_else(|_| "xtask".into()),
        }
    }
}

/// A running server.
pub(crate) struct Server {
    pub(crate) kind: Kind,
    pub(crate) address: SocketAddr,
    process: Program,
}

/// What a server says to a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_length: Option<u64>,
}

impl Server {
    /// Starts it on a free port, Rudy with this engine, and waits until it serves the first file.
    pub(crate) fn start(kind: Kind, site: &Site, engine: &str) -> Outcome<Self> {
        let address = free_address()?;
        let mut command = Command::new(kind.program());
        match kind {
            Kind::Rudy => {
                command.arg("serve").arg(site.files()).args(["--engine", engine]);
                command.arg("--listen").arg(address.to_string());
            }
            Kind::Floor => {
                command.arg("floor").arg(address.to_string());
            }
            Kind::Nginx => {
                let text = nginx_configuration(NGINX_CONFIGURATION, address, &[])?;
                let configuration = site.folder().join(format!("nginx-{}.conf", address.port()));
                write(&configuration, &text)?;
                command.arg("-c").arg(configuration).arg("-p").arg(site.folder());
            }
        }
        Self::run(kind, address, &mut command, site.folder(), site::KIB_1)
    }

    /// Starts it as `command`, which is to listen at `address`, and waits until it answers 200 to `file`. What it says is kept in
    /// `folder`.
    pub(crate) fn run(
        kind: Kind,
        address: SocketAddr,
        command: &mut Command,
        folder: &Path,
        file: &str,
    ) -> Outcome<Self> {
        let said = folder.join(format!("{}-{}.stderr", kind.name(), address.port()));
        let stderr =
            File::create(&said).map_err(|error| format!("cannot write {}: {error}", said.display()))?;
        let process = Program::start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr))?;
        let mut server = Self { kind, address, process };
        server.wait_until_it_answers(&command::line(command), file).map_err(|failure| {
            let said = fs::read_to_string(&said).unwrap_or_default();
            format!("{failure}\n{}", said.trim_end())
        })?;
        Ok(server)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(crate) fn url(&self, file: &str) -> String {
        format!("http://{}/{file}", self.address)
    }

    /// Asks once for `file`, with a field if one is given.
    pub(crate) fn ask(&self, file: &str, header: Option<&str>) -> std::io::Result<Answer> {
        let mut stream = TcpStream::connect_timeout(&self.address, START_TIME)?;
        stream.set_read_timeout(Some(START_TIME))?;
        let header = header.map(|header| format!("{header}\r\n")).unwrap_or_default();
        let request =
            format!("HEAD /{file} HTTP/1.1\r\nHost: localhost\r\n{header}Connection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut head = String::new();
        stream.read_to_string(&mut head)?;
        parse_head(&head).ok_or_else(|| std::io::Error::other("the answer is not HTTP/1.1"))
    }

    fn wait_until_it_answers(&mut self, command: &str, file: &str) -> Outcome {
        let deadline = Instant::now() + START_TIME;
        loop {
            match self.ask(file, None) {
                Ok(Answer { status: 200, .. }) => return Ok(()),
                Ok(answer) => return Err(format!("`{command}` answers {}, not 200", answer.status)),
                Err(error) if Instant::now() > deadline => {
                    return Err(format!("`{command}` does not answer: {error}"));
                }
                Err(_) => {}
            }
            if let Some(status) = self.process.ended() {
                return Err(format!("`{command}` ended ({status}) before it answered"));
            }
            thread::sleep(POLL_TIME);
        }
    }
}

/// A peer's configuration with as many workers as Rudy has, this address, and what else is given, in place of its lines that
/// end in such a mark.
pub(crate) fn nginx_configuration(
    file: &str,
    address: SocketAddr,
    more: &[(&str, String)],
) -> Outcome<String> {
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let both = [
        ("# cores", format!("worker_processes {cores};")),
        ("# port", format!("    listen {address} reuseport backlog=4096;")),
    ];
    let mut adapted = workspace::read(file)?;
    for (mark, line) in both.iter().chain(more) {
        let old = adapted.lines().find(|old| old.ends_with(mark)).map(str::to_owned);
        let old = old.ok_or_else(|| format!("{file} has no line that ends in `{mark}`"))?;
        adapted = adapted.replace(&old, line);
    }
    Ok(adapted)
}

pub(crate) fn write(path: &Path, text: &str) -> Outcome {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn parse_head(head: &str) -> Option<Answer> {
    let mut lines = head.lines();
    let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let content_length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse().ok());
    Some(Answer { status, content_length })
}

pub(crate) fn free_address() -> Outcome<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    listener
        .and_then(|l| l.local_addr())
        .map_err(|error| format!("cannot find a free port on 127.0.0.1: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peers_configuration_gets_the_address_and_only_there() {
        let address = SocketAddr::from(([127, 0, 0, 1], 4321));
        let adapted = nginx_configuration(NGINX_CONFIGURATION, address, &[]).expect("both lines are marked");
        assert!(adapted.contains("listen 127.0.0.1:4321 reuseport"));
        let text = workspace::read(NGINX_CONFIGURATION).expect("it stands in the repository");
        assert_eq!(adapted.lines().count(), text.lines().count());
    }

    #[test]
    fn a_configuration_without_a_marked_line_is_refused() {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let more = [("# no such mark", String::new())];
        assert!(nginx_configuration(NGINX_CONFIGURATION, address, &more).is_err());
    }

    #[test]
    fn an_answers_status_and_length_are_read() {
        let head = "HTTP/1.1 200 OK\r\nServer: x\r\ncontent-LENGTH:  1024\r\n\r\n";
        assert_eq!(parse_head(head), Some(Answer { status: 200, content_length: Some(1024) }));
        assert_eq!(parse_head("HTTP/1.1 304 Not Modified\r\n\r\n").map(|a| a.status), Some(304));
        assert_eq!(parse_head("SSH-2.0"), None);
    }
}
