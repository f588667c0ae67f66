//! A connection: a pipe in each direction.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf as _, BytesMut};
use parking_lot::Mutex;
use rudy_net::transport::PeerClose;
use tokio::time::Instant;

use super::end::End;
use super::{SimNetwork, What};

/// An end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The one that has connected.
    Client,
    /// The one that has accepted.
    Server,
}

impl Side {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// A connection between two ends.
pub(crate) struct Connection {
    pub(crate) number: u64,
    pub(crate) network: &'static SimNetwork,
    /// What goes to the client, and what goes to the server.
    pipes: Mutex<[Pipe; 2]>,
}

/// One direction.
struct Pipe {
    in_flight: BytesMut,
    arrived: BytesMut,
    /// When the last piece arrives: later ones arrive later.
    last: Instant,
    /// Whether the sender has sent its end.
    is_ended: bool,
    has_end_arrived: bool,
    /// Whether the reader has heard a reset.
    is_reset: bool,
    /// Whether the reader has gone: what arrives is answered with a reset.
    is_abandoned: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    fn new(now: Instant) -> Self {
        Self {
            in_flight: BytesMut::new(),
            arrived: BytesMut::new(),
            last: now,
            is_ended: false,
            has_end_arrived: false,
            is_reset: false,
            is_abandoned: false,
            reader: None,
            writer: None,
        }
    }

    fn held(&self) -> usize {
        self.in_flight.len() + self.arrived.len()
    }

    fn wake(&mut self) {
        for waker in [self.reader.take(), self.writer.take()].into_iter().flatten() {
            waker.wake();
        }
    }
}

impl Connection {
    pub(super) fn new(number: u64, network: &'static SimNetwork, now: Instant) -> Self {
        Self { number, network, pipes: Mutex::new([Pipe::new(now), Pipe::new(now)]) }
    }

    /// Returns both ends, the client's first.
    pub(super) fn ends(connection: &Arc<Self>) -> (End, End) {
        (End::new(connection.clone(), Side::Client), End::new(connection.clone(), Side::Server))
    }

    /// Something arrives at `to`.
    pub(crate) fn arrive(self: &Arc<Self>, to: Side, what: What) {
        let mut pipes = self.pipes.lock();
        let [own, other] = Self::of(&mut pipes, to);
        if own.is_reset {
            return;
        }
        self.network.trace.event(self.number, "arrives", (to, what));
        match what {
            What::Bytes(count) => {
                let bytes = own.in_flight.split_to(count);
                if own.is_abandoned {
                    drop(bytes);
                    drop(pipes);
                    self.network.send(self, to.other(), What::Reset, Instant::now());
                    return;
                }
                own.arrived.extend_from_slice(&bytes);
            }
            What::End => own.has_end_arrived = true,
            What::Reset => {
                // No reader gets what had arrived, and nothing can be sent any more (tcp(7)).
                own.arrived.clear();
                own.in_flight.clear();
                own.is_reset = true;
                other.wake();
            }
        }
        own.wake();
    }

    /// Returns the pipe to this side, and the one from it.
    fn of(pipes: &mut [Pipe; 2], side: Side) -> [&mut Pipe; 2] {
        let [to_client, to_server] = pipes;
        match side {
            Side::Client => [to_client, to_server],
            Side::Server => [to_server, to_client],
        }
    }

    pub(super) fn poll_read(
        &self,
        side: Side,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut pipes = self.pipes.lock();
        let [own, _] = Self::of(&mut pipes, side);
        if own.is_reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if buffer.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let mut count = own.arrived.len().min(buffer.len());
        if count == 0 {
            if own.has_end_arrived {
                return Poll::Ready(Ok(0));
            }
            own.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if self.network.conditions.is_choppy {
            count = 1 + self.network.below(count);
        }
        own.arrived.copy_to_slice(&mut buffer[..count]);
        if let Some(writer) = own.writer.take() {
            writer.wake();
        }
        Poll::Ready(Ok(count))
    }

    pub(super) fn poll_write(
        self: &Arc<Self>,
        side: Side,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut pipes = self.pipes.lock();
        let [from_peer, own] = Self::of(&mut pipes, side);
        if from_peer.is_reset || own.is_ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let wanted = slices.iter().map(|slice| slice.len()).sum::<usize>();
        let room = self.network.conditions.buffer_bytes.saturating_sub(own.held());
        let mut count = wanted.min(room);
        if count == 0 && wanted > 0 {
            own.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if self.network.conditions.is_choppy && count > 1 {
            count = 1 + self.network.below(count);
        }
        let mut left = count;
        for slice in slices {
            let taken = slice.len().min(left);
            own.in_flight.extend_from_slice(&slice[..taken]);
            left -= taken;
        }
        if count > 0 {
            own.last = self.network.send(self, side.other(), What::Bytes(count), own.last);
        }
        Poll::Ready(Ok(count))
    }

    /// Sends the end, unless it was sent.
    pub(super) fn stop_writing(self: &Arc<Self>, side: Side) -> io::Result<()> {
        let mut pipes = self.pipes.lock();
        let [from_peer, own] = Self::of(&mut pipes, side);
        if from_peer.is_reset {
            return Err(io::ErrorKind::NotConnected.into());
        }
        if !own.is_ended {
            own.is_ended = true;
            own.last = self.network.send(self, side.other(), What::End, own.last);
        }
        Ok(())
    }

    /// Closes an end, as close(2) does: unread input, or `is_reset`, resets the connection.
    pub(super) fn close(self: &Arc<Self>, side: Side, is_reset: bool) {
        let mut pipes = self.pipes.lock();
        let [from_peer, own] = Self::of(&mut pipes, side);
        if from_peer.is_reset {
            return;
        }
        from_peer.is_abandoned = true;
        if is_reset || !from_peer.arrived.is_empty() {
            own.last = self.network.send(self, side.other(), What::Reset, own.last);
        } else if !own.is_ended {
            own.is_ended = true;
            own.last = self.network.send(self, side.other(), What::End, own.last);
        }
    }

    /// Discards what has arrived.
    pub(super) fn discard(&self, side: Side) {
        Self::of(&mut self.pipes.lock(), side)[0].arrived.clear();
    }

    pub(super) fn peer_close(&self, side: Side) -> PeerClose {
        let mut pipes = self.pipes.lock();
        let [from_peer, _] = Self::of(&mut pipes, side);
        match (from_peer.is_reset, from_peer.has_end_arrived) {
            (true, _) => PeerClose::Both,
            (false, true) => PeerClose::WriteSide,
            (false, false) => PeerClose::None,
        }
    }

    pub(super) fn unread(&self, side: Side) -> usize {
        Self::of(&mut self.pipes.lock(), side)[0].arrived.len()
    }

    pub(super) fn unacknowledged(&self, side: Side) -> usize {
        Self::of(&mut self.pipes.lock(), side)[1].held()
    }
}
