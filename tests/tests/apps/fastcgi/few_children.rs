//! An app with fewer children than connections, where each child serves one connection until it is closed, such as php-fpm. An idle
//! connection occupies a child that connections in the accept backlog need.

use std::sync::mpsc::{SyncSender, sync_channel};

use rudy_tests::prelude::*;

use crate::fastcgi::site::{Site, post, respond_with};

const CHILDREN: usize = 5;
const CLIENTS: usize = 64;
const REQUESTS: usize = 20;

/// Starts an app with [`CHILDREN`]. An accepted connection without a child waits, as in the backlog.
fn app() -> App {
    let (free, child): (SyncSender<()>, Receiver<()>) = sync_channel(CHILDREN);
    (0..CHILDREN).for_each(|_| free.send(()).expect("the channel has capacity"));
    let child = Mutex::new(child);
    App::start(move |mut peer| {
        child.lock().expect("no thread panics with it").recv().expect("the other end is ours");
        while peer.request().is_some() && respond_with(&mut peer, "fine") {}
        free.send(()).expect("the other end is ours");
    })
}

fn every_request_is_served(model: Model, clients: usize) {
    let app = app();
    let more = ", connections = 16, queue_timeout = \"30s\"";
    // Two workers, so that connections have to move between them.
    let cores = if model == Model::PerCore { "cores = 2\n" } else { "" };
    let top = format!("keep_alive = true\n{cores}");
    let server = Site::build(model, &app.address(), &top, more).start();
    let address = server.address();
    thread::scope(|scope| {
        for client in 0..clients {
            scope.spawn(move || {
                let mut connection = Connection::open(address);
                for request in 0..REQUESTS {
                    let response = connection.get("/app/x", &[]);
                    assert_eq!(response.status, 200, "{model}: {client}, {request}: {}", response.text());
                }
            });
        }
    });
}

#[test]
fn every_request_is_served_with_fewer_children_than_connections() {
    every_request_is_served(Model::PerCore, CLIENTS);
}

#[test]
fn every_request_is_served_with_fewer_children_on_every_engine() {
    for model in engines() {
        // Number of clients that the engine serves at once.
        let clients = match model {
            Model::Serial => 1,
            Model::Pool(_) => 2,
            _ => 20,
        };
        every_request_is_served(model, clients);
    }
}

/// A body larger than the socket buffer cannot be sent before a child accepts the connection.
#[test]
fn large_bodies_are_served_with_fewer_children_than_connections() {
    let app = app();
    let server = Site::server(Model::PerCore, &app, ", connections = 16");
    for round in 0..3 {
        let clients: Vec<_> = (0..16).map(|_| server.send(post("/app/x", &vec![b'a'; 1 << 20]))).collect();
        for mut client in clients {
            assert_eq!(client.response().text(), "fine", "{round}");
        }
    }
}
