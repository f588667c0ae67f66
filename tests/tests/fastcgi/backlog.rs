//! An app that accepts nobody for now, and whose queue in the kernel is full.

use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rudy_net::engine::Model;
use rudy_tests::fastcgi::{App, Peer};
use rudy_tests::{PATIENCE, Server};

use crate::queue::ask;
use crate::site::{Site, answer_with};

/// Answers everything.
fn fine(mut peer: Peer) {
    while peer.request().is_some() && answer_with(&mut peer, "fine") {}
}

/// What waits for the server at `connect_time = "500ms"`, whatever the address; others are served meanwhile.
fn is_502_in_time(mut server: Server) {
    let mut client = ask(&server);
    assert_eq!(server.get("/elsewhere").status, 404);
    assert_eq!(client.answer().status, 502);
    server.wait_for_line("it accepts nobody within 500ms (`connect_time`)");
}

#[test]
fn a_unix_socket_whose_queue_is_full_is_502_after_connect_time() {
    let app = App::hold(fine);
    let _waits = UnixStream::connect(app.socket()).unwrap();
    is_502_in_time(Site::server(Model::PerCore, &app, ", connect_time = \"500ms\""));
}

#[test]
fn a_port_whose_queue_is_full_is_502_after_connect_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    let _waits = TcpStream::connect(address).unwrap();
    let server = Site::build(Model::PerCore, &address.to_string(), ", connect_time = \"500ms\"").start();
    is_502_in_time(server);
}

#[test]
fn who_asks_an_app_that_accepts_nobody_yet_is_answered_when_it_does() {
    let mut app = App::hold(fine);
    let waits = UnixStream::connect(app.socket()).unwrap();
    let server = Site::server(Model::PerCore, &app, ", connect_time = \"30s\"");
    let mut client = ask(&server);
    client.socket().set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(client.socket().peek(&mut [0]).is_err(), "it is answered, and nobody was asked");
    client.socket().set_read_timeout(Some(PATIENCE)).unwrap();
    app.accept();
    assert_eq!(client.answer().text(), "fine");
    drop(waits);
}
