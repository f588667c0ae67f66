//! Drives a connection: its socket, its timers, and its streams.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rudy_quic::Received;
use rudy_quic::quinn_proto::{self, DatagramEvent, Dir, StreamEvent};
use rudy_quic::streams::{self, Part, code, number};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Http3Connection;
use crate::PATIENCE;

/// The maximum number of datagrams in a transmission.
const SEGMENTS_MAX: usize = 10;

/// The time that a server has to respond to a datagram before this side looks at its timers again.
const POLL_MAX: Duration = Duration::from_millis(100);

thread_local! {
    /// The buffers for what the connections of a thread receive.
    static RECEIVED: RefCell<Received> = RefCell::default();
}

impl Http3Connection {
    /// Drives the connection until `ready` returns something.
    /// Panics after [`PATIENCE`].
    pub fn wait<T>(&mut self, what: &str, mut ready: impl FnMut(&mut Self) -> Option<T>) -> T {
        let until = Instant::now() + PATIENCE;
        loop {
            self.drive();
            if let Some(result) = ready(self) {
                return result;
            }
            assert!(Instant::now() < until, "timeout: waited until {what}");
            let due = self.quic.poll_timeout().map(|due| due.saturating_duration_since(Instant::now()));
            let timeout = Timespec::try_from(due.unwrap_or(POLL_MAX).min(POLL_MAX)).expect("a short time");
            // An interrupted wait is repeated.
            let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&timeout));
        }
    }

    /// Receives, reads and sends as much as possible without waiting.
    pub fn drive(&mut self) {
        let now = Instant::now();
        while self.receive(now) {}
        if self.quic.poll_timeout().is_some_and(|due| due <= now) {
            self.quic.handle_timeout(now);
        }
        while let Some(event) = self.quic.poll() {
            match event {
                quinn_proto::Event::Connected => self.is_connected = true,
                quinn_proto::Event::ConnectionLost { reason } => self.end = Some(reason),
                quinn_proto::Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                    while let Some(id) = self.quic.streams().accept(Dir::Uni) {
                        self.read(number(id));
                    }
                }
                quinn_proto::Event::Stream(StreamEvent::Readable { id }) => self.read(number(id)),
                _ => {}
            }
        }
        let quic = &mut self.quic;
        self.outgoing.retain(|stream, outgoing| !outgoing.write(quic, *stream));
        self.transmit(now);
    }

    fn receive(&mut self, now: Instant) -> bool {
        RECEIVED.with_borrow_mut(|received| {
            match self.datagrams.receive(&self.socket, received) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                // The port of the server is closed.
                Err(_) => return true,
            }
            let mut response = Vec::new();
            for datagram in received.take() {
                let (from, to, ecn) = (datagram.from, datagram.to, datagram.ecn);
                let event = self.endpoint.handle(now, from, to, ecn, datagram.bytes, &mut response);
                if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                    self.quic.handle_event(event);
                }
            }
            self.exchange_events();
            true
        })
    }

    fn exchange_events(&mut self) {
        while let Some(event) = self.quic.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.quic.handle_event(event);
            }
        }
    }

    pub(super) fn read(&mut self, stream: u64) {
        while self.reads {
            let incoming = self.incoming.entry(stream).or_default();
            match streams::read(&mut self.quic, stream) {
                Part::Data(bytes, ends) => {
                    incoming.receive(stream, &bytes);
                    incoming.response.is_over = ends;
                }
                Part::End => incoming.response.is_over = true,
                Part::Reset(error) => {
                    incoming.response.reset = Some(u32::try_from(error).unwrap_or(u32::MAX));
                    incoming.response.is_over = true;
                }
                Part::Nothing => return,
            }
            if incoming.response.is_over {
                return;
            }
        }
    }

    pub(super) fn transmit(&mut self, now: Instant) {
        let segments = self.datagrams.segments_max().min(SEGMENTS_MAX);
        let mut contents = Vec::new();
        while let Some(transmit) = self.quic.poll_transmit(now, segments, &mut contents) {
            // What the kernel does not accept is lost, and sent again.
            let _ = self.datagrams.send(&self.socket, &transmit, &contents[..transmit.size]);
            contents.clear();
        }
        self.exchange_events();
    }
}

impl Drop for Http3Connection {
    /// Tells the server of the end: unlike with TCP, no kernel does.
    fn drop(&mut self) {
        if !self.is_silent {
            let now = Instant::now();
            self.quic.close(now, code(0x100), Bytes::new());
            self.transmit(now);
        }
    }
}
