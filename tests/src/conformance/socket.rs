//! Runs a case over loopback, against whatever engine is given.
//!
//! Nothing is slept for: a part of the input that must arrive by itself is sent when the engine has counted the bytes of
//! the part before it. That the connection is open is shown by what it answers next. Time passes only at the end of a
//! case: there a `wait` means that the close is waited for, with [`hurried`] limits.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rudy_http::Limits;
use rudy_net::engine::Engine;
use rudy_net::listen::{Address, BoundAddress, InheritedSockets, Listener};

use super::service::{Site, Sites};
use super::{Case, End, Seen, Step, site};
use crate::PATIENCE;

/// A time that must pass for a case to end: long enough for a busy machine to send a few bytes in it.
const HURRIED_TIME: Duration = Duration::from_secs(1);

/// Asked on a connection that should be open, and the end of the answer, which no answer in a case has.
const PROBE: &[u8] = b"GET /inspect HTTP/1.1\r\nHost: probe\r\n\r\n";
const PROBE_ANSWER: &[u8] = b"1.1 GET /inspect\nhost: probe\n";

/// An engine that serves the cases' site.
pub struct Served {
    engine: Box<dyn Engine>,
    sites: Arc<Sites>,
    address: SocketAddr,
}

impl Served {
    /// Starts an engine and listens on a free port.
    ///
    /// # Panics
    ///
    /// It does not start.
    #[must_use]
    pub fn start(start: impl FnOnce(Arc<Sites>) -> Box<dyn Engine>) -> Self {
        let sites = Sites::new();
        let engine = start(sites.clone());
        let address: Address = "127.0.0.1:0".parse().expect("an address");
        let listener = Listener::bind(&address, engine.workers().len(), &InheritedSockets::default())
            .expect("a free port");
        let BoundAddress::Ip(address) = listener.bound()[0].clone() else {
            unreachable!("TCP was asked for")
        };
        engine.listen(listener).expect("the engine listens");
        Self { engine, sites, address }
    }

    /// Runs `case`; its bytes come in pieces of at most `piece_bytes`, the first of which has `first_bytes` at most.
    #[must_use]
    pub fn run(&self, case: &Case, first_bytes: usize, piece_bytes: usize) -> Seen {
        let limits = if ends_with_wait(case) { hurried(&case.limits) } else { case.limits.clone() };
        let site = self.sites.open(&limits);
        let mut talk = Talk::new(self, &site);
        let mut left_of_first = first_bytes;
        for step in &case.steps {
            match step {
                Step::Send(bytes) => {
                    let (first, rest) = bytes.split_at(left_of_first.min(bytes.len()));
                    left_of_first -= first.len();
                    first
                        .chunks(piece_bytes)
                        .chain(rest.chunks(piece_bytes))
                        .for_each(|piece| talk.send(piece));
                }
                Step::Wait(_) => {}
                Step::EndOfInput => talk.finish(),
            }
        }
        talk.into_seen(case.end)
    }

    fn received_bytes(&self) -> u64 {
        self.engine.workers().iter().map(|worker| worker.counters.received_bytes.get()).sum()
    }
}

/// Whether time must pass at the end of a case.
#[must_use]
pub fn ends_with_wait(case: &Case) -> bool {
    matches!(case.steps.last(), Some(Step::Wait(_)))
}

/// The same limits, with times that can be waited for.
fn hurried(limits: &Limits) -> Limits {
    Limits {
        head_timeout: HURRIED_TIME,
        first_request_timeout: HURRIED_TIME,
        idle_timeout: HURRIED_TIME,
        rate_grace: HURRIED_TIME,
        ..limits.clone()
    }
}

/// The client's side of a case.
struct Talk<'a> {
    served: &'a Served,
    site: &'a Site,
    stream: TcpStream,
    output: Vec<u8>,
    /// What the engine had received before.
    before: u64,
    sent: u64,
    end: End,
}

impl<'a> Talk<'a> {
    fn new(served: &'a Served, site: &'a Site) -> Self {
        let before = served.received_bytes();
        let stream = TcpStream::connect(served.address).expect("the engine listens");
        stream.set_nodelay(true).expect("TCP has it");
        stream.set_nonblocking(true).expect("sockets have it");
        Self { served, site, stream, output: Vec::new(), before, sent: 0, end: End::Open }
    }

    /// Sends a piece when the one before it has been received, if anybody still listens.
    fn send(&mut self, piece: &[u8]) {
        self.wait("the piece before is received", |talk| {
            talk.served.received_bytes() >= talk.before + talk.sent || talk.is_upgraded()
        });
        let mut rest = piece;
        while !rest.is_empty() && self.end == End::Open {
            match self.stream.write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.receive(),
                Err(error) => {
                    // What the server said before it closed is still to be read. A reset is reported only once.
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
        // It fails only if the server has closed already.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// What came, once the connection is what it should be, or as far as it has come by then.
    fn into_seen(mut self, expected: End) -> Seen {
        let saw = match expected {
            End::Closed | End::Cut => {
                self.wait("the connection is closed", |_| false);
                self.site.saw()
            }
            End::Open => self.probe(PROBE, PROBE_ANSWER),
            End::Upgraded => self.probe(b"probe", &site::upgraded(b"probe")),
        };
        let end = if self.end == End::Open { expected } else { self.end };
        Seen { output: normalized(&self.output), saw, end }
    }

    /// Asks once more, waits for the whole answer, and takes it off the output. What the service saw of the case.
    fn probe(&mut self, question: &[u8], answer_end: &[u8]) -> Vec<String> {
        self.send(question);
        self.wait("the probe is answered", |talk| talk.output.ends_with(answer_end));
        let head = if question == PROBE { b"HTTP/1.1 200 OK\r\n" } else { answer_end };
        let start = self.output.windows(head.len()).rposition(|window| window == head);
        self.output.truncate(start.unwrap_or(self.output.len()));
        let mut saw = self.site.saw();
        if question == PROBE {
            saw.pop();
        }
        saw
    }

    /// Reads until `holds`, or the end.
    fn wait(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !holds(self) && self.end == End::Open {
            assert!(
                Instant::now() < until,
                "waited in vain until {what}; came: {}",
                self.output.escape_ascii()
            );
            self.receive();
            // Gives way to the engine rather than sleeping: it has something to do, or time has to pass.
            std::thread::yield_now();
        }
    }

    /// What comes after an upgrade is no longer counted by the engine.
    fn is_upgraded(&self) -> bool {
        self.output.windows(13).any(|window| window == b"HTTP/1.1 101 ")
    }

    fn receive(&mut self) {
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.end = End::Closed,
            Ok(read) => self.output.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => self.end = End::Cut,
            Err(error) => panic!("receiving: {error}"),
        }
    }
}

/// The output with the date of [`site::DATE`].
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
