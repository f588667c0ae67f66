//! Changing the service while connections are open, and closing listeners.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use rudy_net::engine::{self, Engine, Options, Report};
use rudy_service::ServiceSource;
use rudy_service::{Limits, Service};

use crate::support::{
    Greeter, LAST_REQUEST, REQUEST, assert_greeted, engine, eventually, exchange, greeter, is_serial, listen,
    listen_tcp, model, read_all, sum, waiting,
};

/// Returns the service that was set last.
struct Swapped<S>(Mutex<Arc<S>>);

impl<S: Service> ServiceSource for Swapped<S> {
    type Service = S;
    type Current = Arc<S>;

    fn current(&self) -> Arc<S> {
        self.0.lock().unwrap().clone()
    }
}

impl<S: Service> Swapped<S> {
    /// Starts an engine with this service.
    fn engine(service: S) -> (Box<dyn Engine>, Arc<Self>) {
        let source = Arc::new(Self(Mutex::new(Arc::new(service))));
        let options = Options { model: model(), ..Options::default() };
        let engine = engine::start(&options, source.clone(), Arc::new(|_: &Report| {})).unwrap();
        (engine, source)
    }

    fn replace(&self, service: S) {
        *self.0.lock().unwrap() = Arc::new(service);
    }
}

/// Returns a service that allows `most` requests for each connection.
fn of_requests(most: u64) -> Greeter {
    let http = rudy_http::Limits { requests_per_connection: Some(most), ..rudy_http::Limits::default() };
    Greeter { limits: Arc::new(Limits { http, ..Limits::default() }) }
}

fn is_last(response: &str) -> bool {
    response.to_ascii_lowercase().contains("\r\nconnection: close\r\n")
}

#[test]
fn each_request_uses_the_current_service_and_its_limits() {
    let (engine, source) = Swapped::engine(of_requests(100));
    let stream = TcpStream::connect(listen_tcp(&*engine)).unwrap();
    assert!(!is_last(&exchange(&stream, REQUEST).unwrap()));
    source.replace(of_requests(2));
    assert!(is_last(&exchange(&stream, REQUEST).unwrap()));
}

#[test]
fn an_idle_connection_without_further_requests_is_closed() {
    if is_serial() {
        return;
    }
    let (engine, source) = Swapped::engine(of_requests(100));
    let address = listen_tcp(&*engine);
    let (used, fresh) = (TcpStream::connect(address).unwrap(), TcpStream::connect(address).unwrap());
    assert_greeted(&exchange(&used, REQUEST).unwrap());
    eventually("both are accepted", || sum(&*engine, |counters| &counters.accepted) == 2);
    source.replace(of_requests(1));
    engine.source_changed();
    assert_eq!((&used).read(&mut [0]).unwrap(), 0);
    assert!(is_last(&exchange(&fresh, REQUEST).unwrap()));
}

#[test]
fn an_exchange_in_progress_does_not_hold_its_service() {
    let (service, called, permits) = waiting();
    let (engine, source) = Swapped::engine(service);
    let mut stream = TcpStream::connect(listen_tcp(&*engine)).unwrap();
    stream.write_all(LAST_REQUEST).unwrap();
    eventually("the service is called", || called.load(Ordering::SeqCst) == 1);
    let first = Arc::downgrade(&source.current());
    source.replace(waiting().0);
    assert!(first.upgrade().is_none());
    permits.add_permits(1);
    assert_greeted(&read_all(stream));
}

#[tokio::test]
async fn closing_a_listener_ends_its_connections_after_the_response_in_progress() {
    let (service, called, permits) = waiting();
    let (engine, _) = engine(service);
    let bound = listen(&*engine, "127.0.0.1:0");
    let mut stream = TcpStream::connect(bound.to_string()).unwrap();
    stream.write_all(REQUEST).unwrap();
    eventually("the service is called", || called.load(Ordering::SeqCst) == 1);
    assert!(engine.stop_listening(&"127.0.0.1:0".parse().unwrap()).await);
    permits.add_permits(1);
    let response = read_all(stream);
    assert!(is_last(&response), "{response}");
    assert_greeted(&response);
}

#[tokio::test]
async fn closing_a_listener_closes_only_its_idle_connections() {
    if is_serial() {
        return;
    }
    let (engine, _) = greeter(Limits::default());
    let (kept, gone) = ("127.0.0.1:0", "127.0.0.2:0");
    let connect = |address| TcpStream::connect(listen(&*engine, address).to_string()).unwrap();
    let (kept, idle) = (connect(kept), connect(gone));
    for stream in [&kept, &idle] {
        assert_greeted(&exchange(stream, REQUEST).unwrap());
    }
    assert!(engine.stop_listening(&gone.parse().unwrap()).await);
    assert_eq!((&idle).read(&mut [0]).unwrap(), 0);
    assert!(!is_last(&exchange(&kept, REQUEST).unwrap()));
}

#[tokio::test]
async fn a_connection_of_a_closed_listener_may_still_send_its_first_request() {
    let (engine, _) = greeter(Limits::default());
    let stream = TcpStream::connect(listen_tcp(&*engine)).unwrap();
    eventually("it is accepted", || sum(&*engine, |counters| &counters.accepted) == 1);
    assert!(engine.stop_listening(&"127.0.0.1:0".parse().unwrap()).await);
    let response = exchange(&stream, REQUEST).unwrap();
    assert!(is_last(&response), "{response}");
    assert_eq!((&stream).read(&mut [0]).unwrap(), 0);
}
