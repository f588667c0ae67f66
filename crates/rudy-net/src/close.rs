//! Closes connections: the only way in which one ends, in the server and in the client.
//!
//! There are four steps: stop writing, drain the input, stop reading, close. Each may fail, because the peer
//! is gone or does not respond, and a failure never prevents the next step. Dropping the owner closes the
//! descriptor, in spite of errors and panics. (A program that skipped the last step when the third failed ran
//! out of descriptors.)
//!
//! Closing a socket with unread input sends a reset, which may destroy a response that the peer has not read
//! yet. So after the last byte we stop writing, and discard the input until the peer closes or reaches a
//! limit of time or bytes (RFC 9112 §9.6). The time begins when the peer has acknowledged the last byte.
//! `SHUT_RD` comes last: it does not empty the socket.

mod peer_wait;

use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use rudy_runtime::clock;
use rudy_service::{Deadline, Limits};
pub use rudy_socket::close::{CloseMode, close_at_once, finish, stop_writing};

use self::peer_wait::PeerWait;
use crate::transport::Stream;
use crate::wire::Wire as _;

/// Limits for the first two steps of a close that lingers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LingerLimits {
    /// Maximum time after the peer has acknowledged everything.
    pub time: Duration,
    /// Maximum number of bytes to drain.
    pub bytes: u64,
    /// Maximum time without an acknowledgement, before the peer has acknowledged everything.
    pub send_stall_timeout: Duration,
    /// Minimum rate of these acknowledgements, in bytes per second.
    pub send_rate_min: u32,
    /// How long the peer may be below this rate.
    pub rate_grace: Duration,
}

impl From<&Limits> for LingerLimits {
    fn from(limits: &Limits) -> Self {
        let rudy_http::Limits { send_stall_timeout, send_rate_min, rate_grace, .. } = limits.http;
        let (time, bytes) = (limits.linger_timeout, limits.linger_bytes);
        Self { time, bytes, send_stall_timeout, send_rate_min, rate_grace }
    }
}

/// Closes a connection. Errors are ignored, because they no longer affect any exchange.
///
/// The future must be polled on a tokio runtime with time. If it is dropped before its end, polled or not, it
/// takes the remaining steps as [`close_at_once`] does.
pub fn close(io: impl Into<Stream>, mode: CloseMode, linger: LingerLimits) -> impl Future<Output = ()> {
    let mut closing = Closing::new(io.into(), mode, linger, clock::now());
    let mut deadline = None;
    std::future::poll_fn(move |cx| {
        loop {
            if closing.poll(cx, clock::now()).is_ready() {
                return Poll::Ready(());
            }
            let Some(time) = closing.deadline() else { return Poll::Pending };
            let deadline = deadline.get_or_insert_with(|| Deadline::at(time));
            deadline.set(time);
            ready!(deadline.poll_passed(cx));
        }
    })
}

/// A connection that is closing. If dropped before its end, it takes the remaining steps without waiting.
pub(crate) struct Closing {
    io: Stream,
    mode: CloseMode,
    wait: PeerWait,
    /// How many bytes may still be discarded.
    left_bytes: u64,
    /// Whether the first step is done, successful or not.
    is_draining: bool,
    has_stopped_writing: bool,
    has_drained: bool,
}

impl Closing {
    pub(crate) fn new(io: Stream, mode: CloseMode, linger: LingerLimits, now: Instant) -> Self {
        let (wait, left_bytes) = (PeerWait::new(linger, now), linger.bytes);
        let (is_draining, has_stopped_writing, has_drained) = (false, false, false);
        Self { io, mode, wait, left_bytes, is_draining, has_stopped_writing, has_drained }
    }

