//! The one way in which a connection ends, on the server's side and on the client's.
//!
//! Four steps: stop writing, read what still comes, stop reading, close. Each may fail, because the peer has gone or never
//! answers, and none keeps the next from being taken: what returns the descriptor is the drop of its owner, which no error
//! and no panic prevents. A program that skipped the last step where the third failed has run out of descriptors.
//!
//! A socket that is closed with unread bytes in it sends a reset, and the reset may overtake an answer that the peer has
//! not read yet. So after the last byte we stop writing, and read and throw away what still comes, until the peer closes
//! too or its time or bytes are used up (RFC 9112 §9.6). `SHUT_RD` comes after that: it does not empty the socket.

use std::io;
use std::os::fd::AsFd;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, Shutdown};
use tokio::io::ReadBuf;

use crate::Deadline;
use crate::scratch::Scratch;
use crate::transport::Stream;

/// What is read and thrown away at most where nobody can wait: a request, or what a socket holds of an upload.
const DRAIN_BYTES_MAX: usize = 64 * 1024;

/// How a connection came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseMode {
    /// We have said everything, and the peer may still be sending: it is waited for.
    Linger,
    /// Nothing is in progress: the close does not wait for the peer.
    NoLinger,
    /// The peer has closed its side, all that it sent is read, and nothing is in progress: the descriptor is closed, which takes
    /// one system call where the others take four.
    PeerClosed,
    /// What we sent stays incomplete, and the peer must not take it for a whole; or the connection is broken already. It is
    /// reset, which leaves nothing behind on either side.
    Reset,
}

/// For how much of what a peer still sends a close waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LingerLimits {
    /// How long, the first two steps taken together.
    pub time: Duration,
    /// How many bytes.
    pub bytes: u64,
}

/// Ends a connection: in order, or by a reset where it is [`CloseMode::Reset`]. What goes wrong concerns nobody any more, and is
/// not told.
///
/// The future must be polled on a tokio runtime with time; dropped before its end, polled or not, it takes the steps that are
/// left as [`close_at_once`] does.
pub fn close(io: impl Into<Stream>, mode: CloseMode, linger: LingerLimits) -> impl Future<Output = ()> {
    let mut closing = Closing::new(io.into(), mode, linger, Instant::now());
    let mut deadline = closing.deadline().map(Deadline::at);
    std::future::poll_fn(move |cx| {
        if closing.poll(cx, Instant::now()).is_ready() {
            return Poll::Ready(());
        }
        if let Some(deadline) = &mut deadline {
            ready!(deadline.poll_passed(cx));
        }
        closing.poll(cx, Instant::now())
    })
}

/// Ends a connection without waiting, where nothing can wait: no task, no time, no runtime. The same steps, but what the
/// peer sends from now on is answered by a reset.
pub fn close_at_once(io: impl AsFd, mode: CloseMode) {
    finish_close(&io, mode, false, false);
}

/// Ends a listening TCP socket: its port is free when this returns. What is in its queue is reset.
///
/// The shutdown is what frees the port. A close alone does not as long as somebody else has the socket too, if only for a
/// moment: who reads `/proc/PID/fd`, as `ss -p` and monitors do, or a child between its fork and its exec.
pub(crate) fn close_listener(listener: impl AsFd) {
    // It fails where the socket does not listen: then it keeps nobody from the port.
    let _ = rustix::net::shutdown(&listener, Shutdown::Both);
}

/// A connection that is being closed. Dropped before its end, it takes the steps that are left without waiting.
pub(crate) struct Closing {
    io: Stream,
    mode: CloseMode,
    /// Until when the peer is waited for; `None`: for ever.
    until: Option<Instant>,
    /// How many bytes are still read and thrown away.
    left_bytes: u64,
    /// The first step has been taken, well or not.
    is_draining: bool,
    has_stopped_writing: bool,
    has_drained: bool,
}

impl Closing {
    pub(crate) fn new(io: Stream, mode: CloseMode, linger: LingerLimits, now: Instant) -> Self {
        let until = if mode == CloseMode::Linger { now.checked_add(linger.time) } else { Some(now) };
        let (is_draining, has_stopped_writing, has_drained) = (false, false, false);
        Self { io, mode, until, left_bytes: linger.bytes, is_draining, has_stopped_writing, has_drained }
    }

