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

/// The maximum duration of an attack in seconds: a busy machine opens its connections late.
const SECONDS: &str = "60";

/// More than the socket buffers hold.
const LARGE_BYTES: u64 = 64 * 1024 * 1024;

/// One form field per second, of an announced 100 kB.
const SLOW_BODIES: &[&str] = &["-B", "-i", "1", "-s", "100000"];

/// What the ordinary client has found.
struct Found {
    /// Its requests with a response while all connections of the attack were open.
    during_attack: u64,
    /// Requests of the attack that got a response.
    to_the_attack: u64,
}

/// The server serves others while all connections of the attack are open.
fn serves_others(found: &Found) -> bool {
    found.during_attack > 0
}

#[test]
fn slow_heads_do_not_block_the_server() {
    // One header line per second.
    attack("/text.txt", &["-H", "-i", "1"], serves_others);
}

#[test]
fn slow_bodies_do_not_block_an_app() {
    attack("/app", SLOW_BODIES, serves_others);
}

/// The attack would otherwise occupy the two children of php-fpm first.
#[test]
fn slow_bodies_do_not_block_a_php_site() {
    let Some(fpm) = long().then(|| Fpm::start("")).flatten() else { return };
    let root = Folder::with(&[("app.php", "<?php header('Content-Type: text/plain'); echo 'taken';")]);
    let app = fpm.route(root.path(), "/app.php", "");
    attack_on(&app, "/app.php", "/app.php", SLOW_BODIES, serves_others);
}

#[test]
fn thousands_of_ranges_do_not_block_the_server() {
    // `Range: bytes=0-,5-5,5-6,…,5-2000`: one such request once used all memory of Apache.
    attack("/text.txt", &["-R", "-t", "GET"], |found| found.to_the_attack > CONNECTIONS);
}

#[test]
fn slow_readers_do_not_block_the_server() {
    // One byte per second of a large file, with the smallest possible window.
    let slow = ["-X", "-k", "3", "-n", "1", "-w", "1", "-y", "2", "-z", "1"];
    attack("/large", &slow, serves_others);
}

/// Runs slowhttptest against `path` until an ordinary client that requests a file and an app with two connections has found `is_shown`.
fn attack(path: &str, mode: &[&str], is_shown: fn(&Found) -> bool) {
    let app = App::start(|mut peer| {
        while peer.request().is_some() && peer.body().is_some() {
            peer.respond(b"Content-Type: text/plain\r\n\r\ntaken");
        }
    });
    let route =
        format!("[[site.route]]\npath = \"/app\"\nfastcgi = {{ address = \"{app}\", connections = 2 }}\n");
    attack_on(&route, "/app", path, mode, is_shown);
}

/// As [`attack`], with an app at `app` on this route.
fn attack_on(route: &str, app: &str, path: &str, mode: &[&str], is_shown: fn(&Found) -> bool) {
    let Some(slowhttptest) = long().then(|| program("slowhttptest")).flatten() else { return };
    let server = serve(route);
    let mut command = Command::new(slowhttptest);
    let connections = CONNECTIONS.to_string();
    command.args(["-c", &connections, "-r", &connections, "-l", SECONDS]).args(mode);
    command.arg("-u").arg(server.url(path)).stdout(Stdio::null());
    let mut attack = Running::start(&mut command);
    send_requests_until(&server, app, &mut attack, is_shown);
}

fn serve(route: &str) -> Server {
    // On a busy machine, slowhttptest opens its connections in more than the usual ten seconds, after which the first would be dropped.
    let server = Server::config(&format!(
        "listen = [\"127.0.0.1:0\"]\n[limits]\nrate_grace = \"60s\"\n[[site]]\nroot = \".\"\n\
         [[site.route]]\npath = \"/status\"\nstatus = {{ allow = \"loopback\" }}\n{route}"
    ));
    server.path().write("text.txt", text(500));
    let large = fs::File::create(server.path().join("large")).expect("a temp folder can be written");
    large.set_len(LARGE_BYTES).expect("a hole costs nothing");
    server
}

/// Sends requests on one connection from before the attack, and on new ones.
fn send_requests_until(server: &Server, app: &str, attack: &mut Running, is_shown: fn(&Found) -> bool) {
    let mut reused: Connection = server.connect();
    let (mut sent, mut during_attack, mut open_max) = (0, 0, 0);
    let mut was_complete = false;
    loop {
        assert_eq!(reused.get("/text.txt", &[]).status, 200);
        assert_eq!(server.get("/text.txt").status, 200);
        assert_eq!(server.get(app).text(), "taken");
        let status = server.json("/status");
        sent += 4;
        // Two more connections are ours: the reused one, and that of this status request.
        let open = status["connections"]["open"].as_u64().expect("a number");
        open_max = open_max.max(open);
        let is_complete = open >= CONNECTIONS + 2;
        during_attack += if is_complete && was_complete { 3 } else { 0 };
        was_complete = is_complete;
        let responses = status["requests"]["received"].as_u64().expect("a number");
        // The status request itself is not counted yet.
        if is_shown(&Found { during_attack, to_the_attack: responses + 1 - sent }) {
            return;
        }
        let end = attack.try_wait().expect("the child is ours");
        assert!(end.is_none(), "slowhttptest has ended ({end:?}): at most {open_max} connections were open");
    }
}
