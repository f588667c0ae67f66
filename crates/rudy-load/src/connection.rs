//! One connection with its requests: from the first packet to the last byte of the last answer.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;
use rudy_http::Limits;
use rudy_http::h1::client::{ClientConnection, RequestInfo, ResponseEvent, ResponseHead};
use rudy_net::close::CloseMode;

use crate::Failure;
use crate::link::{Link, Remote, Security};

/// Reads in a row, before others have their turn.
const READS_IN_A_ROW: usize = 32;

/// What is told as a connection goes on, with the time at which it was seen.
pub(crate) trait Observer {
    /// TCP stands.
    fn connected(&mut self, _now: Instant) {}

    /// TLS stands.
    fn secured(&mut self, _now: Instant) {}

    /// Bytes have come, whatever they are.
    fn received(&mut self, _bytes: usize, _now: Instant) {}

    /// An interim answer (1xx).
    fn informational(&mut self, _head: &ResponseHead<'_>) {}

    /// An answer begins.
    fn head(&mut self, head: &ResponseHead<'_>);

    /// A piece of its body.
    fn data(&mut self, bytes: &[u8]);

    /// What came last ends a chunk; in a body without chunks, what is there to be read.
    fn chunk(&mut self) {}

    /// It is whole.
    fn end(&mut self, trailers: Option<&HeaderMap>, now: Instant);
}

/// What has become of a connection that was driven as far as it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It waits for its socket.
    Open,
    /// It would go on at once: it has stopped so that others have their turn.
    Busy,
    /// It ended in order, with nothing under way.
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Connecting,
    Securing,
    Open,
    /// The peer has ended it, in order.
    Ended,
}

/// A connection, and what is under way on it.
#[derive(Debug)]
pub(crate) struct Connection {
    link: Link,
    stage: Stage,
    machine: ClientConnection,
    /// What is awaited behind the answer under way.
    awaited: VecDeque<RequestInfo>,
    /// What there was no room for.
    unsent: Bytes,
    /// Received, and not enough to be understood. Nothing is held while nothing is left over.
    leftover: Vec<u8>,
    /// Why nothing more can be sent. An answer may have come all the same.
    broken: Option<io::Error>,
}

impl Connection {
    /// Begins to connect.
    pub(crate) fn open(remote: &Remote, source: Option<IpAddr>) -> Result<Self, Failure> {
        Link::connect(remote, source).map(Self::over).map_err(Failure::Connect)
    }

    /// Over a link that connects, or has connected.
    pub(crate) fn over(link: Link) -> Self {
        Self {
            link,
            stage: Stage::Connecting,
            machine: ClientConnection::new(),
            awaited: VecDeque::new(),
            unsent: Bytes::new(),
            leftover: Vec::new(),
            broken: None,
        }
    }

    /// Begins anew, with TLS, inside the tunnel that a 2xx to CONNECT has made of the connection (RFC 9110 §9.3.6).
    pub(crate) fn secure_tunnel(&mut self, security: &Security) -> Result<(), Failure> {
        // In TLS the client speaks first: what has come already is not from the server behind the tunnel.
        if !self.leftover.is_empty() {
            let reason = "bytes came through the tunnel before anything was sent into it";
            return Err(Failure::Tls(io::Error::new(io::ErrorKind::InvalidData, reason)));
        }
        self.link.secure(security).map_err(Failure::Tls)?;
        self.machine = ClientConnection::new();
        self.stage = Stage::Securing;
        Ok(())
    }

    /// What its socket is known by.
    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    /// Whether requests can be sent.
    pub(crate) fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// Whether it waits for room to send, and not only for what comes.
    pub(crate) fn wants_to_write(&self) -> bool {
        self.stage == Stage::Connecting
            || self.link.wants_to_write()
            || (!self.unsent.is_empty() && self.stage == Stage::Open)
    }

    /// Whether it has become a tunnel.
    pub(crate) fn is_tunnel(&self) -> bool {
        self.machine.has_switched()
    }

    /// Whether one more request may follow the answers that have come.
    pub(crate) fn can_be_reused(&self) -> bool {
        self.broken.is_none() && self.machine.can_be_reused()
    }

    /// Sends requests whose answers are as `asked` says. What there is no room for follows when the socket is ready.
    pub(crate) fn send(&mut self, bytes: &Bytes, asked: impl IntoIterator<Item = RequestInfo>) {
        for asked in asked {
            if self.machine.is_idle() && self.awaited.is_empty() {
                self.machine.expect_response(asked);
            } else {
                self.awaited.push_back(asked);
            }
        }
        if !self.unsent.is_empty() {
            self.unsent = [&self.unsent[..], &bytes[..]].concat().into();
        } else if self.stage == Stage::Open {
            let written = self.write(bytes);
            if written < bytes.len() {
                self.unsent = bytes.slice(written..);
            }
        } else {
            self.unsent = bytes.clone();
        }
    }

    /// Whether nothing more can be sent. Whoever sees that after a send drives the connection, to learn what became of it.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Does what can be done now. `hangs_up` says that the end of what comes is in the socket already.
    pub(crate) fn drive(
        &mut self,
        security: Option<&Security>,
        limits: &Limits,
        hangs_up: bool,
        scratch: &mut [u8],
        observer: &mut impl Observer,
    ) -> Result<Standing, Failure> {
        if self.stage != Stage::Open && !self.rise(security, observer)? {
            return Ok(Standing::Open);
        }
        self.write_rest();
        self.read(limits, hangs_up, scratch, observer)
    }

