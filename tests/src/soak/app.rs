//! The application that Rudy starts: `work.php` in Rust.

use std::time::Duration;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{Request, Response};
use rudy_fastcgi_app::{Body, BodyError, BodySender, Concurrency, ServeError, serve};

use super::pattern::{Fnv, Pattern, sum};

/// Maximum number of concurrent requests per process.
const TASKS: usize = 8;
/// Size of a piece of a response.
const PIECE_BYTES: usize = 64 * 1024;

/// Serves on descriptor 0 until SIGTERM.
pub fn run() -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a new process can create a poller");
    runtime.block_on(serve(Concurrency::Tasks { at_most: TASKS }, respond))
}

async fn respond(request: Request<Body>) -> Response<Body> {
    let query = Query(request.uri().query().unwrap_or_default().to_owned());
    let (seed, count) = (query.value("seed").to_owned(), query.value("count").parse().unwrap_or(0));
    match query.value("do") {
        "blob" => blob(u32::from_str_radix(&seed, 16).unwrap_or(0), count, query.has("length")),
        "sum" => match hash(request.into_body()).await {
            Ok((length, hash)) => response("text/plain", sum(length, &hash).into()),
            Err(error) => response("text/plain", format!("{error}\n").into()),
        },
        "echo" => response("application/octet-stream", request.into_body()),
        "events" => {
            let (sender, body) = Body::channel();
            tokio::spawn(send_events(sender, seed, count));
            response("text/event-stream", body)
        }
        "wait" => {
            tokio::time::sleep(Duration::from_millis(count as u64)).await;
            response("text/plain", format!("{seed}\n").into())
        }
        _ => response("text/plain", "unknown\n".into()),
    }
}

struct Query(String);

impl Query {
    fn value(&self, name: &str) -> &str {
        let pairs = self.0.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value)
    }

    fn has(&self, name: &str) -> bool {
        !self.value(name).is_empty()
    }
}

fn response(kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn blob(seed: u32, length: usize, with_length: bool) -> Response<Body> {
    let (sender, body) = Body::channel();
    tokio::spawn(send_blob(sender, seed, length));
    let mut response = response("application/octet-stream", body);
    if with_length {
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    response
}

async fn send_blob(mut sender: BodySender, seed: u32, mut left: usize) -> Result<(), BodyError> {
    let mut pattern = Pattern::new(seed);
    while left > 0 {
        let length = left.min(PIECE_BYTES);
        sender.send(pattern.take(length)).await?;
        left -= length;
    }
    sender.finish().await
}

async fn send_events(mut sender: BodySender, seed: String, count: usize) -> Result<(), BodyError> {
    for event in 0..count {
        sender.send(format!("data: {seed} {event}\n\n")).await?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    sender.finish().await
}

async fn hash(mut body: Body) -> Result<(usize, Fnv), BodyError> {
    let (mut length, mut hash) = (0, Fnv::new());
    while let Some(piece) = body.next().await {
        let piece = piece?;
        length += piece.len();
        hash.update(&piece);
    }
    Ok((length, hash))
}
