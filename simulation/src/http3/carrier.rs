//! A connection over QUIC, of a client: another side of the library that the server uses, over a socket of the world.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use rudy_quic::quinn_proto::crypto::rustls::QuicClientConfig;
use rudy_quic::quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, ConnectionId, ConnectionIdGenerator,
    DatagramEvent, Endpoint, EndpointConfig, Event, TransportConfig, VarInt,
};
use rudy_quic::{Keys, SECRET_BYTES, streams};
use tokio::time::{Instant, sleep_until, timeout};

use crate::client::Client;
use crate::network::Bound;
use crate::tls::SITE;

/// The datagrams of a call.
const SEGMENTS_MAX: usize = 10;

/// How long a connection that has ended answers what still arrives.
const CLOSED_TIME: Duration = Duration::from_secs(3);

/// A connection. Dropping it leaves the server alone.
pub(super) struct Carrier {
    pub(super) socket: Arc<Bound>,
    pub(super) machine: Box<Connection>,
    endpoint: Box<Endpoint>,
    handle: ConnectionHandle,
    pub(super) is_connected: bool,
    /// Why it has ended.
    pub(super) lost: Option<ConnectionError>,
}

impl Carrier {
    /// Begins a connection.
    pub(super) fn new(client: &mut Client, transport: TransportConfig) -> Self {
        client.address.set_port(client.address.port() + 1);
        let socket = client.network.bind_datagrams(client.address, false).expect("a port of its own");
        let mut config = EndpointConfig::new(Arc::new(Keys::of_secret([0; SECRET_BYTES]).reset()));
        let random = &mut client.random;
        let ids = Ids { random: random.fork(), length: if random.bool() { 0 } else { 8 } };
        let mut seed = [0; 32];
        random.fill(&mut seed);
        config.cid_generator(move || Box::new(ids.clone())).rng_seed(Some(seed));
        let mut endpoint = Endpoint::new(Arc::new(config), None, true, None);
        let config = client_config(client, transport);
        let (handle, machine) =
            endpoint.connect(now(), config, client.server, SITE).expect("settings of a client");
        let (machine, endpoint) = (Box::new(machine), Box::new(endpoint));
        Self { socket, machine, endpoint, handle, is_connected: false, lost: None }
    }

    /// Handles what has arrived, and what is due. Passes on the events of streams.
    pub(super) fn receive(&mut self) {
        let now = now();
        while let Some(datagram) = self.socket.take() {
            let mut buffer = Vec::new();
            let event = self.endpoint.handle(
                now,
                datagram.from,
                datagram.to,
                datagram.ecn,
                datagram.bytes,
                &mut buffer,
            );
            match event {
                Some(DatagramEvent::ConnectionEvent(_, event)) => self.machine.handle_event(event),
                Some(DatagramEvent::Response(transmit)) => {
                    self.socket.send(&transmit, &buffer[..transmit.size]);
                }
                Some(DatagramEvent::NewConnection(_)) | None => {}
            }
        }
        if self.machine.poll_timeout().is_some_and(|due| due <= now) {
            self.machine.handle_timeout(now);
        }
        self.exchange_events();
        while let Some(event) = self.machine.poll() {
            match event {
                Event::Connected => self.is_connected = true,
                Event::ConnectionLost { reason } => self.lost = Some(reason),
                // All streams are looked at in any case.
                _ => {}
            }
        }
    }

    fn exchange_events(&mut self) {
        while let Some(event) = self.machine.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.machine.handle_event(event);
            }
        }
    }

    /// Sends what is due.
    pub(super) fn transmit(&mut self) {
        let mut buffer = Vec::new();
        while let Some(transmit) = self.machine.poll_transmit(now(), SEGMENTS_MAX, &mut buffer) {
            self.socket.send(&transmit, &buffer[..transmit.size]);
            buffer.clear();
        }
        self.exchange_events();
    }

    /// Waits until something has arrived or is due.
    pub(super) async fn wait(&mut self, due: Option<Instant>) {
        let due = due.into_iter().chain(self.machine.poll_timeout().map(Instant::from_std)).min();
        let arrived = self.socket.wait();
        match due {
            Some(due) => tokio::select! {
                biased;
                () = arrived => {}
                () = sleep_until(due) => {}
            },
            None => arrived.await,
        }
    }

    /// Ends the connection, and answers what still arrives.
    pub(super) async fn close(mut self, code: u64) {
        self.machine.close(now(), streams::code(code), Bytes::new());
        let answer = async {
            while !self.machine.is_drained() {
                self.transmit();
                self.wait(None).await;
                self.receive();
            }
        };
        // As long as the socket of a program that has other connections.
        let _ = timeout(CLOSED_TIME, answer).await;
    }
}

/// Returns the time for the library.
pub(super) fn now() -> std::time::Instant {
    Instant::now().into_std()
}

fn client_config(client: &mut Client, transport: TransportConfig) -> ClientConfig {
    let tls = client.tls.clone().expect("a client over QUIC has TLS");
    let crypto = QuicClientConfig::try_from(tls).expect("TLS 1.3");
    let mut config = ClientConfig::new(Arc::new(crypto));
    let first = Mutex::new(Ids { random: client.random.fork(), length: client.random.usize(8..=20) });
    config
        .transport_config(Arc::new(transport))
        .initial_dst_cid_provider(Arc::new(move || first.lock().generate_cid()));
    config
}

/// Returns what a client may receive, on a stream and in sum, and how many streams the server may open.
pub(super) fn transport(random: &mut fastrand::Rng) -> TransportConfig {
    let mut transport = TransportConfig::default();
    if random.bool() {
        // With less, the round trips of a large response last longer than the server waits at its end.
        transport
            .stream_receive_window(VarInt::from_u32(random.u32(4_000..200_000)))
            .receive_window(VarInt::from_u32(random.u32(65_535..400_000)))
            .max_concurrent_uni_streams(VarInt::from_u32(random.u32(3..100)));
    }
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        // A client keeps a connection open as long as it waits for a response (RFC 9114 §5.1).
        .keep_alive_interval(Some(Duration::from_secs(4)));
    transport
}

/// Generates ids of connections.
#[derive(Clone)]
struct Ids {
    random: fastrand::Rng,
    length: usize,
}

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [0; 20];
        self.random.fill(&mut id);
        ConnectionId::new(&id[..self.length])
    }

    fn cid_len(&self) -> usize {
        self.length
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}
