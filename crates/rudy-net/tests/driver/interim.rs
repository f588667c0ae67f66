//! Interim responses.

use std::future::poll_fn;
use std::io::Write;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use rudy_service::{
    Body, BodyError, BodyPiece, BodyStream, Deadline, Limits, Reply, Request, Response, send_interim,
};
use tokio::sync::Notify;

use crate::scene::Scene;
use crate::service::live_body::LARGE;
use crate::service::{read_to_close, read_until};

fn hint(link: &'static str) -> bool {
    let field = (HeaderName::from_static("link"), HeaderValue::from_static(link));
    send_interim(StatusCode::EARLY_HINTS, HeaderMap::from_iter([field]))
}

fn hello() -> Response {
    Response::text(StatusCode::OK, "text/plain", "hello")
}

/// Returns a service that sends early hints, waits for `go`, sends them again, reads the body and responds.
fn hinting(go: Arc<Notify>) -> impl Fn(Request) -> Reply + Send + Sync + 'static {
    move |request| {
        let (go, mut body) = (go.clone(), request.into_body());
        Reply::Later(Box::pin(async move {
            assert!(hint("first") && hint("second"));
            go.notified().await;
            assert!(hint("third"));
            while let Some(piece) = body.next_piece().await {
                piece.unwrap();
            }
            hello()
        }))
    }
}

const FIRST: &str =
    "HTTP/1.1 103 Early Hints\r\nlink: first\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: second\r\n\r\n";
const THIRD: &str = "HTTP/1.1 103 Early Hints\r\nlink: third\r\n\r\n";

#[test]
fn interim_responses_are_sent_at_once_and_before_the_response() {
    let go = Arc::new(Notify::new());
    let scene = Scene::start(hinting(go.clone()));
    let mut stream = scene.send("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    for _ in 0..2 {
        assert_eq!(read_until(&mut stream, "second\r\n\r\n"), FIRST);
        go.notify_one();
        assert!(read_until(&mut stream, "hello").starts_with(&format!("{THIRD}HTTP/1.1 200 OK\r\n")));
    }
}

#[test]
fn a_client_that_expects_100_continue_receives_them_too() {
    let go = Arc::new(Notify::new());
    let scene = Scene::start(hinting(go.clone()));
    let mut stream =
        scene.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_eq!(read_until(&mut stream, "second\r\n\r\n"), FIRST);
    go.notify_one();
    let text = read_until(&mut stream, "100 Continue\r\n\r\n");
    assert_eq!(text, format!("{THIRD}HTTP/1.1 100 Continue\r\n\r\n"));
    stream.write_all(b"hi").unwrap();
    assert!(read_until(&mut stream, "hello").starts_with("HTTP/1.1 200 OK\r\n"));
}

#[test]
fn an_http_1_0_client_receives_no_interim_response() {
    let go = Arc::new(Notify::new());
    let scene = Scene::start(hinting(go.clone()));
    go.notify_one();
    let (text, ended) = read_to_close(&mut scene.send("GET / HTTP/1.0\r\n\r\n"));
    assert!(ended && text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
}

/// A body whose first piece states whether it could send an interim response.
struct Hinting(bool);

impl BodyStream for Hinting {
    fn poll_piece(
        &mut self,
        _: &mut Context<'_>,
        _: Instant,
        _: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        let text = if hint("late") { "sent" } else { "not sent" };
        let is_first = !std::mem::replace(&mut self.0, true);
        Poll::Ready(is_first.then(|| Ok(BodyPiece::Data(text.into()))))
    }
}

#[test]
fn invalid_interim_responses_are_rejected() {
    let (sender, results) = channel();
    let scene = Scene::start(move |_| {
        sender.send(hint("in the call")).unwrap();
        let sender = sender.clone();
        Reply::Later(Box::pin(async move {
            for status in [100, 101, 200, 404] {
                sender.send(send_interim(StatusCode::from_u16(status).unwrap(), HeaderMap::new())).unwrap();
            }
            let elsewhere = tokio::spawn(async { hint("elsewhere") });
            sender.send(elsewhere.await.unwrap()).unwrap();
            let mut response = hello();
            response.body = Body::Stream(Box::new(Hinting(false)));
            response
        }))
    });
    let mut stream = scene.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let text = read_until(&mut stream, "0\r\n\r\n");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.contains("\r\nnot sent\r\n"), "{text}");
    assert_eq!(results.try_iter().collect::<Vec<_>>(), [false; 6]);
}

/// A half-closed client may have disconnected, but accepting data shows that it has not.
#[test]
fn a_half_closed_client_that_accepts_interim_responses_is_connected() {
    const TIMEOUT: Duration = Duration::from_millis(150);
    let mut limits = Limits::default();
    limits.http.half_close_timeout = TIMEOUT;
    let scene = Scene::start_with(limits, |_| {
        Reply::Later(Box::pin(async {
            for _ in 0..8 {
                let mut deadline = Deadline::at(Instant::now() + TIMEOUT / 3);
                poll_fn(|cx| deadline.poll_passed(cx)).await;
                assert!(send_interim(StatusCode::PROCESSING, HeaderMap::new()));
            }
            hello()
        }))
    });
    let mut stream = scene.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    stream.shutdown(Shutdown::Write).unwrap();
    let (text, ended) = read_to_close(&mut stream);
    assert!(ended && text.ends_with("hello") && text.matches("102 Processing").count() == 8, "{text}");
}

/// As an upstream may send them: without a limit. They must not accumulate.
#[test]
fn a_client_that_does_not_read_receives_no_further_interim_responses() {
    const MOST: usize = 100_000;
    let (sender, results) = channel();
    let scene = Scene::start(move |_| {
        let sender = sender.clone();
        Reply::Later(Box::pin(async move {
            let mut sent = 0;
            while sent < MOST && hint(std::str::from_utf8(&LARGE[..4096]).unwrap()) {
                sent += 1;
                tokio::task::yield_now().await;
            }
            sender.send(sent).unwrap();
            hello()
        }))
    });
    let mut stream = scene.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let sent = results.recv().unwrap();
    assert!(sent < MOST);
    assert_eq!(read_until(&mut stream, "hello").matches("103 Early Hints").count(), sent);
}
