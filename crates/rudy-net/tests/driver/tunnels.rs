//! Tunnels over HTTP/2 (RFC 8441), with the crate `h2` as the client.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::{SendRequest, handshake};
use h2::ext::Protocol;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderValue, Method, StatusCode};
use http_body::Body as _;
use rudy_net::engine::{Engine, Model};
use rudy_net::listen::BoundAddress;
use rudy_service::{
    Body, BodyError, BodyPiece, BodyStream, Client, ExchangeOutcome, Limits, Reply, Request, RequestBody,
    Response, Service,
};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use crate::service::live_body::LARGE;
use crate::support::{engine, listen, model};

/// Sends back what arrives. The field `request` describes the request.
struct Echo {
    limits: Arc<Limits>,
    accepts_tunnels: bool,
}

struct EchoBody(RequestBody);

impl BodyStream for EchoBody {
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        _now: Instant,
        _max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        let frame = ready!(Pin::new(&mut self.0).poll_frame(cx));
        let data = frame.map(|frame| frame.unwrap().into_data().unwrap());
        Poll::Ready(data.map(|data| Ok(BodyPiece::Data(data))))
    }

    fn is_live(&self) -> bool {
        true
    }
}

impl Service for Echo {
    fn accepts_tunnels(&self) -> bool {
        self.accepts_tunnels
    }

    fn call(&self, request: Request, _client: &Client<'_>) -> Reply {
        let (head, body) = request.into_parts();
        let protocol = head.headers().get(http::header::UPGRADE).and_then(|value| value.to_str().ok());
        let described = format!("{} {} {}", head.method(), head.uri(), protocol.unwrap_or_default());
        let mut response = Response::new(StatusCode::OK);
        response.headers_mut().insert("request", HeaderValue::try_from(described).unwrap());
        response.body = Body::Stream(Box::new(EchoBody(body)));
        Reply::Now(response)
    }

    fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    fn rejected(&self, _client: &Client<'_>, _reason: &str, _outcome: &ExchangeOutcome) {}
}

/// Runs `test` with a client that has the settings of the server. Does nothing on the engines without HTTP/2.
fn with_client<F: Future<Output = ()>>(
    echo: Echo,
    test: impl FnOnce(Box<dyn Engine>, SendRequest<Bytes>) -> F,
) {
    if !matches!(model(), Model::PerCore | Model::Task | Model::Mailbox) {
        return;
    }
    let (engine, _) = engine(echo);
    let BoundAddress::Ip(address) = listen(&*engine, "127.0.0.1:0,h2c") else { panic!("not TCP") };
    Runtime::new().unwrap().block_on(async {
        let (client, connection) = handshake(TcpStream::connect(address).await.unwrap()).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut client = client.ready().await.unwrap();
        // A response comes after the settings.
        let get = http::Request::get("http://a/").body(()).unwrap();
        client.send_request(get, true).unwrap().0.await.unwrap();
        test(engine, client).await;
        // A server that stops may close the socket before the last frames of the client have arrived.
        if let Err(error) = connection.await.unwrap() {
            assert!(error.is_io(), "{error}");
        }
    });
}

async fn open(client: SendRequest<Bytes>) -> (http::Response<RecvStream>, SendStream<Bytes>) {
    let request = http::Request::builder().method(Method::CONNECT).uri("http://a/chat?x=y");
    let request = request.extension(Protocol::from_static("websocket")).body(()).unwrap();
    let (response, send) = client.ready().await.unwrap().send_request(request, false).unwrap();
    (response.await.unwrap(), send)
}

/// Sends a message and receives it again.
async fn exchange(send: &mut SendStream<Bytes>, receive: &mut RecvStream, message: &'static [u8]) {
    send.send_data(Bytes::from_static(message), false).unwrap();
    let mut received = Vec::new();
    while received.len() < message.len() {
        let data = receive.data().await.unwrap().unwrap();
        receive.flow_control().release_capacity(data.len()).unwrap();
        received.extend_from_slice(&data);
    }
    assert_eq!(received, message);
}

/// Receives nothing more. A server that stops resets a stream whose response is complete.
async fn expect_end(receive: &mut RecvStream) {
    while let Some(data) = receive.data().await {
        match data {
            Ok(data) => assert_eq!(data, ""),
            Err(error) => return assert_eq!(error.reason(), Some(Reason::NO_ERROR), "{error}"),
        }
    }
}

#[test]
fn a_tunnel_has_two_directions_without_limits_of_size_and_rate() {
    let mut limits = Limits::default();
    limits.http.body_bytes = 3;
    limits.http.rate_grace = Duration::ZERO;
    limits.http.body_rate_min = u32::MAX;
    limits.http.send_rate_min = 0;
    with_client(Echo { limits: Arc::new(limits), accepts_tunnels: true }, async |_engine, client| {
        assert!(client.is_extended_connect_protocol_enabled());
        let (response, mut send) = open(client).await;
        assert_eq!(response.headers()["request"], "CONNECT /chat?x=y websocket");
        assert_eq!(response.headers().get("content-length"), None);
        let mut receive = response.into_body();
        for message in [&b"hello"[..], LARGE, b"again"] {
            exchange(&mut send, &mut receive, message).await;
        }
        send.send_data(Bytes::new(), true).unwrap();
        expect_end(&mut receive).await;
    });
}

#[test]
fn a_tunnel_ends_with_the_server() {
    let echo = Echo { limits: Arc::default(), accepts_tunnels: true };
    with_client(echo, async |engine, client| {
        let (response, mut send) = open(client).await;
        let mut receive = response.into_body();
        exchange(&mut send, &mut receive, b"hello").await;
        let end = async {
            expect_end(&mut receive).await;
            drop((send, receive));
        };
        tokio::join!(engine.stop(Duration::from_mins(1)), end);
    });
}

#[test]
fn a_client_learns_that_there_are_no_tunnels() {
    let echo = Echo { limits: Arc::default(), accepts_tunnels: false };
    with_client(echo, async |_engine, client| assert!(!client.is_extended_connect_protocol_enabled()));
}
