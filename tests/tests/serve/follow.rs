//! Log files streamed to clients while they are written and rotated, on every engine.

use rudy_tests::prelude::*;

const SITE: &str = r#"
listen = ["127.0.0.1:0"]

[[site]]

route = [
    { path = "/plain", tail = { allow = "loopback", files = "logs/app.log", last = 2 } },
    { path = "/events", tail = { allow = "loopback", files = "logs/app.log", last = 2, format = "sse", heartbeat = "0s" } },
    { path = "/all", tail = { allow = "loopback", files = ["logs/*.log", "missing.log"] } },
]
"#;

/// Starts a server with a folder of logs: `app.log` has the lines 1, 2 and 3.
fn serve(model: Model) -> Server {
    let server = Server::build().config(SITE).engine(model).start();
    server.path().write("logs/app.log", "1\n2\n3\n");
    server
}

fn get(server: &Server, target: &str, fields: &str) -> Connection {
    let mut connection = server.send(format!("GET {target} HTTP/1.1\r\nHost: test\r\n{fields}\r\n"));
    assert_eq!(connection.head().status, 200);
    connection
}

/// Reads until the text ends with `end`.
fn until(connection: &mut Connection, end: &str) -> String {
    let mut text = String::new();
    while !text.ends_with(end) {
        text += &connection.chunk().unwrap_or_else(|| panic!("the stream ended after {text:?}"));
    }
    text
}

#[test]
fn lines_are_streamed_as_they_are_written_and_rotation_loses_none() {
    for model in engines() {
        let server = serve(model);
        let log = server.path().join("logs/app.log");
        let mut connection = get(&server, "/plain", "");
        assert_eq!(until(&mut connection, "3\n"), "2\n3\n", "{model}");
        server.path().append("logs/app.log", "4\nunfin");
        assert_eq!(until(&mut connection, "4\n"), "4\n", "{model}");
        server.path().append("logs/app.log", "ished\n");
        fs::rename(&log, server.path().join("logs/app.log.1")).unwrap();
        server.path().append("logs/app.log", "5\n");
        assert_eq!(until(&mut connection, "5\n"), "unfinished\n5\n", "{model}");
    }
}

#[test]
fn events_have_ids_and_a_client_that_reconnects_resumes() {
    let server = serve(Model::PerCore);
    let append = |text: &str| server.path().append("logs/app.log", text);
    let mut first = get(&server, "/events", "");
    let text = until(&mut first, "data: 3\n\n");
    assert!(text.starts_with("retry: 2000\n\nid: "), "{text}");
    append("4\n");
    let text = until(&mut first, "data: 4\n\n");
    let id = text.lines().next().unwrap().strip_prefix("id: ").expect("an event has an id");
    append("5\n");
    until(&mut first, "data: 5\n\n");
    let mut again = get(&server, "/events", &format!("Last-Event-ID: {id}\r\n"));
    assert_eq!(until(&mut again, "data: 5\n\n").matches("data: ").count(), 1);
    let mut late = get(&server, "/events", "");
    assert_eq!(until(&mut late, "data: 5\n\n").matches("data: ").count(), 2, "the last two");
}

#[test]
fn new_files_are_found_and_missing_ones_are_logged() {
    let mut server = serve(Model::PerCore);
    let folder = server.path().to_owned();
    let mut connection = get(&server, "/all", "");
    let expected = format!("{} | 3\n", folder.text("logs/app.log"));
    assert!(until(&mut connection, &expected).contains(" | 1\n"));
    server.wait_for_line("missing.log: it does not exist yet");
    folder.append("logs/new.log", "x\n");
    assert_eq!(until(&mut connection, "x\n"), format!("{} | x\n", folder.text("logs/new.log")));
    folder.append("missing.log", "y\n");
    assert_eq!(until(&mut connection, "y\n"), format!("{} | y\n", folder.text("missing.log")));
}
