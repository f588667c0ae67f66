//! One process of an app: it writes, is told to end, and is reaped.

use std::fs;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};

use rustix::io::ioctl_fionread;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::ProcessOptions;
use super::spawn::{explain, spawn};
use super::user::User;
use crate::follow::Lines;

/// How much output is read at a time.
const READ_BYTES: usize = 16 * 1024;
/// How much output a pipe holds.
const PIPE_BYTES: usize = 64 * 1024;

/// A process that was started. When this is dropped it is killed with its group and reaped, and its socket is removed.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    group: Pid,
    /// Readable when it has ended; `None` when that was seen.
    end: Option<OwnedFd>,
    /// What it writes. `None` when nobody can write any more.
    output: Option<PipeReader>,
    lines: Lines,
    socket: PathBuf,
    is_reaped: bool,
}

impl Process {
    /// Starts a process whose descriptor 0 listens at `socket`. Says in words why it could not.
    pub(super) fn start(
        options: &ProcessOptions,
        user: Option<&User>,
        socket: PathBuf,
    ) -> Result<Self, String> {
        let listener = UnixListener::bind(&socket)
            .map_err(|error| format!("cannot listen at {}: {error}", socket.display()))?;
        let started = spawn(options, user, listener);
        if started.is_err() {
            // It is in a folder that goes as a whole.
            let _ = fs::remove_file(&socket);
        }
        let (child, output) = started.map_err(|error| explain(options, &error))?;
        Self::watch(child, output, socket).map_err(|error| format!("cannot watch what was started: {error}"))
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// What is readable when it has ended; nothing when that was noted.
    pub(super) fn end(&self) -> Option<BorrowedFd<'_>> {
        self.end.as_ref().map(AsFd::as_fd)
    }

    /// It was seen that it has ended. It is not reaped yet.
    pub(super) fn note_end(&mut self) {
        self.end = None;
    }

    pub(super) fn has_ended(&self) -> bool {
        self.end.is_none()
    }

    /// What it writes; nothing when nobody of its group can write any more.
    pub(super) fn output(&self) -> Option<BorrowedFd<'_>> {
        self.output.as_ref().map(AsFd::as_fd)
    }

    /// Reads once from the output, which must be readable, and hands out its lines.
    pub(super) fn read(&mut self, on_line: &mut dyn FnMut(&[u8])) {
        let Some(output) = &mut self.output else { return };
        let mut buffer = [0; READ_BYTES];
        match output.read(&mut buffer) {
            Ok(0) => self.close_output(on_line),
            Ok(bytes) => self.lines.push(&buffer[..bytes], &mut |line, _| on_line(line)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // A pipe has no other errors; should there be one, it would be there for ever.
            Err(_) => self.close_output(on_line),
        }
    }

    /// Reads what is there, when nobody of its group writes any more.
    pub(super) fn read_last(&mut self, on_line: &mut dyn FnMut(&[u8])) {
        // Somebody who has left the group may hold the pipe, and write: reading must not wait for them, and must end.
        for _ in 0..PIPE_BYTES / READ_BYTES {
            let unread = self.output.as_ref().and_then(|output| ioctl_fionread(output).ok());
            if unread.is_none_or(|bytes| bytes == 0) {
                break;
            }
            self.read(on_line);
        }
        self.close_output(on_line);
    }

    fn close_output(&mut self, on_line: &mut dyn FnMut(&[u8])) {
        self.output = None;
        self.lines.finish(&mut |line, _| on_line(line));
    }

    /// Sends a signal to the process and those that it has started.
    pub(super) fn signal(&self, signal: Signal) {
        // The group is there as long as the process is not reaped, which only `reap` does. Nobody is left in it who could
        // be signalled, or we may not: then there is nothing to be done.
        let _ = kill_process_group(self.group, signal);
    }

    /// Ends what is left of its group, and takes its status. It should have ended: if not, this waits for it.
    pub(super) fn reap(&mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        self.is_reaped = true;
        self.child.wait()
    }

    fn watch(mut child: Child, output: PipeReader, socket: PathBuf) -> io::Result<Self> {
        // A process id is a positive number of 31 bits.
        let group =
            i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
        match pidfd_open(group, PidfdFlags::empty()) {
            Ok(end) => Ok(Self {
                child,
                group,
                end: Some(end),
                output: Some(output),
                lines: Lines::default(),
                socket,
                is_reaped: false,
            }),
            Err(error) => {
                // Whether it can be killed or not, there is another error to tell.
                let _ = child.kill().and_then(|()| child.wait());
                Err(error.into())
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.is_reaped {
            // Nobody asks for its status any more.
            let _ = self.reap();
        }
        // It is in a folder that goes as a whole.
        let _ = fs::remove_file(&self.socket);
    }
}
