use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rudy_net::engine::{Problem, Report};

use rudy_service::Limits;
use socket2::{Domain, Socket, Type};

use crate::support::{
    REQUEST, assert_greeted, engine, eventually, exchange, greeter, is_serial, listen, listen_tcp, read_all,
    sum, waiting,
};

#[test]
fn a_connection_over_the_limit_receives_status_503_and_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rudy.sock");
    let (engine, reports) = greeter(Limits { connections: Some(0), ..Limits::default() });
    let address = listen_tcp(&*engine);
    listen(&*engine, &format!("unix:{}", path.display()));
    for _ in 0..5 {
        // With a request already sent, which a close without lingering would response with a reset.
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        assert_unavailable(&read_all(stream));
    }
    assert_unavailable(&read_all(UnixStream::connect(&path).unwrap()));
    assert_eq!(sum(&*engine, |counters| &counters.over_limit), 6);
    assert_eq!(sum(&*engine, |counters| &counters.accepted), 0);
    let problem = Problem::ConnectionLimit;
    let detail = "the limit is 0 (raise `limits.connections`)".to_owned();
    assert_eq!(*reports.lock().unwrap(), [Report::Started { problem, detail }]);
}

#[test]
fn every_connection_of_a_flood_over_the_limit_receives_a_response() {
    let (engine, _) = greeter(Limits { connections: Some(0), ..Limits::default() });
    let address = listen_tcp(&*engine);
    // More connections than may linger, so the others close without. None has sent data, so no reset destroys
    // a response.
    let streams: Vec<_> = (0..400).map(|_| TcpStream::connect(address).unwrap()).collect();
    for stream in streams {
        assert_unavailable(&read_all(stream));
    }
    assert_eq!(sum(&*engine, |counters| &counters.over_limit), 400);
}

pub(crate) fn assert_unavailable(response: &str) {
    assert!(response.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{response}");
    for field in ["Retry-After: 1\r\n", "Connection: close\r\n"] {
        assert!(response.contains(field), "{response}");
    }
}

#[test]
fn the_limit_counts_open_connections_only() {
    if is_serial() {
        return;
    }
    let (mut service, called, permits) = waiting();
    service.limits = Arc::new(Limits { connections: Some(1), ..Limits::default() });
    let (engine, _) = engine(service);
    let address = listen_tcp(&*engine);
    let mut first = TcpStream::connect(address).unwrap();
    first.write_all(REQUEST).unwrap();
    eventually("it is busy", || called.load(Ordering::SeqCst) == 1);
    assert_unavailable(&read_all(TcpStream::connect(address).unwrap()));
    permits.add_permits(2);
    assert_greeted(&exchange(&first, b"").unwrap());
    drop(first);
    eventually("the first is closed", || sum(&*engine, |counters| &counters.closed) == 1);
    assert_greeted(&exchange(TcpStream::connect(address).unwrap(), REQUEST).unwrap());
}

#[test]
fn the_limit_by_address_applies_to_each_address() {
    if is_serial() {
        return;
    }
    let (engine, reports) = greeter(Limits { connections_per_address: Some(1), ..Limits::default() });
    let address = listen_tcp(&*engine);
    let first = TcpStream::connect(address).unwrap();
    assert_greeted(&exchange(&first, REQUEST).unwrap());
    assert_unavailable(&read_all(TcpStream::connect(address).unwrap()));
    assert_greeted(&exchange(connect_from([127, 0, 0, 2], address), REQUEST).unwrap());
    drop(first);
    eventually("the first is closed", || sum(&*engine, |counters| &counters.closed) >= 1);
    eventually("there is room again", || {
        exchange(TcpStream::connect(address).unwrap(), REQUEST)
            .is_ok_and(|response| response.contains(" 200 "))
    });
    let expected = Report::Started {
        problem: Problem::AddressLimit,
        detail: "127.0.0.1 has reached the limit of 1 connections".to_owned(),
    };
    assert_eq!(reports.lock().unwrap()[0], expected);
}

/// Connects from another local address: all of 127.0.0.0/8 are local.
pub(crate) fn connect_from(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}
