//! Runs a case over loopback, against any engine.
//!
//! The runner does not sleep. It sends the next piece when the engine has counted the bytes of the previous one, and sends a
//! probe to check that a connection is open. Time passes only for a `wait` at the end of a case, where the runner waits for the
//! close, with [`short_timeouts`].

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rudy_http::Limits;
use rudy_net::engine::Engine;
use rudy_net::listen::{BoundAddress, InheritedSockets, Listener};
use rudy_service::listen_address::Address;
use rustls::{ClientConfig, ClientConnection};

use super::service::{Site, Sites};
use super::{Case, End, Step, Transcript, site};
use crate::PATIENCE;
use crate::tls::{LocalTls, client};

/// A timeout at the end of a case: long enough for a busy machine to send a few bytes.
const SHORT_TIMEOUT: Duration = Duration::from_secs(1);

/// A request that checks whether a connection is open, and the end of its response, which no response in a case has.
const PROBE: &[u8] = b"GET /inspect HTTP/1.1\r\nHost: probe\r\n\r\n";
const PROBE_RESPONSE: &[u8] = b"1.1 GET /inspect\nhost: probe\n";

/// An engine that serves the site of the cases.
pub struct EngineServer {
    engine: Box<dyn Engine>,
    sites: Arc<Sites>,
    address: SocketAddr,
    /// The settings of a client, if the server uses TLS.
    tls: Option<Arc<ClientConfig>>,
}

/// What a server listens for.
#[derive(Clone, Copy)]
pub enum Listen<'a> {
    /// HTTP/1.1 without TLS.
    Plain,
    /// HTTP/1.1 and HTTP/2 without TLS.
    H2c,
    /// HTTP/1.1 with TLS.
    Tls(&'a LocalTls),
    /// HTTP/3, and HTTP/1.1 with TLS.
    Quic(&'a LocalTls),
}

impl EngineServer {
    /// Starts an engine and listens on a free port.
    /// Panics if the engine does not start.
    pub fn start(listen: Listen<'_>, start: impl FnOnce(Arc<Sites>) -> Box<dyn Engine>) -> Self {
        let (address, tls) = match listen {
            Listen::Plain => ("127.0.0.1:0", None),
            Listen::H2c => ("127.0.0.1:0,h2c", None),
            Listen::Tls(tls) | Listen::Quic(tls) => ("127.0.0.1:0,tls", Some(tls)),
        };
        let sites = Sites::new(tls.map(|tls| tls.site.clone()));
        let engine = start(sites.clone());
        let mut address: Address = address.parse().expect("an address");
        address.http3 = matches!(listen, Listen::Quic(_));
        let listener = Listener::bind(&address, engine.workers().len(), &InheritedSockets::default())
            .expect("a free port");
        let BoundAddress::Ip(address) = listener.bound()[0].clone() else {
            unreachable!("the address is TCP")
        };
        engine.listen(listener).expect("the engine listens");
        Self { engine, sites, address, tls: tls.map(|tls| tls.client.clone()) }
    }

    /// Runs `case` with input in pieces of at most `piece_bytes`; the first piece has at most `first_bytes`.
    pub fn run(&self, case: &Case, first_bytes: usize, piece_bytes: usize) -> Transcript {
        let site = self.open(case);
        let mut exchange = Exchange::new(self, &site);
        let mut left_of_first = first_bytes;
        for step in &case.steps {
            match step {
                Step::Send(bytes) => {
                    let (first, rest) = bytes.split_at(left_of_first.min(bytes.len()));
                    left_of_first -= first.len();
                    first
                        .chunks(piece_bytes)
                        .chain(rest.chunks(piece_bytes))
                        .for_each(|piece| exchange.send(piece));
                }
                Step::Wait(_) => {}
                Step::EndOfInput => exchange.finish(),
            }
        }
        exchange.into_transcript(case.end)
    }

    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves the site of a case from now on.
    pub(super) fn open(&self, case: &Case) -> Arc<Site> {
        let limits = if ends_with_wait(case) { short_timeouts(&case.limits) } else { case.limits.clone() };
        self.sites.open(&limits)
    }

    fn received_bytes(&self) -> u64 {
        self.engine.workers().iter().map(|worker| worker.counters.received_bytes.get()).sum()
    }
}

/// Whether a case ends with a `wait`.
pub fn ends_with_wait(case: &Case) -> bool {
    matches!(case.steps.last(), Some(Step::Wait(_)))
}

/// Returns the limits with timeouts that are short enough for a test.
fn short_timeouts(limits: &Limits) -> Limits {
    Limits {
        head_timeout: SHORT_TIMEOUT,
        first_request_timeout: SHORT_TIMEOUT,
        idle_timeout: SHORT_TIMEOUT,
        rate_grace: SHORT_TIMEOUT,
        ..limits.clone()
    }
}

/// A connection to the engine.
trait ClientStream: Read + Write {
    /// Closes the sending side.
    fn finish(&mut self);
}

impl ClientStream for TcpStream {
    fn finish(&mut self) {
        // Fails only if the server has already closed the connection.
        let _ = self.shutdown(Shutdown::Write);
    }
}

/// A non-blocking TLS connection. Unlike [`rustls::StreamOwned`], it can be read after the peer has closed it.
struct TlsStream {
    connection: ClientConnection,
    socket: TcpStream,
}

impl TlsStream {
    /// Sends pending records.
    fn send(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut self.socket)?;
        }
        Ok(())
    }

    /// Receives and decrypts records.
    fn receive(&mut self) -> io::Result<()> {
        self.connection.read_tls(&mut self.socket)?;
        self.connection
            .process_new_packets()
            .map(drop)
            .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
    }
}

