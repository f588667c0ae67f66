use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;
use rudy_net::engine::{Engine, Stopped};
use rudy_net::listen::{Inherited, Listener};
use rudy_net::{Call, Client, Limits, Outcome, Reply, Request, Response, Service};
use tokio::sync::Semaphore;

use crate::support::{
    LAST_REQUEST, REQUEST, assert_greeted, engine, eventually, exchange, greeter, listen_tcp, read_all,
};

/// Far more than any of these tests takes: nothing but an end by itself may end them.
const LONG: Duration = Duration::from_mins(10);

/// Answers when it is let to.
struct Waiting {
    limits: Limits,
    called: Arc<AtomicU64>,
    permits: Arc<Semaphore>,
}

impl Service for Waiting {
    fn call(&self, _request: Request, _client: &Client) -> Call {
        self.called.fetch_add(1, Ordering::SeqCst);
        let permits = self.permits.clone();
        let reply = Reply::Later(Box::pin(async move {
            permits.acquire().await.unwrap().forget();
            Response::text(StatusCode::OK, "text/plain", "hello")
        }));
        Call { reply, observer: None }
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn refused(&self, _client: &Client, _reason: &str, _outcome: &Outcome) {}
}

fn waiting() -> (Box<dyn Engine>, Arc<AtomicU64>, Arc<Semaphore>) {
    let (called, permits) = (Arc::new(AtomicU64::new(0)), Arc::new(Semaphore::new(0)));
    let service = Waiting { limits: Limits::default(), called: called.clone(), permits: permits.clone() };
    (engine(service).0, called, permits)
}

#[tokio::test]
async fn stopping_finishes_the_answer_under_way() {
    let (engine, called, permits) = waiting();
    let mut stream = TcpStream::connect(listen_tcp(&*engine)).unwrap();
    stream.write_all(REQUEST).unwrap();
    eventually("the service is called", || called.load(Ordering::SeqCst) == 1);
    // The peer reads meanwhile and hangs up, or the server would wait for it to do so.
    let reader = std::thread::spawn(move || read_all(stream));
    let stopped = tokio::join!(engine.stop(LONG), async {
        while !engine.workers().iter().all(|worker| worker.is_stopping()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        permits.add_permits(1);
    });
    assert_eq!(stopped.0, Stopped { cut: 0 });
    let answer = reader.join().unwrap();
    assert!(answer.contains("connection: close") || answer.contains("Connection: close"), "{answer}");
    assert_greeted(&answer);
}

#[tokio::test]
async fn idle_connections_do_not_hold_up_the_end() {
    let (engine, _) = greeter(Limits::default());
    let address = listen_tcp(&*engine);
    let mut streams: Vec<_> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
    for stream in &streams[..10] {
        assert_greeted(&exchange(stream, REQUEST).unwrap());
    }
    assert_eq!(engine.stop(LONG).await, Stopped { cut: 0 });
    for stream in &mut streams {
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    }
}

#[tokio::test]
async fn what_does_not_end_in_its_grace_time_is_cut_and_counted() {
    let (engine, called, _permits) = waiting();
    let mut stream = TcpStream::connect(listen_tcp(&*engine)).unwrap();
    stream.write_all(REQUEST).unwrap();
    eventually("the service is called", || called.load(Ordering::SeqCst) == 1);
    assert_eq!(engine.stop(Duration::ZERO).await, Stopped { cut: 1 });
    assert!(!matches!(stream.read(&mut [0]), Ok(1..)));
}

#[tokio::test]
async fn a_stop_under_way_can_be_cut_short() {
    let (engine, called, _permits) = waiting();
    let mut stream = TcpStream::connect(listen_tcp(&*engine)).unwrap();
    stream.write_all(REQUEST).unwrap();
    eventually("the service is called", || called.load(Ordering::SeqCst) == 1);
    let (stopped, ()) = tokio::join!(engine.stop(Duration::MAX), async { engine.stop_now() });
    assert_eq!(stopped, Stopped { cut: 1 });
    assert_eq!(engine.ended().await, Stopped { cut: 1 });
    let late = Listener::bind(&"127.0.0.1:0".parse().unwrap(), 2, &Inherited::default()).unwrap();
    assert!(engine.listen(late).is_err(), "nobody would accept from it");
}

#[tokio::test]
async fn connections_that_wait_to_be_accepted_are_answered_before_the_end() {
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
    assert_eq!(engine.stop(LONG).await, Stopped { cut: 0 });
    for answer in reader.join().unwrap() {
        assert_greeted(&answer);
    }
}
