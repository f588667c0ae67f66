//! Tests the driver with a session: handshake, flush, reading files, close notification.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use rudy_service::{
    Body, BodyError, BodyPiece, BodyStream, Client, EndReason, Limits, Reply, Request, Response, send_interim,
};

use super::harness::Harness;
use super::second_protocol::{pattern, range};
use super::session::{CLOSE_NOTIFY, HANDSHAKE, Session, SessionClient};

const SHORT: Duration = Duration::from_millis(100);
const FILE_BYTES: usize = 200_000;

/// A body whose pieces the test sends.
struct Channel(Receiver<Option<Bytes>>, Arc<std::sync::Mutex<Option<Waker>>>);

impl BodyStream for Channel {
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        _: Instant,
        _: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        *self.1.lock().unwrap() = Some(cx.waker().clone());
        match self.0.try_recv() {
            Ok(piece) => Poll::Ready(piece.map(|piece| Ok(BodyPiece::Data(piece)))),
            Err(_) => Poll::Pending,
        }
    }
}

fn response(body: Body) -> Response {
    let mut response = Response::new(StatusCode::OK);
    response.body = body;
    response
}

fn file() -> Vec<u8> {
    pattern(7, FILE_BYTES).into_iter().map(|byte| b'a' + byte % 26).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "the signature of a service function")]
fn respond(request: Request, client: &Client<'_>) -> Reply {
    let body = match request.uri().path() {
        "/large" => Body::Bytes(file().into()),
        "/file" => Body::File(range(&file(), 0, FILE_BYTES as u64)),
        "/parts" => {
            let parts = [
                BodyPiece::Data("<".into()),
                BodyPiece::File(range(&file(), 5, 3)),
                BodyPiece::Data(">".into()),
            ];
            Body::Stream(Box::new(VecDeque::from(parts)))
        }
        "/later" => {
            return Reply::Later(Box::pin(async {
                assert!(send_interim(StatusCode::EARLY_HINTS, HeaderMap::new()));
                // Interim responses are sent before the final one.
                let mut is_again = false;
                poll_fn(
                    |_| if std::mem::replace(&mut is_again, true) { Poll::Ready(()) } else { Poll::Pending },
                )
                .await;
                response(Body::Empty)
            }));
        }
        _ => {
            let tls = client.tls.as_ref().map(|tls| (tls.version, tls.cipher, tls.server_name.as_deref()));
            Body::Bytes(format!("{} {tls:?}", client.scheme()).into())
        }
    };
    response(body).into()
}