    /// When it is over in any case.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.until
    }

    /// Takes the first two steps, as far as they have to wait; the others, and what is left of these, follow with the drop.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        // A session says goodbye to a peer that has closed, too: it may still receive, and take the end for a cut.
        let is_over = self.mode == CloseMode::PeerClosed && self.io.plain_socket().is_some();
        if is_over || self.mode == CloseMode::Reset {
            return Poll::Ready(());
        }
        let is_late = self.until.is_some_and(|until| until <= now);
        // 1. Stop writing. What lies over the socket says goodbye first; if it cannot, the socket ends without it.
        if !self.is_draining {
            match self.io.poll_shutdown(cx) {
                Poll::Pending if !is_late => return Poll::Pending,
                Poll::Ready(Ok(())) => self.has_stopped_writing = true,
                // Nor may the peer wait for the end of what we say while we wait for the end of what it says.
                Poll::Pending | Poll::Ready(Err(_)) => {
                    self.has_stopped_writing = stop_writing(&self.io).is_ok();
                }
            }
            self.is_draining = true;
        }
        if self.mode != CloseMode::Linger {
            return Poll::Ready(());
        }
        // 2. Read what still comes.
        let drained = self.poll_drain(cx);
        self.has_drained = drained.is_ready();
        if is_late { Poll::Ready(()) } else { drained }
    }

    /// Reads and throws away until the peer closes, or has sent as much as is waited for.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut scratch = Scratch::borrow();
        while self.left_bytes > 0 {
            let mut buffer = ReadBuf::new(&mut scratch.input);
            match ready!(self.io.poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {
                    self.left_bytes = self.left_bytes.saturating_sub(buffer.filled().len() as u64);
                }
                Ok(()) | Err(_) => break,
            }
        }
        Poll::Ready(())
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        finish_close(&self.io, self.mode, self.has_stopped_writing, self.has_drained);
    }
}

/// Takes the steps that are left, each whatever became of the one before. The last one is the drop of `io`.
fn finish_close(io: &impl AsFd, mode: CloseMode, has_stopped_writing: bool, has_drained: bool) {
    match mode {
        CloseMode::PeerClosed => return,
        CloseMode::Reset => {
            // If this fails the peer sees an orderly close, which a length or a missing last chunk still gives away.
            let _ = reset_on_close(io);
            return;
        }
        CloseMode::Linger | CloseMode::NoLinger => {}
    }
    // 1. Stop writing. It fails where the peer has gone.
    if !has_stopped_writing {
        let _ = stop_writing(io);
    }
    // 2. Read what still comes.
    if !has_drained {
        drain_without_waiting(io);
    }
    // 3. Stop reading.
    stop_reading(io);
}

/// Reads and throws away what the kernel has, up to [`DRAIN_BYTES_MAX`].
fn drain_without_waiting(socket: impl AsFd) {
    let mut buffer = [0; 4096];
    for _ in 0..DRAIN_BYTES_MAX / buffer.len() {
        match rustix::net::recv(&socket, &mut buffer, RecvFlags::DONTWAIT) {
            Ok((_, 1..)) => {}
            Ok((_, 0)) | Err(_) => return,
        }
    }
}

/// The first step by itself, for a socket that others hold too.
pub(crate) fn stop_writing(socket: impl AsFd) -> io::Result<()> {
    Ok(rustix::net::shutdown(socket, Shutdown::Write)?)
}

/// The third step.
fn stop_reading(socket: impl AsFd) {
    // It fails where the connection is broken: then nothing comes any more.
    let _ = rustix::net::shutdown(socket, Shutdown::Read);
}

