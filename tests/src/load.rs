//! Many ordinary clients at once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::{Connection, Response};

/// Clients that ask again as soon as they are answered, until they are told to stop. A connection that is refused or
/// lost, an answer that does not come or is cut: each fails the test.
pub struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Tally>>,
}

/// What the clients of a [`Load`] have done.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tally {
    /// Connections opened.
    pub connections: u64,
    /// Answers that came whole and were found right.
    pub answers: u64,
}

impl Load {
    /// Starts clients, one for each number in `requests_per_connection`: so many requests it sends before it opens a
    /// new connection; fewer if the server says that it closes this one. They ask for `targets` in turn, and `check` looks at what they get.
    #[must_use]
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

    /// Stops them and adds up what they did.
    ///
    /// # Panics
    ///
    /// If one of them was not served as it should have been.
    #[must_use]
    pub fn stop(mut self) -> Tally {
        self.stop.store(true, Ordering::Relaxed);
        let mut sum = Tally::default();
        for client in self.clients.drain(..) {
            let tally = client.join().expect("every client is served; what one met instead stands above");
            sum.connections += tally.connections;
            sum.answers += tally.answers;
        }
        sum
    }
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
            let answer = connection.response();
            check(target, &answer);
            tally.answers += 1;
            if stop.load(Ordering::Relaxed) {
                return tally;
            }
            if answer.field("connection") == Some("close") {
                break;
            }
        }
    }
    tally
}
