use std::fs::File;
use std::net::TcpStream;
use std::sync::Arc;

use rudy_net::Limits;
use rudy_net::engine::{Problem, Report, raise_descriptor_limit};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};

use crate::support::{
    Greeter, LAST_REQUEST, REQUEST, Reports, assert_greeted, engine_of, exchange, greeter, is_child,
    listen_tcp, model, read_all, sum,
};

#[test]
fn without_descriptors_connections_are_sent_away_until_there_are_some_again() {
    if !is_child("descriptors::without_descriptors_connections_are_sent_away_until_there_are_some_again") {
        return;
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(100), maximum: Some(100) }).unwrap();
    let (engine, reports) = greeter(Limits::default());
    let address = listen_tcp(&*engine);
    // The clients live in this process too, so they get their descriptors before there are none.
    let clients: Vec<_> = (0..20).map(|_| Socket::new(Domain::IPV4, Type::STREAM, None).unwrap()).collect();
    let later = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let hoard: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();

    // Those that were sent away keep theirs: a descriptor that becomes free is the next one's, or the server's reserve, and which
    // of the two is a matter of time.
    let mut sent_away = Vec::new();
    for client in clients {
        client.connect(&address.into()).unwrap();
        let client = TcpStream::from(client);
        let answer = read_all(&client);
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        sent_away.push(client);
    }
    assert_eq!(sum(&*engine, |counters| &counters.over_limit), 20);
    assert_out_of_descriptors(&reports);

    drop(hoard);
    later.connect(&address.into()).unwrap();
    assert_greeted(&exchange(TcpStream::from(later), LAST_REQUEST).unwrap());
}

#[test]
fn without_descriptors_idle_connections_give_way_to_new_ones() {
    if model().has_fixed_threads()
        || !is_child("descriptors::without_descriptors_idle_connections_give_way_to_new_ones")
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
    // Without a descriptor the kernel does not say that nothing more is queued, so one may have closed ahead.
    assert!([20, 21].contains(&sum(&*engine, |counters| &counters.evicted)));
    assert_eq!(sum(&*engine, |counters| &counters.over_limit), 0);
}

#[test]
fn acceptors_that_are_out_of_descriptors_at_once_all_send_away() {
    if !is_child("descriptors::acceptors_that_are_out_of_descriptors_at_once_all_send_away") {
        return;
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(1100), maximum: Some(1100) }).unwrap();
    let (engine, reports) = engine_of(4, Greeter { limits: Arc::default() });
    let address = listen_tcp(&*engine);
    let clients: Vec<_> = (0..1000).map(|_| Socket::new(Domain::IPV4, Type::STREAM, None).unwrap()).collect();
    let _hoard: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();

    // A connection that is accepted with the descriptor which another acceptor gave up to send one away must not keep it: none
    // of these asks for anything, so it would be kept for as long as a client may say nothing.
    for client in &clients {
        client.connect(&address.into()).unwrap();
    }
    for client in &clients {
        let answer = read_all(client);
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    }
    assert_eq!(sum(&*engine, |counters| &counters.over_limit), 1000);
    assert_eq!(sum(&*engine, |counters| &counters.accepted), 0);
    assert_out_of_descriptors(&reports);
}

/// It is told at once, and summed up every few seconds if it takes so long.
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
