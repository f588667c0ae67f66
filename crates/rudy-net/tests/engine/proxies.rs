//! Trusted proxies: the PROXY protocol header, and the limits by address.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::StatusCode;
use rudy_net::engine::{Engine, Problem};
use rudy_net::listen::BoundAddress;
use rudy_service::{Client, ExchangeOutcome, Limits, Peer, Reply, Request, Response, Service};

use crate::limits::{assert_unavailable, connect_from};
use crate::support::{
    LAST_REQUEST, REQUEST, Reports, engine_of, eventually, is_serial, listen, listen_tcp, model, read_all,
    sum,
};

/// Trusts 127.0.0.1, 203.0.113.1 and Unix sockets, and responds with the client's address.
struct Behind {
    limits: Arc<Limits>,
    rejections: Arc<Mutex<Vec<String>>>,
}

impl Service for Behind {
    fn is_trusted_proxy(&self, peer: &Peer) -> bool {
        match peer {
            Peer::Ip(address) => ["127.0.0.1", "203.0.113.1"].contains(&&*address.ip().to_string()),
            Peer::Unix => true,
            Peer::Unnamed(_) => false,
        }
    }

    fn call(&self, _request: Request, client: &Client<'_>) -> Reply {
        Response::text(StatusCode::OK, "text/plain", client.address().to_string()).into()
    }

    fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    fn rejected(&self, client: &Client<'_>, reason: &str, outcome: &ExchangeOutcome) {
        assert_eq!(outcome.status, None, "{reason}");
        self.rejections.lock().unwrap().push(format!("{}: {reason}", client.peer.ip().unwrap()));
    }
}

struct Site {
    engine: Box<dyn Engine>,
    reports: Reports,
    rejections: Arc<Mutex<Vec<String>>>,
}

impl Site {
    fn new(limits: Limits) -> Self {
        let rejections = Arc::<Mutex<Vec<String>>>::default();
        let service = Behind { limits: Arc::new(limits), rejections: rejections.clone() };
        let (engine, reports) = engine_of(1, service);
        Self { engine, reports, rejections }
    }

    fn listen(&self) -> SocketAddr {
        let BoundAddress::Ip(address) = listen(&*self.engine, "127.0.0.1:0,proxy_protocol") else {
            panic!("TCP")
        };
        address
    }

    /// Waits for the reason of the last rejection.
    fn wait_for_rejection(&self) -> String {
        eventually("it is rejected", || !self.rejections.lock().unwrap().is_empty());
        self.rejections.lock().unwrap().remove(0)
    }
}

fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
    [&b"\r\n\r\n\0\r\nQUIT\n"[..], &[command, family], &length, rest].concat()
}

const V1: &str = "PROXY TCP4 192.0.2.7 198.51.100.1 5000 443\r\n";

/// Sends a request after `header`, and returns the body of the response.
fn ask(address: SocketAddr, header: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&[header, LAST_REQUEST].concat()).unwrap();
    body(&read_all(stream))
}

