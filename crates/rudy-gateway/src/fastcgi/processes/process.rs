//! One process of an app: its output, its end, and reaping.
//!
//! A pidfd reports the end, instead of `tokio::process`, which reaps at once. The id of a process group
//! cannot be reused until its leader is reaped. So the leader is reaped when no process of the group is left.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rudy_client::register;
use rudy_log::Lines;
use rudy_runtime::clock;
use rudy_system::user::User;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, Interest, ReadBuf};
use tokio::net::unix::pipe::Receiver;

use super::ProcessOptions;
use super::spawn::{explain, spawn};
use crate::fastcgi::output::AppOutput;

/// The number of bytes of output that are read at a time.
const READ_BYTES: usize = 16 * 1024;
/// The capacity of a pipe.
const PIPE_BYTES: usize = 64 * 1024;

/// A listening socket at a path. It outlives its process, because the kernel has accepted connections for the process that it has not
/// accepted itself. Dropping this closes the socket and removes its file.
#[derive(Debug)]
pub(super) struct Socket {
    path: PathBuf,
    listener: UnixListener,
}

/// A socket without a process.
#[derive(Debug)]
pub(super) struct VacantSocket {
    socket: Socket,
    /// Readable when a connection waits; `None` once that is known.
    connection: Option<AsyncFd<OwnedFd>>,
}

/// A running process. Dropping this kills and reaps it with its group, and closes its socket.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    /// Readable when the process has ended; `None` once that was handled.
    exit: Option<AsyncFd<OwnedFd>>,
    /// The output; `None` once no process can write to it any more.
    pipe: Option<Receiver>,
    lines: Lines,
    output: Arc<AppOutput>,
    /// `None` after it was taken.
    socket: Option<Socket>,
    /// Whether a connection waited in the backlog of its socket when it was started.
    had_backlog: bool,
    is_reaped: bool,
}

impl Socket {
    /// Begins to listen at a path. The error is a sentence for the log.
    pub(super) fn bind(path: PathBuf) -> Result<Self, String> {
        match UnixListener::bind(&path) {
            Ok(listener) => Ok(Self { path, listener }),
            Err(error) => Err(format!("cannot listen at {}: {error}", path.display())),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether a connection waits for a process.
    fn has_connection(&self) -> bool {
        let mut listener = [PollFd::new(&self.listener, PollFlags::IN)];
        // On an error, none is known.
        poll(&mut listener, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // If it cannot be removed, its folder is removed at the end.
        let _ = fs::remove_file(&self.path);
    }
}

impl VacantSocket {
    /// Watches a socket for connections. If that is impossible, one may wait.
    pub(super) fn new(socket: Socket) -> Self {
        let listener = socket.listener.try_clone().map(OwnedFd::from);
        let watched = listener.and_then(|listener| register(listener, Interest::READABLE));
        Self { socket, connection: watched.ok() }
    }

    /// Returns whether [`Self::poll`] has found that a connection waits for a process.
    pub(super) fn has_connection(&self) -> bool {
        self.connection.is_none()
    }

    /// Ready once when a connection waits.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &self.connection {
            Some(connection) if connection.poll_read_ready(context).is_ready() => {
                self.connection = None;
                Poll::Ready(())
            }
            _ => Poll::Pending,
        }
    }

    /// Returns the socket for the next process.
    pub(super) fn into_socket(self) -> Socket {
        self.socket
    }
}

impl Process {
    /// Starts a process whose descriptor 0 is the listening socket. The error is a sentence for the log, and the socket.
    pub(super) fn start(
        options: &ProcessOptions,
        user: Option<&User>,
        socket: Socket,
        output: Arc<AppOutput>,
    ) -> Result<Self, (String, Option<Socket>)> {
        let had_backlog = socket.has_connection();
        let started = socket.listener.try_clone().and_then(|listener| spawn(options, user, listener));
        let (child, pipe) = match started {
            Ok(started) => started,
            Err(error) => return Err((explain(options, &error), Some(socket))),
        };
        let mut process = Self {
            child,
            exit: None,
            pipe: None,
            lines: Lines::default(),
            output,
            socket: Some(socket),
            had_backlog,
            is_reaped: false,
        };
        match process.watch(pipe.into()) {
            Ok(()) => Ok(process),
            Err(error) => Err((format!("cannot watch the process: {error}"), process.take_socket())),
        }
    }

    /// Returns whether it has accepted what waited when it was started. Its pool has counted that for the process before.
    pub(super) fn has_emptied_backlog(&self) -> bool {
        self.had_backlog && self.socket.as_ref().is_some_and(|socket| !socket.has_connection())
    }

    /// Takes the socket for the next process.
    pub(super) fn take_socket(&mut self) -> Option<Socket> {
        self.socket.take()
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

    fn watch(&mut self, pipe: OwnedFd) -> io::Result<()> {
        let exit = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty())?;
        self.exit = Some(register(exit, Interest::READABLE)?);
        self.pipe = Some(Receiver::from_owned_fd(pipe)?);
        Ok(())
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
        let (pid, now) = (self.child.id(), clock::now());
        self.lines.push(bytes, &mut |line, _| self.output.process_line(pid, line, now));
    }

    fn close_output(&mut self) {
        let (pid, now) = (self.child.id(), clock::now());
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
    }
}
