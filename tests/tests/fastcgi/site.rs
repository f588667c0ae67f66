//! A server in front of a scripted app, and what has to hold behind everything that happens there.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use rudy_net::engine::Model;
use rudy_observe::Process;
use rudy_tests::fastcgi::{App, Peer, Received, variable};
use rudy_tests::{Builder, PATIENCE, Response, Server};

use crate::request_buffering::echo;

/// Connections that the server may have to the app.
pub(crate) const CONNECTIONS: usize = 2;

/// For tests in which a client leaves: a request of a closed client is soon cancelled.
pub(crate) const SHORT_HALF_CLOSE: &str = "limits.half_close_timeout = \"300ms\"\n";

/// A server, the app behind it, and what the app has to say.
pub(crate) struct Site {
    // The server goes first: the app's threads end with its connections.
    pub(crate) server: Server,
    pub(crate) app: App,
    pub(crate) told: Receiver<String>,
}

impl Site {
    /// On `model`, with an app that serves a request for `/app/NAME` as `serve` does: it gets NAME, and returns whether the
    /// connection is kept. `/app/ok` and `/app/meet` are common to all.
    pub(crate) fn start(model: Model, serve: fn(&str, &mut Peer, &Sender<String>) -> bool) -> Self {
        Self::start_with(model, "", "", serve)
    }

    /// As [`Self::start`], with more keys: see [`Self::build`].
    pub(crate) fn start_with(
        model: Model,
        top: &str,
        more: &str,
        serve: fn(&str, &mut Peer, &Sender<String>) -> bool,
    ) -> Self {
        Self::start_with_shell(model, top, more, "exec \"$@\"", serve)
    }

    /// As [`Self::start_with`], by a shell that runs `script`: see [`Builder::through_shell`].
    pub(crate) fn start_with_shell(
        model: Model,
        top: &str,
        more: &str,
        script: &str,
        serve: fn(&str, &mut Peer, &Sender<String>) -> bool,
    ) -> Self {
        let (tell, told) = mpsc::channel();
        let both = Arc::new(Barrier::new(CONNECTIONS));
        let app = App::start(move |mut peer| {
            while let Some(params) = peer.request() {
                let is_kept = match variable(&params, "PATH_INFO") {
                    "/ok" => answer_with(&mut peer, "fine"),
                    "/meet" => {
                        both.wait();
                        answer_with(&mut peer, "met")
                    }
                    name => serve(name, &mut peer, &tell),
                };
                if !is_kept {
                    return;
                }
            }
        });
        let server = Self::build(model, &app.address(), top, more).through_shell(script).start();
        Self { server, app, told }
    }

    /// With an app whose first connection stays open after its first response and refuses what is sent, which shows only when it
    /// is sent. The app sends the body of a POST back. The connection closes when the sender is dropped.
    pub(crate) fn with_deaf_connection() -> (Self, Sender<()>) {
        let (end, ended) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let first = Mutex::new(Some(ended));
        let app = App::start(move |mut peer| {
            while let Some(params) = peer.request() {
                let is_kept = match variable(&params, "REQUEST_METHOD") {
                    "POST" => echo(&mut peer),
                    _ => answer_with(&mut peer, "fine"),
                };
                if !is_kept {
                    return;
                }
                if let Some(ended) = first.lock().expect("no thread panics with it").take() {
                    peer.stop_reading();
                    tell.send("deaf".to_owned()).expect("the test listens");
                    let _ = ended.recv_timeout(PATIENCE);
                    return;
                }
            }
        });
        (Self { server: Self::server(Model::PerCore, &app, ""), app, told }, end)
    }

    /// A server in front of an app. `more` is more of both tables.
    pub(crate) fn server(model: Model, app: &App, more: &str) -> Server {
        Self::build(model, &app.address(), "", more).start()
    }

