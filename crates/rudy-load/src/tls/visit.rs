//! One connection to a server: TCP, TLS and a request, and what each of them took.

use std::time::{Duration, Instant};

use http::HeaderMap;
use rudy_http::Limits;
use rudy_message::client::ResponseHead;
use rudy_request::{
    Connection, DriveStatus, Encoded, Error, Failure, Handshake, Observer, Packets, Protocols, Remote,
    Security, Sending, Traffic, Transport, Waiter, connect, exchange,
};
use rustls::pki_types::CertificateDer;

/// Size of the read buffer. The response has no body.
const SCRATCH_BYTES: usize = 16 * 1024;

/// What has happened on a connection until the end of a phase.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Step {
    /// Time since the start of the connection attempt.
    pub(super) at: Duration,
    /// Bytes and round trips of TLS.
    pub(super) traffic: Traffic,
    /// TCP segments.
    pub(super) packets: Packets,
}

impl Step {
    /// What has happened since an earlier step.
    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            at: self.at.saturating_sub(before.at),
            traffic: self.traffic.since(&before.traffic),
            packets: self.packets.since(before.packets),
        }
    }
}

/// A completed visit.
#[derive(Debug, Clone)]
pub(super) struct Visit {
    /// The address.
    pub(super) remote: Remote,
    /// TCP is connected.
    pub(super) connected: Step,
    /// The handshake is complete.
    pub(super) established: Step,
    /// The first byte of the response was received; `None` without a response.
    pub(super) first_byte: Option<Step>,
    /// The status of the response, or why there is none.
    pub(super) status: Result<u16, String>,
    /// The result of the handshake.
    pub(super) handshake: Handshake,
    /// The negotiated parameters.
    pub(super) negotiated: Negotiated,
    /// The certificates that the server sent.
    pub(super) chain: Vec<CertificateDer<'static>>,
}

/// What client and server have agreed on.
#[derive(Debug, Clone, Default)]
pub(super) struct Negotiated {
    /// Version and cipher suite.
    pub(super) version: &'static str,
    pub(super) cipher_suite: String,
    /// The group of the key exchange; `None` in a session that was resumed without one.
    pub(super) group: Option<String>,
    /// The application protocol (ALPN).
    pub(super) alpn: Option<String>,
    /// The number of tickets for resumption; TLS 1.3 only.
    pub(super) tickets: u32,
}

/// The server to visit.
pub(super) struct Target<'a> {
    pub(super) remotes: &'a [Remote],
    pub(super) security: Security,
    pub(super) protocols: Protocols,
    pub(super) request: &'a Encoded,
    pub(super) until: Option<Instant>,
    /// The simulated round-trip time.
    pub(super) round_trip: Duration,
}

impl Target<'_> {
    /// Connects, sends the request, and reads its response.
    ///
    /// # Errors
    ///
    /// The handshake failed. A failure after it is part of the visit.
    pub(super) fn visit(&self, waiter: &Waiter) -> Result<Visit, Error> {
        let mut observer = VisitObserver::new();
        let (transport, remote) = connect(self.remotes, waiter, self.until)?;
        let mut connection = Connection::new(transport, self.protocols);
        let exchanged = self.exchange(&mut connection, waiter, &mut observer);
        let negotiated = Negotiated::of(connection.transport());
        let chain = connection.transport().tls().and_then(|tls| tls.peer_certificates());
        let chain = chain.unwrap_or_default().to_vec();
        connection.close();
        let (Some(mut connected), Some((established, handshake))) =
            (observer.connected, observer.established)
        else {
            return Err(exchanged.err().unwrap_or(Failure::Closed(None).into()));
        };
        // The relay accepts connections at once, and holds the first data back instead.
        connected.at += self.round_trip;
        let status = exchanged.map_err(|error| error.to_string());
        let status = status.and_then(|_| observer.status.ok_or_else(|| "no response".to_owned()));
        let first_byte = observer.first_byte;
        Ok(Visit { remote, connected, established, first_byte, status, handshake, negotiated, chain })
    }

    fn exchange(
        &self,
        connection: &mut Connection,
        waiter: &Waiter,
        observer: &mut VisitObserver,
    ) -> Result<DriveStatus, Error> {
        let sending = Sending {
            request: self.request,
            security: Some(&self.security),
            limits: &Limits::for_responses(),
            waiter,
            deadline: |_: &Connection| (self.until, Error::Failed(Failure::Timeout)),
        };
        exchange(connection, &sending, &mut [0; SCRATCH_BYTES], observer, |observer, connection| {
            observer.complete_first_byte(connection.transport());
            observer.failure.take().map_or(Ok(observer.has_ended), |failure| Err(failure.into()))
        })
    }
}

impl Negotiated {
    fn of(transport: &Transport) -> Self {
        let Some(tls) = transport.tls() else { return Self::default() };
        let (version, cipher_suite) = transport.version_and_suite().unwrap_or_default();
        let alpn = transport.application_protocol();
        Self {
            version,
            cipher_suite,
            group: transport.key_exchange_group(),
            alpn: alpn.map(|name| name.escape_ascii().to_string()),
            tickets: tls.tls13_tickets_received(),
        }
    }

    /// Whether an attacker with a quantum computer cannot compute the keys from a recording.
    pub(super) fn is_post_quantum(&self) -> bool {
        self.group.as_ref().is_some_and(|group| group.contains("MLKEM"))
    }
}

/// Records the steps of a visit.
struct VisitObserver {
    start: Instant,
    connected: Option<Step>,
    established: Option<(Step, Handshake)>,
    first_byte_at: Option<Duration>,
    first_byte: Option<Step>,
    status: Option<u16>,
    has_ended: bool,
    failure: Option<Failure>,
}

impl VisitObserver {
    fn new() -> Self {
        Self {
            start: Instant::now(),
            connected: None,
            established: None,
            first_byte_at: None,
            first_byte: None,
            status: None,
            has_ended: false,
            failure: None,
        }
    }

    fn step(&self, now: Instant, transport: &Transport) -> Step {
        let packets = transport.packets().unwrap_or_default();
        Step { at: now - self.start, traffic: transport.traffic(), packets }
    }

    /// Adds the traffic to the first byte, which is known when the connection has been driven.
    fn complete_first_byte(&mut self, transport: &Transport) {
        if let Some(at) = self.first_byte_at.take() {
            let packets = transport.packets().unwrap_or_default();
            self.first_byte = Some(Step { at, traffic: transport.traffic(), packets });
        }
    }

    fn respond(&mut self, now: Instant) {
        if self.first_byte.is_none() {
            self.first_byte_at.get_or_insert(now - self.start);
        }
    }
}

impl Observer for VisitObserver {
    fn connected(&mut self, now: Instant, transport: &Transport) {
        self.connected = Some(self.step(now, transport));
    }

    fn tls_established(&mut self, now: Instant, transport: &Transport) {
        let handshake = transport.tls_handshake();
        self.established = handshake.map(|handshake| (self.step(now, transport), handshake));
    }

    fn received(&mut self, _bytes: usize, now: Instant) {
        self.respond(now);
    }

    fn stream(&mut self, _stream: u32, now: Instant) {
        self.respond(now);
    }

    fn failed(&mut self, failure: Failure, _now: Instant) {
        self.failure = Some(failure);
    }

    fn head(&mut self, head: &ResponseHead<'_>) {
        self.status = Some(head.status());
    }

    fn data(&mut self, _bytes: &[u8]) {}

    fn end(&mut self, _trailers: Option<&HeaderMap>, _now: Instant) {
        self.has_ended = true;
    }
}
