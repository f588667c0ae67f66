//! A FastCGI app for the tests, started by Rudy: descriptor 0 is its listening socket.
//!
//! `events` reports by `FCGI_GET_VALUES` that it serves many connections. Each response is an endless stream with one event.
//! `purge` purges the tag in the query, and responds with the error, or `purged`.
//! `silent` does not respond to `FCGI_GET_VALUES`, and its responses show the maximum number of concurrent requests.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use bytes::{Buf, BytesMut};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response};
use rudy_fastcgi::application::{ApplicationConnection, Event};
use rudy_fastcgi::record::{Kind, encode_stream, encode_stream_end};
use rudy_fastcgi::{Limits, ProtocolStatus};
use rudy_fastcgi_app::{Body, Concurrency, ServeError, purge, serve};

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("events") => events().expect("the socket exists"),
        Some("purge") => purge().expect("the socket exists"),
        Some("silent") => silent().expect("the socket exists"),
        _ => panic!("expected the argument `events`, `purge` or `silent`"),
    }
}

#[tokio::main]
async fn events() -> Result<(), ServeError> {
    serve(Concurrency::Tasks { at_most: 1000 }, |_: Request<Body>| async {
        let (mut sender, body) = Body::channel();
        tokio::spawn(async move {
            // Fails if the client has disconnected.
            let _ = sender.send("data: first\n\n").await;
            std::future::pending::<()>().await;
        });
        let mut response = Response::new(body);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        response
    })
    .await
}

#[tokio::main]
async fn purge() -> Result<(), ServeError> {
    serve(Concurrency::Tasks { at_most: 100 }, |request: Request<Body>| async move {
        let purged = purge::tag(request.uri().query().unwrap_or_default()).await;
        Response::new(purged.map_or_else(|error| error.to_string(), |()| "purged".to_owned()))
    })
    .await
}

/// The current and the maximum number of requests in progress.
#[derive(Default)]
struct RequestCounts {
    now: AtomicUsize,
    peak: AtomicUsize,
}

fn silent() -> io::Result<()> {
    let listener = UnixListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    let counts = Arc::new(RequestCounts::default());
    for stream in listener.incoming() {
        let (stream, counts) = (stream?, counts.clone());
        // An error affects only this connection.
        thread::spawn(move || respond_to_all(stream, &counts));
    }
    Ok(())
}

fn respond_to_all(mut stream: UnixStream, counts: &RequestCounts) -> io::Result<()> {
    let (mut machine, mut input, mut output) =
        (ApplicationConnection::new(), BytesMut::new(), BytesMut::new());
    loop {
        let decoded = machine.decode(&input, &Limits::default());
        let (used, event) = decoded.map_err(|fault| io::Error::other(fault.to_string()))?;
        let end = match event {
            Event::StdinEnd { id } => Some(id),
            Event::Begin { .. } => {
                let now = counts.now.fetch_add(1, Ordering::SeqCst) + 1;
                counts.peak.fetch_max(now, Ordering::SeqCst);
                None
            }
            Event::More => {
                input.advance(used);
                let mut buffer = [0; 4096];
                let read = stream.read(&mut buffer)?;
                if read == 0 {
                    return Ok(());
                }
                input.extend_from_slice(&buffer[..read]);
                continue;
            }
            _ => None,
        };
        input.advance(used);
        if let Some(id) = end {
            let peak = counts.peak.load(Ordering::SeqCst);
            let response = format!("Content-Type: text/plain\r\n\r\n{peak}");
            encode_stream(Kind::Stdout, id, response.as_bytes(), &mut output);
            encode_stream_end(Kind::Stdout, id, &mut output);
            machine.end(id, 0, ProtocolStatus::RequestComplete, &mut output);
            counts.now.fetch_sub(1, Ordering::SeqCst);
            stream.write_all(&output)?;
            output.clear();
        }
    }
}
