//! Each way to end a connection by itself, and ten thousand connections that end in all ways.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use std::{panic, thread};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::peers::{self, First, Peer};
use crate::service::Server;
use crate::sockets::{Side, Socket, descriptors, wait_until_gone, wait_until_returned};
use crate::support::{eventually, is_child, is_serial, model, sum};

#[tokio::test]
async fn every_end_of_a_connection_returns_its_descriptor() {
    let servers = Servers::start();
    let mut kept = Vec::new();
    for peer in Peer::all() {
        let closed = servers.of(peer).closed();
        kept.extend(peer.run(servers.of(peer).address).await);
        // One by one, so that a failure names the peer.
        eventually(&format!("{peer:?} is closed"), || servers.of(peer).closed() == closed + 1);
    }
    wait_until_returned(Side::Server, &servers.addresses());
    drop(kept);
    servers.assert_time_wait_only_at_the_first_to_close();
}

const CONNECTIONS: usize = 10_000;

/// Maximum number of open connections.
const OPEN_MAX: usize = 256;

#[tokio::test]
async fn ten_thousand_connections_leave_no_descriptor_open() {
    if !is_child("many::ten_thousand_connections_leave_no_descriptor_open") {
        return;
    }
    silence_panics_of_connections();
    let servers = Servers::start();
    // The first round allocates threads, timers and the poller.
    let mut peers = servers.run_all(1000).await;
    let before = descriptors();

    let begun = Instant::now();
    peers.extend(servers.run_all(CONNECTIONS).await);
    let time = begun.elapsed();
    let mut after = descriptors();
    eventually("no additional descriptor is open", || {
        after = descriptors();
        after == before
    });

    println!("{}: {CONNECTIONS} connections in {time:.1?}, after {}", model(), peers.len() - CONNECTIONS);
    println!("descriptors before {before:?}\n       and after {after:?}");
    println!("{:18} {:>6}  {:>9} {:>9}", "TIME_WAIT", "of", "at server", "at client");
    let left = wait_until_gone(&servers.addresses());
    for peer in Peer::all() {
        let number = peers.iter().filter(|other| **other == peer).count();
        let waits = TimeWaits::of(peer, &left, &servers.addresses());
        println!("{:18} {number:6}  {:9} {:9}", format!("{peer:?}"), waits.server, waits.client);
    }
}

/// One server with long timeouts, one with short timeouts, and one with a short timeout for sending only.
struct Servers {
    patient: Server,
    hasty: Server,
    hasty_to_send: Server,
}

impl Servers {
    fn start() -> Self {
        Self {
            patient: Server::start(peers::patient()),
            hasty: Server::start(peers::hasty()),
            hasty_to_send: Server::start(peers::hasty_to_send()),
        }
    }

    fn of(&self, peer: Peer) -> &Server {
        match peer {
            Peer::NeverReads => &self.hasty_to_send,
            peer if Peer::SLOW.contains(&peer) => &self.hasty,
            _ => &self.patient,
        }
    }

    fn all(&self) -> [&Server; 3] {
        [&self.patient, &self.hasty, &self.hasty_to_send]
    }

    fn addresses(&self) -> [SocketAddr; 3] {
        self.all().map(|server| server.address)
    }

    fn closed(&self) -> u64 {
        self.all().map(Server::closed).iter().sum()
    }

    /// Runs this number of peers, and waits until only sockets in `TIME_WAIT` are left.
    async fn run_all(&self, number: usize) -> Vec<Peer> {
        // A serial engine serves one connection at a time, so only a few may be slow.
        let slow_every = if is_serial() { number / 10 } else { 20 };
        let peers = (0..number).map(|at| match at % slow_every {
            0 => Peer::SLOW[at / slow_every % Peer::SLOW.len()],
            _ => Peer::PROMPT[at % Peer::PROMPT.len()],
        });
        let peers: Vec<_> = peers.collect();
        let closed = self.closed() + number as u64;
        let room = Arc::new(Semaphore::new(OPEN_MAX));
        let mut running = JoinSet::new();
        for peer in peers.iter().copied() {
            let permit = room.clone().acquire_owned().await.unwrap();
            let server = self.of(peer).address;
            running.spawn(async move {
                let kept = peer.run(server).await;
                drop(permit);
                kept
            });
        }
        // Stays open until the servers have closed.
        let kept = running.join_all().await;
        eventually("every connection is closed", || self.closed() == closed);
        drop(kept);
        self.assert_time_wait_only_at_the_first_to_close();
        peers
    }

    fn assert_time_wait_only_at_the_first_to_close(&self) {
        let left = wait_until_gone(&self.addresses());
        Peer::all().for_each(|peer| {
            TimeWaits::of(peer, &left, &self.addresses()).assert_only_at_the_first_to_close(peer);
        });
    }
}

impl Server {
    fn closed(&self) -> u64 {
        sum(&*self.engine, |counters| &counters.closed)
    }
}

/// The number of a peer's connections in `TIME_WAIT`, at each side.
struct TimeWaits {
    server: usize,
    client: usize,
}

impl TimeWaits {
    fn of(peer: Peer, left: &[Socket], servers: &[SocketAddr]) -> Self {
        let at = |side| {
            left.iter().filter(|socket| socket.is_at(side, servers) && socket.is_from(peer.address())).count()
        };
        Self { server: at(Side::Server), client: at(Side::Client) }
    }

    fn assert_only_at_the_first_to_close(&self, peer: Peer) {
        if peer.first() != First::Server {
            assert_eq!(self.server, 0, "{peer:?}: TIME_WAIT at the server, which did not close first");
        }
        if peer.first() != First::Client {
            assert_eq!(self.client, 0, "{peer:?}: TIME_WAIT at the client, which did not close first");
        }
    }
}

/// These panics are expected, and their messages would hide an unexpected one.
fn silence_panics_of_connections() {
    let default = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !thread::current().name().unwrap_or_default().starts_with("rudy-") {
            default(info);
        }
    }));
}
