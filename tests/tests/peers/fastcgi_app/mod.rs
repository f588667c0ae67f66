//! Apps written with `rudy-fastcgi-app`, behind common web servers.

mod alone;
mod authorizer;
mod behind;
mod own_app;
pub(crate) mod web_server;

use std::process::ChildStderr;

use rudy_tests::prelude::*;

/// An app on a free port of 127.0.0.1: `fastcgi-info`, or another one that prints its address first.
pub(crate) struct Info {
    child: Running,
    /// Held, so that a write to stderr does not end the process.
    _stderr: BufReader<ChildStderr>,
    /// `127.0.0.1:PORT`.
    address: String,
}

impl Info {
    fn start(concurrency: &[&str]) -> Self {
        Self::start_for(concurrency, None)
    }

    /// Starts it; only these peers may connect, if any are given.
    fn start_for(concurrency: &[&str], peers: Option<&str>) -> Self {
        let mut command = Command::new(fastcgi_info());
        command.env_remove("FCGI_WEB_SERVER_ADDRS").envs(peers.map(|peers| ("FCGI_WEB_SERVER_ADDRS", peers)));
        command.args(concurrency);
        Self::start_command(&mut command)
    }

    /// Starts another app.
    pub(crate) fn start_command(command: &mut Command) -> Self {
        command.args(["--listen", "127.0.0.1:0"]).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = Running::start(command);
        let mut stderr = BufReader::new(child.stderr.take().expect("the stream is piped"));
        let mut line = String::new();
        stderr.read_line(&mut line).expect("the app prints its address");
        let address = line.trim().rsplit(' ').next().unwrap_or_default().to_owned();
        assert!(address.starts_with("127.0.0.1:"), "{line}");
        Self { child, _stderr: stderr, address }
    }

    /// Returns the address.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}
