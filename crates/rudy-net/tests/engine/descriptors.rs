use std::fs::File;
use std::net::TcpStream;
use std::sync::Arc;

use rudy_net::engine::{Problem, Report};
use rudy_service::Limits;
use rudy_socket::raise_descriptor_limit;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};

use crate::support::{
    Greeter, LAST_REQUEST, REQUEST, Reports, assert_greeted, engine_of, exchange, greeter, is_child,
    listen_tcp, model, read_all, sum,
};

#[test]
fn without_descriptors_connections_are_rejected_until_some_are_free() {
    if !is_child("descriptors::without_descriptors_connections_are_rejected_until_some_are_free") {
        return;
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(100), maximum: Some(100) }).unwrap();
    let (engine, reports) = greeter(Limits::default());
    let address = listen_tcp(&*engine);
    // The clients are in this process, too, so they get their descriptors first.
    let clients: Vec<_> = (0..20).map(|_| Socket::new(Domain::IPV4, Type::STREAM, None).unwrap()).collect();
    let later = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let hoard: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();

    // Rejected clients stay open: a free descriptor goes to the next client or to the server's reserve,
    // depending on timing.
    let mut rejected = Vec::new();
    for client in clients {
        client.connect(&address.into()).unwrap();
        let client = TcpStream::from(client);
        let response = read_all(&client);
        assert!(response.starts_with("HTTP/1.1 503 "), "{response}");
        rejected.push(client);
    }
    assert_eq!(sum(&*engine, |counters| &counters.over_limit), 20);
    assert_out_of_descriptors(&reports);

    drop(hoard);
    later.connect(&address.into()).unwrap();
    assert_greeted(&exchange(TcpStream::from(later), LAST_REQUEST).unwrap());
}

#[test]
fn without_descriptors_idle_connections_are_evicted() {
    if model().has_fixed_threads()
        || !is_child("descriptors::without_descriptors_idle_connections_are_evicted")
    {
        return;
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(100), maximum: Some(100) }).unwrap();
    let (engine, _) = engine_of(1, Greeter { limits: Arc::default() });
    let address = listen_tcp(&*engine);
    let socket = || Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let greeted = |client: Socket| {
        client.connect(&address.into()).unwrap();
        let client = TcpStream::from(client);
        assert_greeted(&exchange(&client, REQUEST).unwrap());
        client
    };
    let mut clients: Vec<_> = (0..3).map(|_| greeted(socket())).collect();
    let new: Vec<_> = (0..20).map(|_| socket()).collect();
    let _hoard: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();

    for (longest_idle, client) in new.into_iter().enumerate() {
        clients.push(greeted(client));
        assert_eq!(read_all(&clients[longest_idle]), "");
    }
    // Without a descriptor the kernel does not report an empty queue, so one more connection may have been
    // evicted.
    assert!([20, 21].contains(&sum(&*engine, |counters| &counters.evicted)));
    assert_eq!(sum(&*engine, |counters| &counters.over_limit), 0);
}

#[test]
fn concurrent_acceptors_without_descriptors_all_reject() {
    if !is_child("descriptors::concurrent_acceptors_without_descriptors_all_reject") {
        return;
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(1100), maximum: Some(1100) }).unwrap();
    let (engine, reports) = engine_of(4, Greeter { limits: Arc::default() });
    let address = listen_tcp(&*engine);
    let clients: Vec<_> = (0..1000).map(|_| Socket::new(Domain::IPV4, Type::STREAM, None).unwrap()).collect();
    let _hoard: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();

    // A connection accepted with the spare descriptor must not keep it. None of these clients sends a
    // request, so the connection would stay open until the first-request timeout.
    for client in &clients {
        client.connect(&address.into()).unwrap();
    }
    for client in &clients {
        let response = read_all(client);
        assert!(response.starts_with("HTTP/1.1 503 "), "{response}");
    }
    assert_eq!(sum(&*engine, |counters| &counters.over_limit), 1000);
    assert_eq!(sum(&*engine, |counters| &counters.accepted), 0);
    assert_out_of_descriptors(&reports);
}

/// The problem is reported at once, and every few seconds if it lasts that long.
fn assert_out_of_descriptors(reports: &Reports) {
    let seen = reports.lock().unwrap().clone();
    let is_of_descriptors = |report: &Report| match report {
        Report::Started { problem, .. }
        | Report::Ongoing { problem, .. }
        | Report::Resolved { problem, .. } => *problem == Problem::Descriptors,
        Report::ConnectionPanicked => false,
    };
    assert!(matches!(seen[0], Report::Started { .. }) && seen.iter().all(is_of_descriptors), "{seen:?}");
}

#[test]
fn the_soft_limit_is_raised_to_the_hard_one() {
    if !is_child("descriptors::the_soft_limit_is_raised_to_the_hard_one") {
        return;
    }
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum }).unwrap();
    assert_eq!(raise_descriptor_limit().unwrap(), maximum);
    assert_eq!(getrlimit(Resource::Nofile).current, maximum);
}
