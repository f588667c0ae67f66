//! A load of concurrent ordinary clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::{Connection, Response};

/// Clients that send one request after the other until they are stopped. A refused or lost connection, and a missing or incomplete
/// response, fail the test.
pub struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Tally>>,
}

/// The totals of a [`Load`].
#[derive(Debug, Default, Clone, Copy)]
pub struct Tally {
    /// Connections opened.
    pub connections: u64,
    /// Complete responses that passed the check.
    pub responses: u64,
}

impl Load {
    /// Starts a client for each item of `requests_per_connection`. After that number of requests, or if the server closes the
    /// connection, the client opens a new one. The clients request `targets` in turn, and `check` validates each response.
    pub fn start(
        address: SocketAddr,
        requests_per_connection: &[u64],
        targets: &'static [&'static str],
        check: fn(&str, &Response),
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let clients = requests_per_connection.iter().map(|&requests| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || run(address, requests, targets, check, &stop))
        });
        Self { clients: clients.collect(), stop }
    }

    /// Stops the clients and returns the totals.
    /// Panics if a client failed.
    pub fn stop(mut self) -> Tally {
        self.stop.store(true, Ordering::Relaxed);
        let mut sum = Tally::default();
        for client in self.clients.drain(..) {
            let tally = client.join().expect("no client fails; the output above has the error");
            sum.connections += tally.connections;
            sum.responses += tally.responses;
        }
        sum
    }
}

/// The check of a load whose responses are all 200.
/// Panics if this one is not.
pub fn succeeds(target: &str, response: &Response) {
    assert_eq!(response.status, 200, "{target}: {}", response.head);
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn run(
    address: SocketAddr,
    requests: u64,
    targets: &[&str],
    check: fn(&str, &Response),
    stop: &AtomicBool,
) -> Tally {
    let mut tally = Tally::default();
    let mut targets = targets.iter().cycle();
    while !stop.load(Ordering::Relaxed) {
        let mut connection = Connection::open(address);
        tally.connections += 1;
        for _ in 0..requests {
            let target = targets.next().expect("a cycle has no end");
            connection.send(format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes());
            let response = connection.response();
            check(target, &response);
            tally.responses += 1;
            if stop.load(Ordering::Relaxed) {
                return tally;
            }
            if response.field("connection") == Some("close") {
                break;
            }
        }
    }
    tally
}
