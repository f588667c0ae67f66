use std::fs::File;
use std::net::TcpStream;

use rudy_net::Limits;
use rudy_net::engine::{Report, Trouble, raise_descriptor_limit};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};

use crate::support::{LAST_REQUEST, assert_greeted, exchange, greeter, is_child, listen_tcp, read_all, sum};

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
    assert_eq!(sum(&*engine, |counters| &counters.shed), 20);
    let seen = reports.lock().unwrap().clone();
    assert!(matches!(&seen[..], [Report::Began { trouble: Trouble::Descriptors, .. }]), "{seen:?}");

    drop(hoard);
    later.connect(&address.into()).unwrap();
    assert_greeted(&exchange(TcpStream::from(later), LAST_REQUEST).unwrap());
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
