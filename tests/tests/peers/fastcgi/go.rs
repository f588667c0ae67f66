//! Behavior of Go's `net/http/fcgi` alone: the handler of a cancelled request continues.

use rudy_tests::prelude::*;

use super::apps::{App, Program};

/// Sends half a body and requests three lines. The app sends the first at once, and each other one after a
/// file exists.
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

/// Makes the app send the other lines, and waits until it has.
fn finish(app: &App, name: &str) {
    let folder = app.running.folder.path().join(name);
    (1..=3).for_each(|n| fs::write(folder.join(n.to_string()), "").expect("the folder is writable"));
    wait_for(&folder.join("over"));
}

fn wait_for(file: &Path) {
    wait_until(&format!("{} exists", file.display()), || file.exists());
}

/// The handler of a disconnected client continues to write, because Go checks the connection only when it
/// reads a body. Its output must not reach the next client.
#[test]
fn output_for_a_disconnected_client_reaches_no_other_client() {
    let Some(app) = App::start(Program::Go) else { return };
    let route = app.route(2).replace("fastcgi = {", "fastcgi = { request_buffering = false,");
    let top = "listen = [\"127.0.0.1:0\"]\nlimits.half_close_timeout = \"300ms\"\n";
    let server = Server::config(&format!("{top}[[site]]\n{route}"));
    assert_eq!(server.get("/app/pid").status, 200);
    let left = begin(&server, &app, "left");
    let stays = begin(&server, &app, "stays");
    drop(left);
    // This request waits until the connection of the disconnected client is closed.
    let next = begin(&server, &app, "next");
    finish(&app, "left");
    for (name, mut client) in [("stays", stays), ("next", next)] {
        client.send(b"67890");
        finish(&app, name);
        let rest: String = std::iter::from_fn(|| client.chunk()).collect();
        assert_eq!(rest, format!("{name} 2\n{name} 3\n"));
    }
}
