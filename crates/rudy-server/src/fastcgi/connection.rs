//! One connection to an app, for one request at a time.

use std::cell::RefCell;
use std::io;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use rudy_fastcgi::gateway::{Event, GatewayConnection};
use rudy_fastcgi::{Fault, Limits, RequestId, Role};

use super::failure::Failure;
use crate::upstream::{self, Socket};

/// What is read at once: four records of php-fpm, whose responses come in pieces of 8 KiB.
const READ_BYTES: usize = 32 * 1024;

thread_local! {
    /// Shared by all connections that this thread reads: each keeps only a record that has not come whole.
    static READ: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
}

/// A socket, and the state of the protocol on it. Between requests it holds no buffer.
#[derive(Debug)]
pub(super) struct Connection {
    socket: Socket,
    machine: GatewayConnection,
    /// The beginning of a record that has not come whole.
    rest: Vec<u8>,
}

impl upstream::Connection for Connection {
    fn new(socket: Socket) -> Self {
        Self { socket, machine: GatewayConnection::new(), rest: Vec::new() }
    }

    fn socket(&mut self) -> &mut Socket {
        &mut self.socket
    }
}

impl Connection {
    /// Begins a request, and appends its first record.
    pub(super) fn begin(&mut self, role: Role, out: &mut BytesMut) -> RequestId {
        self.machine.begin(role, true, out)
    }

    /// Asks the app what it takes at once, and appends the question.
    pub(super) fn query_values(&mut self, out: &mut BytesMut) {
        self.machine.query_values(out);
    }

    /// Sends as much as there is room for.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.socket.poll_write(cx, bytes)
    }

    /// Reads once, and passes on what has come.
    pub(super) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        limits: &Limits,
        mut take: impl FnMut(Event<'_>) -> Result<(), Failure>,
    ) -> Poll<Result<(), Failure>> {
        READ.with_borrow_mut(|buffer| {
            let kept = self.rest.len();
            buffer[..kept].copy_from_slice(&self.rest);
            let received = ready!(self.socket.poll_read(cx, &mut buffer[kept..])).map_err(Failure::Lost)?;
            if received == 0 {
                return Poll::Ready(Err(Failure::Fault(Fault::Closed)));
            }
            let mut bytes = &buffer[..kept + received];
            loop {
                let (used, event) = self.machine.decode(bytes, limits).map_err(Failure::Fault)?;
                bytes = &bytes[used..];
                match event {
                    Event::More => break,
                    event => take(event)?,
                }
            }
            self.rest.clear();
            self.rest.extend_from_slice(bytes);
            Poll::Ready(Ok(()))
        })
    }

    /// Whether the app has ended the request, and nothing behind it has come.
    pub(super) fn is_idle(&self) -> bool {
        self.machine.is_idle() && self.rest.is_empty()
    }
}
