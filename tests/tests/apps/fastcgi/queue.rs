//! More requests than connections to the app: they wait for a limited time.

use rudy_tests::prelude::*;

use crate::fastcgi::site::{CONNECTIONS, SHORT_HALF_CLOSE, Site, respond_with};

/// A server whose app is at its connection limit and responds to one request for each [`Full::go`].
pub(crate) struct Full {
    pub(crate) server: Server,
    pub(crate) clients: Vec<Connection>,
    go: Sender<()>,
    came: Receiver<()>,
    // Dropped last: its threads end when the server closes its connections.
    _app: App,
}

impl Full {
    pub(crate) fn start(model: Model, more: &str) -> Self {
        Self::start_with(model, "", more)
    }

    fn start_with(model: Model, top: &str, more: &str) -> Self {
        let ((go, permits), (sender, came)) = (gate(), mpsc::channel());
        let app = App::start(move |mut peer| {
            while peer.request().is_some() {
                // It fails after the end of the test.
                let _ = sender.send(());
                let went = permits.wait();
                if went.is_none() || !respond_with(&mut peer, "fine") {
                    return;
                }
            }
        });
        let server = Site::build(model, &app.address(), top, more).start();
        let clients = (0..CONNECTIONS).map(|_| send_request(&server)).collect();
        let full = Self { server, clients, go, came, _app: app };
        (0..CONNECTIONS).for_each(|_| full.wait_for_request());
        full
    }

    /// Waits until a request reaches the app.
    fn wait_for_request(&self) {
        self.came.recv_timeout(PATIENCE).expect("a request reaches the app");
    }

    /// Asserts that a request is served. Retries, because a permit is released shortly after the client gets its response.
    fn assert_serves_again(&self) {
        self.go.send(()).expect("the app listens");
        let response = eventually("a connection becomes free", || {
            Some(self.server.get("/app/x")).filter(|response| response.status != 503)
        });
        assert_eq!(response.text(), "fine");
    }

    /// Waits until the server has accepted this many clients in addition to those in the app. They are then in its queue.
    pub(crate) fn wait_for_queue(&self, waiting: usize) {
        wait_for_connections(&mut self.server.connect(), CONNECTIONS + waiting + 1);
    }

    pub(crate) fn respond_to_all(&mut self) {
        self.clients.iter().for_each(|_| self.go.send(()).expect("the app listens"));
        for client in &mut self.clients {
            assert_eq!(client.response().text(), "fine");
        }
    }
}

pub(crate) fn send_request(server: &Server) -> Connection {
    server.send(b"GET /app/x HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
}

#[test]
fn a_full_queue_and_a_wait_longer_than_queue_timeout_are_503_with_retry_after() {
    for (more, line) in [
        (", queue = 0", "the queue is full: 0 requests are waiting for a connection (`queue`)"),
        (", queue_timeout = \"50ms\"", "no connection became free within 50ms (`queue_timeout`)"),
    ] {
        let mut full = Full::start(Model::PerCore, more);
        let rejected = send_request(&full.server).response();
        assert_eq!((rejected.status, rejected.field("retry-after")), (503, Some("1")), "{more}");
        full.server.wait_for_line(line);
        full.respond_to_all();
        full.assert_serves_again();
    }
}

#[test]
fn a_waiting_request_is_served_when_a_connection_becomes_free() {
    let mut full = Full::start(Model::PerCore, "");
    let waiting: Vec<_> = (0..20).map(|_| send_request(&full.server)).collect();
    full.clients.extend(waiting);
    full.respond_to_all();
}

#[test]
fn a_client_that_disconnects_leaves_the_queue() {
    let mut full = Full::start_with(Model::PerCore, SHORT_HALF_CLOSE, ", queue = 1");
    let mut status = full.server.connect();
    // The requests in the app, and the connection that polls the status.
    let before = CONNECTIONS + 1;
    for _ in 0..5 {
        let leaves = send_request(&full.server);
        wait_for_connections(&mut status, before + 1);
        drop(leaves);
        wait_for_connections(&mut status, before);
    }
    // If one of them were still in the queue, this request would be rejected.
    let last = send_request(&full.server);
    wait_for_connections(&mut status, before + 1);
    full.clients.push(last);
    full.respond_to_all();
}

/// Waits until the server has this many connections, because it has accepted a client or noticed a disconnect. `status` is one of
/// the connections.
pub(crate) fn wait_for_connections(status: &mut Connection, expected: usize) {
    wait_until(&format!("{expected} connections are open"), || {
        let status: Value = serde_json::from_slice(&status.get("/status", &[]).body).expect("JSON");
        status["connections"]["open"] == expected
    });
}
