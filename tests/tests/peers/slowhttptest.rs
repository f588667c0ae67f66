//! slowhttptest attacks in each of its four modes, and an ordinary client goes on asking meanwhile.
//!
//! slowhttptest has a verdict of its own on whether the service is available: that it is answered within some seconds, which
//! a busy machine fails as well. Here the order of things decides: the ordinary client is answered while all connections
//! of the attack stand.

use std::fs;
use std::process::{Child, Command, Stdio};

use rudy_tests::fastcgi::App;
use rudy_tests::{Connection, Server, long, program};

use crate::content::text;

/// Connections of one attack, all opened within its first second.
const CONNECTIONS: u64 = 500;

/// How long an attack goes on. It ends earlier where the server has answered all of it.
const SECONDS: &str = "10";

/// More than the sockets between hold.
const LARGE_BYTES: u64 = 64 * 1024 * 1024;

/// What came of the ordinary client's requests during an attack.
struct Seen {
    /// Requests that were answered while all connections of the attack stood.
    beside_all: u64,
    /// Requests that the server has answered to the attack.
    to_the_attack: u64,
}

#[test]
fn slow_heads_leave_the_service_available() {
    // A line of the head each second.
    let Some(seen) = attack("/text.txt", &["-H", "-i", "1"]) else { return };
    assert!(seen.beside_all > 0, "the attack never stood as a whole");
}

/// The app takes all of a body before it answers, so the attack takes up each of its connections and then its queue. What
/// other requests to the app get meanwhile is another matter; here every other route is served as ever.
#[test]
fn slow_bodies_to_an_app_leave_the_rest_of_the_service_available() {
    // A field of a form each second, of 100 kB that are announced.
    let Some(seen) = attack("/app", &["-B", "-i", "1", "-s", "100000"]) else { return };
    assert!(seen.beside_all > 0, "the attack never stood as a whole");
}

#[test]
fn ranges_without_number_leave_the_service_available() {
    // `Range: bytes=0-,5-5,5-6,…,5-2000`, with which one request once took all of Apache's memory.
    let Some(seen) = attack("/text.txt", &["-R", "-t", "GET"]) else { return };
    assert!(seen.to_the_attack > CONNECTIONS, "only {} answers", seen.to_the_attack);
}

#[test]
fn slow_readers_leave_the_service_available() {
    // One byte a second of a large file, out of the smallest window there is.
    let slow = ["-X", "-k", "3", "-n", "1", "-w", "1", "-y", "2", "-z", "1"];
    let Some(seen) = attack("/large", &slow) else { return };
    assert!(seen.beside_all > 0, "the attack never stood as a whole");
}

/// Runs slowhttptest against `path` while an ordinary client goes on asking for a file.
fn attack(path: &str, mode: &[&str]) -> Option<Seen> {
    if !long() {
        return None;
    }
    let slowhttptest = program("slowhttptest")?;
    let app = App::start(|mut peer| {
        while peer.request().is_some() && peer.body().is_some() {
            peer.answer(b"Content-Type: text/plain\r\n\r\ntaken");
        }
    });
    let server = serve(&app);
    let mut command = Command::new(slowhttptest);
    let connections = CONNECTIONS.to_string();
    command.args(["-c", &connections, "-r", &connections, "-l", SECONDS]).args(mode);
    command.arg("-u").arg(server.url(path)).stdout(Stdio::null());
    let mut attack = Attack(command.spawn().expect("slowhttptest starts"));
    Some(ask_until_it_ends(&server, &mut attack))
}

/// The app's queue has room for a whole attack, so that all of its connections stand as long as it goes on.
fn serve(app: &App) -> Server {
    let server = Server::config(&format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nroot = \".\"\n\
         [[site.route]]\npath = \"/status\"\nstatus = {{}}\n\
         [[site.route]]\npath = \"/app\"\n\
         fastcgi = {{ address = \"{}\", connections = 2, queue = 1000, queue_time = \"10m\" }}\n",
        app.address()
    ));
    fs::write(server.path().join("text.txt"), text(500)).expect("a temp folder can be written");
    let large = fs::File::create(server.path().join("large")).expect("a temp folder can be written");
    large.set_len(LARGE_BYTES).expect("a hole costs nothing");
    server
}

/// Asks on a connection that was there before the attack and on new ones.
fn ask_until_it_ends(server: &Server, attack: &mut Attack) -> Seen {
    let mut kept: Connection = server.connect();
    let (mut asked, mut beside_all) = (0, 0);
    let mut stood_before = false;
    loop {
        kept.send(b"GET /text.txt HTTP/1.1\r\nHost: test\r\n\r\n");
        assert_eq!(kept.answer().status, 200);
        assert_eq!(server.get("/text.txt").status, 200);
        let status = status(server);
        asked += 3;
        // Beside those of the attack there are ours: the one that is kept, and that of this question.
        let stands = status["connections"]["open"].as_u64().expect("a number") >= CONNECTIONS + 2;
        beside_all += if stands && stood_before { 2 } else { 0 };
        stood_before = stands;
        if let Some(end) = attack.0.try_wait().expect("the child is ours") {
            assert!(end.success(), "slowhttptest: {end}");
            let answered = status["requests"]["answered"].as_u64().expect("a number");
            // This question was not answered yet when it was counted.
            return Seen { beside_all, to_the_attack: answered + 1 - asked };
        }
    }
}

fn status(server: &Server) -> serde_json::Value {
    serde_json::from_slice(&server.get("/status").body).expect("JSON")
}

/// An attack that ends with its test.
struct Attack(Child);

impl Drop for Attack {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
