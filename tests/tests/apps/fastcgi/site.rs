//! A server in front of a scripted app, with assertions for the end of each test.

use rudy_tests::prelude::*;

use crate::fastcgi::request_buffering::echo;

/// Number of connections that the server may open to the app.
pub(crate) const CONNECTIONS: usize = 2;

/// For tests in which a client disconnects: cancels a closed client's request soon.
pub(crate) const SHORT_HALF_CLOSE: &str = "limits.half_close_timeout = \"300ms\"\n";

/// A server, the app behind it, and the events that the app sends.
pub(crate) struct Site {
    // Dropped first: the app's threads end when the server closes its connections.
    pub(crate) server: Server,
    pub(crate) app: App,
    pub(crate) events: Receiver<String>,
}

impl Site {
    /// Starts a server on `model` with an app. `serve` handles requests for `/app/NAME`: it gets NAME, and returns whether to
    /// keep the connection. All apps handle `/app/ok` and `/app/meet`.
    pub(crate) fn start(model: Model, serve: fn(&str, &mut Peer, &Sender<String>) -> bool) -> Self {
        Self::start_with(model, "", "", serve)
    }

    /// Like [`Self::start`], with more keys: see [`Self::build`].
    pub(crate) fn start_with(
        model: Model,
        top: &str,
        more: &str,
        serve: fn(&str, &mut Peer, &Sender<String>) -> bool,
    ) -> Self {
        Self::start_with_shell(model, top, more, "exec \"$@\"", serve)
    }

    /// Like [`Self::start_with`], from a shell that runs `script`: see [`Builder::through_shell`].
    pub(crate) fn start_with_shell(
        model: Model,
        top: &str,
        more: &str,
        script: &str,
        serve: fn(&str, &mut Peer, &Sender<String>) -> bool,
    ) -> Self {
        let (sender, events) = mpsc::channel();
        let both = Arc::new(Barrier::new(CONNECTIONS));
        let app = App::start(move |mut peer| {
            while let Some(params) = peer.request() {
                let is_kept = match variable(&params, "PATH_INFO") {
                    "/ok" => respond_with(&mut peer, "fine"),
                    "/meet" => {
                        both.wait();
                        respond_with(&mut peer, "met")
                    }
                    name => serve(name, &mut peer, &sender),
                };
                if !is_kept {
                    return;
                }
            }
        });
        let server = Self::build(model, &app.address(), top, more).through_shell(script).start();
        Self { server, app, events }
    }

    /// Starts an app whose first connection stays open after its first response but rejects input, which the server notices only
    /// when it writes. The app echoes the body of a POST. The connection closes when the sender is dropped.
    pub(crate) fn with_read_closed_connection() -> (Self, Sender<()>) {
        let (end, ended) = mpsc::channel::<()>();
        let (sender, events) = mpsc::channel();
        let first = Mutex::new(Some(ended));
        let app = App::start(move |mut peer| {
            while let Some(params) = peer.request() {
                let is_kept = match variable(&params, "REQUEST_METHOD") {
                    "POST" => echo(&mut peer),
                    _ => respond_with(&mut peer, "fine"),
                };
                if !is_kept {
                    return;
                }
                if let Some(ended) = first.lock().expect("no thread panics with it").take() {
                    peer.stop_reading();
                    sender.send("read closed".to_owned()).expect("the test listens");
                    let _ = ended.recv_timeout(PATIENCE);
                    return;
                }
            }
        });
        (Self { server: Self::server(Model::PerCore, &app, ""), app, events }, end)
    }

    /// Starts a server in front of an app. `more` contains keys for both tables.
    pub(crate) fn server(model: Model, app: &App, more: &str) -> Server {
        Self::build(model, &app.address(), "", more).start()
    }

    /// Returns a server in front of an app at any address, not yet started. `/app/*` has a long response timeout, `/soon/*` a
    /// short one. `top` contains lines for the top of the configuration, `more` keys for both tables, each after a comma.
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
        Server::build().config(&config).engine(model)
    }

    /// Sends a POST with a body and returns the response.
    pub(crate) fn post(&self, target: &str, body: &[u8]) -> Response {
        self.server.send(post(target, body)).response()
    }

    /// Waits for the next event from the app.
    pub(crate) fn next_event(&self) -> String {
        self.events.recv_timeout(PATIENCE).expect("the app sends an event")
    }

    /// Asserts that no connection leaks: as many requests as the limit reach the app at once.
    pub(crate) fn assert_all_connections_free(&self, model: Model, what: &str) {
        if model == Model::Serial {
            assert_eq!(self.server.get("/app/ok").text(), "fine", "{model}, after {what}");
            return;
        }
        let request = b"GET /app/meet HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
        let clients = [(); CONNECTIONS].map(|()| self.server.send(request));
        for mut client in clients {
            assert_eq!(client.response().text(), "met", "{model}, after {what}");
        }
    }

    /// Waits until the server has at most this many descriptors.
    pub(crate) fn wait_for_descriptors(&self, most: usize, what: &str) {
        wait_until(&format!("at most {most} descriptors, after {what}"), || self.descriptors() <= most);
    }

    /// Number of descriptors of the server.
    pub(crate) fn descriptors(&self) -> usize {
        descriptors_of(self.server.pid())
    }
}

/// Encodes a POST with a body.
pub(crate) fn post(target: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// Reads the body and responds with a text.
pub(crate) fn respond_with(peer: &mut Peer, text: &str) -> bool {
    let is_whole = peer.body().is_some();
    if is_whole {
        peer.respond(format!("Content-Type: text/plain\r\n\r\n{text}").as_bytes());
    }
    is_whole
}

/// Waits until the gateway cancels the request, then sends an event.
pub(crate) fn wait_for_end(peer: &mut Peer, sender: &Sender<String>) -> bool {
    loop {
        match peer.receive() {
            Received::Abort | Received::Closed => break,
            Received::Body(_) | Received::BodyEnd => {}
            Received::Request(params) => panic!("expected the end of the request, got {params:?}"),
        }
    }
    // It fails if the test does not read events.
    let _ = sender.send("cancelled".to_owned());
    false
}

/// Returns bytes without repetition, which reveals a piece that is lost, duplicated or out of order.
pub(crate) fn pattern(bytes: usize) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(bytes + 8);
    for n in 0..bytes.div_ceil(8) as u64 {
        pattern.extend_from_slice(&n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
    }
    pattern.truncate(bytes);
    pattern
}

/// Asserts that two long bodies are equal, without printing them.
pub(crate) fn assert_same(got: &[u8], expected: &[u8], what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    assert!(got == expected, "{what}: byte {:?} differs", got.iter().zip(expected).position(|(a, b)| a != b));
}
