//! Tests TLS connections with a client of rustls over a socket pair.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body::Body as _;
use rudy_http::h2::PREFACE;
use rudy_service::{Body, BodyPiece, Client, Limits, Reply, Request, Response};
use rudy_tls::{Certificate, SiteSettings, TicketKey, TicketKeys, TlsSite};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::harness::Harness;
use super::second_protocol::{pattern, range};
use crate::timers::TimerFd;
use crate::tls::TlsStream;
use crate::transport::unacknowledged;

pub(super) const LARGE_BYTES: usize = 700_000;

type TlsClient = StreamOwned<ClientConnection, UnixStream>;

/// A server with one site, `a.test`, and the settings of its clients.
pub(super) struct Fixture {
    pub(super) harness: Harness,
    pub(super) client: Arc<ClientConfig>,
}

fn respond(request: Request, client: &Client<'_>) -> Reply {
    let mut response = Response::new(StatusCode::OK);
    response.body = match request.uri().path() {
        "/large" => Body::Bytes(pattern(7, LARGE_BYTES).into()),
        "/file" => Body::File(range(&pattern(7, LARGE_BYTES), 0, LARGE_BYTES as u64)),
        "/parts" => {
            let parts = [
                BodyPiece::Data("<".into()),
                BodyPiece::File(range(b"part", 0, 4)),
                BodyPiece::Data(">".into()),
            ];
            Body::Stream(Box::new(std::collections::VecDeque::from(parts)))
        }
        "/length" => {
            let body = request.into_body();
            return Reply::Later(Box::pin(async move {
                let mut body = std::pin::pin!(body);
                let mut length = 0;
                while let Some(frame) = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
                    length += frame.unwrap().into_data().map_or(0, |data: Bytes| data.len());
                }
                let mut response = Response::new(StatusCode::OK);
                response.body = Body::Bytes(length.to_string().into());
                response
            }));
        }
        _ => {
            let tls = client.tls.as_ref().unwrap();
            Body::Bytes(format!("{} {:?} {}", tls.version, tls.server_name, tls.is_resumed).into())
        }
    };
    response.into()
}

impl Fixture {
    pub(super) fn new(limits: Limits, versions: &[&'static rustls::SupportedProtocolVersion]) -> Self {
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(vec!["a.test".to_owned()]).unwrap();
        let certificate =
            Certificate::from_pem(cert.pem().as_bytes(), signing_key.serialize_pem().as_bytes()).unwrap();
        let keys = Arc::<TicketKeys>::default();
        keys.set_from(&TicketKey::random().unwrap());
        let settings = SiteSettings {
            certificates: vec![Arc::new(certificate)],
            http2: true,
            ..SiteSettings::default()
        };
        let site = Arc::new(TlsSite::new(&settings, &keys).unwrap());
        let harness = Harness::with_tls(limits, site, respond);
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(cert.der().to_vec())).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let client = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
        let client = Arc::new(client.with_root_certificates(roots).with_no_client_auth());
        Self { harness, client }
    }

    fn start(&self) -> UnixStream {
        self.harness.start(|io| TlsStream::new(io.into()).into()).0
    }

    fn connect(&self) -> TlsClient {
        self.connect_over(self.start())
    }

    fn connect_over(&self, peer: UnixStream) -> TlsClient {
        let name = ServerName::try_from("a.test").unwrap();
        StreamOwned::new(ClientConnection::new(self.client.clone(), name).unwrap(), peer)
    }
}

pub(super) const BOTH: &[&rustls::SupportedProtocolVersion] =
    &[&rustls::version::TLS13, &rustls::version::TLS12];
const TLS12: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS12];

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n")
}

/// Reads a head and a body of the announced length.
fn read_response(client: &mut impl Read) -> (String, Vec<u8>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    client.read_exact(&mut body).unwrap();
    (head, body)
}

