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
use crate::php::{Fpm, folder};

/// Connections of one attack, all opened within its first second.
const CONNECTIONS: u64 = 500;

/// How long an attack goes on. It ends earlier where the server has answered all of it.
const SECONDS: &str = "10";

/// More than the sockets between hold.
const LARGE_BYTES: u64 = 64 * 1024 * 1024;

/// A field of a form each second, of 100 kB that are announced.
const SLOW_BODIES: &[&str] = &["-B", "-i", "1", "-s", "100000"];

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

#[test]
fn slow_bodies_to_an_app_leave_the_app_available() {
    let Some(seen) = attack("/app", SLOW_BODIES) else { return };
    assert!(seen.beside_all > 0, "the attack never stood as a whole");
}

/// The two children of php-fpm would be the first to be taken up.
#[test]
fn slow_bodies_to_a_php_site_leave_the_site_available() {
    let Some(fpm) = long().then(|| Fpm::start("")).flatten() else { return };
    let root = folder(&[("app.php", "<?php header('Content-Type: text/plain'); echo 'taken';")]);
    let app = fpm.route(root.path(), "/app.php", "");
    let Some(seen) = attack_on(&app, "/app.php", "/app.php", SLOW_BODIES) else { return };
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

/// Runs slowhttptest against `path` while an ordinary client goes on asking for a file, and an app with two connections.
fn attack(path: &str, mode: &[&str]) -> Option<Seen> {
    let app = App::start(|mut peer| {
        while peer.request().is_some() && peer.body().is_some() {
            peer.respond(b"Content-Type: text/plain\r\n\r\ntaken");
        }
    });
    let route = format!(
        "[[site.route]]\npath = \"/app\"\nfastcgi = {{ address = \"{}\", connections = 2 }}\n",
        app.address()
    );
    attack_on(&route, "/app", path, mode)
}

/// The same with an app at `app` that has this route.
fn attack_on(route: &str, app: &str, path: &str, mode: &[&str]) -> Option<Seen> {
    if !long() {
        return None;
    }
    let slowhttptest = program("slowhttptest")?;
    let server = serve(route);
    let mut command = Command::new(slowhttptest);
    let connections = CONNECTIONS.to_string();
    command.args(["-c", &connections, "-r", &connections, "-l", SECONDS]).args(mode);
    command.arg("-u").arg(server.url(path)).stdout(Stdio::null());
    let mut attack = Attack(command.spawn().expect("slowhttptest starts"));
    Some(ask_until_it_ends(&server, app, &mut attack))
}

fn serve(route: &str) -> Server {
    let server = Server::config(&format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nroot = \".\"\n\
         [[site.route]]\npath = \"/status\"\nstatus = {{ allow = \"loopback\" }}\n{route}"
    ));
    fs::write(server.path().join("text.txt"), text(500)).expect("a temp folder can be written");
    let large = fs::File::create(server.path().join("large")).expect("a temp folder can be written");
    large.set_len(LARGE_BYTES).expect("a hole costs nothing");
    server
}

/// Asks on a connection that was there before the attack and on new ones.
fn ask_until_it_ends(server: &Server, app: &str, attack: &mut Attack) -> Seen {
    let mut kept: Connection = server.connect();
    let (mut asked, mut beside_all) = (0, 0);
    let mut stood_before = false;
    loop {
        kept.send(b"GET /text.txt HTTP/1.1\r\nHost: test\r\n\r\n");
        assert_eq!(kept.response().status, 200);
        assert_eq!(server.get("/text.txt").status, 200);
        assert_eq!(server.get(app).text(), "taken");
        let status = status(server);
        asked += 4;
        // Beside those of the attack there are ours: the one that is kept, and that of this question.
        let stands = status["connections"]["open"].as_u64().expect("a number") >= CONNECTIONS + 2;
        beside_all += if stands && stood_before { 3 } else { 0 };
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
