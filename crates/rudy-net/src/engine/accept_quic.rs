//! Accepts connections over QUIC: one task for each socket of a worker.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rudy_quic::quinn_proto::{self, EndpointConfig, Incoming, ServerConfig};
use rudy_quic::{Ids, Keys, Place, Received, ServerCrypto, TokenTime, Transport};
use rudy_runtime::{clock, is_planted, lose, random, watch};
use rudy_service::{Limits, LocalAddress, Peer, Service, TlsChoice};
use rudy_tls::ClientHello;

use super::ServiceSource;
use super::admission::LimitReached;
use super::worker_runner::{OpenConnection, WorkerRunner};
use crate::driver::{ConnectionContext, ServeQuic};
use crate::listen::Http3Socket;
use crate::quic::{Endpoint, Group, Quic, STREAMS_AT_FIRST, SendBudget};

/// Local addresses whose settings are kept. A machine has a few; one with a whole IPv6 network could have any number.
const CONFIGS_MAX: usize = 64;

/// What a client may have sent before its connection is accepted, which happens at once (RUSTSEC-2026-0341).
const INCOMING_BYTES: u64 = 16 * 1024;

/// Accepts the connections of a socket.
pub(super) struct QuicAcceptor<S> {
    endpoint: Arc<Endpoint>,
    context: Arc<ConnectionContext<S>>,
    runner: Arc<WorkerRunner>,
    keys: Keys,
    token_time: Arc<TokenTime>,
    configs: Configs,
}

/// The settings of new connections, by the local address that their clients have connected to.
#[derive(Default)]
struct Configs {
    limits: Option<Arc<Limits>>,
    by_address: HashMap<Option<IpAddr>, Arc<ServerConfig>, random::RandomState>,
}

impl<S: ServiceSource> QuicAcceptor<S> {
    /// Creates the endpoint of a socket. The current runtime polls it.
    pub(super) fn new(
        socket: Http3Socket,
        (place, keys): (Place, Keys),
        group: Arc<Group>,
        context: Arc<ConnectionContext<S>>,
        runner: Arc<WorkerRunner>,
    ) -> io::Result<Self> {
        let mut config = EndpointConfig::new(Arc::new(keys.reset()));
        let of_ids = keys.clone();
        config
            .cid_generator(move || Box::new(Ids::new(place, &of_ids)))
            .supported_versions(vec![rudy_quic::VERSION_1])
            .rng_seed(random::seed());
        let ids = (place, Ids::new(place, &keys));
        let endpoint = Arc::new(Endpoint::new(socket, config, ids, group, context.worker.clone())?);
        let (token_time, configs) = (Arc::default(), Configs::default());
        let mut acceptor = Self { endpoint, context, runner, keys, token_time, configs };
        // An endpoint without settings is one of a client.
        let config = acceptor.config(None);
        acceptor.endpoint.change(|machine, _| (machine.set_server_config(Some(config)), None));
        Ok(acceptor)
    }

    /// Returns the endpoint.
    pub(super) fn endpoint(&self) -> Arc<Endpoint> {
        self.endpoint.clone()
    }

