//! An app that accepts no connection for now, and whose queue in the kernel is full.

use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

use rudy_net::engine::Model;
use rudy_tests::Server;
use rudy_tests::fastcgi::{App, Peer};

use crate::queue::ask;
use crate::site::{Site, answer_with};

/// Answers everything.
fn fine(mut peer: Peer) {
    while peer.request().is_some() && answer_with(&mut peer, "fine") {}
}

/// What waits for the server at `connect_timeout = "500ms"`, whatever the address; others are served meanwhile.
fn is_502_in_time(mut server: Server) {
    let mut client = ask(&server);
    assert_eq!(server.get("/elsewhere").status, 404);
    assert_eq!(client.response().status, 502);
    server.wait_for_line("it accepts no connection within 500ms (`connect_timeout`)");
}

#[test]
fn a_unix_socket_whose_queue_is_full_is_502_after_connect_time() {
    let app = App::start_without_accepting(fine);
    let _waits = UnixStream::connect(app.socket()).unwrap();
    is_502_in_time(Site::server(Model::PerCore, &app, ", connect_timeout = \"500ms\""));
}

#[test]
fn a_port_whose_queue_is_full_is_502_after_connect_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    let _waits = TcpStream::connect(address).unwrap();
    let server =
        Site::build(Model::PerCore, &address.to_string(), "", ", connect_timeout = \"500ms\"").start();
    is_502_in_time(server);
}

#[test]
fn a_request_to_an_app_that_does_not_accept_yet_gets_its_response_when_the_app_accepts() {
    let mut app = App::start_without_accepting(fine);
    let waits = UnixStream::connect(app.socket()).unwrap();
    let more = ", connections = 1, queue = 0, connect_timeout = \"30s\"";
    let mut server = Site::server(Model::PerCore, &app, more);
    // One of two requests has the only connection, and waits: that is why the other is rejected.
    let mut clients = [ask(&server), ask(&server)];
    server.wait_for_line("0 requests wait for a connection already (`queue`)");
    app.accept();
    let mut statuses = clients.each_mut().map(|client| client.response().status);
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 503]);
    drop(waits);
}
