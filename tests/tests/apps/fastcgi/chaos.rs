//! Clients and an app that fail at random while the server reloads its configuration. Each client gets its own response or an error,
//! and nothing leaks.

use rudy_tests::prelude::*;

use crate::fastcgi::site::{CONNECTIONS, SHORT_HALF_CLOSE, Site, post};

const HEAD: &[u8] = b"Content-Type: text/plain\r\n\r\n";

const CLIENTS: usize = 8;

/// Number of requests per client.
const REQUESTS: usize = 30;

/// The behaviors of the app. Most requests are answered correctly.
const KINDS: &[&str] =
    &["sends-back", "sends-back", "sends-back", "stops-reading", "closes-at-once", "closes-in-the-body"];

/// Responds with the name of the request and its body, or fails according to the name.
fn serve(name: &str, peer: &mut Peer, _: &Sender<String>) -> bool {
    if name.starts_with("/closes-at-once") {
        return false;
    }
    let Some(body) = peer.body_bytes() else { return false };
    let response = [HEAD, name.as_bytes(), &body].concat();
    if name.starts_with("/closes-in-the-body") {
        peer.stdout(&response);
        return false;
    }
    if name.starts_with("/stops-reading") {
        // Before the end of the response, so that the next request on the connection is lost completely.
        peer.stop_reading();
    }
    peer.respond(&response);
    true
}

/// Sends one request, and reads the response or disconnects.
fn request(address: SocketAddr, client: usize, number: usize, random: &mut Random) {
    let mut pick = |choices: usize| random.below(choices);
    let kind = KINDS[pick(KINDS.len())];
    let name = format!("/{kind}/{client}/{number}");
    let body = name.repeat([0, 1, 3000, 60_000][pick(4)]).into_bytes();
    let request = post(&format!("/app{name}"), &body);
    let mut connection = Connection::open(address);
    match pick(5) {
        // Disconnect within or after the request, with or without a reset.
        0 => connection.send(&request[..pick(request.len())]),
        1 => connection.send(&request),
        2 => {
            connection.send(&request[..pick(request.len())]);
            connection.reset();
        }
        leaves => {
            connection.send(&request);
            if leaves == 3 {
                connection.finish();
            }
            let response = connection.read_to_end();
            let is_own = response.starts_with(b"HTTP/1.1 200") && ends_with(&response, &name, &body);
            match kind {
                "closes-at-once" => assert!(response.starts_with(b"HTTP/1.1 502"), "{name}"),
                // The response may be truncated.
                "closes-in-the-body" => {}
                _ => assert!(is_own, "{name}: {}", excerpt(&response)),
            }
        }
    }
}

fn excerpt(response: &[u8]) -> String {
    String::from_utf8_lossy(&response[..response.len().min(300)]).into_owned()
}

/// Whether a response, possibly chunked, belongs to a request.
fn ends_with(response: &[u8], name: &str, body: &[u8]) -> bool {
    let expected = [name.as_bytes(), body].concat();
    if !response.windows(7).take(400).any(|seven| seven == b"chunked") {
        return response.ends_with(&expected);
    }
    let start = response.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |at| at + 4);
    let (mut rest, mut joined) = (&response[start..], Vec::new());
    while let Some(line) = rest.windows(2).position(|two| two == b"\r\n") {
        let size =
            std::str::from_utf8(&rest[..line]).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        let Some(size) = size else { return false };
        if size == 0 {
            return joined == expected;
        }
        let Some(chunk) = rest.get(line + 2..line + 2 + size) else { return false };
        joined.extend_from_slice(chunk);
        rest = &rest[(line + 4 + size).min(rest.len())..];
    }
    false
}

fn run_chaos(model: Model) {
    let more = ", queue_timeout = \"30s\"";
    let mut site = Site::start_with(model, SHORT_HALF_CLOSE, more, serve);
    site.assert_all_connections_free(model, "the start");
    let before = site.descriptors();
    let address = site.server.address();
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || {
                let mut random = Random::new(client as u64);
                for number in 0..REQUESTS {
                    request(address, client, number, &mut random);
                }
            });
        }
        for _ in 0..5 {
            site.server.reload("the configuration was reloaded");
        }
    });
    site.assert_all_connections_free(model, "everything at once");
    site.wait_for_descriptors(before + CONNECTIONS, "everything at once");
}

#[test]
fn each_client_gets_its_own_response_and_nothing_leaks() {
    for model in engines() {
        run_chaos(model);
    }
}
