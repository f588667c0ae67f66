//! An upstream that closes, hangs or violates the protocol in each phase: the client of HTTP/1.1 or HTTP/2 gets the right status, no connection or descriptor
//! leaks, and the next request is served.

use rudy_tests::prelude::*;

use crate::proxy::{assert_error, proxy, proxy_to_all};

/// The outcome for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// An error response from the proxy, with this type in `Proxy-Status`.
    Error(u16, &'static str),
    /// The complete response of the upstream.
    Complete(&'static str),
    /// The head of the response, and a body that is cut off.
    Truncated,
    /// An error response if the proxy notices the failure before it has begun to respond, else a truncated one.
    ErrorOrTruncated,
}

impl Outcome {
    /// The cases with an outcome, from their names.
    pub(crate) fn of_each(cases: (Self, &'static str)) -> impl Iterator<Item = (&'static str, Self)> {
        cases.1.split(' ').map(move |name| (name, cases.0))
    }
}

use Outcome::{Complete, Error, ErrorOrTruncated, Truncated};

/// Outcomes, each with the cases that have it.
const CASES: [(Outcome, &str); 13] = [
    (Error(502, "connection_terminated"), "closes-before-reading closes-after-reading resets-after-reading"),
    (Error(502, "http_response_incomplete"), "closes-in-the-head"),
    (Error(504, "http_response_timeout"), "hangs-before-reading hangs-in-the-head"),
    (Error(502, "http_protocol_error"), "sends-garbage sends-tls sends-http09 sends-two-lengths"),
    (Error(502, "http_protocol_error"), "sends-a-length-and-chunks sends-a-1xx-flood"),
    (Error(502, "http_response_header_section_size"), "sends-a-header-flood sends-many-fields"),
    (Error(502, "http_upgrade_failed"), "sends-101"),
    (ErrorOrTruncated, "closes-after-the-head closes-in-the-body closes-in-a-chunk resets-in-the-body"),
    (ErrorOrTruncated, "sends-a-bad-chunk sends-endless-trailers sends-too-little"),
    (Truncated, "hangs-after-the-head hangs-in-the-body"),
    (Complete("12345"), "sends-too-much sends-another-response"),
    (Complete("slow"), "sends-slowly"),
    (Complete("all"), "responds-until-close"),
];

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

fn serve(name: &str, peer: &mut UpstreamPeer) -> bool {
    let (verb, phase) = name.split_once('-').expect("a name has two parts");
    match verb {
        "closes" | "hangs" | "resets" => {
            serve_up_to(phase, peer);
            match verb {
                "hangs" => peer.wait_for_end(),
                "resets" => peer.reset(),
                _ => {}
            }
            false
        }
        _ => send(phase, peer),
    }
}

fn serve_up_to(phase: &str, peer: &mut UpstreamPeer) {
    match phase {
        "before-reading" | "after-reading" => {}
        "in-the-head" => peer.send("HTTP/1.1 200 OK\r\nConte"),
        "after-the-head" => peer.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n"),
        "in-the-body" => peer.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf"),
        "in-a-chunk" => peer.send(format!("{CHUNKED}8\r\nhalf")),
        _ => panic!("the phase {phase} is unknown"),
    }
}

/// Sends what a case is named after. Returns whether to serve another request.
fn send(what: &str, peer: &mut UpstreamPeer) -> bool {
    match what {
        "garbage" => peer.send([0_u8, 1, 2, 3]),
        "tls" => peer.send([0x15_u8, 3, 3, 0, 2, 2, 70]),
        "http09" => peer.send("<html>hello</html>"),
        "two-lengths" => peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
        "a-length-and-chunks" => peer.send(
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        ),
        "a-bad-chunk" => peer.send(format!("{CHUNKED}xyz\r\nhalf")),
        "a-header-flood" => peer.send(format!("HTTP/1.1 200 OK\r\nX: {}", "a".repeat(1_000_000))),
        "many-fields" => peer.send(format!("HTTP/1.1 200 OK\r\n{}", "X: y\r\n".repeat(1000))),
        "a-1xx-flood" => peer.send("HTTP/1.1 102 Processing\r\n\r\n".repeat(10_000)),
        "endless-trailers" => peer.send(format!("{CHUNKED}0\r\n{}", "X: y\r\n".repeat(100_000))),
        "101" => peer.send("HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"),
        "too-little" => peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n123"),
        "too-much" => peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n1234567890"),
        "another-response" => {
            peer.respond("12345");
            peer.respond("of no request");
        }
        "slowly" => {
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n");
            for byte in [b's', b'l', b'o', b'w'] {
                // Longer than two resolutions of the timer, and shorter than the timeout.
                thread::sleep(Duration::from_millis(50));
                peer.send([byte]);
            }
            return true;
        }
        "until-close" => peer.send("HTTP/1.1 200 OK\r\n\r\nall"),
        _ => panic!("{what} is unknown"),
    }
    false
}

/// A response: the status, the type in `Proxy-Status`, the body, and whether it is complete.
type Received = (u16, String, Vec<u8>, bool);

/// Sends a GET over HTTP/1.1.
fn get(server: &Server, target: &str) -> Received {
    let request = format!("GET {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    let bytes = server.exchange(request.as_bytes());
    // After interim responses.
    let start = bytes.windows(9).rposition(|nine| nine == b"HTTP/1.1 ").unwrap_or(0);
    let bytes = &bytes[start..];
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("the response has a head") + 4;
    let head = std::str::from_utf8(&bytes[..end]).expect("a head is text");
    let status = head[9..12].parse().expect("a status");
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let error = field("proxy-status: rudy; error=").to_owned();
    let body = &bytes[end..];
    if head.contains("chunked") {
        let is_whole = body.ends_with(b"0\r\n\r\n");
        let text: Vec<_> = body.split(|byte| *byte == b'\n').skip(1).step_by(2).collect();
        return (status, error, text.concat(), is_whole);
    }
    let length = field("content-length: ").parse().unwrap_or(body.len());
    (status, error, body.to_vec(), body.len() == length)
}

/// Sends a GET over HTTP/2.
fn get_http2(server: &Server, target: &str) -> Received {
    let mut connection = Http2Connection::open(server.address(), &[]);
    connection.get(1, target);
    let response = connection.response(1);
    let error = response.field("proxy-status").and_then(|value| value.strip_prefix("rudy; error="));
    (response.status, error.unwrap_or_default().to_owned(), response.body.clone(), response.reset.is_none())
}

/// Requests each case of an upstream, whose `/app/fine` must succeed after each of them.
pub(crate) fn check(server: &Server, cases: &[(&str, Outcome)]) {
    assert_eq!(server.get("/app/fine").text(), "fine");
    let descriptors = || {
        let mut process = Process::open(server.pid()).expect("the server runs");
        process.descriptors().expect("the server is ours").open.expect("the server is ours")
    };
    let before = descriptors();
    for ((name, outcome), get) in
        cases.iter().flat_map(|case| [(case, get as fn(&Server, &str) -> Received), (case, get_http2)])
    {
        let (status, error, body, is_whole) = get(server, &format!("/app/{name}"));
        let body = String::from_utf8_lossy(&body).into_owned();
        match *outcome {
            Error(expected, kind) => {
                assert_eq!((status, error.as_str(), is_whole), (expected, kind, true), "{name}: {body}");
            }
            Complete(text) => assert_eq!((status, is_whole, body.trim()), (200, true, text), "{name}"),
            ErrorOrTruncated if status == 502 => assert!(is_whole, "{name}"),
            Truncated | ErrorOrTruncated => assert!(status == 200 && !is_whole, "{name}: {status} {body}"),
        }
        assert_eq!(server.get("/app/fine").text(), "fine", "after {name}");
        wait_until(name, || descriptors() <= before);
    }
}

#[test]
fn each_failure_of_an_upstream_has_the_expected_outcome_and_the_next_request_is_served() {
    let upstream = Upstream::start(|peer| {
        while let Some(request) = peer.request() {
            let name = request.target().strip_prefix("/app/").expect("the prefix of the route").to_owned();
            if name == "fine" {
                peer.respond("fine");
            } else if !serve(&name, peer) {
                return;
            }
        }
    });
    let cases: Vec<_> = CASES.into_iter().flat_map(Outcome::of_each).collect();
    check(&proxy(&upstream, "response_timeout = \"1s\"\nstall_timeout = \"1s\"\n"), &cases);
}

#[test]
fn an_upstream_that_does_not_listen_is_502_with_a_log_line() {
    let port = ReservedPort::new();
    let mut server = proxy_to_all(&format!("\"http://{}\"", port.address()), "");
    assert_error(&server.get("/x"), 502, "connection_refused");
    let line = server.wait_for_line(": connecting, attempt 1, after ");
    assert_contains!(line, "GET /x from 127.0.0.1", &format!("cannot connect to {}", port.address()));
}

#[test]
fn requests_over_the_limit_of_connections_wait_and_then_get_503() {
    let upstream = Upstream::start(|peer| {
        if peer.request().is_some() {
            peer.wait_for_end();
        }
    });
    let server = proxy(&upstream, "connections = 1\nqueue = 1\nqueue_timeout = \"100ms\"\n");
    let _first = server.send(b"GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("a connection", || upstream.accepted() == 1);
    let response = server.get("/app/");
    assert_error(&response, 503, "connection_limit_reached");
    assert_eq!(response.field("retry-after"), Some("1"));
}
