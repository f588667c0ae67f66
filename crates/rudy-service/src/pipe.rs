//! Pipes of the kernel, through which bytes move from one socket to another without being copied (splice(2)).

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

/// Size of a pipe: what a connection sends in one poll. Where the system refuses it, a pipe keeps its size of 64 KiB.
const PIPE_BYTES: usize = 512 * 1024;

/// Maximum number of pipes of the process with bytes for clients that do not read: 32 MiB of kernel memory.
const USED_MAX: usize = 64;

/// Maximum number of unused pipes of a thread. Each poll uses one.
const FREE_MAX: usize = 2;

/// The number of pipes in use.
static USED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Empty pipes.
    static FREE: RefCell<Vec<Pipe>> = const { RefCell::new(Vec::new()) };
}

#[derive(Debug)]
struct Pipe {
    output: OwnedFd,
    input: OwnedFd,
}

impl Pipe {
    fn new() -> rustix::io::Result<Self> {
        let (output, input) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let _ = fcntl_setpipe_size(&input, PIPE_BYTES);
        Ok(Self { output, input })
    }
}

/// Bytes in a pipe, which is borrowed until they are sent.
#[derive(Debug)]
pub struct Piped {
    /// `None` only while this is dropped.
    pipe: Option<Pipe>,
    length: u64,
}

impl Piped {
    /// Moves up to `max` bytes that a socket has received into a pipe. Nothing at the end of the input.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::WouldBlock`] if the socket has received nothing; [`io::ErrorKind::QuotaExceeded`] if too many pipes are in use,
    /// or the process has no descriptor for one; others if the socket is broken.
    pub fn receive(socket: impl AsFd, max: u64) -> io::Result<Self> {
        let mut piped = Self { pipe: None, length: 0 };
        if USED.fetch_add(1, Ordering::Relaxed) >= USED_MAX {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let free = FREE.with_borrow_mut(Vec::pop);
        let new = || Pipe::new().map_err(|_| io::ErrorKind::QuotaExceeded);
        let pipe = piped.pipe.insert(free.map_or_else(new, Ok)?);
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        piped.length = splice(socket, None, &pipe.input, None, max, SpliceFlags::NONBLOCK)? as u64;
        Ok(piped)
    }

    /// Returns the result of [`Self::receive`] for a caller that can also read: `None` if there is nothing to send, or no pipe.
    ///
    /// # Errors
    ///
    /// The socket is broken. The kernel reports that once: a read would return the end of the input.
    pub fn received(result: io::Result<Self>) -> io::Result<Option<Self>> {
        use io::ErrorKind::{Interrupted, QuotaExceeded, WouldBlock};
        match result {
            Ok(piped) => Ok(Some(piped).filter(|piped| piped.length > 0)),
            Err(error) if matches!(error.kind(), Interrupted | QuotaExceeded | WouldBlock) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Moves bytes into a socket, and returns their number.
    ///
    /// # Errors
    ///
    /// The socket accepts nothing now, or is broken.
    pub fn send(&mut self, socket: impl AsFd) -> rustix::io::Result<usize> {
        let pipe = self.pipe.as_ref().ok_or(Errno::PIPE)?;
        let length = usize::try_from(self.length).unwrap_or(usize::MAX);
        let sent = splice(&pipe.output, None, socket, None, length, SpliceFlags::NONBLOCK)?;
        self.length -= sent as u64;
        Ok(sent)
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        USED.fetch_sub(1, Ordering::Relaxed);
        let Some(pipe) = self.pipe.take().filter(|_| self.length == 0) else { return };
        // Not during the end of a thread, when the pipes are gone.
        let _ = FREE.try_with(|free| {
            let mut free = free.borrow_mut();
            if free.len() < FREE_MAX {
                free.push(pipe);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn bytes_move_between_sockets_in_parts_and_the_pipe_is_used_again() {
        let [(mut from, receiver), (sender, mut to)] = [(); 2].map(|()| UnixStream::pair().unwrap());
        receiver.set_nonblocking(true).unwrap();
        for (text, max, expected) in [("hello", 3, "hel"), ("", 9, "lo"), ("again", 9, "again")] {
            from.write_all(text.as_bytes()).unwrap();
            let mut piped = Piped::receive(&receiver, max).unwrap();
            assert_eq!(piped.length(), expected.len() as u64);
            assert_eq!(piped.send(&sender), Ok(expected.len()));
            assert_eq!(piped.length(), 0);
            let mut received = vec![0; expected.len()];
            to.read_exact(&mut received).unwrap();
            assert_eq!(received, expected.as_bytes());
        }
        assert_eq!(Piped::receive(&receiver, 9).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(from);
        assert_eq!(Piped::receive(&receiver, 9).unwrap().length(), 0);
        assert_eq!(FREE.with_borrow(Vec::len), 1);
    }

    #[test]
    fn a_pipe_with_unsent_bytes_is_closed() {
        let (mut from, receiver) = UnixStream::pair().unwrap();
        from.write_all(b"secret").unwrap();
        drop(Piped::receive(&receiver, 9).unwrap());
        assert_eq!(FREE.with_borrow(Vec::len), 0);
    }
}