fn body(response: &str) -> String {
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    response.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn the_header_names_the_client() {
    let site = Site::new(Limits::default());
    let address = site.listen();
    let v6 = [&[0x20, 0x01, 0x0d, 0xb8][..], &[0; 11], &[7], &[0; 16], &[0x13, 0x88, 0, 80]].concat();
    let v4 = [192, 0, 2, 7, 0, 0, 0, 0, 0x13, 0x88, 0, 80];
    for (header, client) in [
        (V1.as_bytes().to_vec(), "192.0.2.7:5000"),
        (b"PROXY TCP6 2001:db8::7 ::1 5000 443\r\n".to_vec(), "[2001:db8::7]:5000"),
        (b"PROXY UNKNOWN\r\n".to_vec(), "unknown client of 127.0.0.1"),
        (v2(0x21, 0x11, &v4), "192.0.2.7:5000"),
        (v2(0x21, 0x11, &[&v4[..], &[4; 1000]].concat()), "192.0.2.7:5000"),
        (v2(0x21, 0x21, &v6), "[2001:db8::7]:5000"),
        (v2(0x21, 0x00, &[]), "unknown client of 127.0.0.1"),
        (b"PROXY TCP4 127.0.0.9 127.0.0.1 5000 443\r\n".to_vec(), "127.0.0.9:5000"),
    ] {
        assert_eq!(ask(address, &header), client, "{}", header.escape_ascii());
    }
    // A health check by the proxy.
    assert!(ask(address, &v2(0x20, 0x00, &[])).starts_with("127.0.0.1:"));
    assert!(site.rejections.lock().unwrap().is_empty());
}

#[test]
fn a_header_and_a_request_may_arrive_in_any_pieces() {
    let site = Site::new(Limits::default());
    let address = site.listen();
    let header_v2 = v2(0x21, 0x11, &[192, 0, 2, 7, 0, 0, 0, 0, 0x13, 0x88, 0, 80, 4, 0, 1, 9]);
    for header in [V1.as_bytes(), &header_v2] {
        let bytes = [header, LAST_REQUEST].concat();
        for split in 1..=header.len() + 1 {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_nodelay(true).unwrap();
            let received = || sum(&*site.engine, |counters| &counters.received_bytes);
            let before = received();
            stream.write_all(&bytes[..split]).unwrap();
            // The server has read everything so far when the rest is sent.
            eventually("the first piece is read", || received() == before + split as u64);
            stream.write_all(&bytes[split..]).unwrap();
            assert_eq!(body(&read_all(stream)), "192.0.2.7:5000", "split at {split}");
        }
    }
}

#[test]
fn requests_in_the_packet_of_the_header_are_a_pipeline() {
    let site = Site::new(Limits::default());
    let mut stream = TcpStream::connect(site.listen()).unwrap();
    stream.write_all(&[V1.as_bytes(), REQUEST, REQUEST, LAST_REQUEST].concat()).unwrap();
    assert_eq!(read_all(stream).matches("192.0.2.7:5000").count(), 3);
}

#[test]
fn a_client_may_half_close_after_its_request() {
    let site = Site::new(Limits::default());
    let address = site.listen();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&[V1.as_bytes(), REQUEST].concat()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(body(&read_all(stream)), "192.0.2.7:5000");
    // With the header: a client without a request. Without: a port scan or a health check.
    for sent in [V1, ""] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(sent.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_all(stream), "");
    }
    assert!(site.rejections.lock().unwrap().is_empty());
}

/// Asserts that the connection is closed without a response; with unread input this is a reset.
fn assert_closed(mut stream: TcpStream) {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        Ok(_) => assert_eq!(rest, b""),
    }
}

#[test]
fn an_invalid_header_is_rejected_without_a_response() {
    let site = Site::new(Limits::default());
    let address = site.listen();
    for (sent, reason) in [
        (LAST_REQUEST, "does not start with a PROXY protocol header"),
        (b"PROXY TCP4 192.0.2.7\r\n", "is malformed"),
        (b"\x16\x03\x01\x02\x00", "does not start with a PROXY protocol header"),
        (&v2(0x21, 0x11, &[1, 2, 3]), "is malformed"),
        (&v2(0x21, 0x11, &[0; 5000])[..1000], "is too long"),
    ] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(sent).unwrap();
        assert_closed(stream);
        let rejection = site.wait_for_rejection();
        assert!(rejection.starts_with("127.0.0.1: ") && rejection.contains(reason), "{rejection}");
    }
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"PROXY TCP4 ").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_closed(stream);
    assert!(site.wait_for_rejection().contains("ended in its PROXY protocol header"));
    assert_eq!(sum(&*site.engine, |counters| &counters.requests), 0);
}

#[test]
fn a_header_of_an_untrusted_peer_is_not_read() {
    let site = Site::new(Limits::default());
    let mut stream = connect_from([127, 0, 0, 2], site.listen());
    // Fails if the server closes first.
    let _ = stream.write_all(&[V1.as_bytes(), LAST_REQUEST].concat());
    assert_closed(stream);
    let rejection = site.wait_for_rejection();
    assert!(rejection.starts_with("127.0.0.2: the peer is not in `trusted_proxies`"), "{rejection}");
    assert_eq!(sum(&*site.engine, |counters| &counters.received_bytes), 0);
}

#[test]
fn the_wait_for_a_header_times_out() {
    let timeout = Duration::from_millis(20);
    let site = Site::new(Limits { proxy_header_timeout: timeout, ..Limits::default() });
    let address = site.listen();
    // Not reported, because no header had started.
    assert_closed(TcpStream::connect(address).unwrap());
    assert!(site.rejections.lock().unwrap().is_empty());
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"PROXY TCP4 192.0.2.7").unwrap();
    assert_closed(stream);
    assert!(site.wait_for_rejection().contains("timed out waiting for the PROXY protocol header"));
}

