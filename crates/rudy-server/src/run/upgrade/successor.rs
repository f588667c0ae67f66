//! The side of the old process: starts the new process, sends it the sockets, and observes its state.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{self, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use std::{env, io, process};

use rudy_net::listen::{InheritedSockets, Listener};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::channel::{Channel, DESCRIPTORS_MAX};
use super::{
    BEGIN, END, FAILED, LISTENER, READY, RELOAD, REOPEN, SOCKET, STOP, STOPPING, UPGRADE, VARIABLE, YOURS,
};
use crate::run::signals::{Action, Stop};

/// The time between SIGTERM and SIGKILL for a new process that is not ready.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// The command line that this process was started with.
#[derive(Debug)]
pub(in crate::run) struct CommandLine {
    /// The path as given to exec, so that symbolic links are resolved again. (`/proc/self/exe` is the old file, which may have been
    /// replaced.)
    program: PathBuf,
    /// The arguments, including the program name.
    arguments: Vec<OsString>,
}

impl CommandLine {
    pub(in crate::run) fn own() -> io::Result<Self> {
        let program = PathBuf::from(std::ffi::OsStr::from_bytes(rustix::param::linux_execfn().to_bytes()));
        Ok(Self { program: path::absolute(program)?, arguments: env::args_os().collect() })
    }
}

/// The process that replaces this one.
pub(super) struct Successor {
    child: Child,
    channel: Channel,
    /// The id of the started process, then the id that the server reports, which a wrapper script may have started.
    pid: u32,
}

/// An event of the new process.
pub(super) enum Event {
    /// It received a signal to stop.
    Stopping,
    /// It has ended, with a description.
    Ended(String),
}

impl Successor {
    /// Starts the command line. The error is a sentence. Must be called on a tokio runtime.
    pub(super) fn start(line: &CommandLine) -> Result<Self, String> {
        let cannot = |error| format!("cannot start {}: {error}", line.program.display());
        let (channel, theirs) = Channel::pair().map_err(cannot)?;
        let mut command = Command::new(&line.program);
        if let Some((name, arguments)) = line.arguments.split_first() {
            command.arg0(name).args(arguments);
        }
        command.env(VARIABLE, process::id().to_string()).stdin(Stdio::from(theirs));
        let child = command.spawn().map_err(cannot)?;
        let pid = child.id().unwrap_or_default();
        Ok(Self { child, channel, pid })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends the sockets and waits until the new process serves. The error is the reason why it does not.
    pub(super) async fn until_ready(
        &mut self,
        listeners: &[Listener],
        inherited: &InheritedSockets,
    ) -> Result<(), String> {
        // This fails if the new process ends, which is handled below.
        let _ = self.hand_over(listeners, inherited).await;
        loop {
            match self.channel.receive().await {
                Ok(Some(message)) => match message.text.split_once(' ') {
                    Some((READY, pid)) => {
                        self.pid = pid.parse().unwrap_or(self.pid);
                        return Ok(());
                    }
                    Some((FAILED, why)) => return Err(why.to_owned()),
                    _ => {}
                },
                Ok(None) | Err(_) => return Err(self.ended().await),
            }
        }
    }

    async fn hand_over(&self, listeners: &[Listener], inherited: &InheritedSockets) -> io::Result<()> {
        for (name, socket) in inherited.sockets() {
            self.channel.send(&format!("{SOCKET} {name}"), &[socket.as_fd()]).await?;
        }
        for listener in listeners {
            let sockets: Vec<BorrowedFd<'_>> = listener.sockets().collect();
            for sockets in sockets.chunks(DESCRIPTORS_MAX) {
                self.channel.send(&format!("{LISTENER} {}", listener.address()), sockets).await?;
            }
        }
        self.channel.send(BEGIN, &[]).await
    }

    /// Forwards an action to the new process.
    pub(super) fn pass_on(&self, action: Action) {
        match action {
            Action::Reload => self.channel.send_now(RELOAD),
            Action::ReopenLog => self.channel.send_now(REOPEN),
            Action::Upgrade => self.channel.send_now(UPGRADE),
            // This process has no predecessor any more.
            Action::OwnSockets => {}
            Action::Stop(Stop { name, .. }) => self.channel.send_now(&format!("{STOP} {name}")),
        }
    }

    /// Makes the new process the owner of the sockets. Without this message it does not shut them down when it ends.
    pub(super) fn owns_sockets(&self) {
        self.channel.send_now(YOURS);
    }

    /// Tells the new process to end at once.
    pub(super) fn end_at_once(&self) {
        self.channel.send_now(END);
    }

    /// Waits for the next event. Cancel-safe.
    pub(super) async fn next(&mut self) -> Event {
        loop {
            match self.channel.receive().await {
                Ok(Some(message)) if message.text == STOPPING => return Event::Stopping,
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return Event::Ended(self.ended().await),
            }
        }
    }

    /// Whether it has ended, without waiting.
    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until it has ended.
    pub(super) async fn wait(&mut self) {
        // This fails only if it was already reaped.
        let _ = self.child.wait().await;
    }

    /// Terminates a process that is not ready.
    pub(super) async fn kill(&mut self) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // The process is not reaped, so the id is still valid.
            let _ = kill_process(pid, Signal::TERM);
        }
        if timeout(END_TIMEOUT, self.child.wait()).await.is_err() {
            // This fails only if it has ended.
            let _ = self.child.kill().await;
        }
    }

    /// Describes how the process ended, after the channel was closed. A process that only closed its standard input is terminated.
    async fn ended(&mut self) -> String {
        match timeout(END_TIMEOUT, self.child.wait()).await {
            Ok(Ok(status)) => describe(status),
            Ok(Err(error)) => format!("it cannot be waited for: {error}"),
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
