//! Requests as RFC 9113 §8 and RFC 9114 §4 define them, from the frames to an application: what is malformed never arrives there.
//!
//! The cases of `tests/conformance` have the rules that HTTP/1.1 has too.

use rudy_http::h3::ErrorCode;
use rudy_tests::prelude::*;

/// PROTOCOL_ERROR (RFC 9113 §7).
const PROTOCOL_ERROR: u32 = 1;

type Fields<'a> = [(&'a str, &'a str)];

const HEAD: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":path", "/x?y"), (":authority", "a.test")];

/// The field `X: y`, which an encoder would not write, in HPACK and in QPACK.
const UPPER: &[u8] = b"\0\x01X\x01y";
const UPPER_QPACK: &[u8] = b"\x21X\x01y";

/// What follows a head.
enum Rest<'a> {
    Data(&'a [u8]),
    Trailers(&'a Fields<'a>),
    UpperTrailer,
}

use Rest::{Data, Trailers, UpperTrailer};

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

/// Runs a test over each version with streams. It gets a client, and the scheme that the application sees.
fn over_streams(test: impl Fn(&mut Client, &str)) {
    let certificates = Certificates::for_host("a", "a.test");
    for is_http3 in [false, true] {
        let (app, port) = (app(), free_port());
        let (listen, tls) = match &certificates {
            _ if !is_http3 => ("h2c", String::new()),
            Some(certificates) => ("tls", format!("tls = {{ {} }}", certificates.settings("a"))),
            None => return,
        };
        let server = Server::config(&format!(
            "listen = '127.0.0.1:{port},{listen}'\n[[site]]\n{tls}\nroute = [{{ path = '/*', fastcgi = {{ address = '{app}' }} }}]\n"
        ));
        let connection = if is_http3 {
            Version::Http3(Box::new(Http3Client::new().name("a.test").open(server.address())))
        } else {
            Version::Http2(Http2Connection::open(server.address(), &[]))
        };
        test(&mut Client { connection, stream: 1 }, if is_http3 { "https" } else { "http" });
    }
}

/// A client that sends each request on the next stream.
struct Client {
    connection: Version,
    /// That of HTTP/2.
    stream: u32,
}

enum Version {
    Http2(Http2Connection),
    Http3(Box<Http3Connection>),
}

impl Client {
    fn exchange(&mut self, head: &Fields<'_>, rest: &[Rest<'_>], ends: bool) -> Http2Response {
        match &mut self.connection {
            Version::Http2(connection) => {
                let stream = self.stream;
                self.stream += 2;
                let end = |is_last: bool| if is_last && ends { END } else { 0 };
                let flags = END_HEADERS | end(rest.is_empty());
                connection.frame(kind::HEADERS, flags, stream, &block(head));
                for (at, part) in rest.iter().enumerate() {
                    let end = end(at + 1 == rest.len());
                    match part {
                        Data(data) => connection.frame(kind::DATA, end, stream, data),
                        Trailers(fields) => {
                            connection.frame(kind::HEADERS, END_HEADERS | end, stream, &block(fields));
                        }
                        UpperTrailer => connection.frame(kind::HEADERS, END_HEADERS | end, stream, UPPER),
                    }
                }
                connection.response(stream)
            }
            Version::Http3(connection) => {
                let stream = connection.open_stream();
                connection.queue(stream, &h3_headers(head));
                for part in rest {
                    let frame = match part {
                        Data(data) => h3_frame(h3_kind::DATA, data),
                        Trailers(fields) => h3_headers(fields),
                        UpperTrailer => h3_frame(h3_kind::HEADERS, &[b"\0\0", UPPER_QPACK].concat()),
                    };
                    connection.queue(stream, &frame);
                }
                if ends {
                    connection.finish(stream);
                }
                connection.response(stream)
            }
        }
    }

    fn get(&mut self, more: &Fields<'_>) -> Http2Response {
        self.exchange(&[&HEAD[..], more].concat(), &[], true)
    }

    /// Sends a head with a field in upper case.
    fn get_with_upper(&mut self) -> Http2Response {
        match &mut self.connection {
            Version::Http2(connection) => {
                self.stream += 2;
                let stream = self.stream - 2;
                let head = [&block(&HEAD)[..], UPPER].concat();
                connection.frame(kind::HEADERS, END_HEADERS | END, stream, &head);
                connection.response(stream)
            }
            Version::Http3(connection) => {
                let stream = connection.open_stream();
                let head = h3_headers(&HEAD);
                // The type and the length of the frame have two bytes.
                let head = h3_frame(h3_kind::HEADERS, &[&head[2..], UPPER_QPACK].concat());
                connection.queue(stream, &head);
                connection.finish(stream);
                connection.response(stream)
            }
        }
    }

    fn assert_malformed(&self, response: &Http2Response, what: &str) {
        let code = match &self.connection {
            Version::Http2(_) => PROTOCOL_ERROR,
            Version::Http3(_) => u32::try_from(ErrorCode::MESSAGE_ERROR.0).expect("a small number"),
        };
        assert_eq!((response.status, response.reset), (0, Some(code)), "{what}");
    }
}