impl Read for TlsStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            // The peer may have closed the connection, and still have sent something.
            let _ = self.send();
            match self.connection.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.receive()?,
                result => return result,
            }
        }
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        while self.connection.is_handshaking() {
            self.send()?;
            self.receive()?;
        }
        let written = self.connection.writer().write(bytes)?;
        match self.send() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(written),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}

impl ClientStream for TlsStream {
    fn finish(&mut self) {
        // A handshake cannot end with a close.
        while self.connection.is_handshaking() {
            let would_block = |result: io::Result<()>| {
                result.err().is_none_or(|error| error.kind() == ErrorKind::WouldBlock)
            };
            if !would_block(self.send()) || !would_block(self.receive()) {
                return;
            }
            std::thread::yield_now();
        }
        self.connection.send_close_notify();
        // Fails only if the server has already closed the connection.
        let _ = self.send();
        self.socket.finish();
    }
}

/// The client of a case.
struct Exchange<'a> {
    served: &'a EngineServer,
    site: &'a Site,
    stream: Box<dyn ClientStream>,
    output: Vec<u8>,
    /// The number of bytes that the engine received before this case.
    before: u64,
    sent: u64,
    end: End,
}

impl<'a> Exchange<'a> {
    fn new(served: &'a EngineServer, site: &'a Site) -> Self {
        let before = served.received_bytes();
        let stream = TcpStream::connect(served.address).expect("the engine listens");
        stream.set_nodelay(true).expect("TCP has it");
        stream.set_nonblocking(true).expect("sockets have it");
        let stream: Box<dyn ClientStream> = match &served.tls {
            Some(tls) => Box::new(TlsStream { connection: client(tls), socket: stream }),
            None => Box::new(stream),
        };
        Self { served, site, stream, output: Vec::new(), before, sent: 0, end: End::Open }
    }

    /// Sends a piece after the server has received the previous one, unless the connection has ended.
    fn send(&mut self, piece: &[u8]) {
        self.wait("the previous piece is received", |exchange| {
            exchange.served.received_bytes() >= exchange.before + exchange.sent || exchange.is_upgraded()
        });
        let mut rest = piece;
        while !rest.is_empty() && self.end == End::Open {
            match self.stream.write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.receive(),
                Err(error) => {
                    // Read the data that the server sent before the close. The kernel reports a reset only once.
                    self.wait("the connection is closed", |_| false);
                    if error.kind() == ErrorKind::ConnectionReset {
                        self.end = End::Cut;
                    }
                }
            }
        }
        self.sent += piece.len() as u64;
    }

    fn finish(&mut self) {
        self.stream.finish();
    }

    /// Waits for the expected end, and returns the result.
    fn into_transcript(mut self, expected: End) -> Transcript {
        let saw = match expected {
            End::Closed | End::Cut => {
                self.wait("the connection is closed", |_| false);
                self.site.saw()
            }
            End::Open => self.probe(PROBE, PROBE_RESPONSE),
            End::Upgraded => self.probe(b"probe", &site::upgraded(b"probe")),
        };
        let end = match (self.end, expected) {
            // The length or the chunks show that the response is incomplete.
            (End::Open, _) | (End::Closed, End::Cut) => expected,
            (end, _) => end,
        };
        Transcript { output: normalized(&self.output), saw, end }
    }

    /// Sends a probe, waits for its complete response and removes that from the output. Returns what the service saw of the
    /// case.
    fn probe(&mut self, request: &[u8], response_end: &[u8]) -> Vec<String> {
        self.send(request);
        self.wait("the probe has its response", |exchange| exchange.output.ends_with(response_end));
        let head = if request == PROBE { b"HTTP/1.1 200 OK\r\n" } else { response_end };
        let start = self.output.windows(head.len()).rposition(|window| window == head);
        self.output.truncate(start.unwrap_or(self.output.len()));
        let mut saw = self.site.saw();
        if request == PROBE {
            saw.pop();
        }
        saw
    }

    /// Reads until `is_done` returns true or the connection ends.
    fn wait(&mut self, what: &str, is_done: impl Fn(&Self) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !is_done(self) && self.end == End::Open {
            assert!(
                Instant::now() < until,
                "timeout: waited until {what}; received: {}",
                self.output.escape_ascii()
            );
            self.receive();
            // Yields to the engine instead of sleeping.
            std::thread::yield_now();
        }
    }

    /// Whether the connection is upgraded. The engine does not count input after an upgrade.
    fn is_upgraded(&self) -> bool {
        self.output.windows(13).any(|window| window == b"HTTP/1.1 101 ")
    }

    fn receive(&mut self) {
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.end = End::Closed,
            Ok(read) => self.output.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // A TLS connection that ends without a notification is as incomplete as a reset one.
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof) => {
                self.end = End::Cut;
            }
            Err(error) => panic!("receiving: {error}"),
        }
    }
}

/// Replaces the dates in the output with [`site::DATE`].
fn normalized(output: &[u8]) -> Vec<u8> {
    const FIELD: &[u8] = b"\r\ndate: ";
    let mut normalized = output.to_vec();
    for at in 0..output.len() {
        let date = at + FIELD.len()..at + FIELD.len() + site::DATE.len();
        if output[at..].starts_with(FIELD) && output[date.end.min(output.len())..].starts_with(b"\r\n") {
            normalized[date].copy_from_slice(site::DATE.as_bytes());
        }
    }
    normalized
}
