//! Sockets of this process in known states.

use std::io::Read;
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::{Process, Processes, Target};

/// A listener, and both ends of a connection to it.
fn pair() -> (TcpListener, TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    (listener, client, server)
}

/// Samples until the condition holds; the kernel changes states when packets arrive.
fn sample_until(process: &mut Process, is_there: impl Fn(&Sockets) -> bool) -> Sockets {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let sockets = process.sockets().unwrap();
        if is_there(&sockets) {
            return sockets;
        }
        assert!(Instant::now() < deadline, "it does not come: {sockets:?}");
        thread::yield_now();
    }
}

/// The state of the connection between `local` and `remote`.
fn state(sockets: &[Socket], local: SocketAddr, remote: SocketAddr) -> Option<State> {
    sockets.iter().find(|socket| socket.local == local && socket.remote == remote).map(|socket| socket.state)
}

#[test]
fn both_ends_of_a_connection_and_its_listener_are_held() {
    let (listener, client, server) = pair();
    let sockets = Process::own().unwrap().sockets().unwrap();
    let (ours, theirs) = (client.local_addr().unwrap(), server.local_addr().unwrap());
    assert_eq!(state(&sockets.with_descriptor, ours, theirs), Some(State::Established));
    assert_eq!(state(&sockets.with_descriptor, theirs, ours), Some(State::Established));
    let listens = listener.local_addr().unwrap();
    assert!(
        sockets.with_descriptor.iter().any(|socket| socket.local == listens && socket.state == State::Listen)
    );
    assert!(sockets.descriptors.open.unwrap() >= sockets.total() as u64);
}

#[test]
fn a_connection_that_the_peer_has_closed_and_we_have_not_is_in_close_wait() {
    let (_listener, client, server) = pair();
    let (ours, theirs) = (client.local_addr().unwrap(), server.local_addr().unwrap());
    drop(server);
    let mut process = Process::own().unwrap();
    // The server's end has no descriptor any more, but is at a listening port.
    let sockets = sample_until(&mut process, |sockets| {
        state(&sockets.with_descriptor, ours, theirs) == Some(State::CloseWait)
            && state(&sockets.without_descriptor, theirs, ours) == Some(State::FinWait2)
    });
    let ours = sockets
        .with_descriptor
        .iter()
        .find(|socket| socket.local == ours && socket.remote == theirs)
        .unwrap();
    assert_eq!(ours.unread_bytes, 0, "the peer's FIN is no byte");
}

#[test]
fn what_is_left_of_a_closed_connection_has_no_descriptor() {
    for closes_first in ["server", "client"] {
        let (_listener, mut client, mut server) = pair();
        let (ours, theirs) = (client.local_addr().unwrap(), server.local_addr().unwrap());
        let mut process = Process::own().unwrap();
        // It was seen while it was open, so connections to that remote address belong to this process.
        process.sockets().unwrap();
        let (first, second) =
            if closes_first == "server" { (&mut server, &mut client) } else { (&mut client, &mut server) };
        first.shutdown(Shutdown::Write).unwrap();
        assert_eq!(second.read(&mut [0]).unwrap(), 0);
        second.shutdown(Shutdown::Write).unwrap();
        assert_eq!(first.read(&mut [0]).unwrap(), 0);
        drop((client, server));
        let (local, remote) = if closes_first == "server" { (theirs, ours) } else { (ours, theirs) };
        sample_until(&mut process, |sockets| {
            state(&sockets.without_descriptor, local, remote) == Some(State::TimeWait)
                && state(&sockets.with_descriptor, local, remote).is_none()
        });
    }
}

#[test]
fn a_connection_that_nobody_has_accepted_has_no_descriptor_and_is_counted_at_its_listener() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let listens = listener.local_addr().unwrap();
    let client = TcpStream::connect(listens).unwrap();
    let ours = client.local_addr().unwrap();
    let mut process = Process::own().unwrap();
    let sockets = sample_until(&mut process, |sockets| {
        state(&sockets.without_descriptor, listens, ours) == Some(State::Established)
    });
    let waiting = sockets
        .with_descriptor
        .iter()
        .find(|socket| socket.local == listens && socket.state == State::Listen);
    assert_eq!(waiting.map(|socket| (socket.not_accepted, socket.unread_bytes)), Some((1, 0)));
}

