use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rudy_net::engine::Stopped;
use rudy_net::listen::{InheritedSockets, Listener};
use rudy_service::Limits;

use crate::support::{
    LAST_REQUEST, REQUEST, assert_greeted, engine, eventually, exchange, greeter, is_serial, listen_tcp,
    read_all, waiting,
};

/// Much longer than any of these tests, so that no timeout ends them.
const LONG: Duration = Duration::from_mins(10);

#[tokio::test]
async fn a_stop_finishes_the_response_in_progress() {
    let (service, called, permits) = waiting();
    let (engine, _) = engine(service);
    let mut stream = TcpStream::connect(listen_tcp(&*engine)).unwrap();
    stream.write_all(REQUEST).unwrap();
    eventually("the service is called", || called.load(Ordering::SeqCst) == 1);
    // The peer reads and closes, because the server waits for that.
    let reader = std::thread::spawn(move || read_all(stream));
    let stopped = tokio::join!(engine.stop(LONG), async {
        while !engine.workers().iter().all(|worker| worker.is_stopping()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        permits.add_permits(1);
    });
    assert_eq!(stopped.0, Stopped { aborted: 0 });
    let response = reader.join().unwrap();
    assert!(response.contains("connection: close") || response.contains("Connection: close"), "{response}");
    assert_greeted(&response);
}

#[tokio::test]
async fn idle_connections_do_not_delay_a_stop() {
    if is_serial() {
        return;
    }
    let (engine, _) = greeter(Limits::default());
    let address = listen_tcp(&*engine);
    let mut streams: Vec<_> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
    for stream in &streams[..10] {
        assert_greeted(&exchange(stream, REQUEST).unwrap());
    }
    assert_eq!(engine.stop(LONG).await, Stopped { aborted: 0 });
    for stream in &mut streams {
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    }
}

#[tokio::test]
async fn connections_that_outlast_the_grace_period_are_aborted_and_counted() {
    let (service, called, _permits) = waiting();
    let (engine, _) = engine(service);
    let mut stream = TcpStream::connect(listen_tcp(&*engine)).unwrap();
    stream.write_all(REQUEST).unwrap();
    eventually("the service is called", || called.load(Ordering::SeqCst) == 1);
    assert_eq!(engine.stop(Duration::ZERO).await, Stopped { aborted: 1 });
    assert!(!matches!(stream.read(&mut [0]), Ok(1..)));
}

#[tokio::test]
async fn an_immediate_stop_ends_a_graceful_one() {
    let (service, called, _permits) = waiting();
    let (engine, _) = engine(service);
    let mut stream = TcpStream::connect(listen_tcp(&*engine)).unwrap();
    stream.write_all(REQUEST).unwrap();
    eventually("the service is called", || called.load(Ordering::SeqCst) == 1);
    let (stopped, ()) = tokio::join!(engine.stop(Duration::MAX), async { engine.stop_now() });
    assert_eq!(stopped, Stopped { aborted: 1 });
    assert_eq!(engine.ended().await, Stopped { aborted: 1 });
    let anywhere = "127.0.0.1:0".parse().unwrap();
    let late = Listener::bind(&anywhere, engine.workers().len(), &InheritedSockets::default()).unwrap();
    assert!(engine.listen(late).is_err(), "an engine that has ended must reject a listener");
}

#[tokio::test]
async fn queued_connections_receive_a_response_before_the_end() {
    let (engine, _) = greeter(Limits::default());
    let address = listen_tcp(&*engine);
    let streams: Vec<_> = (0..300)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(LAST_REQUEST).unwrap();
            stream
        })
        .collect();
    let reader = std::thread::spawn(|| streams.into_iter().map(read_all).collect::<Vec<_>>());
    assert_eq!(engine.stop(LONG).await, Stopped { aborted: 0 });
    for response in reader.join().unwrap() {
        assert_greeted(&response);
    }
}
