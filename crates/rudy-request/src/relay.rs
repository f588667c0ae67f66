//! A relay that delays all data, so that the path to a server seems to be longer.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

use crate::transport::tcp;

/// Size of a read.
const PIECE_BYTES: usize = 64 * 1024;

/// Maximum number of pieces on their way in one direction. The sender then has to wait, as for a full window.
const PIECES_MAX: usize = 256;

/// A running relay. It ends when this is dropped.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    /// CPU time of its thread, in nanoseconds.
    cpu_ns: Arc<AtomicU64>,
    /// The thread ends when its peer is closed.
    _stop: UnixStream,
}

impl Relay {
    /// Maximum number of connections at once. Each has two sockets, and data in flight.
    pub const CONNECTIONS_MAX: u32 = 1000;

    /// Starts a relay to a server. Data arrives after half of the round-trip time. The kernel completes the TCP handshake at
    /// once, so the first data of a client waits for a further round trip, in place of that handshake.
    ///
    /// # Errors
    ///
    /// No port is free.
    pub fn start(server: SocketAddr, round_trip: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let (stop, stopped) = UnixStream::pair()?;
        let cpu_ns = Arc::new(AtomicU64::new(0));
        let of_thread = cpu_ns.clone();
        thread::Builder::new()
            .name("relay".to_owned())
            .spawn(move || relay(&listener, &stopped, server, round_trip, &of_thread))?;
        Ok(Self { address, cpu_ns, _stop: stop })
    }

    /// The CPU time that it has used. All data waits for its only thread.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        Duration::from_nanos(self.cpu_ns.load(Ordering::Relaxed))
    }

    /// The address to connect to instead of the server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The two sockets of a connection, and the data on its way between them.
struct Connection {
    client: TcpStream,
    server: TcpStream,
    to_server: Direction,
    to_client: Direction,
}

/// Data on its way in one direction.
struct Direction {
    /// With the time at which it arrives; an empty piece is the end of the connection, as no client here closes one direction only.
    pieces: VecDeque<(Instant, Vec<u8>)>,
    delay: Duration,
    /// Nothing is sent before this time.
    begins: Instant,
    has_ended: bool,
    /// Whether the end has arrived.
    is_over: bool,
    /// Whether the receiver's socket is full.
    is_blocked: bool,
}

