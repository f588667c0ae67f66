//! Every handler that gives an answer with an end, on every engine: the answers are the same to the byte.

use std::borrow::Cow;
use std::fmt::Write;
use std::time::{Duration, SystemTime};

use rudy_net::engine::Model;
use rudy_tests::{Response, Server, engines};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::process::Signal;
use tempfile::TempDir;

const SITE: &str = r#"
listen = ["127.0.0.1:0"]
[[site]]
root = "."

[[site.route]]
path = "/list/*"
files = { root = ".", browse = true }

[[site.route]]
path = "/unkept/*"
files = { root = ".", cache_size = 0 }

[[site.route]]
path = "/old/*"
redirect = { to = "/{rest}{query}", status = 308 }

[[site.route]]
path = "/fixed"
respond = { status = 203, body = "fixed", headers = { x-by = "hand" } }

[[site.route]]
path = "/later"
delay = { time = "1ms" }
"#;

/// Requests that take each way an answer can: at once, after a look at the disk, from memory, by `sendfile`, in parts,
/// compressed while it is sent, without a body.
const REQUESTS: &[&str] = &[
    "GET /page.html HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /page.html HTTP/1.1\r\nHost: a\r\nIf-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT\r\n\r\n",
    "GET /page.html HTTP/1.1\r\nHost: a\r\nRange: bytes=2-5,7-8\r\n\r\n",
    "GET /page.html HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n",
    "GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /large.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=-70000\r\n\r\n",
    "GET /large.txt HTTP/1.1\r\nHost: a\r\nAccept-Encoding: zstd\r\n\r\n",
    "GET /unkept/large.txt HTTP/1.1\r\nHost: a\r\nAccept-Encoding: zstd\r\n\r\n",
    "GET /list/ HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\n\r\n",
    "GET /none HTTP/1.1\r\nHost: a\r\n\r\n",
    "DELETE /page.html HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcde",
    "GET /old/page.html?q HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /fixed HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /later HTTP/1.1\r\nHost: a\r\n\r\n",
];

fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (text, binary) = (b"a line of text\n".repeat(200_000), b"\x00\xff\x17".repeat(1_000_000));
    for (name, content) in
        [("page.html", b"<p>0123456789</p>".repeat(100)), ("large.txt", text), ("large.bin", binary)]
    {
        std::fs::write(folder.path().join(name), content).expect("the folder is ours");
    }
    folder
}

fn server(folder: &TempDir, model: Model, arguments: &[&str]) -> Server {
    let site = SITE.replace("\".\"", &format!("'{}'", folder.path().display()));
    Server::build().config(&site).args(["--engine", &model.to_string()]).args(arguments).start()
}

/// What is the same in every run: all but the date, and the boundary of parts, which is random.
fn comparable(answer: &Response) -> (Vec<String>, Cow<'_, [u8]>) {
    let fields = answer.head.lines().filter(|line| !line.starts_with("date:"));
    let Some((_, boundary)) = answer.field("content-type").and_then(|kind| kind.split_once("boundary="))
    else {
        return (fields.map(ToOwned::to_owned).collect(), Cow::Borrowed(&answer.body));
    };
    let body = answer.text().replace(boundary, "BOUNDARY");
    (fields.map(|line| line.replace(boundary, "BOUNDARY")).collect(), Cow::Owned(body.into_bytes()))
}

#[test]
fn every_engine_gives_the_same_answers() {
    let folder = folder();
    let percore = server(&folder, Model::PerCore, &[]);
    let mut connection = percore.connect();
    let expected: Vec<Response> = REQUESTS
        .iter()
        .map(|request| {
            connection.send(request.as_bytes());
            connection.response()
        })
        .collect();
    let statuses: Vec<u16> = expected.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [200, 304, 206, 200, 200, 206, 200, 200, 200, 404, 405, 308, 203, 200]);
    for model in engines() {
        let server = server(&folder, model, &["--keep-alive"]);
        let mut connection = server.connect();
        for (request, expected) in REQUESTS.iter().zip(&expected) {
            connection.send(request.as_bytes());
            let answer = connection.response();
            assert_eq!(comparable(&answer), comparable(expected), "{model}: {request}");
        }
    }
}

#[test]
fn an_engine_with_few_threads_closes_after_each_answer_unless_told_otherwise() {
    let folder = folder();
    for model in engines() {
        let server = server(&folder, model, &[]);
        let mut connection = server.connect();
        connection.send(REQUESTS[0].as_bytes());
        let answer = connection.response();
        assert_eq!(
            answer.field("connection") == Some("close"),
            model.has_fixed_threads(),
            "{model}: {}",
            answer.head
        );
        if model.has_fixed_threads() {
            assert!(connection.is_closed(), "{model}");
        }
    }
}

/// Text that shrinks to no less than a half, so that its compressed form is more than the sockets take.
fn hexadecimal(bytes: usize) -> String {
    let mut state = 1_u64;
    let mut digits = String::with_capacity(bytes + 16);
    while digits.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        write!(digits, "{state:016x}").expect("a string takes it");
    }
    digits
}

#[test]
fn clients_that_do_not_read_switch_no_compression_off() {
    let folder = folder();
    std::fs::write(folder.path().join("huge.txt"), hexadecimal(12 * 1024 * 1024))
        .expect("the folder is ours");
    std::fs::write(folder.path().join("small.css"), "a { color: red }\n".repeat(200))
        .expect("the folder is ours");
    let server = server(&folder, Model::PerCore, &[]);
    // Kept in memory, and compressed while it is sent.
    for path in ["/huge.txt", "/unkept/huge.txt"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: zstd\r\n\r\n");
        let slow: Vec<_> = (0..20)
            .map(|_| {
                let mut connection = server.connect();
                set_socket_recv_buffer_size(connection.socket(), 4096).expect("a small buffer may be had");
                connection.send(request.as_bytes());
                let head = connection.head();
                assert_eq!(head.field("content-encoding"), Some("zstd"), "{path}");
                connection
            })
            .collect();
        for coding in ["gzip", "br"] {
            let mut connection = server.connect();
            let path = path.replace("huge.txt", "small.css");
            connection.send(
                format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {coding}\r\n\r\n").as_bytes(),
            );
            assert_eq!(connection.response().field("content-encoding"), Some(coding), "{path}");
        }
        drop(slow);
    }
}

#[test]
fn a_reload_opens_no_file_again() {
    let folder = folder();
    let mut server = server(&folder, Model::PerCore, &[]);
    let open = |server: &Server| {
        let links = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("it runs");
        let links = links.filter_map(|link| std::fs::read_link(link.ok()?.path()).ok());
        links.filter(|target| target.starts_with(folder.path())).count()
    };
    assert_eq!(open(&server), 0, "no request came yet");
    // An hour old: a file that was just changed is not kept open.
    let file =
        std::fs::File::options().write(true).open(folder.path().join("large.bin")).expect("it is there");
    file.set_modified(SystemTime::now() - Duration::from_hours(1)).expect("the file is ours");
    let mut connections = Vec::new();
    for _ in 0..4 {
        let mut connection = server.connect();
        connection.send(b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(connection.response().status, 200);
        // It keeps its generation in use.
        connections.push(connection);
        assert_eq!(open(&server), 2, "the folder and the file");
        server.forget_lines();
        server.signal(Signal::HUP);
        server.wait_for_line("the configuration was read again");
    }
}
