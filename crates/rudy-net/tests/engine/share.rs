//! Two engines that share listening sockets, like a server and its replacement.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use rudy_net::engine::Engine;
use rudy_net::listen::{InheritedSockets, Listener};
use rudy_service::Limits;

use crate::support::{
    Greeter, REQUEST, assert_greeted, engine_of, eventually, exchange, is_serial, listen, listen_tcp, sum,
};

fn greeter(cores: usize) -> Box<dyn Engine> {
    engine_of(cores, Greeter { limits: Limits::default().into() }).0
}

/// Shares the listeners of `first` with `second` through descriptors, like another process.
fn share(first: &dyn Engine, second: &dyn Engine) {
    let mut inherited = InheritedSockets::default();
    let shared = first.share_listeners().unwrap();
    let addresses: Vec<_> = shared.iter().map(|listener| listener.address().clone()).collect();
    for listener in shared {
        let descriptors = listener.sockets().map(|socket| socket.as_fd().try_clone_to_owned().unwrap());
        let descriptors = descriptors.collect();
        inherited.add_listener(Listener::shared(listener.address().clone(), descriptors).unwrap());
    }
    for address in addresses {
        second.listen(Listener::bind(&address, second.workers().len(), &inherited).unwrap()).unwrap();
    }
    assert!(inherited.take_unused().is_empty());
}

/// Opens connections, which either engine serves.
fn connect(address: SocketAddr, count: usize) {
    for _ in 0..count {
        assert_greeted(&exchange(&TcpStream::connect(address).unwrap(), REQUEST).unwrap());
    }
}

#[tokio::test]
async fn every_queue_has_a_worker_for_any_number_of_workers() {
    for cores in [1, 2, 3, 5] {
        let (first, second) = (greeter(2), greeter(cores));
        let address = listen_tcp(&*first);
        share(&*first, &*second);
        first.hand_over_listeners(&[]).await;
        second.take_ownership();
        connect(address, 32);
        assert_eq!(sum(&*second, |counters| &counters.accepted), 32, "{cores} cores");
        second.stop(std::time::Duration::ZERO).await;
        TcpListener::bind(address).expect("the sockets end with the engine that owns them");
    }
}

#[test]
fn sockets_with_a_port_that_the_kernel_has_chosen_stay_in_order() {
    let address = "127.0.0.1:0".parse().unwrap();
    let none = InheritedSockets::default();
    let listeners: Vec<_> = (0..4).map(|_| Listener::bind(&address, 1, &none).unwrap()).collect();
    let ports: Vec<_> = listeners.iter().map(|listener| listener.bound().to_vec()).collect();
    let mut inherited = InheritedSockets::default();
    for listener in listeners {
        inherited.add_listener(listener);
    }
    let taken = ports.iter().map(|_| Listener::bind(&address, 1, &inherited).unwrap().bound().to_vec());
    assert_eq!(taken.collect::<Vec<_>>(), ports);
}

#[tokio::test]
async fn an_engine_that_ends_before_taking_ownership_affects_no_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let first = greeter(2);
    let address = listen_tcp(&*first);
    listen(&*first, &format!("unix:{}", path.display()));
    for stops in [false, true] {
        let second = greeter(2);
        share(&*first, &*second);
        if stops {
            second.stop(std::time::Duration::ZERO).await;
        } else {
            second.stop_now();
            second.ended().await;
        }
        drop(second);
        let before = sum(&*first, |counters| &counters.accepted);
        connect(address, 32);
        UnixStream::connect(&path).unwrap();
        eventually("all are accepted", || sum(&*first, |counters| &counters.accepted) == before + 33);
    }
}

#[tokio::test]
async fn the_first_engine_takes_its_sockets_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let first = greeter(2);
    let address = listen_tcp(&*first);
    listen(&*first, &format!("unix:{}", path.display()));
    let kept = first.share_listeners().unwrap();
    first.hand_over_listeners(&[]).await;
    // These wait in the kernel's queues.
    let waiting: Vec<_> = (0..32).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert!(first.listeners().is_empty() && path.exists());
    for listener in kept {
        first.listen(listener).unwrap();
    }
    first.take_ownership();
    for stream in waiting {
        assert_greeted(&exchange(&stream, REQUEST).unwrap());
    }
    first.stop(std::time::Duration::ZERO).await;
    assert!(!path.exists());
}

#[tokio::test]
async fn a_connection_of_a_handed_over_listener_ends_with_its_next_response() {
    if is_serial() {
        return;
    }
    let first = greeter(2);
    let address = listen_tcp(&*first);
    let stream = TcpStream::connect(address).unwrap();
    assert_greeted(&exchange(&stream, REQUEST).unwrap());
    let _kept = first.share_listeners().unwrap();
    first.hand_over_listeners(&[]).await;
    first.source_changed();
    // An idle connection stays open, because a request may be on its way.
    let response = exchange(&stream, REQUEST).unwrap();
    assert!(response.to_ascii_lowercase().contains("connection: close"), "{response}");
}