#[test]
fn a_stop_ends_connections_that_wait_for_a_header() {
    let site = Site::new(Limits::default());
    let address = site.listen();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"PROXY ").unwrap();
    eventually("it is read", || sum(&*site.engine, |counters| &counters.received_bytes) == 6);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stopped = runtime.block_on(site.engine.stop(Duration::from_mins(1)));
    assert_eq!(stopped.aborted, 0);
    assert_closed(stream);
}

#[test]
fn a_unix_socket_accepts_headers() {
    let site = Site::new(Limits::default());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rudy.sock");
    listen(&*site.engine, &format!("unix:{},mode=600,proxy_protocol", path.display()));
    for (header, client) in [(V1, "192.0.2.7:5000"), ("PROXY UNKNOWN\r\n", "unknown client of unix:")] {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(&[header.as_bytes(), LAST_REQUEST].concat()).unwrap();
        assert_eq!(body(&read_all(stream)), client);
    }
}

fn header_of(client: &str) -> String {
    format!("PROXY TCP4 {client} 198.51.100.1 5000 443\r\n")
}

/// Opens a connection that has received a response.
fn begin(mut stream: TcpStream, header: &str) -> TcpStream {
    stream.write_all(&[header.as_bytes(), REQUEST].concat()).unwrap();
    let mut response = Vec::new();
    let mut byte = [0];
    // The body is an address or an error message. It follows the head, and then the connection idles.
    while !response.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        response.push(byte[0]);
    }
    assert!(response.starts_with(b"HTTP/1.1 200 "), "{}", response.escape_ascii());
    stream
}

#[test]
fn the_limit_by_address_applies_to_clients_and_not_to_proxies() {
    if is_serial() {
        return;
    }
    let site = Site::new(Limits { connections_per_address: Some(1), ..Limits::default() });
    let (behind, plain) = (site.listen(), listen_tcp(&*site.engine));
    let connect = |address| TcpStream::connect(address).unwrap();
    let first = begin(connect(behind), &header_of("192.0.2.7"));
    // Another client of the same proxy, and connections of the proxy itself.
    let _others = [
        begin(connect(behind), &header_of("192.0.2.8")),
        begin(connect(behind), "PROXY UNKNOWN\r\n"),
        begin(connect(behind), "PROXY UNKNOWN\r\n"),
        begin(connect(plain), ""),
        begin(connect(plain), ""),
    ];
    let mut second = connect(behind);
    second.write_all(&[header_of("192.0.2.7").as_bytes(), REQUEST].concat()).unwrap();
    assert_unavailable(&read_all(second));
    let report = site.reports.lock().unwrap()[0].to_string();
    assert!(
        report.starts_with(&Problem::AddressLimit.to_string())
            && report.contains("192.0.2.7 has reached the limit"),
        "{report}"
    );
    drop(first);
    eventually("the connection is no longer counted", || {
        let mut next = connect(behind);
        next.write_all(&[header_of("192.0.2.7").as_bytes(), LAST_REQUEST].concat()).unwrap();
        read_all(next).starts_with("HTTP/1.1 200 ")
    });
    // A peer that is not trusted counts as before.
    let _third = begin(connect_from([127, 0, 0, 3], plain), "");
    assert_unavailable(&read_all(connect_from([127, 0, 0, 3], plain)));
}

#[test]
fn connections_of_a_proxy_are_evicted_as_separate_addresses() {
    if model().has_thread_per_connection() {
        return;
    }
    let site = Site::new(Limits { connections: Some(5), ..Limits::default() });
    let (behind, plain) = (site.listen(), listen_tcp(&*site.engine));
    let connect = |address| TcpStream::connect(address).unwrap();
    // The proxy's three connections have been idle longest, but the address with two loses one first.
    let proxy: Vec<_> = (0..3).map(|_| begin(connect(plain), "")).collect();
    let two: Vec<_> = (0..2).map(|_| begin(connect(behind), &header_of("192.0.2.7"))).collect();
    let _new = begin(connect_from([127, 0, 0, 2], plain), "");
    // The rest of its response, then the end.
    assert!(read_all(&two[0]).ends_with(":5000"));
    // Now each address has one.
    let _newer = begin(connect_from([127, 0, 0, 3], plain), "");
    assert!(read_all(&proxy[0]).starts_with("127.0.0.1:"));
}