#[test]
fn a_socket_that_several_processes_have_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("rudy-heirs");
    std::os::unix::fs::symlink("/bin/cat", &program).unwrap();
    let (socket, heirs) = UnixStream::pair().unwrap();
    let inherit = || Stdio::from(std::os::fd::OwnedFd::from(heirs.try_clone().unwrap()));
    let mut children =
        [(); 2].map(|()| Command::new(&program).stdin(inherit()).stdout(Stdio::null()).spawn().unwrap());
    let mut processes = Processes::open(&Target::Name("rudy-heirs".to_owned())).unwrap();
    assert_eq!((processes.pids().count(), processes.sockets().unwrap().unix), (2, 1));
    drop((socket, heirs));
    for child in &mut children {
        child.wait().unwrap();
    }
}

#[test]
fn bytes_that_nobody_reads_are_counted() {
    let (_listener, mut client, server) = pair();
    let (ours, theirs) = (client.local_addr().unwrap(), server.local_addr().unwrap());
    std::io::Write::write_all(&mut client, b"hello").unwrap();
    let mut process = Process::own().unwrap();
    sample_until(&mut process, |sockets| {
        let there =
            sockets.with_descriptor.iter().find(|socket| socket.local == theirs && socket.remote == ours);
        there.is_some_and(|socket| socket.unread_bytes == 5)
    });
}

#[test]
fn sockets_that_are_no_tcp_are_counted_by_their_kind() {
    let _udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let _unix = UnixStream::pair().unwrap();
    let unconnected =
        rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None);
    let sockets = Process::own().unwrap().sockets().unwrap();
    assert!(unconnected.is_ok());
    // Other tests have sockets of their own.
    assert!(sockets.udp >= 1 && sockets.unix >= 2 && sockets.in_no_table["TCP"] >= 1, "{sockets:?}");
}

#[test]
fn connections_that_came_in_are_put_together_by_the_address_they_came_from() {
    let (_listener, _client, _server) = pair();
    let sockets = Process::own().unwrap().sockets().unwrap();
    let [by_remote, by_local] = [By::RemoteAddress, By::LocalAddress].map(|by| sockets.grouped(by));
    let counted = |groups: &[Group], name: &str| {
        groups
            .iter()
            .find(|group| group.name == name)
            .map_or(0, |group| group.with_descriptor[&State::Established])
    };
    assert!(counted(&by_remote, "127.0.0.1") >= 1);
    assert!(counted(&by_local, "127.0.0.1") >= 1);
    assert!(by_remote.is_sorted_by(|first, second| first.total() >= second.total()));
}

fn socket(state: State, local: &str, remote: &str) -> Socket {
    let (local, remote) = (local.parse().unwrap(), remote.parse().unwrap());
    Socket { state, local, remote, unread_bytes: 1, unsent_bytes: 2, not_accepted: 0 }
}

#[test]
fn ports_that_mean_something_are_kept() {
    let sockets = Sockets {
        at: Instant::now(),
        descriptors: Descriptors { open: Some(9), limit: None },
        with_descriptor: vec![
            socket(State::Listen, "[::]:80", "[::]:0"),
            socket(State::Established, "10.0.0.1:80", "10.0.0.7:5000"),
            socket(State::CloseWait, "10.0.0.1:80", "10.0.0.7:5001"),
            socket(State::Established, "10.0.0.1:4000", "10.0.0.9:443"),
        ],
        without_descriptor: vec![socket(State::TimeWait, "10.0.0.1:80", "10.0.0.7:4999")],
        udp: 0,
        unix: 0,
        in_no_table: BTreeMap::new(),
    };
    let names =
        |by| -> Vec<_> { sockets.grouped(by).into_iter().map(|group| (group.total(), group.name)).collect() };
    assert_eq!(names(By::RemoteAddress), [(3, "10.0.0.7".into()), (1, "10.0.0.9:443".into())]);
    assert_eq!(
        names(By::LocalAddress),
        [(3, "10.0.0.1:80".into()), (1, "10.0.0.1".into()), (1, "[::]:80".into())]
    );
    let tallies = by_state(&sockets.with_descriptor);
    assert_eq!(tallies[&State::Established], Tally { sockets: 2, unread_bytes: 2, unsent_bytes: 4 });
}

#[test]
fn a_listener_at_one_address_accepts_nothing_at_another() {
    let listeners = find::Listeners::of(&[socket(State::Listen, "127.0.0.1:80", "0.0.0.0:0")]);
    assert!(listeners.accept(&socket(State::TimeWait, "127.0.0.1:80", "127.0.0.1:5000")));
    assert!(!listeners.accept(&socket(State::TimeWait, "10.0.0.1:80", "10.0.0.7:5000")));
    assert!(!listeners.accept(&socket(State::TimeWait, "127.0.0.1:81", "127.0.0.1:5000")));
}
