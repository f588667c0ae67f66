//! Requests as RFC 9113 §8 defines them, from the frames to an application: what is malformed never arrives there.
//!
//! The cases of `tests/conformance` have the rules that HTTP/1.1 has too.

use rudy_tests::prelude::*;

/// PROTOCOL_ERROR (RFC 9113 §7).
const PROTOCOL_ERROR: u32 = 1;

type Fields<'a> = [(&'a str, &'a str)];

const HEAD: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":path", "/x?y"), (":authority", "a.test")];

/// The field `X: y`, which an encoder would not write.
const UPPER: &[u8] = b"\0\x01X\x01y";

/// What an application sees of a request.
const VARIABLES: &str =
    "REQUEST_METHOD REQUEST_URI HTTP_HOST HTTP_COOKIE CONTENT_LENGTH REQUEST_SCHEME HTTPS HTTP_UPGRADE";

/// An application that responds with the number of requests so far and the variables that it receives, one per line, and then
/// the body.
fn app() -> App {
    let requests = AtomicU32::new(0);
    App::serve(move |peer, params| {
        let count = requests.fetch_add(1, Ordering::Relaxed) + 1;
        let lines = VARIABLES.split(' ').map(|name| format!("{name}={}\n", variable(&params, name)));
        let lines: String = lines.collect();
        let Some(body) = peer.body_bytes() else { return };
        let head = format!("Content-Type: text/plain\r\n\r\n{count}\n{lines}");
        peer.respond(&[head.as_bytes(), &body].concat());
    })
}

fn server(app: &App) -> Server {
    Server::config(&format!(
        "listen = '127.0.0.1:0,h2c'\n[[site]]\nroute = [{{ path = '/*', fastcgi = {{ address = '{app}' }} }}]\n"
    ))
}

/// A client that sends each request on the next stream.
struct Client {
    connection: Http2Connection,
    stream: u32,
}

impl Client {
    fn new(server: &Server) -> Self {
        Self { connection: Http2Connection::open(server.address(), &[]), stream: 1 }
    }

    fn exchange(&mut self, head: &Fields<'_>, frames: &[(u8, u8, Vec<u8>)]) -> Http2Response {
        self.exchange_block(&block(head), frames)
    }

    fn exchange_block(&mut self, head: &[u8], frames: &[(u8, u8, Vec<u8>)]) -> Http2Response {
        let stream = self.stream;
        self.stream += 2;
        let end = if frames.is_empty() { END } else { 0 };
        self.connection.frame(kind::HEADERS, END_HEADERS | end, stream, head);
        for (kind, flags, payload) in frames {
            self.connection.frame(*kind, *flags, stream, payload);
        }
        self.connection.response(stream)
    }

    fn get(&mut self, more: &Fields<'_>) -> Http2Response {
        self.exchange(&[&HEAD[..], more].concat(), &[])
    }
}

fn data(flags: u8, bytes: &[u8]) -> (u8, u8, Vec<u8>) {
    (kind::DATA, flags, bytes.to_vec())
}

fn trailers(flags: u8, fields: &Fields<'_>) -> (u8, u8, Vec<u8>) {
    (kind::HEADERS, END_HEADERS | flags, block(fields))
}

fn assert_malformed(response: &Http2Response, what: &str) {
    assert_eq!((response.status, response.reset), (0, Some(PROTOCOL_ERROR)), "{what}");
}