    /// Accepts as long as `closing` is false, and passes on what arrives for connections as long as there are some.
    pub(super) async fn run(mut self, mut closing: watch::Receiver<bool>) {
        let mut received = Received::default();
        let (endpoint, mut is_dropped) = (self.endpoint.clone(), false);
        loop {
            let is_closing = *closing.borrow() || is_dropped;
            let poll = |cx: &mut Context<'_>| {
                if is_closing && endpoint.is_unused() {
                    return Poll::Ready(true);
                }
                let accept = &mut |incoming| self.accept(incoming, is_closing);
                endpoint.poll_receive(cx, &mut received, accept).map(|received| received.is_err())
            };
            tokio::select! {
                biased;
                changed = closing.changed(), if !is_dropped => is_dropped = changed.is_err(),
                has_ended = std::future::poll_fn(poll) => {
                    if has_ended {
                        return;
                    }
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    /// Accepts or rejects a connection.
    fn accept(&mut self, incoming: Incoming, is_closing: bool) {
        if !is_closing && self.must_retry(&incoming) {
            self.context.worker.counters.http3.retries.add(1);
            // Fails only if it was sent one already.
            let retry = |machine: &mut quinn_proto::Endpoint, buffer: &mut Vec<u8>| {
                ((), machine.retry(incoming, buffer).ok())
            };
            return self.endpoint.change(retry);
        }
        let peer = Peer::Ip(incoming.remote_address());
        let open = if is_closing { None } else { self.admit(&peer) };
        let Some(open) = open else {
            return self.endpoint.change(|machine, buffer| ((), Some(machine.refuse(incoming, buffer))));
        };
        let config = self.config(incoming.local_ip());
        let accepted = self.endpoint.change(|machine, buffer| {
            match machine.accept(incoming, clock::now(), buffer, Some(config)) {
                Ok(accepted) => (Some(accepted), None),
                Err(error) => (None, error.response),
            }
        });
        let Some((handle, machine)) = accepted else { return };
        let budget = SendBudget::new(self.runner.shared.quic_in_transit.clone());
        let quic = Quic::new(machine, handle, self.endpoint.clone(), budget);
        let serving = ServeQuic::new(quic, self.runner.shared.next_number(), self.context.clone());
        rudy_runtime::spawn(Connection { serving, open: Some(open) });
    }

    /// Whether a client must first show that it has its address, because many handshakes are unfinished: those with false addresses stay so.
    fn must_retry(&self, incoming: &Incoming) -> bool {
        let limit = self.context.source.current().limits().http3_retry;
        !incoming.remote_address_validated() && self.runner.worker.handshakes.unfinished() >= limit
    }

    /// Counts a connection, or returns `None` if a limit is reached.
    fn admit(&self, peer: &Peer) -> Option<OpenConnection> {
        let (service, shared) = (self.context.source.current(), &self.runner.shared);
        let make_room =
            |connections, reached: &LimitReached| self.runner.make_room(connections, || reached.to_string());
        // Trusted proxies carry the connections of many clients.
        let counted = peer.ip().filter(|_| !service.is_trusted_proxy(peer));
        match shared.admission.admit(service.limits(), counted, make_room) {
            Ok(permit) => Some(OpenConnection::new(self.runner.clone(), permit)),
            Err(reached) => {
                self.runner.worker.counters.over_limit.add(1);
                shared.reports.record(reached.problem(), || reached.to_string());
                None
            }
        }
    }

    /// Returns the settings of a new connection.
    fn config(&mut self, local: Option<IpAddr>) -> Arc<ServerConfig> {
        let limits = self.context.source.current().limits().clone();
        let Configs { limits: old, by_address } = &mut self.configs;
        if old.as_ref().is_none_or(|old| !Arc::ptr_eq(old, &limits)) || by_address.len() >= CONFIGS_MAX {
            by_address.clear();
            *old = Some(limits.clone());
        }
        let (context, port) = (&self.context, self.endpoint.local().port());
        let new = || {
            let context = context.clone();
            let choose = move |hello: &ClientHello| {
                let local = LocalAddress::known(local.map(|ip| SocketAddr::new(ip, port)));
                match context.source.current().tls_site(hello, &context.address, &local)? {
                    TlsChoice::Site(site) => Some(site),
                    // A connection of QUIC cannot be passed on: its keys are in the handshake.
                    TlsChoice::Pass => None,
                }
            };
            let crypto = Arc::new(ServerCrypto::new(Arc::new(choose)));
            let mut config = ServerConfig::new(crypto, Arc::new(self.keys.token()));
            config
                .transport_config(transport(&limits).config())
                .time_source(self.token_time.clone())
                .incoming_buffer_size(INCOMING_BYTES)
                .incoming_buffer_size_total(INCOMING_BYTES);
            Arc::new(config)
        };
        by_address.entry(local).or_insert_with(new).clone()
    }
}

/// A connection with its permit, which it returns when it has ended. Packets of the client may still arrive then.
struct Connection<S: ServiceSource> {
    serving: ServeQuic<S>,
    open: Option<OpenConnection>,
}

impl<S: ServiceSource> Future for Connection<S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { serving, open } = &mut *self;
        if open.is_some() {
            ready!(serving.poll_open(cx));
            if is_planted("a connection over QUIC that keeps its place") {
                lose(open.take());
            }
            *open = None;
        }
        serving.poll_closed(cx)
    }
}

/// Returns the limits of QUIC.
fn transport(limits: &Limits) -> Transport {
    let http = &limits.http;
    Transport {
        streams: http.http2.streams.min(STREAMS_AT_FIRST),
        stream_window_bytes: http.http2.stream_window_bytes,
        connection_window_bytes: http.http2.connection_window_bytes,
        idle_timeout: http.idle_timeout.max(http.first_request_timeout),
        uses_bbr: limits.http3_uses_bbr,
    }
}
