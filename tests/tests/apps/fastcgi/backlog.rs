//! An app that accepts no connections for a while, with a full backlog in the kernel.

use rudy_tests::prelude::*;

use crate::fastcgi::queue::send_request;
use crate::fastcgi::site::{Site, respond_with};

/// Responds to every request.
fn respond_to_all(mut peer: Peer) {
    while peer.request().is_some() && respond_with(&mut peer, "fine") {}
}

/// Asserts that a request fails after `connect_timeout = "500ms"`, and that other requests are served meanwhile.
fn assert_504_after_timeout(mut server: Server) {
    let mut client = send_request(&server);
    assert_eq!(server.get("/elsewhere").status, 404);
    assert_eq!(client.response().status, 504);
    server.wait_for_line("it accepts no connection within 500ms (`connect_timeout`)");
}

#[test]
fn a_unix_socket_with_a_full_backlog_is_504_after_connect_timeout() {
    let app = App::start_without_accepting(respond_to_all);
    let _waits = UnixStream::connect(app.socket()).unwrap();
    assert_504_after_timeout(Site::server(Model::PerCore, &app, ", connect_timeout = \"500ms\""));
}

#[test]
fn a_tcp_port_with_a_full_backlog_is_504_after_connect_timeout() {
    let (listener, address) = listen();
    rustix::net::listen(&listener, 0).unwrap();
    let _waits = TcpStream::connect(address).unwrap();
    let more = ", connect_timeout = \"500ms\"";
    assert_504_after_timeout(Site::build(Model::PerCore, &address.to_string(), "", more).start());
}

#[test]
fn a_request_to_an_app_that_does_not_accept_yet_gets_its_response_when_the_app_accepts() {
    let mut app = App::start_without_accepting(respond_to_all);
    let waits = UnixStream::connect(app.socket()).unwrap();
    let more = ", connections = 1, queue = 0, connect_timeout = \"30s\"";
    let mut server = Site::server(Model::PerCore, &app, more);
    // One request uses the only connection and waits for the app. The other one is rejected.
    let mut clients = [send_request(&server), send_request(&server)];
    server.wait_for_line("the queue is full: 0 requests are waiting for a connection (`queue`)");
    app.accept();
    let mut statuses = clients.each_mut().map(|client| client.response().status);
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 503]);
    drop(waits);
}
