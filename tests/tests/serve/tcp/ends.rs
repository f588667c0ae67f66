//! How connections end, and that an end is passed on as it is: an orderly one, one direction only, or a reset.

use rudy_tests::prelude::*;

use super::{assert_echoes, echo, is_reset, table};

/// An upstream that sends these bytes after it has received `hello`, and resets the connection.
fn resetting(bytes: Vec<u8>) -> SocketAddr {
    let (listener, address) = listen();
    thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("the server connects");
        socket.read_exact(&mut [0; 5]).expect("the client sends");
        socket.write_all(&bytes).expect("the client reads");
        rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::ZERO)).expect("TCP supports it");
    });
    address
}

#[test]
fn an_upstream_that_has_sent_everything_still_receives() {
    let (sender, received) = channel();
    let upstream = Upstream::start(move |peer| {
        peer.send("all");
        peer.socket().shutdown(Shutdown::Write).expect("the connection is open");
        sender.send(peer.read_exactly(5)).expect("the test runs");
    });
    let server = Server::config(&table(&[upstream.address()], ""));
    let mut connection = server.connect();
    assert_eq!(connection.read_to_end(), b"all");
    connection.send(b"later");
    assert_eq!(received.recv().expect("the bytes"), b"later");
}

#[test]
fn a_reset_of_the_upstream_reaches_the_client_as_a_reset() {
    let mut server = Server::config(&table(&[resetting(Vec::new())], ""));
    let mut connection = server.connect();
    connection.send(b"hello");
    assert!(is_reset(&connection));
    server.wait_for_line("the upstream is lost");
}

#[test]
fn a_reset_of_the_client_reaches_the_upstream_as_a_reset() {
    let (sender, received) = channel();
    let upstream = Upstream::start(move |peer| {
        peer.read_exactly(5);
        sender.send("read".to_owned()).expect("the test runs");
        let end = peer.socket().read(&mut [0]).map_err(|error| error.kind());
        sender.send(format!("{end:?}")).expect("the test runs");
    });
    let server = Server::config(&table(&[upstream.address()], ""));
    let mut connection = server.connect();
    connection.send(b"hello");
    received.recv().expect("the upstream has read");
    connection.reset();
    assert_eq!(received.recv().expect("the end"), "Err(ConnectionReset)");
}

#[test]
fn a_reset_in_the_middle_of_a_large_amount_is_no_orderly_end() {
    let server = Server::config(&table(&[resetting(vec![b'x'; 8 * 1024 * 1024])], ""));
    let (mut connection, mut all) = (server.connect(), Vec::new());
    connection.send(b"hello");
    let end = connection.socket().read_to_end(&mut all).map_err(|error| error.kind());
    assert_eq!(end, Err(std::io::ErrorKind::ConnectionReset), "after {} bytes", all.len());
}

#[test]
fn a_connection_without_data_ends_after_its_timeout() {
    let upstream = echo("");
    let mut server = Server::config(&table(&[upstream.address()], "idle_timeout = '50ms'"));
    let mut connection = server.connect();
    assert_echoes(&mut connection, "hello");
    assert!(connection.is_closed());
    server.wait_for_line("no data for 50.0 ms (`idle_timeout`)");
}

#[test]
fn a_half_closed_connection_lives_as_long_as_another() {
    let (release, may_send) = gate::<()>();
    let upstream = Upstream::start(move |peer| {
        peer.wait_for_end();
        let _ = may_send.wait();
        peer.send("after the end");
    });
    let server = Server::config(&table(&[upstream.address()], ""));
    let mut connection = server.connect();
    connection.finish();
    // A tunnel of HTTP would end 5 s after one direction.
    assert!(connection.socket().set_read_timeout(Some(Duration::from_secs(6))).is_ok());
    let waited = connection.socket().read(&mut [0]).map_err(|error| error.kind());
    assert_eq!(waited, Err(std::io::ErrorKind::WouldBlock));
    drop(release);
    assert_eq!(connection.read_to_end(), b"after the end");
}
