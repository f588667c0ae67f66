//! Measures the memory that a whole server has for an idle connection over QUIC, with a counting allocator.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

#[path = "../../rudy-http/tests/counting/mod.rs"]
mod counting;
mod support;

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use std::{panic, thread};

use http::HeaderMap;
use rudy_http::Limits;
use rudy_message::client::ResponseHead;
use rudy_request::{Access, Connection, Encoded, Observer, Protocols, Route, Sessions, Template, Trust, Url};
use rudy_server::run::{self, Exit};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpid, kill_process};

use crate::counting::{HELD, IS_IGNORED};
use crate::support::{options, reserve_port};

/// The connections of a measurement. The first half pays for what is allocated once.
const CONNECTIONS: usize = 200;

/// What an idle connection has at most after a request, in bytes: 2.0 KiB of Rudy, 1.2 KiB of the keys of rustls, and the rest of
/// quinn-proto. The keys have 2.3 KiB beside it, which aws-lc allocates.
const MOST: usize = 14_800;

#[test]
fn an_idle_connection_over_quic_has_at_most_this_much() {
    IS_IGNORED.set(true);
    let (_reserved, address) = reserve_port();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("rudy.toml");
    let text = format!(
        "listen = '{address},tls'\ncores = 1\nadmin_socket = 'admin.sock'\n[[site]]\ntls = 'self-signed'\n\
         [[site.route]]\npath = '/*'\nrespond = 'hello'\n"
    );
    std::fs::write(&config, text).unwrap();
    let server = thread::spawn(move || run::serve(options(config)));
    let mut clients = Clients::new(address);
    clients.request_on(CONNECTIONS);
    let before = HELD.load(Ordering::Relaxed);
    clients.request_on(CONNECTIONS);
    let each = || HELD.load(Ordering::Relaxed).saturating_sub(before) / CONNECTIONS;
    // The last packets are acknowledged, and the size of the path is found out.
    let until = Instant::now() + Duration::from_secs(2);
    while each() > MOST && Instant::now() < until {
        clients.drive(Duration::from_millis(10));
    }
    let held = each();
    drop(clients);
    kill_process(getpid(), Signal::TERM).unwrap();
    assert_eq!(server.join().unwrap(), Exit::Done);
    // The server writes panics to its log, which is closed.
    drop(panic::take_hook());
    assert!(held <= MOST, "{held} bytes, of {MOST} at most");
}

/// Connections with a response each.
struct Clients {
    route: Route,
    request: Encoded,
    connections: Vec<Client>,
}

struct Client {
    connection: Connection,
    is_sent: bool,
    responses: Responses,
}

/// Counts the responses of a connection.
#[derive(Default)]
struct Responses(usize);

impl Observer for Responses {
    fn head(&mut self, _: &ResponseHead<'_>) {}

    fn data(&mut self, _: &[u8]) {}

    fn end(&mut self, _: Option<&HeaderMap>, _: Instant) {
        self.0 += 1;
    }
}

impl Clients {
    fn new(address: SocketAddr) -> Self {
        let url: Url = format!("https://{address}/").parse().unwrap();
        let access = Access { trust: Trust::All, sessions: Sessions::Full, ..Access::default() };
        let template = Template { protocols: Protocols::Http3, ..Template::default() };
        Self {
            route: access.route(&url).unwrap(),
            request: template.encode(&url).unwrap(),
            connections: Vec::new(),
        }
    }

    /// Opens connections, and waits until each has a response.
    fn request_on(&mut self, count: usize) {
        for _ in 0..count {
            let connection = Connection::open(&self.route.remotes[0], None, Protocols::Http3).unwrap();
            self.connections.push(Client { connection, is_sent: false, responses: Responses::default() });
            while self.connections.last().is_some_and(|last| last.responses.0 == 0) {
                self.drive(Duration::from_millis(10));
            }
        }
    }

    /// Waits for datagrams at most this long, and handles them.
    fn drive(&mut self, most: Duration) {
        let timeout = Timespec::try_from(most).unwrap();
        let mut sockets: Vec<_> = self
            .connections
            .iter()
            .map(|client| PollFd::from_borrowed_fd(client.connection.transport().as_fd(), PollFlags::IN))
            .collect();
        poll(&mut sockets, Some(&timeout)).unwrap();
        drop(sockets);
        let limits = Limits::default();
        for Client { connection, is_sent, responses } in &mut self.connections {
            let security = self.route.security.as_ref();
            connection.drive(security, &limits, false, &mut [], responses).unwrap();
            if connection.is_open() && !*is_sent {
                *is_sent = connection.request(self.request.http2.as_ref().unwrap()).is_some();
                connection.flush();
            }
        }
    }
}
