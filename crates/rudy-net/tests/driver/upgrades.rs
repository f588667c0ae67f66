//! Connections that change to another protocol.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use http::{HeaderValue, StatusCode};
use rudy_service::{Deadline, Reply, Response, Upgraded};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::scene::Scene;
use crate::service::{read_to_close, read_until};
use crate::support::{eventually, sum};

/// Starts a server whose connections change to this protocol.
fn speaking<F: Future<Output = ()> + Send + 'static>(
    protocol: impl Fn(Upgraded) -> F + Clone + Send + Sync + 'static,
) -> Scene {
    Scene::start(move |_| {
        let mut response = Response::new(StatusCode::SWITCHING_PROTOCOLS);
        response.headers_mut().insert(http::header::UPGRADE, HeaderValue::from_static("toy"));
        let protocol = protocol.clone();
        response.upgrade = Some(Box::new(move |upgraded| {
            Box::pin(protocol(upgraded)) as Pin<Box<dyn Future<Output = ()> + Send>>
        }));
        Reply::Now(response)
    })
}

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: toy\r\n\r\n";

fn upgraded(scene: &Scene) -> TcpStream {
    let mut stream = scene.send(REQUEST);
    assert!(read_until(&mut stream, "\r\n\r\n").starts_with("HTTP/1.1 101 "));
    stream
}

#[test]
fn a_deadline_wakes_the_protocol() {
    let scene = speaking(|mut upgraded| async move {
        let mut deadline = Deadline::at(Instant::now() + Duration::from_millis(20));
        std::future::poll_fn(|cx| deadline.poll_passed(cx)).await;
        upgraded.io.write_all(b"late").await.unwrap();
    });
    assert_eq!(read_to_close(&mut upgraded(&scene)), ("late".to_owned(), true));
}

#[test]
fn its_bytes_are_counted() {
    let scene = speaking(|mut upgraded| async move {
        let mut bytes = [0; 1000];
        upgraded.io.read_exact(&mut bytes).await.unwrap();
        upgraded.io.write_all(&bytes[..300]).await.unwrap();
    });
    let mut stream = scene.send(REQUEST);
    let head = read_until(&mut stream, "\r\n\r\n");
    stream.write_all(&[b'x'; 1000]).unwrap();
    stream.read_exact(&mut [0; 300]).unwrap();
    // Counted at the end.
    eventually("all is counted", || {
        let counted = [
            sum(&*scene.engine, |counters| &counters.received_bytes),
            sum(&*scene.engine, |counters| &counters.sent_bytes),
        ];
        counted == [REQUEST.len() + 1000, head.len() + 300].map(|bytes| bytes as u64)
    });
    assert!(read_to_close(&mut stream).1);
}

#[test]
fn a_stop_wakes_the_protocol_which_ends_properly() {
    let scene = speaking(|mut upgraded| async move {
        std::future::poll_fn(|_| if upgraded.io.is_stopping() { Poll::Ready(()) } else { Poll::Pending })
            .await;
        upgraded.io.write_all(b"going").await.unwrap();
    });
    let mut stream = upgraded(&scene);
    let reader = std::thread::spawn(move || read_to_close(&mut stream));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(scene.engine.stop(Duration::from_mins(1))).aborted, 0);
    assert_eq!(reader.join().unwrap(), ("going".to_owned(), true));
}

#[test]
fn a_panic_in_the_protocol_resets_its_connection() {
    let scene = speaking(|mut upgraded| async move {
        upgraded.io.read_u8().await.unwrap();
        panic!("on purpose, in another protocol");
    });
    let mut stream = upgraded(&scene);
    stream.write_all(b"x").unwrap();
    assert_eq!(read_to_close(&mut stream), (String::new(), false));
    assert_eq!(sum(&*scene.engine, |counters| &counters.panics), 1);
}

#[test]
fn a_connection_moved_to_another_task_is_closed_when_the_task_ends() {
    let scene = speaking(|mut upgraded| async move {
        tokio::spawn(async move {
            let byte = upgraded.io.read_u8().await.unwrap();
            upgraded.io.write_u8(byte.to_ascii_uppercase()).await.unwrap();
        });
    });
    let mut stream = upgraded(&scene);
    stream.write_all(b"x").unwrap();
    assert_eq!(read_to_close(&mut stream), ("X".to_owned(), true));
    drop(stream);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(scene.engine.stop(Duration::from_mins(1))).aborted, 0);
}

#[test]
fn an_immediate_stop_resets_a_connection_moved_to_another_task() {
    let scene = speaking(|mut upgraded| async move {
        tokio::spawn(async move {
            let _ = upgraded.io.read_u8().await;
        });
    });
    let mut stream = upgraded(&scene);
    scene.engine.stop_now();
    assert_eq!(read_to_close(&mut stream), (String::new(), false));
}
