//! Tests of connections whose upstream is silent or goes away.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Version, header};
use rudy_client::{Endpoint, Sending, Upload};
use rudy_http::h2::PREFACE;
use rudy_http::h2::client::Request;
use rudy_message::BodyLength;
use rudy_message::client::RequestHead;
use rudy_service::RequestBody;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::connection::SILENCE_MAX;
use super::{Http2Connection, Http2Stream};
use crate::connection::Connection;
use crate::failure::{Cause, HttpCause};

const LONG: Duration = Duration::from_mins(1);

/// The types of frames, and a flag.
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const ACK: u8 = 1;

/// Opens a connection. Returns it with the upstream's end, which has read the preface and sent empty SETTINGS.
async fn open() -> (Arc<Http2Connection>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let socket = Endpoint::Ip(listener.local_addr().unwrap()).connect(LONG).await.unwrap();
    let (mut peer, _) = listener.accept().await.unwrap();
    peer.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
    let connection = Http2Connection::start(socket, "http", LONG);
    connection.wait_for_settings(LONG).await.unwrap();
    peer.read_exact(&mut [0; PREFACE.len()]).await.unwrap();
    (connection, peer)
}

/// Lets the last input be so long ago that a PING must be acknowledged.
fn silence(connection: &Http2Connection) {
    let before = Instant::now().checked_sub(SILENCE_MAX + Duration::from_secs(1)).unwrap();
    connection.with(|state| state.last_received = before);
    assert!(connection.is_silent());
}

/// Reads a frame; `None` at the end of the connection.
async fn read_frame(peer: &mut TcpStream) -> Option<([u8; 9], Vec<u8>)> {
    let mut head = [0; 9];
    peer.read_exact(&mut head).await.ok()?;
    let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
    peer.read_exact(&mut payload).await.unwrap();
    Some((head, payload))
}

/// Acknowledges PINGs until the connection is closed. Returns their number.
async fn acknowledge(mut peer: TcpStream) -> usize {
    let mut pings = 0;
    while let Some((mut head, payload)) = read_frame(&mut peer).await {
        if (head[3], head[4]) == (PING, 0) {
            pings += 1;
            head[4] = ACK;
            peer.write_all(&[&head[..], &payload].concat()).await.unwrap();
        }
    }
    pings
}

fn begin(stream: &mut Http2Stream) {
    let fields = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static("a"))]);
    let head = RequestHead {
        method: &Method::GET,
        target: "/",
        version: Version::HTTP_11,
        fields: (&fields).into(),
        body: BodyLength::Known(0),
    };
    stream
        .begin(|scheme| Request::new(&head, scheme).map_err(|error| HttpCause::Request(error).into()))
        .unwrap();
}

#[tokio::test]
async fn a_late_acknowledgement_of_a_ping_ends_no_request() {
    let [(used, _peer), (idle, _other)] = [open().await, open().await];
    let mut stream = used.reserve().unwrap();
    begin(&mut stream);
    for connection in [&used, &idle] {
        silence(connection);
    }
    // From here on, a timeout passes while nothing else happens.
    tokio::time::pause();
    used.confirm().await;
    assert!(!used.has_room(), "the next request gets another connection");
    assert!(!used.has_ended());
    assert!(stream.poll_receive(&mut Context::from_waker(Waker::noop())).is_pending());
    idle.confirm().await;
    assert!(idle.has_ended());
}

#[tokio::test]
async fn requests_at_a_time_share_a_ping() {
    let (connection, peer) = open().await;
    silence(&connection);
    let mut requests = JoinSet::new();
    for _ in 0..30 {
        let connection = connection.clone();
        requests.spawn(async move { connection.confirm().await });
    }
    let pings = tokio::spawn(acknowledge(peer));
    requests.join_all().await;
    assert!(connection.has_room());
    connection.shut_down();
    assert_eq!(pings.await.unwrap(), 1);
}

/// Otherwise, an upstream could close the connection before the proxy has read the response.
#[tokio::test]
async fn the_end_is_announced_after_the_last_request() {
    let (connection, mut peer) = open().await;
    let mut stream = connection.reserve().unwrap();
    begin(&mut stream);
    connection.shut_down();
    assert!(!connection.has_room());
    // Its acknowledgement follows everything that is sent at once.
    peer.write_all(&[0, 0, 8, PING, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]).await.unwrap();
    loop {
        let (head, _) = read_frame(&mut peer).await.unwrap();
        assert_ne!(head[3], GOAWAY);
        if (head[3], head[4]) == (PING, ACK) {
            break;
        }
    }
    drop(stream);
    let mut last = 0;
    while let Some((head, _)) = read_frame(&mut peer).await {
        last = head[3];
    }
    assert_eq!(last, GOAWAY);
}

#[tokio::test]
async fn the_body_of_a_request_outlives_a_connection_that_ends_before_it() {
    let (connection, _peer) = open().await;
    let mut stream = connection.reserve().unwrap();
    connection.shut_down();
    begin(&mut stream);
    let cx = &mut Context::from_waker(Waker::noop());
    let body = RequestBody::whole(Bytes::from_static(b"body"));
    let mut upload = Sending::in_frames(Upload::of_client(body));
    let mut connection = Connection::Http2(stream);
    assert!(upload.poll(cx, &mut connection).is_pending());
    let Connection::Http2(mut stream) = connection else { unreachable!("it was made of one") };
    assert!(matches!(stream.poll_receive(cx), Poll::Ready(Err(Cause::Protocol(HttpCause::GoneAway)))));
    assert!(upload.take_upload().is_some());
}
