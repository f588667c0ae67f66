//! Eviction of idle connections at the connection limit.
//!
//! Not for engines with a thread for each connection: there a client may receive its response some time
//! before the thread marks the connection as idle.

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use http::StatusCode;
use rudy_net::engine::{Engine, Model, Problem, Report};
use rudy_service::{Client, ExchangeOutcome, Limits, Reply, Request, Response, Service};

use crate::limits::{assert_unavailable, connect_from};
use crate::support::{
    Greeter, REQUEST, Reports, assert_greeted, engine_of, eventually, exchange, listen, listen_tcp, model,
    read_all, sum, waiting,
};

fn limits(connections: usize) -> Arc<Limits> {
    Arc::new(Limits { connections: Some(connections), ..Limits::default() })
}

fn greeter_of(cores: usize, connections: usize) -> (Box<dyn Engine>, Reports) {
    engine_of(cores, Greeter { limits: limits(connections) })
}

fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).unwrap()
}

/// Opens connections that each have received a response, in this order.
fn greeted(address: SocketAddr, from: &[u8]) -> Vec<TcpStream> {
    let greeted = |&host: &u8| {
        let stream = connect_from([127, 0, 0, host], address);
        assert_greeted(&exchange(&stream, REQUEST).unwrap());
        stream
    };
    from.iter().map(greeted).collect()
}

fn evicted(engine: &dyn Engine) -> u64 {
    sum(engine, |counters| &counters.evicted)
}

/// Asserts that the server has closed without a response.
fn assert_closed(stream: &TcpStream) {
    assert_eq!(read_all(stream), "");
}

