use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use http::StatusCode;
use rudy_net::engine::{Report, Stopped};
use rudy_net::listen::{InheritedSockets, Listener};
use rudy_service::listen_address::{Address, Endpoint};
use rudy_service::{Client, ExchangeOutcome, Limits, Reply, Request, Response, Service};

use crate::support::{
    LAST_REQUEST, REQUEST, assert_greeted, engine, eventually, exchange, greeter, is_serial, listen,
    listen_tcp, sum,
};

#[tokio::test]
async fn an_engine_accepts_on_every_listener_until_it_is_stopped() {
    if is_serial() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rudy.sock");
    let (engine, _) = greeter(Limits::default());
    let address = listen_tcp(&*engine);
    listen(&*engine, &format!("unix:{}", path.display()));
    assert_eq!(engine.listeners().len(), 2);

    let mut tcp = TcpStream::connect(address).unwrap();
    let mut unix = UnixStream::connect(&path).unwrap();
    eventually("both are accepted", || sum(&*engine, |counters| &counters.accepted) == 2);

    assert_eq!(engine.stop(Duration::from_secs(10)).await, Stopped { aborted: 0 });
    assert_eq!(tcp.read(&mut [0]).unwrap(), 0);
    assert_eq!(unix.read(&mut [0]).unwrap(), 0);
    assert!(TcpStream::connect(address).is_err());
    assert!(!path.exists(), "the file of the socket is removed");
    assert_eq!(sum(&*engine, |counters| &counters.closed), 2);
}

#[tokio::test]
async fn changing_listeners_loses_no_accepted_connection() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rudy.sock");
    let (engine, _) = greeter(Limits::default());
    let tcp: Address = format!("127.0.0.1:{}", listen_tcp(&*engine).port()).parse().unwrap();
    let Endpoint::Ip(to) = tcp.endpoint else { panic!("expected an IP address") };
    assert!(
        engine.stop_listening(&"127.0.0.1:0".parse().unwrap()).await,
        "it is known by what was asked for"
    );
    let unix: Address = format!("unix:{}", path.display()).parse().unwrap();

    let over = Arc::new(AtomicBool::new(false));
    let clients = [
        hammer(&over, move || TcpStream::connect_timeout(&to, Duration::from_secs(10))),
        hammer(&over, move || TcpStream::connect_timeout(&to, Duration::from_secs(10))),
        hammer(&over, move || UnixStream::connect(&path)),
    ];
    // Each round takes a second, after which a client retries if its first packet was dropped.
    for _ in 0..5 {
        for address in [&tcp, &unix] {
            let before = sum(&*engine, |counters| &counters.requests);
            let listener = Listener::bind(address, engine.workers().len(), &InheritedSockets::default());
            engine.listen(listener.unwrap()).unwrap();
            eventually("there is traffic", || sum(&*engine, |counters| &counters.requests) > before + 20);
        }
        assert!(engine.stop_listening(&tcp).await);
        assert!(engine.stop_listening(&unix).await);
        assert!(!engine.stop_listening(&unix).await, "the address is no longer in use");
    }
    over.store(true, Ordering::SeqCst);
    for client in clients {
        assert!(client.join().unwrap() > 0);
    }
}

/// Connects, sends a request and reads the response, repeatedly. A failed connect is fine; a missing response
/// is not.
fn hammer<C: Read + Write>(
    over: &Arc<AtomicBool>,
    connect: impl Fn() -> std::io::Result<C> + Send + 'static,
) -> JoinHandle<u64> {
    let over = over.clone();
    std::thread::spawn(move || {
        let mut responses = 0;
        while !over.load(Ordering::SeqCst) {
            if let Ok(stream) = connect() {
                assert_greeted(&exchange(stream, LAST_REQUEST).expect("an accepted connection is served"));
                responses += 1;
            }
        }
        responses
    })
}

#[test]
fn a_panic_ends_only_its_connection() {
    /// Panics where the driver does not expect it.
    struct Broken(Arc<Limits>);

    impl Service for Broken {
        fn call(&self, _request: Request, _client: &Client<'_>) -> Reply {
            Response::text(StatusCode::OK, "text/plain", "hello").into()
        }

        fn limits(&self) -> &Arc<Limits> {
            &self.0
        }

        fn rejected(&self, _client: &Client<'_>, _reason: &str, _outcome: &ExchangeOutcome) {
            panic!("a bug, for this test");
        }
    }

    if is_serial() {
        return;
    }
    let (engine, reports) = engine(Broken(Arc::default()));
    let address = listen_tcp(&*engine);
    let other = TcpStream::connect(address).unwrap();
    assert_greeted(&exchange(&other, REQUEST).unwrap());
    exchange(TcpStream::connect(address).unwrap(), b"GARBAGE\r\n\r\n").unwrap_err();
    eventually("it is reported", || *reports.lock().unwrap() == [Report::ConnectionPanicked]);
    assert_eq!(sum(&*engine, |counters| &counters.closed), 1);
    assert_eq!(sum(&*engine, |counters| &counters.panics), 1);
    assert_greeted(&exchange(&other, REQUEST).unwrap());
    assert_greeted(&exchange(TcpStream::connect(address).unwrap(), REQUEST).unwrap());
}
