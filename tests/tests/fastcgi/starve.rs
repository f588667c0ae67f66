//! An app whose children serve one connection each, until it is closed, with fewer children than there are connections: php-fpm
//! is one. A connection that is kept keeps a child from those that wait in the accept backlog.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use rudy_net::engine::Model;
use rudy_tests::fastcgi::App;
use rudy_tests::{Connection, engines};

use crate::site::{Site, answer_with, post};

const CHILDREN: usize = 5;
const CLIENTS: usize = 64;
const REQUESTS: usize = 20;

/// An app with [`CHILDREN`]. What is accepted and has no child waits, as in the backlog.
fn app() -> App {
    let (free, child): (SyncSender<()>, Receiver<()>) = sync_channel(CHILDREN);
    (0..CHILDREN).for_each(|_| free.send(()).expect("there is room"));
    let child = Mutex::new(child);
    App::start(move |mut peer| {
        child.lock().expect("no thread panics with it").recv().expect("the other end is ours");
        while peer.request().is_some() && answer_with(&mut peer, "fine") {}
        free.send(()).expect("the other end is ours");
    })
}

fn every_request_is_served(model: Model, clients: usize) {
    let app = app();
    let more = ", connections = 16, queue_timeout = \"30s\"";
    // Workers whose connections have to move between them.
    let cores = if model == Model::PerCore { "cores = 2\n" } else { "" };
    let top = format!("keep_alive = true\n{cores}");
    let server = Site::build(model, &app.address(), &top, more).start();
    let address = server.address();
    thread::scope(|scope| {
        for client in 0..clients {
            scope.spawn(move || {
                let mut connection = Connection::open(address);
                for request in 0..REQUESTS {
                    connection.send(b"GET /app/x HTTP/1.1\r\nHost: test\r\n\r\n");
                    let answer = connection.response();
                    assert_eq!(answer.status, 200, "{model}: {client}, {request}: {}", answer.text());
                }
            });
        }
    });
}

#[test]
fn more_connections_than_children_starve_no_request() {
    every_request_is_served(Model::PerCore, CLIENTS);
}

#[test]
fn more_connections_than_children_starve_no_request_on_any_engine() {
    for model in engines() {
        // As many connections as the engine carries at once.
        let clients = match model {
            Model::Serial => 1,
            Model::Pool(_) => 2,
            _ => 20,
        };
        every_request_is_served(model, clients);
    }
}

/// Nothing of what a socket has no room for can be sent before a child accepts the connection.
#[test]
fn more_connections_than_children_starve_no_large_body() {
    let app = app();
    let server = Site::server(Model::PerCore, &app, ", connections = 16");
    for round in 0..3 {
        let mut clients: Vec<_> = (0..16).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send(&post("/app/x", &vec![b'a'; 1 << 20]));
        }
        for client in &mut clients {
            assert_eq!(client.response().text(), "fine", "{round}");
        }
    }
}