/// Asserts that no input is available, not even an end.
fn assert_open(stream: &TcpStream) {
    stream.set_nonblocking(true).unwrap();
    assert_eq!(stream.peek(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    stream.set_nonblocking(false).unwrap();
}

#[test]
fn connections_without_a_request_are_evicted_for_new_ones() {
    if model().has_thread_per_connection() {
        return;
    }
    let (engine, reports) = greeter_of(1, 5);
    let address = listen_tcp(&*engine);
    let silent: Vec<_> = (0..5).map(|_| connect(address)).collect();
    let new = greeted(address, &[1; 5]);
    silent.iter().for_each(assert_closed);
    new.iter().for_each(assert_open);
    assert_eq!((evicted(&*engine), sum(&*engine, |counters| &counters.over_limit)), (5, 0));
    let report = reports.lock().unwrap()[0].clone();
    assert!(matches!(report, Report::Started { problem: Problem::IdleEvicted, .. }), "{report:?}");
    assert_eq!(
        report.to_string(),
        "too many connections: the limit is 5 (raise `limits.connections`); closing idle connections to make room"
    );
}

#[test]
fn the_longest_idle_connection_is_evicted() {
    if model().has_thread_per_connection() {
        return;
    }
    let (engine, _) = greeter_of(1, 3);
    let address = listen_tcp(&*engine);
    let kept = greeted(address, &[1, 1, 1]);
    assert_greeted(&exchange(&kept[0], REQUEST).unwrap());
    let new = greeted(address, &[1]);
    assert_closed(&kept[1]);
    [&kept[0], &kept[2], &new[0]].into_iter().for_each(assert_open);
}

#[test]
fn a_connection_of_the_address_with_most_connections_is_evicted_first() {
    if model().has_thread_per_connection() {
        return;
    }
    let (engine, _) = greeter_of(1, 5);
    let address = listen_tcp(&*engine);
    let streams = greeted(address, &[1, 1, 2, 2, 2]);
    let mut new = greeted(address, &[3]);
    assert_closed(&streams[2]);
    // Two addresses have two connections each now, and the first of these has been idle longest.
    new.extend(greeted(address, &[4]));
    assert_closed(&streams[0]);
    [&streams[1], &streams[3], &streams[4]].into_iter().chain(&new).for_each(assert_open);
}

#[test]
fn peers_of_unix_sockets_are_one_group() {
    if model().has_thread_per_connection() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rudy.sock");
    let (engine, _) = greeter_of(1, 3);
    let address = listen_tcp(&*engine);
    listen(&*engine, &format!("unix:{}", path.display()));
    let first = greeted(address, &[1]);
    let local: Vec<_> = (0..2).map(|_| UnixStream::connect(&path).unwrap()).collect();
    for stream in &local {
        assert_greeted(&exchange(stream, REQUEST).unwrap());
    }
    greeted(address, &[2]);
    assert_eq!(read_all(&local[0]), "");
    assert_open(&first[0]);
}

#[test]
fn a_busy_connection_is_never_evicted() {
    if model().has_thread_per_connection() {
        return;
    }
    let (mut service, called, permits) = waiting();
    service.limits = limits(3);
    let (engine, _) = engine_of(1, service);
    let address = listen_tcp(&*engine);
    let send = |request| {
        let mut stream = connect(address);
        stream.write_all(request).unwrap();
        stream
    };
    let busy: Vec<_> = (0..2).map(|_| send(REQUEST)).collect();
    let head = send(b"GET / HT");
    eventually("two have a request", || called.load(Ordering::SeqCst) == 2);
    eventually("one has a part of a request", || {
        sum(&*engine, |counters| &counters.received_bytes) == 2 * REQUEST.len() as u64 + 8
    });
    assert_unavailable(&read_all(connect(address)));
    assert_eq!(evicted(&*engine), 0);
    permits.add_permits(5);
    for stream in &busy {
        assert_greeted(&exchange(stream, b"").unwrap());
    }
    // Now those two are idle.
    let new: Vec<_> = (0..2).map(|_| connect(address)).collect();
    for stream in &new {
        assert_greeted(&exchange(stream, REQUEST).unwrap());
    }
    busy.iter().for_each(assert_closed);
    assert_greeted(&exchange(&head, &REQUEST[8..]).unwrap());
}

#[test]
fn connections_of_other_workers_are_evicted_too() {
    if model().has_thread_per_connection() {
        return;
    }
    let (engine, _) = greeter_of(2, 1);
    let address = listen_tcp(&*engine);
    let mut last = greeted(address, &[1]).remove(0);
    for count in 1..=30 {
        let stream = greeted(address, &[1]).remove(0);
        assert_closed(&last);
        // The client may see the close before it is counted.
        eventually("it has closed", || sum(&*engine, |counters| &counters.closed) == count);
        assert_eq!(evicted(&*engine), count);
        last = stream;
    }
    assert_eq!(sum(&*engine, |counters| &counters.over_limit), 0);
}

#[test]
fn a_flood_of_silent_connections_does_not_block_other_clients() {
    if model().has_thread_per_connection() {
        return;
    }
    let (engine, _) = greeter_of(2, 100);
    let address = listen_tcp(&*engine);
    let kept = greeted(address, &[1]);
    let _flood: Vec<_> = (0..1000).map(|_| connect_from([127, 0, 0, 2], address)).collect();
    for _ in 0..10 {
        greeted(address, &[3]);
    }
    assert_open(&kept[0]);
    assert_eq!(sum(&*engine, |counters| &counters.over_limit), 0);
}

/// Blocks its thread in the handler until the test continues it.
struct Gate {
    limits: Arc<Limits>,
    entered: Sender<()>,
    go: Mutex<Receiver<()>>,
}

impl Service for Gate {
    fn call(&self, request: Request, _client: &Client<'_>) -> Reply {
        if request.uri().path() == "/block" {
            self.entered.send(()).unwrap();
            self.go.lock().unwrap().recv().unwrap();
        }
        Response::text(StatusCode::OK, "text/plain", "hello").into()
    }

    fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    fn rejected(&self, _client: &Client<'_>, _reason: &str, _outcome: &ExchangeOutcome) {}
}

#[test]
fn an_evicted_connection_responds_to_a_request_that_has_arrived() {
    // On other engines the runtime may handle the request before the new connection.
    if model() != Model::PerCore {
        return;
    }
    let ((entered, has_entered), (go, gate)) = (channel(), channel());
    let (engine, _) = engine_of(1, Gate { limits: limits(2), entered, go: Mutex::new(gate) });
    let address = listen_tcp(&*engine);
    let chosen = greeted(address, &[1]).remove(0);
    let mut blocking = connect(address);
    blocking.write_all(b"GET /block HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    has_entered.recv().unwrap();
    let new = connect(address);
    (&chosen).write_all(REQUEST).unwrap();
    go.send(()).unwrap();
    let response = exchange(&chosen, b"").unwrap();
    assert_greeted(&response);
    assert!(response.contains("connection: close\r\n"), "{response}");
    assert_closed(&chosen);
    assert_greeted(&exchange(&new, REQUEST).unwrap());
    assert_greeted(&exchange(&blocking, b"").unwrap());
    assert_open(&blocking);
}
