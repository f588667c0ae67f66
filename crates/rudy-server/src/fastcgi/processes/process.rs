//! One process of an app: its output, its end, and reaping.
//!
//! A pidfd reports the end, instead of `tokio::process`, which reaps at once. The id of a process group
//! cannot be reused until its leader is reaped. So the leader is reaped when no process of the group is left.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, Interest, ReadBuf};
use tokio::net::unix::pipe::Receiver;

use super::ProcessOptions;
use super::spawn::{explain, spawn};
use crate::fastcgi::output::AppOutput;
use crate::follow::Lines;
use crate::upstream::register;
use crate::user::User;

/// The number of bytes of output that are read at a time.
const READ_BYTES: usize = 16 * 1024;
/// The capacity of a pipe.
const PIPE_BYTES: usize = 64 * 1024;

/// A running process. Dropping this kills and reaps it with its group, and removes its socket.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    /// Readable when the process has ended; `None` once that was handled.
    exit: Option<AsyncFd<OwnedFd>>,
    /// The output; `None` once no process can write to it any more.
    pipe: Option<Receiver>,
    lines: Lines,
    output: Arc<AppOutput>,
    socket: PathBuf,
    is_reaped: bool,
}

impl Process {
    /// Starts a process whose descriptor 0 is a listener at `socket`. The error is a sentence for the log.
    pub(super) fn start(
        options: &ProcessOptions,
        user: Option<&User>,
        socket: PathBuf,
        output: Arc<AppOutput>,
    ) -> Result<Self, String> {
        let listener = UnixListener::bind(&socket)
            .map_err(|error| format!("cannot listen at {}: {error}", socket.display()))?;
        // If the socket cannot be removed, its folder is removed at the end.
        let started = spawn(options, user, listener).inspect_err(|_| drop(fs::remove_file(&socket)));
        let (child, pipe) = started.map_err(|error| explain(options, &error))?;
        let lines = Lines::default();
        let process = Self { child, exit: None, pipe: None, lines, output, socket, is_reaped: false };
        process.watch(pipe.into()).map_err(|error| format!("cannot watch the process: {error}"))
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether the process has ended. It is not reaped yet.
    pub(super) fn has_ended(&self) -> bool {
        self.exit.is_none()
    }

    /// Returns whether no process of its group can write output any more.
    pub(super) fn is_silent(&self) -> bool {
        self.pipe.is_none()
    }

    /// Logs output. Ready if there was output, there can be no more, or the process has ended.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // Output first: it must be logged before the end of the process.
        let output = self.poll_output(context);
        match &self.exit {
            Some(exit) if exit.poll_read_ready(context).is_ready() => self.exit = None,
            _ => return output,
        }
        Poll::Ready(())
    }

    /// Sends a signal to the process group.
    pub(super) fn signal(&self, signal: Signal) {
        // The group exists until the process is reaped. An error means that all its processes have ended, or
        // that Rudy may not signal them; neither can be handled.
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
    }

    /// Kills the rest of the group, and returns the exit status. If the process has not ended yet, this
    /// waits.
    pub(super) fn reap(&mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        self.is_reaped = true;
        let status = self.child.wait();
        self.read_last();
        status
    }

    fn watch(mut self, pipe: OwnedFd) -> io::Result<Self> {
        let exit = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty())?;
        self.exit = Some(register(exit, Interest::READABLE)?);
        self.pipe = Some(Receiver::from_owned_fd(pipe)?);
        Ok(self)
    }

    fn poll_output(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(pipe) = &mut self.pipe else { return Poll::Pending };
        let mut buffer = [MaybeUninit::uninit(); READ_BYTES];
        let mut buffer = ReadBuf::uninit(&mut buffer);
        match ready!(Pin::new(pipe).poll_read(context, &mut buffer)) {
            Ok(()) if !buffer.filled().is_empty() => self.log(buffer.filled()),
            // End of file. A pipe has no temporary errors.
            _ => self.close_output(),
        }
        Poll::Ready(())
    }

    /// Logs pending output. A process that has left the group may still hold the pipe and write: this must
    /// neither wait for it nor loop.
    fn read_last(&mut self) {
        let mut buffer = [0; READ_BYTES];
        for _ in 0..PIPE_BYTES / READ_BYTES {
            match self.pipe.as_ref().map(|pipe| rustix::io::read(pipe, &mut buffer)) {
                Some(Ok(bytes)) if bytes > 0 => self.log(&buffer[..bytes]),
                _ => break,
            }
        }
        self.close_output();
    }

    fn log(&mut self, bytes: &[u8]) {
        let (pid, now) = (self.child.id(), Instant::now());
        self.lines.push(bytes, &mut |line, _| self.output.process_line(pid, line, now));
    }

    fn close_output(&mut self) {
        let (pid, now) = (self.child.id(), Instant::now());
        self.pipe = None;
        self.lines.finish(&mut |line, _| self.output.process_line(pid, line, now));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.is_reaped {
            // The exit status is not needed.
            let _ = self.reap();
        }
        // If it cannot be removed, its folder is removed at the end.
        let _ = fs::remove_file(&self.socket);
    }
}
