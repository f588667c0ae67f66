//! What only Go's `net/http/fcgi` shows: requests share a connection, and one that is given up is not over where it says so.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rudy_tests::{Connection, PATIENCE, Server};

use super::apps::{App, Program};

/// Sends half a body and asks for three lines, of which the app says the first at once and the others when it is told to.
fn begin(server: &Server, app: &App, name: &str) -> Connection {
    let folder = app.running.folder.path().join(name);
    fs::create_dir(&folder).expect("the name is new");
    let mut client = server.connect();
    let head =
        format!("POST /app/named?{} HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n", folder.display());
    client.send(head.as_bytes());
    client.send(b"12345");
    assert_eq!(client.head().status, 200);
    assert_eq!(client.chunk(), Some(format!("{name} 1\n")));
    client
}

/// Has the app say the others, and waits until it has.
fn finish(app: &App, name: &str) {
    let folder = app.running.folder.path().join(name);
    (1..=3).for_each(|n| fs::write(folder.join(n.to_string()), "").expect("the folder is ours"));
    wait_for(&folder.join("over"));
}

fn wait_for(file: &Path) {
    let deadline = Instant::now() + PATIENCE;
    while !file.exists() {
        assert!(Instant::now() < deadline, "{} does not come", file.display());
        thread::sleep(Duration::from_millis(1));
    }
}

/// Go ends a request at once that it is asked to give up in the middle of its body, while its handler goes on and writes under the same number. None of
/// that may reach another client.
#[test]
fn what_a_handler_says_whose_client_has_left_reaches_nobody() {
    let Some(app) = App::start(Program::Go) else { return };
    let server = app.server(1);
    assert_eq!(server.get("/app/pid").status, 200);
    let left = begin(&server, &app, "left");
    let mut clients = vec![("stays", begin(&server, &app, "stays"))];
    drop(left);
    // One of these would get the number that has become free.
    for name in ["a", "b", "c", "d"] {
        assert_eq!(server.get("/app/pid").status, 200);
        clients.push((name, begin(&server, &app, name)));
    }
    finish(&app, "left");
    for (name, mut client) in clients {
        client.send(b"67890");
        finish(&app, name);
        let rest: String = std::iter::from_fn(|| client.chunk()).collect();
        assert_eq!(rest, format!("{name} 2\n{name} 3\n"));
    }
}
