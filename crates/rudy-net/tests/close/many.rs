//! Each way to end by itself, and ten thousand connections that end in all of them.

use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::Instant;
use std::{panic, thread};

use rudy_net::engine::Engine;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::peers::{First, Peer};
use crate::service::Server;
use crate::sockets::{Socket, descriptors, wait_until_gone, wait_until_returned};
use crate::support::{eventually, is_child, is_serial, model, sum};

#[tokio::test]
async fn however_a_connection_ends_its_descriptor_is_returned() {
    for peer in Peer::all() {
        let server = Server::start(peer.limits());
        let kept = peer.meet(server.address).await;
        wait_until_closed(&*server.engine, 1);
        wait_until_returned(server.address.port());
        drop(kept);
        let left = wait_until_gone(server.address.port());
        TimeWaits::of(peer, &left, server.address.port()).assert_only_where_first(peer);
    }
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
    let patient = Server::start(Peer::PROMPT[0].limits());
    let hasty = Server::start(Peer::SLOW[0].limits());
    // Threads, timers and the poller have what they need after the first round, and keep it.
    let mut peers = meet_all(1000, &patient, &hasty).await;
    let before = descriptors();

    let begun = Instant::now();
    peers.extend(meet_all(CONNECTIONS, &patient, &hasty).await);
    let time = begun.elapsed();
    let mut after = descriptors();
    eventually("there are as many descriptors as before", || {
        after = descriptors();
        after == before
    });

    println!("{}: {CONNECTIONS} connections in {time:.1?}, after {}", model(), peers.len() - CONNECTIONS);
    println!("descriptors before {before:?}\n       and after {after:?}");
    println!("{:18} {:>6}  {:>9} {:>9}", "TIME_WAIT", "of", "at server", "at client");
    for peer in Peer::all() {
        let number = peers.iter().filter(|other| **other == peer).count();
        let port = if Peer::SLOW.contains(&peer) { &hasty } else { &patient }.address.port();
        let waits = TimeWaits::of(peer, &wait_until_gone(port), port);
        println!("{:18} {number:6}  {:9} {:9}", format!("{peer:?}"), waits.server, waits.client);
    }
}

/// Has so many peers meet the servers, and waits until nothing is left of them but what the kernel keeps for a minute.
async fn meet_all(number: usize, patient: &Server, hasty: &Server) -> Vec<Peer> {
    // Where one waits for the other, waiting is for few.
    let slow_every = if is_serial() { number / 10 } else { 20 };
    let peers: Vec<_> = (0..number)
        .map(|at| match at % slow_every {
            0 => Peer::SLOW[at / slow_every % Peer::SLOW.len()],
            _ => Peer::PROMPT[at % Peer::PROMPT.len()],
        })
        .collect();
    let closed_before = [closed(patient), closed(hasty)];
    let room = Arc::new(Semaphore::new(OPEN_MAX));
    let mut meeting = JoinSet::new();
    for peer in &peers {
        let (peer, permit) = (*peer, room.clone().acquire_owned().await.unwrap());
        let server = if Peer::SLOW.contains(&peer) { hasty } else { patient }.address;
        meeting.spawn(async move {
            let kept = peer.meet(server).await;
            drop(permit);
            kept
        });
    }
    // Kept open until the servers are done with them.
    let kept = meeting.join_all().await;
    let slow = peers.iter().filter(|peer| Peer::SLOW.contains(peer)).count();
    wait_until_closed(&*patient.engine, closed_before[0] + (number - slow) as u64);
    wait_until_closed(&*hasty.engine, closed_before[1] + slow as u64);
    drop(kept);
    for server in [patient, hasty] {
        let port = server.address.port();
        let left = wait_until_gone(port);
        Peer::all().for_each(|peer| TimeWaits::of(peer, &left, port).assert_only_where_first(peer));
    }
    peers
}

/// A peer's connections whose last packets the kernel may still have to answer, by the side that holds them.
struct TimeWaits {
    server: usize,
    client: usize,
}

impl TimeWaits {
    fn of(peer: Peer, left: &[Socket], port: u16) -> Self {
        let at = |end: &SocketAddrV4| *end.ip() == peer.address();
        Self {
            server: left.iter().filter(|socket| socket.local.port() == port && at(&socket.remote)).count(),
            client: left.iter().filter(|socket| socket.remote.port() == port && at(&socket.local)).count(),
        }
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

fn closed(server: &Server) -> u64 {
    sum(&*server.engine, |counters| &counters.closed)
}

fn wait_until_closed(engine: &dyn Engine, number: u64) {
    eventually("every connection is closed", || sum(engine, |counters| &counters.closed) == number);
    assert_eq!(sum(engine, |counters| &counters.accepted), number);
}