#[test]
fn responses_of_every_kind_arrive_intact() {
    for versions in [BOTH, TLS12] {
        let fixture = Fixture::new(Limits::default(), versions);
        let mut client = fixture.connect();
        let version = if versions.len() == 1 { "TLSv1.2" } else { "TLSv1.3" };
        for (path, expected) in [
            ("/", format!("{version} Some(\"a.test\") false").into_bytes()),
            ("/large", pattern(7, LARGE_BYTES)),
            ("/", format!("{version} Some(\"a.test\") false").into_bytes()),
            ("/file", pattern(7, LARGE_BYTES)),
        ] {
            client.write_all(get(path).as_bytes()).unwrap();
            assert!(read_response(&mut client).1 == expected, "{version} {path}");
        }
        // Pipelined, and as single bytes, each in a record.
        client.write_all([get("/large"), get("/file"), get("/")].concat().as_bytes()).unwrap();
        for length in [LARGE_BYTES, LARGE_BYTES, expected_length(version)] {
            assert_eq!(read_response(&mut client).1.len(), length);
        }
        for byte in get("/").as_bytes() {
            client.write_all(&[*byte]).unwrap();
        }
        assert_eq!(read_response(&mut client).1.len(), expected_length(version));
    }
}

fn expected_length(version: &str) -> usize {
    format!("{version} Some(\"a.test\") false").len()
}

/// Records arrive faster than the handler reads, in pieces that end within records.
#[test]
fn a_request_body_arrives_intact() {
    let fixture = Fixture::new(Limits::default(), BOTH);
    let mut client = fixture.connect();
    let head = format!("POST /length HTTP/1.1\r\nHost: a.test\r\nContent-Length: {LARGE_BYTES}\r\n\r\n");
    for _ in 0..3 {
        client.write_all(head.as_bytes()).unwrap();
        client.write_all(&pattern(3, LARGE_BYTES)).unwrap();
        assert_eq!(read_response(&mut client).1, LARGE_BYTES.to_string().as_bytes());
    }
}

#[test]
fn a_second_connection_resumes_the_session() {
    for versions in [BOTH, TLS12] {
        let fixture = Fixture::new(Limits::default(), versions);
        for is_resumed in [false, true] {
            let mut client = fixture.connect();
            client.write_all(get("/").as_bytes()).unwrap();
            let body = String::from_utf8(read_response(&mut client).1).unwrap();
            assert!(body.ends_with(&is_resumed.to_string()), "{body}");
        }
    }
}

/// A truncation attack is visible to the client: only a close with a notification is complete.
#[test]
fn the_close_is_announced_in_both_directions() {
    let fixture = Fixture::new(Limits::default(), BOTH);
    let mut client = fixture.connect();
    client.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
    // The client has sent its last data, and waits for the response.
    let mut client = fixture.connect();
    client.write_all(get("/large").as_bytes()).unwrap();
    client.conn.send_close_notify();
    client.flush().unwrap();
    client.sock.shutdown(Shutdown::Write).unwrap();
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).unwrap();
    assert!(bytes.len() > LARGE_BYTES, "{}", bytes.len());
}

/// The client keeps its socket open.
#[test]
fn a_close_notification_is_the_end_of_the_input() {
    let mut limits = Limits::default();
    let long = Duration::from_hours(1);
    (limits.http.first_request_timeout, limits.http.idle_timeout) = (long, long);
    let fixture = Fixture::new(limits, BOTH);
    for (request, expected) in [("", ""), (get("/").as_str(), "HTTP/1.1 200 OK")] {
        let mut client = fixture.connect();
        client.conn.complete_io(&mut client.sock).unwrap();
        client.conn.writer().write_all(request.as_bytes()).unwrap();
        client.conn.send_close_notify();
        client.flush().unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        assert!(text.starts_with(expected) && text.is_empty() == expected.is_empty(), "{text}");
    }
}

/// A client of HTTP/2 still acknowledges what it reads, after the close notification of the server.
#[tokio::test]
async fn a_linger_lasts_until_the_client_closes() {
    let fixture = Fixture::new(Limits::default(), BOTH);
    let worker = fixture.harness.worker.clone();
    // It also runs the turns of handshakes.
    tokio::spawn(async move { worker.run_timers(TimerFd::new().unwrap()).await });
    let (ours, peer) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let stream = TlsStream::new(tokio::net::UnixStream::from_std(ours).unwrap().into());
    let mut serving = std::pin::pin!(fixture.harness.serve(stream.into()));
    let mut poll = async || {
        tokio::task::yield_now().await;
        std::future::poll_fn(|cx| Poll::Ready(serving.as_mut().poll(cx))).await
    };
    let mut client = fixture.connect_over(peer);
    let reader = std::thread::spawn(move || {
        client.write_all(b"GET /large HTTP/1.0\r\n\r\n").unwrap();
        let mut bytes = Vec::new();
        client.read_to_end(&mut bytes).unwrap();
        assert!(bytes.ends_with(&pattern(7, LARGE_BYTES)), "{} bytes", bytes.len());
        client
    });
    while !reader.is_finished() {
        assert!(poll().await.is_pending());
    }
    let mut client = reader.join().unwrap();
    for _ in 0..2 {
        client.write_all(b"acknowledged").unwrap();
        // Until the server has read the record.
        while unacknowledged(&client.sock).unwrap() > 0 {
            assert!(poll().await.is_pending());
        }
        assert!(poll().await.is_pending());
    }
    drop(client);
    while poll().await.is_pending() {}
}

