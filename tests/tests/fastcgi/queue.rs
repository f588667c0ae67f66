//! More requests than the app takes at once: they wait, and not for ever.

use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Instant;

use rudy_net::engine::Model;
use rudy_tests::fastcgi::App;
use rudy_tests::{Connection, PATIENCE, Server};

use crate::site::{CONNECTIONS, SHORT_HALF_CLOSE, Site, answer_with};

/// A server whose app has as many requests as it gets at once, and responds to one for each [`Full::go`].
pub(crate) struct Full {
    pub(crate) server: Server,
    pub(crate) clients: Vec<Connection>,
    go: Sender<()>,
    came: Receiver<()>,
    // Last: its threads end with the connections of the server.
    _app: App,
}

impl Full {
    pub(crate) fn start(model: Model, more: &str) -> Self {
        Self::start_with(model, "", more)
    }

    fn start_with(model: Model, top: &str, more: &str) -> Self {
        let ((go, may_go), (tell, came)) = (mpsc::channel(), mpsc::channel());
        let may_go = Mutex::new(may_go);
        let app = App::start(move |mut peer| {
            while peer.request().is_some() {
                // It fails once the test is over.
                let _ = tell.send(());
                let went = may_go.lock().expect("no thread panics with it").recv_timeout(PATIENCE);
                if went.is_err() || !answer_with(&mut peer, "fine") {
                    return;
                }
            }
        });
        let server = Site::build(model, &app.address(), top, more).start();
        let clients = (0..CONNECTIONS).map(|_| ask(&server)).collect();
        let full = Self { server, clients, go, came, _app: app };
        (0..CONNECTIONS).for_each(|_| full.one_comes());
        full
    }

    /// A request reaches the app.
    fn one_comes(&self) {
        self.came.recv_timeout(PATIENCE).expect("the app is asked");
    }

    /// A place is free a moment after its answer has come, and who is faster is refused.
    fn serves_again(&self) {
        self.go.send(()).expect("the app listens");
        let deadline = Instant::now() + PATIENCE;
        let answer = loop {
            let answer = self.server.get("/app/x");
            if answer.status != 503 {
                break answer;
            }
            assert!(Instant::now() < deadline, "no place becomes free");
        };
        assert_eq!(answer.text(), "fine");
    }

    /// Waits until the server has accepted this many clients beside those in the app, so that they are in its queue.
    pub(crate) fn all_wait(&self, waiting: usize) {
        connections_become(&mut self.server.connect(), CONNECTIONS + waiting + 1);
    }

    pub(crate) fn answer_all(&mut self) {
        self.clients.iter().for_each(|_| self.go.send(()).expect("the app listens"));
        for client in &mut self.clients {
            assert_eq!(client.response().text(), "fine");
        }
    }
}

pub(crate) fn ask(server: &Server) -> Connection {
    let mut client = server.connect();
    client.send(b"GET /app/x HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    client
}

#[test]
fn where_the_queue_is_full_it_is_503_at_once_with_a_time_to_come_back() {
    let mut full = Full::start(Model::PerCore, ", queue = 0");
    let refused = ask(&full.server).response();
    assert_eq!((refused.status, refused.field("retry-after")), (503, Some("1")));
    full.server.wait_for_line("0 requests wait for a connection already (`queue`)");
    full.answer_all();
    full.serves_again();
}

#[test]
fn who_waits_too_long_for_a_place_gets_503() {
    let mut full = Full::start(Model::PerCore, ", queue_timeout = \"50ms\"");
    let refused = ask(&full.server).response();
    assert_eq!((refused.status, refused.field("retry-after")), (503, Some("1")));
    full.server.wait_for_line("no connection became free within 50ms (`queue_timeout`)");
    full.answer_all();
    full.serves_again();
}

#[test]
fn who_waits_is_served_as_soon_as_another_is() {
    let mut full = Full::start(Model::PerCore, "");
    let waiting: Vec<_> = (0..20).map(|_| ask(&full.server)).collect();
    full.clients.extend(waiting);
    full.answer_all();
}

#[test]
fn who_leaves_the_queue_takes_no_place_in_it() {
    let mut full = Full::start_with(Model::PerCore, SHORT_HALF_CLOSE, ", queue = 1");
    let mut status = full.server.connect();
    // Those that are in the app, and the one that asks.
    let before = CONNECTIONS + 1;
    for _ in 0..5 {
        let leaves = ask(&full.server);
        connections_become(&mut status, before + 1);
        drop(leaves);
        connections_become(&mut status, before);
    }
    // Were one of them still in the queue, this one would be refused.
    let last = ask(&full.server);
    connections_become(&mut status, before + 1);
    full.clients.push(last);
    full.answer_all();
}

/// Waits until the server has this many connections: it has accepted a client, or noticed that one has left. `status` is one
/// of them.
pub(crate) fn connections_become(status: &mut Connection, expected: usize) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        status.send(b"GET /status HTTP/1.1\r\nHost: test\r\n\r\n");
        let status: serde_json::Value = serde_json::from_slice(&status.response().body).expect("JSON");
        let open = &status["connections"]["open"];
        if *open == expected {
            return;
        }
        assert!(Instant::now() < deadline, "{open} connections, not {expected}");
        std::thread::yield_now();
    }
}
