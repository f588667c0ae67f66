//! One connection to an app.

use std::cell::RefCell;
use std::io;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use rudy_fastcgi::gateway::{Event, GatewayConnection};
use rudy_fastcgi::{Limits, RequestId, Role};

use super::failure::Failure;
use super::upstream::Stream;

/// What is read at once: two records of php-fpm, whose answers come in pieces of 8 KiB.
const SCRATCH_BYTES: usize = 32 * 1024;

thread_local! {
    /// Shared by all connections that this thread reads, since none keeps what it has read.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; SCRATCH_BYTES].into());
}

/// A socket, and what is known of the conversation on it. While nothing is under way it holds no buffer.
#[derive(Debug)]
pub(super) struct Link {
    stream: Stream,
    machine: GatewayConnection,
    /// The beginning of a record that is not whole.
    rest: Vec<u8>,
    /// What is to be sent.
    output: BytesMut,
}

impl Link {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, machine: GatewayConnection::new(), rest: Vec::new(), output: BytesMut::new() }
    }

    /// Begins a request; what it consists of goes into [`Self::output`].
    pub(super) fn begin(&mut self, role: Role, limits: &Limits) -> Option<RequestId> {
        self.machine.begin(role, true, limits, &mut self.output)
    }

    /// What is to be sent, to be added to.
    pub(super) fn output(&mut self) -> &mut BytesMut {
        &mut self.output
    }

    /// Sends what is to be sent, all of it.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.output.is_empty() {
            let sent = ready!(self.stream.poll_write(cx, &self.output))?;
            self.output.advance(sent);
        }
        // What a large request took is not kept for the small ones after it.
        self.output = BytesMut::new();
        Poll::Ready(Ok(()))
    }

    /// Reads once, and hands over everything that came of it. Whether there may be more.
    pub(super) fn poll_events(
        &mut self,
        cx: &mut Context<'_>,
        limits: &Limits,
        mut take: impl FnMut(Event<'_>),
    ) -> Poll<Result<bool, Failure>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let kept = self.rest.len();
            scratch[..kept].copy_from_slice(&self.rest);
            let came = ready!(self.stream.poll_read(cx, &mut scratch[kept..])).map_err(Failure::Lost)?;
            if came == 0 {
                self.machine.end_of_input().map_err(Failure::Fault)?;
                return Poll::Ready(Ok(false));
            }
            let mut bytes = &scratch[..kept + came];
            loop {
                let (used, event) = self.machine.decode(bytes, limits).map_err(Failure::Fault)?;
                bytes = &bytes[used..];
                if event == Event::More {
                    break;
                }
                take(event);
            }
            self.rest.clear();
            self.rest.extend_from_slice(bytes);
            Poll::Ready(Ok(true))
        })
    }

    /// Whether a next request may be sent: nothing is under way, and the app has kept the connection.
    pub(super) fn is_usable(&mut self) -> bool {
        let is_idle = self.machine.open_requests() == 0 && self.rest.is_empty() && self.output.is_empty();
        is_idle && self.stream.is_quiet()
    }

    /// Tells the app that nobody waits for the answer any more, if it can be told without waiting. The connection is to be
    /// dropped after it.
    pub(super) fn give_up(&mut self, id: RequestId) {
        if self.machine.is_open(id) && self.output.is_empty() {
            let mut abort = BytesMut::new();
            self.machine.abort(id, &mut abort);
            let cx = &mut Context::from_waker(std::task::Waker::noop());
            // An app that does not take it sees the connection close.
            let _ = self.stream.poll_write(cx, &abort);
        }
    }
}