/// Each packet of a record wakes the connection, although it has no frame for it.
#[test]
fn incomplete_records_end_a_connection_of_http2() {
    let mut limits = Limits::default();
    limits.http.http2.control_frames = 100;
    let mut fixture = Fixture::new(limits, BOTH);
    Arc::make_mut(&mut fixture.client).alpn_protocols = vec![b"h2".to_vec()];
    let mut client = fixture.connect();
    // An empty SETTINGS frame.
    client.write_all(&[&PREFACE[..], &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat()).unwrap();
    client.conn.writer().write_all(&[0; 10_000]).unwrap();
    let mut record = Vec::new();
    client.conn.write_tls(&mut record).unwrap();
    for byte in &record[..150] {
        client.sock.write_all(&[*byte]).unwrap();
        while unacknowledged(&client.sock).unwrap() > 0 {
            std::thread::yield_now();
        }
    }
    let mut received = Vec::new();
    client.read_to_end(&mut received).unwrap();
    let reason = b"too many packets without a whole frame";
    assert!(received.windows(reason.len()).any(|window| window == reason), "{}", received.escape_ascii());
}

#[test]
fn an_invalid_client_receives_an_alert_or_an_explanation() {
    let fixture = Fixture::new(Limits::default(), BOTH);
    let received = |sent: &[u8]| {
        let mut client = fixture.start();
        client.write_all(sent).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut bytes = Vec::new();
        client.read_to_end(&mut bytes).unwrap();
        bytes
    };
    let http = received(get("/").as_bytes());
    assert!(http.starts_with(b"HTTP/1.1 400 Bad Request\r\n") && http.ends_with(b"Use https://.\n"));
    // Decode error, unexpected message, or nothing: the client is gone, or speaks no protocol of ours.
    assert_eq!(received(b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00")[..5], [21, 3, 3, 0, 2]);
    for nothing in [&b""[..], b"\x16", b"\x16\x03\x01\x02\x00\x01", b"SSH-2.0"] {
        let bytes = received(nothing);
        assert!(bytes.is_empty() || bytes.starts_with(b"HTTP/1.1 400"), "{nothing:?} {bytes:?}");
    }
    // The alert for an unknown name is fatal.
    let name = ServerName::try_from("b.test").unwrap();
    let connection = ClientConnection::new(fixture.client.clone(), name).unwrap();
    let mut client = StreamOwned::new(connection, fixture.start());
    let error = client.write_all(b"x").unwrap_err().to_string();
    assert!(error.contains("UnrecognisedName"), "{error}");
}

#[test]
fn a_forged_record_ends_the_connection_with_an_alert() {
    for versions in [BOTH, TLS12] {
        let fixture = Fixture::new(Limits::default(), versions);
        let mut client = fixture.connect();
        client.write_all(get("/").as_bytes()).unwrap();
        read_response(&mut client);
        client.sock.write_all(b"\x17\x03\x03\x00\x24aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa").unwrap();
        let error = client.read(&mut [0; 100]).unwrap_err().to_string();
        assert!(error.contains("BadRecordMac"), "{error}");
    }
}

#[test]
fn the_oldest_of_too_many_silent_clients_is_closed() {
    let fixture = Fixture::new(Limits { handshakes: 2, ..Limits::default() }, BOTH);
    let mut silent: Vec<_> = (0..2).map(|_| fixture.start()).collect();
    while fixture.harness.worker.handshakes.unfinished() < 2 {
        std::thread::yield_now();
    }
    let mut client = fixture.connect();
    client.write_all(get("/").as_bytes()).unwrap();
    read_response(&mut client);
    assert_eq!(silent.remove(0).read(&mut [0]).unwrap(), 0);
}
