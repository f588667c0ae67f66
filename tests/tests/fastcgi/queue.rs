//! More requests than the app takes at once: they wait, and not for ever.

use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use rudy_net::engine::Model;
use rudy_tests::fastcgi::App;
use rudy_tests::{Connection, PATIENCE, Server, engines};

use crate::site::{CONNECTIONS, Site, answer_with};

/// Who is refused hears it at once, also from a busy machine; who has not heard it by then waits.
const REFUSED_WITHIN: Duration = Duration::from_secs(1);

/// A server whose app has all it takes at once, and answers one whenever it is told to.
struct Full {
    server: Server,
    clients: Vec<Connection>,
    go: Sender<()>,
    came: Receiver<()>,
    // Last: its threads end with the connections of the server.
    _app: App,
}

impl Full {
    fn start(model: Model, more: &str) -> Self {
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
        let server = Site::server(model, &app, more);
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

    fn answer_all(&mut self) {
        self.clients.iter().for_each(|_| self.go.send(()).expect("the app listens"));
        for client in &mut self.clients {
            assert_eq!(client.answer().text(), "fine");
        }
    }
}

pub(crate) fn ask(server: &Server) -> Connection {
    let mut client = server.connect();
    client.send(b"GET /app/x HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    client
}

/// Those that have a thread for one client more than the app takes.
pub(crate) fn roomy() -> impl Iterator<Item = Model> {
    engines().into_iter().filter(|model| !model.is_scarce())
}

#[test]
fn where_the_queue_is_full_it_is_503_at_once_with_a_time_to_come_back() {
    for model in roomy() {
        let mut full = Full::start(model, ", queue = 0");
        let refused = ask(&full.server).answer();
        assert_eq!((refused.status, refused.field("retry-after")), (503, Some("1")), "{model}");
        full.server.wait_for_line("0 requests wait for a connection already (`queue`)");
        full.answer_all();
        full.serves_again();
    }
}

#[test]
fn who_waits_too_long_for_a_place_gets_503() {
    for model in roomy() {
        let mut full = Full::start(model, ", queue_time = \"50ms\"");
        let refused = ask(&full.server).answer();
        assert_eq!((refused.status, refused.field("retry-after")), (503, Some("1")), "{model}");
        full.server.wait_for_line("no connection became free within 50ms (`queue_time`)");
        full.answer_all();
        full.serves_again();
    }
}

#[test]
fn who_waits_is_served_as_soon_as_another_is() {
    for model in roomy() {
        let mut full = Full::start(model, "");
        let waiting: Vec<_> = (0..20).map(|_| ask(&full.server)).collect();
        full.clients.extend(waiting);
        full.answer_all();
    }
}

#[test]
fn who_leaves_the_queue_takes_no_place_in_it() {
    for model in roomy() {
        let mut full = Full::start(model, ", queue = 1");
        for _ in 0..5 {
            drop(ask(&full.server));
        }
        // The server may hear only behind this one of who has left: then it is refused. At last it waits, and the first
        // two are answered before it.
        let (mut last, mut refused) = (ask(&full.server), 0);
        last.socket().set_read_timeout(Some(REFUSED_WITHIN)).unwrap();
        while last.socket().peek(&mut [0]).is_ok() {
            refused += 1;
            assert!(refused < 1000, "{model}: the queue stays full");
            assert_eq!(last.answer().status, 503, "{model}");
            last = ask(&full.server);
            last.socket().set_read_timeout(Some(REFUSED_WITHIN)).unwrap();
        }
        last.socket().set_read_timeout(Some(PATIENCE)).unwrap();
        full.clients.push(last);
        full.answer_all();
    }
}
