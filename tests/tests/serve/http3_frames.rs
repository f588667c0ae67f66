//! What a client sends on the streams of HTTP/3, cut at each position: the connection ends with the right error, and no application receives
//! a part of it as if it were whole.

use rudy_http::h3::ErrorCode;
use rudy_tests::prelude::*;

/// A server whose application reports each whole request.
struct Fixture {
    server: Server,
    requests: Receiver<Vec<u8>>,
    _app: App,
}

impl Fixture {
    fn start() -> Self {
        let (sender, requests) = channel();
        let app = App::serve(move |peer, _| {
            let Some(body) = peer.body_bytes() else { return };
            // Fails if the test has ended.
            let _ = sender.send(body);
            peer.respond(b"Content-Type: text/plain\r\n\r\nfine");
        });
        let server = Server::config(&format!(
            "listen = '127.0.0.1:{},tls'\n[[site]]\ntls = 'self-signed'\nroute = [{{ path = '/*', fastcgi = {{ address = '{app}' }} }}]\n",
            free_port()
        ));
        Self { server, requests, _app: app }
    }

    fn open(&self) -> Http3Connection {
        Http3Client::new().open(self.server.address())
    }

    /// Checks that the server works, and that its application has received no other request.
    fn check(&self) {
        let mut connection = self.open();
        let stream = connection.request("POST", "/", &[], false);
        connection.data(stream, b"probe");
        connection.finish(stream);
        assert_eq!(connection.response(stream).status_and_text(), (200, "fine"));
        assert_eq!(self.requests.recv().expect("the application runs"), b"probe");
    }
}

/// Where a request is cut.
#[derive(Debug, PartialEq)]
enum Cut {
    InFrame,
    BetweenFrames,
}

/// Describes the cut of these frames at a position.
fn cut_at(frames: &[&[u8]], at: usize) -> Cut {
    let mut start = 0;
    let ends = frames.iter().map(|frame| {
        start += frame.len();
        start
    });
    if ends.chain([0]).any(|end| end == at) { Cut::BetweenFrames } else { Cut::InFrame }
}

/// RFC 9114 §7.1.
#[test]
fn a_request_that_ends_within_a_frame_is_not_delivered_and_ends_the_connection() {
    let fixture = Fixture::start();
    let head = [&h3_head("POST", "/")[..], &[("content-length", "5")]].concat();
    let frames = [h3_headers(&head), h3_frame(h3_kind::DATA, b"hello"), h3_headers(&[("x", "y")])];
    let frames = frames.each_ref().map(|frame| &frame[..]);
    let bytes = frames.concat();
    for at in 0..bytes.len() {
        let mut connection = fixture.open();
        let stream = connection.open_stream();
        connection.send(stream, &bytes[..at]);
        connection.finish(stream);
        match cut_at(&frames, at) {
            Cut::InFrame => assert_eq!(connection.closed().0, ErrorCode::FRAME_ERROR.0, "cut at {at}"),
            // After the body, the request is whole without its trailers.
            Cut::BetweenFrames if at == frames[..2].concat().len() => {
                assert_eq!(connection.response(stream).status, 200, "cut at {at}");
                assert_eq!(fixture.requests.recv().expect("the application runs"), b"hello");
            }
            Cut::BetweenFrames => {
                let code = if at == 0 { ErrorCode::REQUEST_INCOMPLETE } else { ErrorCode::MESSAGE_ERROR };
                let reset = connection.response(stream).reset;
                assert_eq!(reset.map(u64::from), Some(code.0), "cut at {at}");
            }
        }
    }
    fixture.check();
}

/// RFC 9114 §6.2.1: they are needed as long as the connection.
#[test]
fn a_control_stream_that_ends_ends_the_connection() {
    let fixture = Fixture::start();
    // A setting of this server's tables, and one that is reserved.
    let settings = h3_frame(h3_kind::SETTINGS, &[&[1, 0][..], &varint(0x21), &[0]].concat());
    let priority = h3_frame(h3_kind::PRIORITY_UPDATE, b"\0u=1");
    let bytes = [varint(h3_stream::CONTROL), settings, priority].concat();
    for at in 1..=bytes.len() {
        let mut connection = Http3Client::new().connect(fixture.server.address()).expect("a handshake");
        let control = connection.next_uni().expect("the connection is open");
        connection.send(control, &bytes[..at]);
        connection.finish(control);
        let (code, reason) = connection.closed();
        let expected =
            [ErrorCode::CLOSED_CRITICAL_STREAM, ErrorCode::FRAME_ERROR, ErrorCode::MISSING_SETTINGS];
        assert!(expected.iter().any(|expected| expected.0 == code), "cut at {at}: {code:#x}: {reason}");
    }
    fixture.check();
}

/// RFC 9114 §7.1: the length of a frame must be that of its content.
#[test]
fn frames_with_other_lengths_than_their_contents_end_the_connection() {
    let fixture = Fixture::start();
    for (what, payload, code) in [
        ("a setting without its value", &[1][..], ErrorCode::FRAME_ERROR),
        ("a setting of HTTP/2", &[2, 0], ErrorCode::SETTINGS_ERROR),
    ] {
        let mut connection = Http3Client::new().connect(fixture.server.address()).expect("a handshake");
        let control = connection.open_uni(h3_stream::CONTROL);
        connection.send(control, &h3_frame(h3_kind::SETTINGS, payload));
        let (given, reason) = connection.closed();
        assert_eq!(given, code.0, "{what}: {reason}");
    }
    for (what, kind, payload, code) in [
        ("GOAWAY without its number", h3_kind::GOAWAY, &[][..], ErrorCode::FRAME_ERROR),
        ("GOAWAY with more", h3_kind::GOAWAY, &[0, 0], ErrorCode::FRAME_ERROR),
        ("DATA on the control stream", h3_kind::DATA, b"x", ErrorCode::FRAME_UNEXPECTED),
        ("a frame of HTTP/2", 6, b"12345678", ErrorCode::FRAME_UNEXPECTED),
    ] {
        let mut connection = Http3Client::new().connect(fixture.server.address()).expect("a handshake");
        let control = connection.open_uni(h3_stream::CONTROL);
        let frames = [h3_frame(h3_kind::SETTINGS, &[]), h3_frame(kind, payload)].concat();
        connection.send(control, &frames);
        let (given, reason) = connection.closed();
        assert_eq!(given, code.0, "{what}: {reason}");
    }
    fixture.check();
}

/// RFC 9204 §2.2: a section that cannot be decoded.
#[test]
fn a_section_that_cannot_be_decoded_ends_the_connection() {
    let fixture = Fixture::start();
    // A prefix that is cut, an entry that the dynamic table does not have, and an index behind the static table.
    for section in [&b""[..], b"\0", b"\0\0\x80", b"\0\0\xff\x3f"] {
        let mut connection = fixture.open();
        let stream = connection.open_stream();
        connection.send(stream, &h3_frame(h3_kind::HEADERS, section));
        connection.finish(stream);
        assert_eq!(connection.closed().0, ErrorCode::QPACK_DECOMPRESSION_FAILED.0, "{section:?}");
    }
    fixture.check();
}