    /// A server in front of an app at any address, not yet started. `/app/*` waits long for a response, `/soon/*` does not.
    /// `top` is lines for the top of the configuration, `more` keys for both tables, with a comma before each.
    pub(crate) fn build(model: Model, address: &str, top: &str, more: &str) -> Builder {
        let connections = if more.contains("connections =") {
            String::new()
        } else {
            format!(", connections = {CONNECTIONS}")
        };
        let table =
            |time| format!("{{ address = \"{address}\", response_timeout = \"{time}\"{connections}{more} }}");
        let config = format!(
            "listen = [\"127.0.0.1:0\"]\nlimits.body_bytes = \"1 GiB\"\n{top}[[site]]\n\
             [[site.route]]\npath = \"/app/*\"\nfastcgi = {}\n\
             [[site.route]]\npath = \"/soon/*\"\nfastcgi = {}\n\
             [[site.route]]\npath = \"/status\"\nstatus = {{ allow = \"loopback\" }}\n",
            table("1m"),
            table("2s")
        );
        Server::build().config(&config).args(["--engine", &model.to_string()])
    }

    /// The answer to a POST with a body.
    pub(crate) fn post(&self, target: &str, body: &[u8]) -> Response {
        let mut connection = self.server.connect();
        connection.send(&post(target, body));
        connection.response()
    }

    /// What the app says next.
    pub(crate) fn told(&self) -> String {
        self.told.recv_timeout(PATIENCE).expect("the app says something")
    }

    /// Shows that every place in the pool is free: so many requests as there are places are in the app at once.
    pub(crate) fn all_places_are_free(&self, model: Model, what: &str) {
        if model == Model::Serial {
            assert_eq!(self.server.get("/app/ok").text(), "fine", "{model}, after {what}");
            return;
        }
        let mut clients: Vec<_> = (0..CONNECTIONS).map(|_| self.server.connect()).collect();
        for client in &mut clients {
            client.send(b"GET /app/meet HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        }
        for client in &mut clients {
            assert_eq!(client.response().text(), "met", "{model}, after {what}");
        }
    }

    /// Waits until the server has no more descriptors than `most`.
    pub(crate) fn descriptors_fall_to(&self, most: u64, what: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.descriptors() > most {
            assert!(Instant::now() < deadline, "{} descriptors after {what}, not {most}", self.descriptors());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// How many descriptors the server has.
    pub(crate) fn descriptors(&self) -> u64 {
        let mut process = Process::open(self.server.pid()).expect("the server runs");
        process.descriptors().expect("the server is ours").open.expect("the server is ours")
    }
}

/// A POST with a body, as it goes over the wire.
pub(crate) fn post(target: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// Reads the body and answers with a text.
pub(crate) fn answer_with(peer: &mut Peer, text: &str) -> bool {
    let is_whole = peer.body().is_some();
    if is_whole {
        peer.respond(format!("Content-Type: text/plain\r\n\r\n{text}").as_bytes());
    }
    is_whole
}

/// Waits until the gateway cancels the request, and reports it.
pub(crate) fn wait_for_end(peer: &mut Peer, tell: &Sender<String>) -> bool {
    loop {
        match peer.receive() {
            Received::Abort | Received::Closed => break,
            Received::Body(_) | Received::BodyEnd => {}
            Received::Request(params) => panic!("cancelled, and yet {params:?} comes"),
        }
    }
    // Some tests look at the response alone.
    let _ = tell.send("cancelled".to_owned());
    false
}

/// Bytes of which no part is like another, so that a piece that is lost, doubled or out of order shows.
pub(crate) fn pattern(bytes: usize) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(bytes + 8);
    for n in 0..bytes.div_ceil(8) as u64 {
        pattern.extend_from_slice(&n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
    }
    pattern.truncate(bytes);
    pattern
}

/// Asserts that a long body is the expected one, without printing both.
pub(crate) fn assert_same(got: &[u8], expected: &[u8], what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    assert!(got == expected, "{what}: byte {:?} differs", got.iter().zip(expected).position(|(a, b)| a != b));
}
