//! slowhttptest attacks in each of its four modes while an ordinary client sends requests.
//!
//! slowhttptest has its own check of availability: a response within some seconds, which a busy machine fails
//! as well. These tests check the order instead: the ordinary client gets responses while all connections of
//! the attack are open.

use rudy_tests::prelude::*;

use crate::content::text;
use crate::php::Fpm;

/// The number of connections of an attack, all opened within the first second.
const CONNECTIONS: u64 = 500;

/// The duration of an attack in seconds. It ends earlier if the server has responded to everything.
const SECONDS: &str = "10";

/// More than the socket buffers hold.
const LARGE_BYTES: u64 = 64 * 1024 * 1024;

/// One form field per second, of an announced 100 kB.
const SLOW_BODIES: &[&str] = &["-B", "-i", "1", "-s", "100000"];

/// The results of the ordinary client's requests during an attack.
struct Outcome {
    /// Requests with a response while all connections of the attack were open.
    during_attack: u64,
    /// Requests of the attack that got a response.
    to_the_attack: u64,
}

#[test]
fn slow_heads_do_not_block_the_server() {
    // One header line per second.
    let Some(outcome) = attack("/text.txt", &["-H", "-i", "1"]) else { return };
    assert!(outcome.during_attack > 0, "the attack never had all its connections open");
}

#[test]
fn slow_bodies_do_not_block_an_app() {
    let Some(outcome) = attack("/app", SLOW_BODIES) else { return };
    assert!(outcome.during_attack > 0, "the attack never had all its connections open");
}

/// The attack would otherwise occupy the two children of php-fpm first.
#[test]
fn slow_bodies_do_not_block_a_php_site() {
    let Some(fpm) = long().then(|| Fpm::start("")).flatten() else { return };
    let root = Folder::with(&[("app.php", "<?php header('Content-Type: text/plain'); echo 'taken';")]);
    let app = fpm.route(root.path(), "/app.php", "");
    let Some(outcome) = attack_on(&app, "/app.php", "/app.php", SLOW_BODIES) else { return };
    assert!(outcome.during_attack > 0, "the attack never had all its connections open");
}

#[test]
fn thousands_of_ranges_do_not_block_the_server() {
    // `Range: bytes=0-,5-5,5-6,…,5-2000`: one such request once used all memory of Apache.
    let Some(outcome) = attack("/text.txt", &["-R", "-t", "GET"]) else { return };
    assert!(outcome.to_the_attack > CONNECTIONS, "only {} responses", outcome.to_the_attack);
}

#[test]
fn slow_readers_do_not_block_the_server() {
    // One byte per second of a large file, with the smallest possible window.
    let slow = ["-X", "-k", "3", "-n", "1", "-w", "1", "-y", "2", "-z", "1"];
    let Some(outcome) = attack("/large", &slow) else { return };
    assert!(outcome.during_attack > 0, "the attack never had all its connections open");
}

/// Runs slowhttptest against `path` while an ordinary client requests a file and an app with two connections.
fn attack(path: &str, mode: &[&str]) -> Option<Outcome> {
    let app = App::start(|mut peer| {
        while peer.request().is_some() && peer.body().is_some() {
            peer.respond(b"Content-Type: text/plain\r\n\r\ntaken");
        }
    });
    let route =
        format!("[[site.route]]\npath = \"/app\"\nfastcgi = {{ address = \"{app}\", connections = 2 }}\n");
    attack_on(&route, "/app", path, mode)
}

/// As [`attack`], with an app at `app` on this route.
fn attack_on(route: &str, app: &str, path: &str, mode: &[&str]) -> Option<Outcome> {
    if !long() {
        return None;
    }
    let slowhttptest = program("slowhttptest")?;
    let server = serve(route);
    let mut command = Command::new(slowhttptest);
    let connections = CONNECTIONS.to_string();
    command.args(["-c", &connections, "-r", &connections, "-l", SECONDS]).args(mode);
    command.arg("-u").arg(server.url(path)).stdout(Stdio::null());
    let mut attack = Running::start(&mut command);
    Some(send_requests_until_it_ends(&server, app, &mut attack))
}

fn serve(route: &str) -> Server {
    let server = Server::config(&format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nroot = \".\"\n\
         [[site.route]]\npath = \"/status\"\nstatus = {{ allow = \"loopback\" }}\n{route}"
    ));
    server.path().write("text.txt", text(500));
    let large = fs::File::create(server.path().join("large")).expect("a temp folder can be written");
    large.set_len(LARGE_BYTES).expect("a hole costs nothing");
    server
}

/// Sends requests on one connection from before the attack, and on new ones.
fn send_requests_until_it_ends(server: &Server, app: &str, attack: &mut Running) -> Outcome {
    let mut reused: Connection = server.connect();
    let (mut sent, mut during_attack) = (0, 0);
    let mut was_complete = false;
    loop {
        assert_eq!(reused.get("/text.txt", &[]).status, 200);
        assert_eq!(server.get("/text.txt").status, 200);
        assert_eq!(server.get(app).text(), "taken");
        let status = server.json("/status");
        sent += 4;
        // Two more connections are ours: the reused one, and that of this status request.
        let is_complete = status["connections"]["open"].as_u64().expect("a number") >= CONNECTIONS + 2;
        during_attack += if is_complete && was_complete { 3 } else { 0 };
        was_complete = is_complete;
        if let Some(end) = attack.try_wait().expect("the child is ours") {
            assert!(end.success(), "slowhttptest: {end}");
            let responses = status["requests"]["received"].as_u64().expect("a number");
            // The status request itself is not counted yet.
            return Outcome { during_attack, to_the_attack: responses + 1 - sent };
        }
    }
}