/// Makes the coming close a reset: the only way to say "cut" where the end of the connection is the end of the body.
fn reset_on_close(socket: impl AsFd) -> io::Result<()> {
    socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{ErrorKind, Read, Write};
    use std::net::TcpListener;
    use std::os::fd::BorrowedFd;
    use std::os::unix::net::UnixStream;
    use std::pin::pin;
    use std::sync::{Arc, Mutex};
    use std::task::Waker;

    use super::*;
    use crate::transport::Transport;

    /// What a step comes to.
    #[derive(Debug, Clone, Copy)]
    enum StepResult {
        Done,
        Fails,
        Never,
        /// Of a read: there is always more.
        Endless,
    }

    /// What can go wrong, together.
    #[derive(Debug, Clone, Copy)]
    struct Faults {
        stop_writing: StepResult,
        read: StepResult,
        /// The descriptor refuses whatever is done to a socket.
        socket_fails: bool,
    }

    fn all_faults() -> impl Iterator<Item = Faults> {
        use StepResult::{Done, Endless, Fails, Never};
        let steps = [Done, Fails, Never].into_iter();
        let steps = steps.flat_map(|first| [Done, Fails, Never, Endless].map(|second| (first, second)));
        steps.flat_map(|(stop_writing, read)| {
            [false, true].map(|socket_fails| Faults { stop_writing, read, socket_fails })
        })
    }

    /// A connection with these faults, which notes what is done to it.
    struct Faulty {
        faults: Faults,
        socket: UnixStream,
        no_socket: File,
        log: Log,
    }

    type Log = Arc<Mutex<Vec<&'static str>>>;

    impl Faulty {
        fn log_step(&self, step: &'static str) {
            let mut log = self.log.lock().unwrap();
            if log.last() != Some(&step) {
                log.push(step);
            }
        }
    }

    impl Drop for Faulty {
        fn drop(&mut self) {
            self.log_step("dropped");
        }
    }

    impl AsFd for Faulty {
        fn as_fd(&self) -> BorrowedFd<'_> {
            if self.faults.socket_fails { self.no_socket.as_fd() } else { self.socket.as_fd() }
        }
    }

    fn fault<R>() -> Poll<io::Result<R>> {
        Poll::Ready(Err(io::Error::other("injected")))
    }

    impl Transport for Faulty {
        fn poll_read(&mut self, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            self.log_step("read");
            match self.faults.read {
                StepResult::Done => Poll::Ready(Ok(())),
                StepResult::Fails => fault(),
                StepResult::Never => Poll::Pending,
                StepResult::Endless => {
                    buffer.put_slice(&vec![b'x'; buffer.remaining()]);
                    Poll::Ready(Ok(()))
                }
            }
        }

        fn poll_write(
            &mut self,
            _: &mut Context<'_>,
            _: &[io::IoSlice<'_>],
            _: bool,
        ) -> Poll<io::Result<usize>> {
            unreachable!("a close writes nothing")
        }

        fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.log_step("shutdown");
            match self.faults.stop_writing {
                StepResult::Done => Poll::Ready(stop_writing(&self.socket)),
                StepResult::Fails => fault(),
                StepResult::Never | StepResult::Endless => Poll::Pending,
            }
        }

        fn unacknowledged(&self) -> io::Result<u64> {
            Ok(0)
        }

        fn has_unread(&self) -> bool {
            false
        }
    }

    /// A faulty connection, its peer, and the same socket once more: so that what was done to it can be seen after its
    /// close.
    fn faulty(faults: Faults) -> (Box<dyn Transport>, UnixStream, UnixStream, Log) {
        let (socket, peer) = UnixStream::pair().unwrap();
        let (again, log) = (socket.try_clone().unwrap(), Log::default());
        let no_socket = File::open("/dev/null").unwrap();
        (Box::new(Faulty { faults, socket, no_socket, log: log.clone() }), peer, again, log)
    }

    /// Both directions have ended, although the socket itself is still open.
    fn assert_stopped(peer: &mut UnixStream, faults: Faults) {
        assert_eq!(peer.read(&mut [0]).unwrap(), 0, "{faults:?}: still being written");
        assert_eq!(
            peer.write(b"x").unwrap_err().kind(),
            ErrorKind::BrokenPipe,
            "{faults:?}: still being read"
        );
    }

    const LINGER: LingerLimits = LingerLimits { time: Duration::from_millis(5), bytes: 1024 * 1024 };

    #[tokio::test]
    async fn no_failed_step_keeps_another_from_being_taken() {
        for faults in all_faults() {
            let (io, mut peer, _again, log) = faulty(faults);
            close(io, CloseMode::Linger, LINGER).await;
            assert_eq!(*log.lock().unwrap(), ["shutdown", "read", "dropped"], "{faults:?}");
            if !faults.socket_fails {
                assert_stopped(&mut peer, faults);
            }
        }
    }

    #[tokio::test]
    async fn a_quiet_end_waits_for_nobody() {
        for faults in all_faults() {
            let (io, mut peer, _again, log) = faulty(faults);
            close(io, CloseMode::NoLinger, LingerLimits { time: Duration::MAX, ..LINGER }).await;
            assert_eq!(*log.lock().unwrap(), ["shutdown", "dropped"], "{faults:?}");
            if !faults.socket_fails {
                assert_stopped(&mut peer, faults);
            }
        }
    }

    #[tokio::test]
    async fn a_cut_is_a_reset_and_nothing_before_it() {
        for faults in all_faults() {
            let (io, _peer, again, log) = faulty(faults);
            close(io, CloseMode::Reset, LINGER).await;
            assert_eq!(*log.lock().unwrap(), ["dropped"], "{faults:?}");
            let linger = socket2::SockRef::from(&again).linger().unwrap();
            assert_eq!(linger, (!faults.socket_fails).then_some(Duration::ZERO), "{faults:?}");
        }
    }

    /// A server that stops drops what is under way, at whatever step it is.
    #[tokio::test]
    async fn a_close_that_is_dropped_takes_the_steps_that_are_left() {
        for (faults, polled) in all_faults().flat_map(|faults| [(faults, false), (faults, true)]) {
            let (io, mut peer, _again, log) = faulty(faults);
            {
                let mut closing =
                    pin!(close(io, CloseMode::Linger, LingerLimits { time: Duration::MAX, ..LINGER }));
                if polled {
                    let _ = closing.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                }
            }
            assert_eq!(log.lock().unwrap().last(), Some(&"dropped"), "{faults:?}");
            if !faults.socket_fails {
                assert_stopped(&mut peer, faults);
            }
        }
    }

    #[test]
    fn at_once_what_has_come_is_read_up_to_its_limit() {
        for (sent, left) in [(0, 0), (1, 0), (DRAIN_BYTES_MAX, 0), (DRAIN_BYTES_MAX + 1, 1)] {
            let (socket, mut peer) = UnixStream::pair().unwrap();
            peer.write_all(&vec![b'x'; sent]).unwrap();
            let again = socket.try_clone().unwrap();
            close_at_once(socket, CloseMode::NoLinger);
            assert_eq!(rustix::io::ioctl_fionread(&again).unwrap(), left, "{sent}");
        }
    }

    #[test]
    fn the_port_of_a_closed_listener_is_free_even_while_somebody_holds_its_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let _held = listener.try_clone().unwrap();
        close_listener(listener);
        TcpListener::bind(address).unwrap();
    }
}