fn limits(change: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    change(&mut limits);
    limits
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

fn greeted(harness: &Harness) -> SessionClient {
    let mut client = SessionClient(harness.start(|io| Session::new(io).into_stream()).0);
    client.greet();
    client
}

#[test]
fn a_stalled_handshake_ends_at_the_first_request_timeout() {
    let harness = Harness::new(limits(|limits| limits.http.first_request_timeout = SHORT), respond);
    for sent in [&b""[..], b"hel", HANDSHAKE[0]] {
        let (peer, thread) = harness.start(|io| Session::new(io).into_stream());
        (&peer).write_all(sent).unwrap();
        thread.join().unwrap();
    }
    // Without a short limit, the handshake may take longer.
    let harness = Harness::new(Limits::default(), respond);
    greeted(&harness).send("x");
}

#[test]
fn a_failed_or_stopped_handshake_ends_the_connection() {
    let harness = Harness::new(Limits::default(), respond);
    let (peer, thread) = harness.start(|io| Session::new(io).into_stream());
    (&peer).write_all(b"who?").unwrap();
    thread.join().unwrap();
    let (_peer, thread) = harness.start(|io| Session::new(io).into_stream());
    harness.worker.stop();
    thread.join().unwrap();
}

#[test]
fn output_is_flushed_whenever_a_response_waits() {
    let harness = Harness::new(Limits::default(), respond);
    let mut client = greeted(&harness);
    let text = "https Some((\"Toy\", \"XOR\", Some(\"a.test\")))";
    client.send(&get("/"));
    client.read_until(text);
    client.send(&[get("/"), get("/large"), get("/"), get("/file"), get("/parts"), get("/")].concat());
    let large = String::from_utf8(file()).unwrap();
    for expected in [text, &large, text, &large, &format!("<{}>", &large[5..8]), text] {
        assert!(client.read_until(expected).starts_with("HTTP/1.1 200 OK\r\n"));
    }
    client.send(&get("/later"));
    assert_eq!(client.read_until("\r\n\r\n"), "HTTP/1.1 103 Early Hints\r\n\r\n");
}

#[test]
fn each_piece_of_a_stream_is_flushed_at_once() {
    let (pieces, receiver) = channel();
    let waker = Arc::<std::sync::Mutex<Option<Waker>>>::default();
    let body = std::sync::Mutex::new(Some(Channel(receiver, waker.clone())));
    let harness = Harness::new(Limits::default(), move |_, _| {
        response(Body::Stream(Box::new(body.lock().unwrap().take().unwrap()))).into()
    });
    let mut client = greeted(&harness);
    client.send(&get("/"));
    client.read_until("\r\n\r\n");
    let send = |piece| {
        pieces.send(piece).unwrap();
        waker.lock().unwrap().as_ref().inspect(|waker| waker.wake_by_ref());
    };
    for length in [1, 16 * 1024, 16 * 1024 + 1, 100_000] {
        send(Some(vec![b'x'; length].into()));
        assert_eq!(client.read_until("x\r\n").len(), format!("{length:x}\r\n\r\n").len() + length);
    }
    send(None);
    client.read_until("0\r\n\r\n");
}

/// Cases: the server closes; the client closes its write side and waits for its response; the client closes
/// without a request.
#[test]
fn a_session_always_sends_its_close_notification() {
    let close_notify = std::str::from_utf8(CLOSE_NOTIFY).unwrap();
    let (get, get_later) = ("GET /parts HTTP/1.0\r\n\r\n", "GET /later HTTP/1.0\r\n\r\n");
    for (request, is_half_closed) in [(get, false), (get, true), (get_later, true), ("", true)] {
        let harness = Harness::new(limits(|limits| limits.linger_timeout = SHORT), respond);
        let mut client = greeted(&harness);
        client.send(request);
        if is_half_closed {
            client.0.shutdown(Shutdown::Write).unwrap();
        }
        let text = client.read_to_end();
        assert!(text.ends_with(close_notify), "{request:?}: {text}");
    }
}

/// Sends a close notification for which the socket has no room.
fn long_close_notify(harness: &Harness) -> (SessionClient, std::thread::JoinHandle<()>) {
    let (peer, thread) = harness.start(|io| {
        let mut session = Session::established(io);
        session.close_notify = vec![0; 4 << 20];
        session.into_stream()
    });
    let mut client = SessionClient(peer);
    client.send("GET / HTTP/1.0\r\n\r\n");
    client.read_until(")))");
    (client, thread)
}

#[test]
fn a_client_that_does_not_read_the_close_notification_stalls() {
    let harness = Harness::new(limits(|limits| limits.http.send_stall_timeout = SHORT), respond);
    let (mut client, thread) = long_close_notify(&harness);
    thread.join().unwrap();
    assert!(client.read_to_end().len() < 4 << 20);
    let harness = Harness::new(Limits::default(), respond);
    let (mut client, _) = long_close_notify(&harness);
    assert_eq!(client.read_to_end().len(), 4 << 20);
}

/// The runtime has not reported the request, and the socket is empty: the request is in the session's buffer.
#[test]
fn a_request_in_the_buffer_of_the_session_receives_a_response_before_the_end() {
    for (request, expected) in [(get("/"), "HTTP/1.1 200 OK\r\n"), (String::new(), "")] {
        let harness = Harness::new(Limits::default(), respond);
        harness.worker.stop();
        let (sent, is_sent) = channel();
        let (peer, _thread) = harness.start(move |io| {
            is_sent.recv().unwrap();
            let mut session = Session::established(io);
            (session.reads_late, session.close_notify) = (true, Vec::new());
            session.into_stream()
        });
        let mut client = SessionClient(peer);
        client.send(&request);
        sent.send(()).unwrap();
        let text = client.read_to_end();
        assert!(text.starts_with(expected) && text.is_empty() == expected.is_empty(), "{text}");
    }
}

/// The kernel does not have the output in the session's buffer.
#[tokio::test]
async fn a_response_is_complete_only_after_the_flush() {
    for path in ["/", "/large", "/file"] {
        let harness = Harness::new(Limits::default(), respond);
        let (ours, peer) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let ours = tokio::net::UnixStream::from_std(ours).unwrap();
        let mut session = Session::established(ours);
        let holds_output = Arc::new(AtomicBool::new(true));
        session.holds_output = holds_output.clone();
        let mut client = SessionClient(peer);
        client.send(&(get(path) + &get("/later")));
        let mut serving = std::pin::pin!(harness.serve(session.into_stream()));
        for _ in 0..20 {
            let polled = serving.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending());
            tokio::task::yield_now().await;
        }
        assert!(harness.outcomes.try_recv().is_err(), "{path}: nothing has been sent");
        holds_output.store(false, Ordering::Relaxed);
        let reader = std::thread::spawn(move || {
            client.read_until("103 Early Hints\r\n\r\n");
            client
        });
        while !reader.is_finished() {
            assert!(serving.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            tokio::task::yield_now().await;
        }
        assert_eq!(harness.outcomes.recv().unwrap().end_reason, EndReason::Completed, "{path}");
    }
}