    /// Returns when to poll a close that waits, without a wake-up; `None` means never.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.wait.deadline()
    }

    /// Takes the first two steps as far as they must wait. Dropping the value takes the remaining ones.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        // A TLS session sends its close notification even to a peer that has closed its side: the peer may
        // still read, and would report a truncated stream without it.
        let is_over = self.mode == CloseMode::PeerClosed && self.io.plain_socket().is_some();
        if is_over || self.mode == CloseMode::Reset {
            return Poll::Ready(());
        }
        // The socket may be full of the response, which a peer that has closed its side still reads.
        let is_late = self.mode == CloseMode::NoLinger || self.wait.is_over(now, || self.io.unacknowledged());
        // 1. Stop writing. A session over the socket sends its close notification first; if it cannot, close
        // without.
        if !self.is_draining {
            match self.io.poll_shutdown(cx) {
                Poll::Pending if !is_late => return Poll::Pending,
                Poll::Ready(Ok(())) => self.has_stopped_writing = true,
                // Stop writing on the socket itself, so that the peer does not wait for our end while we wait
                // for its end.
                Poll::Pending | Poll::Ready(Err(_)) => {
                    self.has_stopped_writing = self.io.stop_writing().is_ok();
                }
            }
            self.is_draining = true;
        }
        if self.mode != CloseMode::Linger {
            return Poll::Ready(());
        }
        // 2. Drain the input.
        let drained = self.poll_drain(cx);
        self.has_drained = drained.is_ready();
        if is_late { Poll::Ready(()) } else { drained }
    }

    /// Discards input until the peer closes or reaches the limit of bytes.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.left_bytes > 0 {
            match ready!(self.io.poll_discard(cx)) {
                Ok(discarded @ 1..) => self.left_bytes = self.left_bytes.saturating_sub(discarded as u64),
                Ok(0) | Err(_) => break,
            }
        }
        Poll::Ready(())
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.io.finish(self.mode, self.has_stopped_writing, self.has_drained);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{self, ErrorKind, Read, Write};
    use std::os::fd::{AsFd, BorrowedFd};
    use std::os::unix::net::UnixStream;
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::Waker;

    use parking_lot::Mutex;
    use tokio::io::ReadBuf;

    use super::*;
    use crate::transport::Transport;

    /// The result of a step.
    #[derive(Debug, Clone, Copy)]
    enum StepResult {
        Done,
        Fails,
        Never,
        /// For a read: there is always more input.
        Endless,
    }

    /// A combination of faults.
    #[derive(Debug, Clone, Copy)]
    struct Faults {
        stop_writing: StepResult,
        read: StepResult,
        /// All socket operations on the descriptor fail.
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

    /// A connection with faults, which logs the steps.
    struct Faulty {
        faults: Faults,
        socket: UnixStream,
        no_socket: File,
        log: Log,
    }

    type Log = Arc<Mutex<Vec<&'static str>>>;

    impl Faulty {
        fn log_step(&self, step: &'static str) {
            let mut log = self.log.lock();
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

    /// Returns a faulty connection, its peer, and a copy of the socket to inspect after the close.
    fn faulty(faults: Faults) -> (Box<dyn Transport>, UnixStream, UnixStream, Log) {
        let (socket, peer) = UnixStream::pair().unwrap();
        let (again, log) = (socket.try_clone().unwrap(), Log::default());
        let no_socket = File::open("/dev/null").unwrap();
        (Box::new(Faulty { faults, socket, no_socket, log: log.clone() }), peer, again, log)
    }

    /// Asserts that both directions have ended, although the socket is still open.
    fn assert_stopped(peer: &mut UnixStream, faults: Faults) {
        assert_eq!(peer.read(&mut [0]).unwrap(), 0, "{faults:?}: still being written");
        assert_eq!(
            peer.write(b"x").unwrap_err().kind(),
            ErrorKind::BrokenPipe,
            "{faults:?}: still being read"
        );
    }

    const LINGER: LingerLimits = LingerLimits {
        time: Duration::from_millis(5),
        bytes: 1024 * 1024,
        send_stall_timeout: Duration::MAX,
        send_rate_min: 0,
        rate_grace: Duration::MAX,
    };

    #[tokio::test]
    async fn a_failed_step_does_not_prevent_the_next_one() {
        for faults in all_faults() {
            let (io, mut peer, _again, log) = faulty(faults);
            close(io, CloseMode::Linger, LINGER).await;
            assert_eq!(*log.lock(), ["shutdown", "read", "dropped"], "{faults:?}");
            if !faults.socket_fails {
                assert_stopped(&mut peer, faults);
            }
        }
    }

    #[tokio::test]
    async fn a_close_without_linger_does_not_wait_for_the_peer() {
        for faults in all_faults() {
            let (io, mut peer, _again, log) = faulty(faults);
            close(io, CloseMode::NoLinger, LingerLimits { time: Duration::MAX, ..LINGER }).await;
            assert_eq!(*log.lock(), ["shutdown", "dropped"], "{faults:?}");
            if !faults.socket_fails {
                assert_stopped(&mut peer, faults);
            }
        }
    }

    #[tokio::test]
    async fn a_session_waits_until_its_close_notification_is_sent_although_the_peer_has_closed() {
        for faults in all_faults() {
            let (io, _peer, _again, _log) = faulty(faults);
            let mut closing = pin!(close(io, CloseMode::PeerClosed, LINGER));
            let polled = closing.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(polled.is_pending(), matches!(faults.stop_writing, StepResult::Never), "{faults:?}");
            if polled.is_pending() {
                closing.await;
            }
        }
    }

    #[tokio::test]
    async fn a_reset_skips_the_other_steps() {
        for faults in all_faults() {
            let (io, _peer, again, log) = faulty(faults);
            close(io, CloseMode::Reset, LINGER).await;
            assert_eq!(*log.lock(), ["dropped"], "{faults:?}");
            let linger = socket2::SockRef::from(&again).linger().unwrap();
            assert_eq!(linger, (!faults.socket_fails).then_some(Duration::ZERO), "{faults:?}");
        }
    }

    /// A stopping server drops a close in progress, at any step.
    #[tokio::test]
    async fn a_dropped_close_runs_the_remaining_steps() {
        for (faults, polled) in all_faults().flat_map(|faults| [(faults, false), (faults, true)]) {
            let (io, mut peer, _again, log) = faulty(faults);
            {
                let mut closing =
                    pin!(close(io, CloseMode::Linger, LingerLimits { time: Duration::MAX, ..LINGER }));
                if polled {
                    let _ = closing.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                }
            }
            assert_eq!(log.lock().last(), Some(&"dropped"), "{faults:?}");
            if !faults.socket_fails {
                assert_stopped(&mut peer, faults);
            }
        }
    }
}
