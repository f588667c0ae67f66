//! One application behind uwsgi, in uWSGI, and behind SCGI, with flup.

use rudy_tests::prelude::*;
use rudy_tests::{flup, long};

use super::apps::{Running, open_folder};

const APP: &str = include_str!("apps/wsgi.py");

fn scgi(folder: &Path) -> Option<Command> {
    let mut python = Command::new(flup()?);
    python.arg(folder.write("wsgi.py", APP)).arg(folder.join("app.sock"));
    Some(python)
}

fn uwsgi(folder: &Path) -> Option<Command> {
    if !long() {
        return None;
    }
    let mut uwsgi = Command::new(program("uwsgi")?);
    uwsgi.args(["--plugin", "python3", "--need-app", "--chmod-socket=666", "--processes=2", "--die-on-term"]);
    uwsgi.arg("--wsgi-file").arg(folder.write("wsgi.py", APP)).arg("--socket").arg(folder.join("app.sock"));
    Some(uwsgi)
}

/// Starts the application and a server in front of it.
fn start(protocol: &str, command: fn(&Path) -> Option<Command>) -> Option<(Running, Server)> {
    let folder = open_folder();
    let command = command(folder.path())?;
    let app = Running::start(command, folder);
    let server = Server::config(&format!(
        "listen = \"127.0.0.1:0\"\n[[site]]\n[[site.route]]\npath = \"/app/*\"\n{protocol} = {{ address = \"unix:{}\", params = {{ APP_ENV = \"test\" }} }}\n",
        app.socket().display()
    ));
    Some((app, server))
}

fn check(server: &Server) {
    let variables = |query: &str| server.json(&format!("/app/env{query}"));
    let found = variables("?x=1&y");
    let of = |name: &str| found[name].as_str().unwrap_or("absent").to_owned();
    for (name, expected) in [
        ("REQUEST_METHOD", "GET"),
        ("SCRIPT_NAME", "/app"),
        ("PATH_INFO", "/env"),
        ("QUERY_STRING", "x=1&y"),
        ("REQUEST_URI", "/app/env?x=1&y"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("APP_ENV", "test"),
    ] {
        assert_eq!(of(name), expected, "{name}");
    }
    let other = server.get("/app/x");
    assert_eq!(other.status_and_text(), (418, "short and stout"));
    assert_eq!(other.fields("set-cookie").collect::<Vec<_>>(), ["a=1", "b=2"]);
    assert_eq!(server.get("/app/empty").status, 204);
    for length in [0, 1, 100_000, 3_000_000] {
        let body = "y".repeat(length);
        let echo = server.send_body("POST", "/app/echo", &body);
        assert_eq!((echo.status, echo.text() == body), (200, true), "{length}");
    }
    let chunked = server.send(
        "POST /app/echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    );
    let mut chunked = chunked;
    assert_eq!(chunked.response().status_and_text(), (200, "abcde"));
    assert_eq!(server.get("/app/large").body.len(), 3_000_000);
    let head = server.request("HEAD", "/app/large", &["Connection: close"]);
    assert_eq!((head.status, head.field("content-length")), (200, Some("3000000")));
}

#[test]
fn an_application_behind_scgi() {
    let Some((app, mut server)) = start("scgi", scgi) else { return };
    check(&server);
    // The application is gone.
    drop(app);
    assert_eq!(server.get("/app/env").status, 502);
    server.wait_for_line("connect");
}

#[test]
fn an_application_behind_uwsgi() {
    let Some((app, mut server)) = start("uwsgi", uwsgi) else { return };
    check(&server);
    let fields: Vec<_> = (0..10).map(|number| format!("X-{number}: {}", "z".repeat(7_000))).collect();
    let fields: Vec<_> = fields.iter().map(String::as_str).collect();
    let large = server.get_with("/app/env", &fields);
    assert_eq!(large.status, 431, "{}", large.text());
    drop(app);
    assert_eq!(server.get("/app/env").status, 502);
    server.wait_for_line("connect");
}

/// What an application does wrong, over SCGI by hand.
#[test]
fn responses_that_end_too_early_are_errors() {
    let folder = open_folder();
    let socket = UnixListener::bind(folder.join("app.sock")).expect("the folder is writable");
    let server = Server::config(&format!(
        "listen = \"127.0.0.1:0\"\n[[site]]\n[[site.route]]\npath = \"/*\"\nscgi = \"unix:{}\"\n",
        folder.join("app.sock").display()
    ));
    for (response, expected) in [
        (&b"Status: 200 OK\r\nContent-Type: a/b\r\n\r\nhello"[..], 200),
        (b"Content-Type: a/b\n\nhello", 200),
        // Half a head, and the head of another protocol.
        (b"Content-Type: a/b\r\n", 502),
        (b"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\n\r\nhello", 502),
        (b"Status: 2000\r\n\r\n", 502),
    ] {
        let received = respond(&server, &socket, response).response();
        assert_eq!(received.status, expected, "{}", response.escape_ascii());
        assert!(expected != 200 || received.text() == "hello");
    }
    // The server may have begun its response when the application leaves.
    let short = b"Content-Type: a/b\r\nContent-Length: 10\r\n\r\nhello";
    let received = respond(&server, &socket, short).read_to_end();
    let text = String::from_utf8_lossy(&received);
    let is_cut = text.starts_with("HTTP/1.1 200 ") && text.ends_with("\r\n\r\nhello");
    assert!(is_cut || text.starts_with("HTTP/1.1 502 "), "{text}");
}

/// Sends a request, to which an application responds so before it closes the connection.
fn respond(server: &Server, socket: &UnixListener, response: &[u8]) -> Connection {
    let client =
        server.send("POST /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc");
    let (mut app, _) = socket.accept().expect("the server connects");
    let mut begin = [0; 6];
    app.read_exact(&mut begin).expect("a request");
    let begin = String::from_utf8_lossy(&begin).into_owned();
    let (digits, _) = begin.split_once(':').expect("a netstring begins with its length");
    // The variables, a comma and the body.
    let length = digits.len() + 1 + digits.parse::<usize>().expect("a number") + 1 + 3;
    let mut rest = vec![0; length - begin.len()];
    app.read_exact(&mut rest).expect("the rest of it");
    assert!(rest.ends_with(b",abc"));
    app.write_all(response).expect("the server reads");
    client
}
