//! Each way to end by itself, and ten thousand connections that end in all of them.

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
async fn however_a_connection_ends_its_descriptor_is_returned() {
    let servers = Servers::start();
    let mut kept = Vec::new();
    for peer in Peer::all() {
        let closed = servers.of(peer).closed();
        kept.extend(peer.meet(servers.of(peer).address).await);
        // One by one, so that a failure has a name.
        eventually(&format!("{peer:?} is closed"), || servers.of(peer).closed() == closed + 1);
    }
    wait_until_returned(Side::Server, &servers.addresses());
    drop(kept);
    servers.assert_time_waits_only_where_first();
}

const CONNECTIONS: usize = 10_000;

/// At the same time.
const OPEN_MAX: usize = 256;

#[tokio::test]
async fn after_ten_thousand_connections_the_process_is_as_it_was_before() {
    if !is_child("many::after_ten_thousand_connections_the_process_is_as_it_was_before") {
        return;
    }
    keep_quiet_about_panics_of_connections();
    let servers = Servers::start();
    // Threads, timers and the poller have what they need after the first round, and keep it.
    let mut peers = servers.meet_all(1000).await;
    let before = descriptors();

    let begun = Instant::now();
    peers.extend(servers.meet_all(CONNECTIONS).await);
    let time = begun.elapsed();
    let mut after = descriptors();
    eventually("there are as many descriptors as before", || {
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

/// A server for those who take no time, one for those whose time runs out, and one for those whose time runs out when they
/// have asked.
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

    /// Has so many peers meet the servers, and waits until nothing is left of them but what the kernel keeps for a minute.
    async fn meet_all(&self, number: usize) -> Vec<Peer> {
        // Where one waits for the other, waiting is for few.
        let slow_every = if is_serial() { number / 10 } else { 20 };
        let peers = (0..number).map(|at| match at % slow_every {
            0 => Peer::SLOW[at / slow_every % Peer::SLOW.len()],
            _ => Peer::PROMPT[at % Peer::PROMPT.len()],
        });
        let peers: Vec<_> = peers.collect();
        let closed = self.closed() + number as u64;
        let room = Arc::new(Semaphore::new(OPEN_MAX));
        let mut meeting = JoinSet::new();
        for peer in peers.iter().copied() {
            let permit = room.clone().acquire_owned().await.unwrap();
            let server = self.of(peer).address;
            meeting.spawn(async move {
                let kept = peer.meet(server).await;
                drop(permit);
                kept
            });
        }
        // Kept open until the servers are done with them.
        let kept = meeting.join_all().await;
        eventually("every connection is closed", || self.closed() == closed);
        drop(kept);
        self.assert_time_waits_only_where_first();
        peers
    }

    fn assert_time_waits_only_where_first(&self) {
        let left = wait_until_gone(&self.addresses());
        Peer::all()
            .for_each(|peer| TimeWaits::of(peer, &left, &self.addresses()).assert_only_where_first(peer));
    }
}

impl Server {
    fn closed(&self) -> u64 {
        sum(&*self.engine, |counters| &counters.closed)
    }
}

/// A peer's connections whose last packets the kernel may still have to answer, by the side that holds them.
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

    fn assert_only_where_first(&self, peer: Peer) {
        if peer.first() != First::Server {
            assert_eq!(self.server, 0, "{peer:?}: TIME_WAIT at the server, which did not close first");
        }
        if peer.first() != First::Client {
            assert_eq!(self.client, 0, "{peer:?}: TIME_WAIT at the client, which did not close first");
        }
    }
}

/// The panics of connections are what is tested here; ten thousand messages would hide one that is not.
fn keep_quiet_about_panics_of_connections() {
    let default = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !thread::current().name().unwrap_or_default().starts_with("rudy-") {
            default(info);
        }
    }));
}