/// §8.2.3, §8.3.1.
#[test]
fn an_application_receives_the_fields_of_http_1() {
    let app = app();
    let server = server(&app);
    let mut client = Client::new(&server);
    let crumbs = [("cookie", "a=1"), ("te", "trailers"), ("cookie", "b=2; c=3"), ("host", "A.test")];
    let seen = client.get(&crumbs);
    assert_eq!(
        seen.text(),
        "1\nREQUEST_METHOD=GET\nREQUEST_URI=/x?y\nHTTP_HOST=a.test\nHTTP_COOKIE=a=1; b=2; c=3\n\
         CONTENT_LENGTH=\nREQUEST_SCHEME=http\nHTTPS=\nHTTP_UPGRADE=\n"
    );
    // Without :authority, Host is the host.
    let seen = client.exchange(&[&HEAD[..3], &[("host", "b.test")]].concat(), &[]);
    assert!(seen.text().contains("HTTP_HOST=b.test\n"), "{}", seen.text());
    // The scheme is that of the connection, whatever the client states.
    let https = [HEAD[0], (":scheme", "https"), HEAD[2], HEAD[3]];
    let seen = client.exchange(&https, &[]);
    assert!(seen.text().contains("REQUEST_SCHEME=http\nHTTPS=\n"), "{}", seen.text());
    let post = [(":method", "POST"), HEAD[1], HEAD[2], HEAD[3]];
    let seen = client.exchange(&post, &[data(0, b"abc"), data(0, b""), trailers(END, &[("x", "y")])]);
    assert!(seen.text().contains("CONTENT_LENGTH=3\n") && seen.text().ends_with("\nabc"), "{}", seen.text());
}

/// §8.1.1, §8.2, §8.3: the stream is reset, the application sees nothing, and the connection goes on.
#[test]
fn a_malformed_head_does_not_arrive() {
    let app = app();
    let server = server(&app);
    let mut client = Client::new(&server);
    for which in 0..3 {
        let missing = [&HEAD[..which], &HEAD[which + 1..]].concat();
        assert_malformed(&client.exchange(&missing, &[]), &format!("without {}", HEAD[which].0));
    }
    for field in HEAD {
        assert_malformed(&client.get(&[field]), &format!("{} twice", field.0));
        let late = HEAD.into_iter().filter(|other| *other != field);
        let late: Vec<_> = late.chain([("x", "y"), field]).collect();
        assert_malformed(&client.exchange(&late, &[]), &format!("{} after a field", field.0));
    }
    for (name, value) in [
        (":status", "200"),
        (":x", "y"),
        ("host", "b.test"),
        ("host", ""),
        ("connection", "close"),
        ("proxy-connection", "close"),
        ("keep-alive", "1"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "websocket"),
        ("te", "gzip"),
        ("x", "y\r\nhost: b"),
        ("x\r\nhost", "b"),
        ("x", " y"),
    ] {
        assert_malformed(&client.get(&[(name, value)]), &format!("{name}: {value}"));
    }
    for value in ["", "x", "http://b.test/", "*", "/ HTTP/1.1\r\nx: y", "/\u{7f}"] {
        assert_malformed(&client.exchange(&[HEAD[0], HEAD[1], (":path", value), HEAD[3]], &[]), value);
    }
    let upper = [&block(&HEAD)[..], UPPER].concat();
    assert_malformed(&client.exchange_block(&upper, &[]), "upper case");
    let response = client.get(&[]);
    assert!(response.text().starts_with("1\n"), "the first request: {}", response.text());
}

/// §8.1.1: a body of another length than stated, and trailers that are none.
#[test]
fn a_malformed_body_has_no_response() {
    let app = app();
    let server = server(&app);
    let mut client = Client::new(&server);
    let post = [(":method", "POST"), HEAD[1], HEAD[2], HEAD[3], ("content-length", "3")];
    for (what, frames) in [
        ("no body", vec![]),
        ("shorter", vec![data(END, b"ab")]),
        ("longer", vec![data(0, b"ab"), data(END, b"cd")]),
        ("shorter before trailers", vec![data(0, b"ab"), trailers(END, &[("x", "y")])]),
        ("trailers that do not end it", vec![data(0, b"abc"), trailers(0, &[("x", "y")])]),
        ("a pseudo-field as a trailer", vec![data(0, b"abc"), trailers(END, &[(":path", "/")])]),
        ("a length as a trailer", vec![data(0, b"abc"), trailers(END, &[("content-length", "3")])]),
        ("an upper-case trailer", vec![data(0, b"abc"), (kind::HEADERS, END | END_HEADERS, UPPER.to_vec())]),
    ] {
        assert_malformed(&client.exchange(&post, &frames), what);
    }
    let response = client.exchange(&post, &[data(END, b"abc")]);
    assert!(response.text().ends_with("\nabc"), "{}", response.text());
}