    /// Ends it. An answer that was under way is cut.
    pub(crate) fn close(self) {
        let is_under_way = self.stage != Stage::Ended && (!self.machine.is_idle() || !self.unsent.is_empty());
        self.link.close(if is_under_way { CloseMode::Reset } else { CloseMode::NoLinger });
    }

    /// Comes to stand: TCP, then TLS. True once it does.
    fn rise(&mut self, security: Option<&Security>, observer: &mut impl Observer) -> Result<bool, Failure> {
        if self.stage == Stage::Connecting {
            match self.link.connected() {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) => return Err(Failure::Connect(error)),
            }
            observer.connected(Instant::now());
            if let Some(security) = security {
                self.link.secure(security).map_err(Failure::Tls)?;
            }
            self.stage = Stage::Securing;
        }
        if !self.link.handshake().map_err(Failure::Tls)? {
            return Ok(false);
        }
        if self.link.is_secure() {
            observer.secured(Instant::now());
        }
        self.stage = Stage::Open;
        Ok(true)
    }

    /// Writes what was left over.
    fn write_rest(&mut self) {
        let rest = std::mem::take(&mut self.unsent);
        let written = self.write(&rest);
        if written < rest.len() {
            self.unsent = rest.slice(written..);
        } else if let Err(error) = self.link.flush() {
            self.broken.get_or_insert(error);
        }
    }

    /// Writes what there is room for, and says how much that was: all, where nothing can be sent any more.
    fn write(&mut self, bytes: &[u8]) -> usize {
        let mut written = 0;
        while written < bytes.len() && self.broken.is_none() {
            match self.link.write(&bytes[written..]) {
                Ok(more) => written += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return written,
                Err(error) => self.broken = Some(error),
            }
        }
        bytes.len()
    }

    fn read(
        &mut self,
        limits: &Limits,
        hangs_up: bool,
        scratch: &mut [u8],
        observer: &mut impl Observer,
    ) -> Result<Standing, Failure> {
        for _ in 0..READS_IN_A_ROW {
            let received = match self.link.read(scratch) {
                Ok(0) => return self.end_of_input(observer),
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return self.still_open(),
                Err(error) => return self.reading_failed(error),
            };
            let now = Instant::now();
            observer.received(received, now);
            self.decode(&scratch[..received], limits, now, observer)?;
            // Less than there is room for is all there is.
            if received < scratch.len() && !hangs_up && !self.link.is_secure() {
                return self.still_open();
            }
        }
        Ok(Standing::Busy)
    }

    /// A connection on which nothing can be sent still brings the answers that were sent before, until the peer ends it.
    fn still_open(&mut self) -> Result<Standing, Failure> {
        match self.broken.take() {
            Some(error) if !self.machine.is_idle() => Err(Failure::Write(error)),
            Some(_) => Ok(Standing::Ended),
            None => Ok(Standing::Open),
        }
    }

    fn reading_failed(&mut self, error: io::Error) -> Result<Standing, Failure> {
        if self.machine.is_idle() {
            return Ok(Standing::Ended);
        }
        Err(self.broken.take().map_or(Failure::Read(error), Failure::Write))
    }

    fn end_of_input(&mut self, observer: &mut impl Observer) -> Result<Standing, Failure> {
        if self.machine.is_idle() {
            return Ok(Standing::Ended);
        }
        match self.machine.end_of_input() {
            // RFC 9112 §9.8: where only the end of the connection ends the body, TLS must have said that it is the end.
            Ok(_) if self.link.is_truncated() => {
                let reason = "TLS did not say that this is the end, so the body may be cut short";
                Err(Failure::Read(io::Error::new(io::ErrorKind::UnexpectedEof, reason)))
            }
            Ok(_) => {
                self.stage = Stage::Ended;
                observer.end(None, Instant::now());
                Ok(Standing::Ended)
            }
            Err(fault) => Err(self.broken.take().map_or(Failure::Short(fault), Failure::Write)),
        }
    }

    /// Understands what has come, behind what was left over before.
    fn decode(
        &mut self,
        bytes: &[u8],
        limits: &Limits,
        now: Instant,
        observer: &mut impl Observer,
    ) -> Result<(), Failure> {
        if self.leftover.is_empty() {
            let used = self.understand(bytes, limits, now, observer)?;
            self.leftover.extend_from_slice(&bytes[used..]);
            return Ok(());
        }
        let mut whole = std::mem::take(&mut self.leftover);
        whole.extend_from_slice(bytes);
        let used = self.understand(&whole, limits, now, observer)?;
        if used < whole.len() {
            whole.drain(..used);
            self.leftover = whole;
        }
        Ok(())
    }

    /// Says how many of the bytes it has used.
    fn understand(
        &mut self,
        bytes: &[u8],
        limits: &Limits,
        now: Instant,
        observer: &mut impl Observer,
    ) -> Result<usize, Failure> {
        let mut used = 0;
        loop {
            // What comes without having been asked for is for the machine to refuse.
            if used == bytes.len() && self.machine.is_idle() {
                return Ok(used);
            }
            let (taken, answer) = self.machine.decode(&bytes[used..], limits).map_err(Failure::Malformed)?;
            used += taken;
            match answer {
                ResponseEvent::Informational(head) => observer.informational(&head),
                ResponseEvent::Head(head) => observer.head(&head),
                ResponseEvent::Data(data) => {
                    observer.data(data);
                    if !self.machine.is_within_chunk() {
                        observer.chunk();
                    }
                }
                ResponseEvent::End(trailers) => {
                    observer.end(trailers.as_ref(), now);
                    if let Some(asked) = self.awaited.pop_front() {
                        self.machine.expect_response(asked);
                    }
                }
                ResponseEvent::NeedData => return Ok(used),
            }
        }
    }
}
