//! Request bodies that arrive together with their head.

use std::io::Write;
use std::pin::Pin;
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Waker};

use http::StatusCode;
use http_body::Body as _;
use rudy_service::{Reply, Request, Response};

use crate::scene::Scene;
use crate::service::{read_to_close, read_until};

/// Reports what is available of the body when the service is called, and then reads the rest.
fn looking(request: Request) -> Reply {
    let mut body = request.into_body();
    let length = body.size_hint().exact();
    let mut text = match Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Some(Ok(frame))) => {
            let data = frame.into_data().unwrap();
            format!("{} of {length:?}, is all: {}: ", data.len(), body.is_end_stream())
        }
        Poll::Ready(_) => "empty: ".to_owned(),
        Poll::Pending => format!("0 of {length:?}: "),
    };
    Reply::Later(Box::pin(async move {
        while let Some(piece) = body.next_piece().await {
            text.push_str(&String::from_utf8_lossy(&piece.unwrap()));
        }
        text.push_str(";\n");
        Response::text(StatusCode::OK, "text/plain", text)
    }))
}

fn post(fields: &str, body: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}")
}

#[test]
fn a_body_that_arrives_with_its_head_is_available_at_once() {
    let scene = Scene::start(looking);
    let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let whole = post("Content-Length: 5\r\n", "hello");
    let large = post("Content-Length: 10000\r\n", &"x".repeat(10_000));
    let expecting = post("Expect: 100-continue\r\nContent-Length: 5\r\n", "hello");
    let mut stream = scene.send([get, &whole, &large, &expecting, &whole, get].concat());
    for expected in [
        "empty",
        "5 of Some(5), is all: true",
        "10000 of Some(10000), is all: true",
        "5 of Some(5), is all: true",
        "5 of Some(5), is all: true",
        "empty",
    ] {
        let text = read_until(&mut stream, ";\n");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && !text.contains("connection"), "{text}");
        assert!(text.ends_with(&format!("\r\n\r\n{expected}: ;\n")), "{text}");
    }
    drop(stream);
    let (text, ended) = read_to_close(&mut scene.send("POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi"));
    assert!(ended && text.ends_with("2 of Some(2), is all: true: ;\n"), "{text}");
}

#[test]
fn a_partial_body_and_one_of_unknown_length_arrive_in_pieces() {
    let (sender, called) = channel();
    let scene = Scene::start(move |request| {
        let reply = looking(request);
        sender.send(()).unwrap();
        reply
    });
    let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut stream = scene.send(post("Content-Length: 5\r\n", "hell"));
    called.recv().unwrap();
    stream.write_all(format!("o{get}").as_bytes()).unwrap();
    assert!(read_until(&mut stream, ";\n").ends_with("0 of Some(5): hello;\n"));
    assert!(read_until(&mut stream, ";\n").ends_with("empty: ;\n"));
    let chunked = post("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\nx-end: yes\r\n\r\n");
    stream.write_all((chunked + get).as_bytes()).unwrap();
    assert!(read_until(&mut stream, ";\n").ends_with("0 of None: hello;\n"));
    assert!(read_until(&mut stream, ";\n").ends_with("empty: ;\n"));
}
