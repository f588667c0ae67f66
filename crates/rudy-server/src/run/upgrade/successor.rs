//! The upgrade as seen by the old process: starts the new process, sends it the sockets, and monitors it.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{self, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use std::{env, io, process};

use rudy_net::QuicKeys;
use rudy_net::listen::{InheritedSockets, Listener};
use rudy_service::listen_address::Address;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::channel::{Channel, DESCRIPTORS_MAX};
use super::{
    BEGIN, DATAGRAMS, END, FAILED, LISTENER, PREDECESSOR_VARIABLE, QUIC_SECRET, READS, READY, RELAYS, RELOAD,
    REOPEN, SOCKET, STOP, STOPPING, TAKE_OWNERSHIP, UPGRADE,
};
use crate::run::quic_keys;
use crate::run::signals::{Action, Stop};

/// The time between SIGTERM and SIGKILL for a new process that is not ready.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// The command line of this process.
#[derive(Debug)]
pub(in crate::run) struct CommandLine {
    /// The path as given to exec, so that symbolic links are resolved again. (`/proc/self/exe` is the old file, which may have been
    /// replaced.)
    program: PathBuf,
    /// The arguments, including the program name.
    arguments: Vec<OsString>,
}

impl CommandLine {
    pub(in crate::run) fn current() -> io::Result<Self> {
        let program = PathBuf::from(std::ffi::OsStr::from_bytes(rustix::param::linux_execfn().to_bytes()));
        Ok(Self { program: path::absolute(program)?, arguments: env::args_os().collect() })
    }
}

/// The process that replaces this one.
pub(super) struct Successor {
    child: Child,
    channel: Channel,
    /// The id of the started process. Once the server is ready, the id that it reports: the started process may be a wrapper script.
    pid: u32,
}

/// An event in the life of the new process.
pub(super) enum Event {
    /// The process received a stop signal.
    Stopping,
    /// The process has ended; the text describes how.
    Ended(String),
}

impl Successor {
    /// Runs the command line. The error is a message for the log. Must be called on a tokio runtime.
    pub(super) fn start(line: &CommandLine) -> Result<Self, String> {
        let cannot = |error| format!("cannot start {}: {error}", line.program.display());
        let (channel, child_end) = Channel::pair().map_err(cannot)?;
        let mut command = Command::new(&line.program);
        if let Some((name, arguments)) = line.arguments.split_first() {
            command.arg0(name).args(arguments);
        }
        command.env(PREDECESSOR_VARIABLE, process::id().to_string()).stdin(Stdio::from(child_end));
        let child = command.spawn().map_err(cannot)?;
        let pid = child.id().unwrap_or_default();
        Ok(Self { child, channel, pid })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends the sockets and waits until the new process is ready. Returns the addresses whose datagrams it reads. The error is the reason
    /// why it failed.
    pub(super) async fn wait_until_ready(
        &mut self,
        listeners: &[Listener],
        inherited: &InheritedSockets,
        quic_keys: Option<&QuicKeys>,
    ) -> Result<Vec<Address>, String> {
        // Fails if the new process ends, which the loop below detects.
        let _ = self.send_sockets(listeners, inherited, quic_keys).await;
        let mut reads = Vec::new();
        loop {
            match self.channel.receive().await {
                Ok(Some(message)) => match message.text.split_once(' ') {
                    Some((READY, pid)) => {
                        self.pid = pid.parse().unwrap_or(self.pid);
                        return Ok(reads);
                    }
                    Some((READS, address)) => reads.extend(address.parse::<Address>()),
                    Some((FAILED, why)) => return Err(why.to_owned()),
                    _ => {}
                },
                Ok(None) | Err(_) => return Err(self.wait_for_exit().await),
            }
        }
    }

    async fn send_sockets(
        &self,
        listeners: &[Listener],
        inherited: &InheritedSockets,
        quic_keys: Option<&QuicKeys>,
    ) -> io::Result<()> {
        if let Some(keys) = quic_keys {
            self.channel.send(&format!("{QUIC_SECRET} {}", quic_keys::to_text(keys)), &[]).await?;
        }
        for (name, socket) in inherited.sockets() {
            self.channel.send(&format!("{SOCKET} {name}"), &[socket.as_fd()]).await?;
        }
        for listener in listeners {
            let address = listener.address();
            self.send_all(&format!("{LISTENER} {address}"), &listener.sockets().collect::<Vec<_>>()).await?;
            if let Some(datagrams) = listener.datagrams() {
                let text = format!("{DATAGRAMS} {} {address}", datagrams.generation);
                self.send_all(&text, &datagrams.sockets).await?;
                self.send_all(&format!("{RELAYS} {address}"), &datagrams.relays).await?;
            }
        }
        self.channel.send(BEGIN, &[]).await
    }

    /// Sends descriptors in as many messages as they need.
    async fn send_all(&self, text: &str, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        for descriptors in descriptors.chunks(DESCRIPTORS_MAX) {
            self.channel.send(text, descriptors).await?;
        }
        Ok(())
    }

    /// Forwards an action to the new process.
    pub(super) fn forward(&self, action: Action) {
        match action {
            Action::Reload => self.channel.send_now(RELOAD),
            Action::ReopenLog => self.channel.send_now(REOPEN),
            Action::Upgrade => self.channel.send_now(UPGRADE),
            // Does not occur: this process no longer has a predecessor.
            Action::TakeOwnership => {}
            Action::Stop(Stop { name, .. }) => self.channel.send_now(&format!("{STOP} {name}")),
        }
    }

    /// Makes the new process the owner of the sockets. Only the owner shuts them down when it ends.
    pub(super) fn transfer_ownership(&self) {
        self.channel.send_now(TAKE_OWNERSHIP);
    }

    /// Requests that the new process exit immediately.
    pub(super) fn request_exit(&self) {
        self.channel.send_now(END);
    }

    /// Waits for the next event. Cancel-safe.
    pub(super) async fn next(&mut self) -> Event {
        loop {
            match self.channel.receive().await {
                Ok(Some(message)) if message.text == STOPPING => return Event::Stopping,
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return Event::Ended(self.wait_for_exit().await),
            }
        }
    }

    /// Returns whether the new process has ended, without waiting.
    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until the new process has ended.
    pub(super) async fn wait(&mut self) {
        // Fails only if the process was already reaped.
        let _ = self.child.wait().await;
    }

    /// Terminates the new process if it does not become ready.
    pub(super) async fn kill(&mut self) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // The process is not reaped, so the id is still valid.
            let _ = kill_process(pid, Signal::TERM);
        }
        if timeout(KILL_TIMEOUT, self.child.wait()).await.is_err() {
            // Fails only if the process has ended.
            let _ = self.child.kill().await;
        }
    }

    /// Waits for the exit after the channel was closed, and describes it. Terminates a process that only closed its standard input.
    async fn wait_for_exit(&mut self) -> String {
        match timeout(KILL_TIMEOUT, self.child.wait()).await {
            Ok(Ok(status)) => describe(status),
            Ok(Err(error)) => format!("its exit status is unavailable: {error}"),
            Err(_) => {
                self.kill().await;
                "it closed its standard input".to_owned()
            }
        }
    }
}

fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;

    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it exited with code {code}; see its output above"),
        (None, Some(signal)) => format!("it was killed by signal {signal}"),
        (None, None) => format!("it ended: {status}"),
    }
}
