//! A client that reads slowly. The kernel accepts no more before it has sent a third of its buffer, which takes longer than
//! `rate_grace`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::io::ReadBuf;

use super::super::output::Output;
use super::super::poll_context::{Budget, PollContext};
use crate::Counters;
use crate::transport::{Stream, Transport};

/// A connection whose socket is full.
struct Full {
    socket: UnixStream,
    unacknowledged: Arc<AtomicU64>,
}

impl AsFd for Full {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Transport for Full {
    fn poll_read(&mut self, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn poll_write(&mut self, _: &mut Context<'_>, _: &[io::IoSlice<'_>], _: bool) -> Poll<io::Result<usize>> {
        Poll::Pending
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn unacknowledged(&self) -> io::Result<u64> {
        Ok(self.unacknowledged.load(Ordering::Relaxed))
    }

    fn has_unread(&self) -> bool {
        false
    }
}

#[test]
fn a_client_above_the_minimum_rate_is_not_dropped() {
    let limits = rudy_http::Limits {
        rate_grace: Duration::from_secs(1),
        send_rate_min: 500,
        send_stall_timeout: Duration::from_secs(5),
        ..rudy_http::Limits::default()
    };
    // How much the client reads in a second, and the second in which it is dropped.
    for (rate, expected) in [(80_000, None), (600, None), (400, Some(1)), (0, Some(1))] {
        let unacknowledged = Arc::new(AtomicU64::new(1 << 20));
        let (socket, _peer) = UnixStream::pair().unwrap();
        let full: Box<dyn Transport> = Box::new(Full { socket, unacknowledged: unacknowledged.clone() });
        let (mut io, mut output) = (Stream::from(full), Output::default());
        let (start, counters) = (Instant::now(), Counters::default());
        let budget = Budget::new(start);
        let mut cx = Context::from_waker(Waker::noop());
        let mut poll_cx = PollContext::new(&mut cx, &counters, &budget);
        assert!(output.poll(&mut io, &mut poll_cx, &mut BytesMut::from("a response"), None).is_pending());
        let dropped = (1..=10).find(|second| {
            unacknowledged.fetch_sub(rate, Ordering::Relaxed);
            output.has_stalled(&io, &limits, start + Duration::from_secs(*second))
        });
        assert_eq!(dropped, expected, "{rate}/s");
    }
}