/// Relays until `stopped` is closed, and publishes its CPU time. An error of a connection ends that connection.
fn relay(
    listener: &TcpListener,
    stopped: &UnixStream,
    server: SocketAddr,
    round_trip: Duration,
    cpu_ns: &AtomicU64,
) {
    let mut connections: Vec<Connection> = Vec::new();
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let cpu = Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
        cpu_ns.store(u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        let mut descriptors = vec![PollFd::new(stopped, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
        for connection in &connections {
            descriptors.push(connection.client_interest());
            descriptors.push(connection.server_interest());
        }
        let due = connections.iter().filter_map(Connection::next_due).min();
        let timeout = due.map(|due| due.saturating_duration_since(Instant::now()));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let _ = poll(&mut descriptors, timeout.as_ref());
        if !descriptors[0].revents().is_empty() {
            return;
        }
        let has_event = |pair: &[PollFd<'_>]| pair.iter().any(|descriptor| !descriptor.revents().is_empty());
        let mut events = descriptors[2..].chunks(2).map(has_event).collect::<Vec<_>>().into_iter();
        let now = Instant::now();
        connections.retain_mut(|connection| {
            let is_due = connection.next_due().is_some_and(|due| due <= now);
            let is_ready = events.next().unwrap_or(false) || is_due;
            !is_ready || connection.forward(&mut buffer).unwrap_or(false)
        });
        while connections.len() < Relay::CONNECTIONS_MAX as usize
            && let Ok((client, _)) = listener.accept()
        {
            connections.extend(Connection::open(client, server, round_trip).ok());
        }
    }
}

impl Connection {
    fn open(client: TcpStream, server: SocketAddr, round_trip: Duration) -> io::Result<Self> {
        // Until it is connected, it can neither be read nor written, as if it were empty and full.
        let server = TcpStream::from(tcp(server, None)?);
        client.set_nonblocking(true)?;
        client.set_nodelay(true)?;
        let now = Instant::now();
        let direction = |begins| Direction {
            pieces: VecDeque::new(),
            delay: round_trip / 2,
            begins,
            has_ended: false,
            is_over: false,
            is_blocked: false,
        };
        Ok(Self { client, server, to_server: direction(now + round_trip), to_client: direction(now) })
    }

    fn client_interest(&self) -> PollFd<'_> {
        PollFd::from_borrowed_fd(self.client.as_fd(), interest(&self.to_server, &self.to_client))
    }

    fn server_interest(&self) -> PollFd<'_> {
        PollFd::from_borrowed_fd(self.server.as_fd(), interest(&self.to_client, &self.to_server))
    }

    /// When the next piece arrives. A full socket has an event of its own.
    fn next_due(&self) -> Option<Instant> {
        let directions = [&self.to_server, &self.to_client].into_iter();
        directions.filter(|it| !it.is_blocked).filter_map(|it| Some(it.pieces.front()?.0)).min()
    }

    /// Reads and writes as far as possible. Returns whether the connection continues.
    fn forward(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        let Self { client, server, to_server, to_client } = self;
        to_server.read(client, buffer)?;
        to_client.read(server, buffer)?;
        to_server.write(server)?;
        to_client.write(client)?;
        Ok(!(to_server.is_over || to_client.is_over))
    }
}

/// The events of a socket: `from` it data is read, `to` it data is written.
fn interest(from: &Direction, to: &Direction) -> PollFlags {
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::IN, from.can_read());
    flags.set(PollFlags::OUT, to.is_blocked);
    flags
}

impl Direction {
    fn can_read(&self) -> bool {
        !self.has_ended && self.pieces.len() < PIECES_MAX
    }

    fn read(&mut self, mut socket: &TcpStream, buffer: &mut [u8]) -> io::Result<()> {
        while self.can_read() {
            match socket.read(buffer) {
                Ok(read) => {
                    self.has_ended = read == 0;
                    let arrives = Instant::now().max(self.begins) + self.delay;
                    self.pieces.push_back((arrives, buffer[..read].to_vec()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write(&mut self, mut socket: &TcpStream) -> io::Result<()> {
        self.is_blocked = false;
        while let Some((due, piece)) = self.pieces.front_mut()
            && *due <= Instant::now()
        {
            if piece.is_empty() {
                self.is_over = true;
                break;
            }
            match socket.write(piece) {
                Ok(written) if written == piece.len() => drop(self.pieces.pop_front()),
                Ok(written) => drop(piece.drain(..written)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_blocked = true;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More than the sockets hold.
    const BYTES: usize = 3_000_000;

    #[test]
    fn all_data_and_the_end_arrive_after_the_delay() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let round_trip = Duration::from_millis(20);
        let relay = Relay::start(listener.local_addr().unwrap(), round_trip).unwrap();
        let server = thread::spawn(move || {
            let (mut peer, _) = listener.accept().unwrap();
            let mut all = vec![0; BYTES];
            peer.read_exact(&mut all).unwrap();
            peer.write_all(&all).unwrap();
        });
        let begun = Instant::now();
        let mut client = TcpStream::connect(relay.address()).unwrap();
        let sent: Vec<u8> = (0..BYTES).map(|number| number.to_le_bytes()[0]).collect();
        let mut received = Vec::new();
        thread::scope(|scope| {
            let mut writer = client.try_clone().unwrap();
            let sent = &sent;
            scope.spawn(move || writer.write_all(sent).unwrap());
            client.read_to_end(&mut received).unwrap();
        });
        server.join().unwrap();
        assert!(received == sent, "{} bytes", received.len());
        // One round trip for the handshake of TCP, and one for the request and the response.
        assert!(begun.elapsed() >= round_trip * 2);
        assert!(!relay.cpu().is_zero(), "its thread has copied them");
    }
}