/// RFC 9113 §8.2.3, §8.3.1; RFC 9114 §4.2.1, §4.3.1.
#[test]
fn an_application_receives_the_fields_of_http_1() {
    over_streams(|client, scheme| {
        let https = if scheme == "https" { "on" } else { "" };
        let of_scheme = format!("REQUEST_SCHEME={scheme}\nHTTPS={https}\n");
        let crumbs = [("cookie", "a=1"), ("te", "trailers"), ("cookie", "b=2; c=3"), ("host", "A.test")];
        let seen = client.get(&crumbs);
        let expected = "1\nREQUEST_METHOD=GET\nREQUEST_URI=/x?y\nHTTP_HOST=a.test\nHTTP_COOKIE=a=1; b=2; c=3\nCONTENT_LENGTH=\n";
        assert_eq!(seen.text(), format!("{expected}{of_scheme}HTTP_UPGRADE=\n"));
        // Without :authority, Host is the host.
        let seen = client.exchange(&[&HEAD[..3], &[("host", "a.test")]].concat(), &[], true);
        assert!(seen.text().contains("HTTP_HOST=a.test\n"), "{}", seen.text());
        // The scheme is that of the connection, whatever the client states.
        for scheme in ["http", "https"] {
            let seen = client.exchange(&[HEAD[0], (":scheme", scheme), HEAD[2], HEAD[3]], &[], true);
            assert!(seen.text().contains(&of_scheme), "{}", seen.text());
        }
        let post = [(":method", "POST"), HEAD[1], HEAD[2], HEAD[3]];
        let seen = client.exchange(&post, &[Data(b"abc"), Data(b""), Trailers(&[("x", "y")])], true);
        assert!(
            seen.text().contains("CONTENT_LENGTH=3\n") && seen.text().ends_with("\nabc"),
            "{}",
            seen.text()
        );
    });
}

/// RFC 9113 §8.1.1, §8.2, §8.3; RFC 9114 §4.1.2, §4.2, §4.3: the stream is reset, the application sees nothing, and the connection goes on.
#[test]
fn a_malformed_head_does_not_arrive() {
    over_streams(|client, _| {
        let mut check = |fields: &Fields<'_>, what: &str| {
            let response = client.exchange(fields, &[], true);
            client.assert_malformed(&response, what);
        };
        for which in 0..3 {
            let missing = [&HEAD[..which], &HEAD[which + 1..]].concat();
            check(&missing, &format!("without {}", HEAD[which].0));
        }
        for field in HEAD {
            check(&[&HEAD[..], &[field]].concat(), &format!("{} twice", field.0));
            let late = HEAD.into_iter().filter(|other| *other != field);
            let late: Vec<_> = late.chain([("x", "y"), field]).collect();
            check(&late, &format!("{} after a field", field.0));
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
            check(&[&HEAD[..], &[(name, value)]].concat(), &format!("{name}: {value}"));
        }
        for value in ["", "x", "http://b.test/", "*", "/ HTTP/1.1\r\nx: y", "/\u{7f}"] {
            check(&[HEAD[0], HEAD[1], (":path", value), HEAD[3]], value);
        }
        let response = client.get_with_upper();
        client.assert_malformed(&response, "upper case");
        let response = client.get(&[]);
        assert!(response.text().starts_with("1\n"), "the first request: {}", response.text());
    });
}

/// RFC 9113 §8.1.1, RFC 9114 §4.1.2: a body of another length than stated, and trailers that are none.
#[test]
fn a_malformed_body_has_no_response() {
    over_streams(|client, scheme| {
        let post = [(":method", "POST"), HEAD[1], HEAD[2], HEAD[3], ("content-length", "3")];
        let mut cases: Vec<(&str, Vec<Rest<'_>>, bool)> = vec![
            ("no body", vec![], true),
            ("shorter", vec![Data(b"ab")], true),
            ("longer", vec![Data(b"ab"), Data(b"cd")], true),
            ("shorter before trailers", vec![Data(b"ab"), Trailers(&[("x", "y")])], true),
            ("a pseudo-field as a trailer", vec![Data(b"abc"), Trailers(&[(":path", "/")])], true),
            ("a length as a trailer", vec![Data(b"abc"), Trailers(&[("content-length", "3")])], true),
            ("an upper-case trailer", vec![Data(b"abc"), UpperTrailer], true),
        ];
        if scheme == "http" {
            // In HTTP/3, the end of the stream may follow.
            cases.push(("trailers that do not end it", vec![Data(b"abc"), Trailers(&[("x", "y")])], false));
        }
        for (what, rest, ends) in cases {
            let response = client.exchange(&post, &rest, ends);
            client.assert_malformed(&response, what);
        }
        let response = client.exchange(&post, &[Data(b"abc")], true);
        assert!(response.text().ends_with("\nabc"), "{}", response.text());
    });
}
