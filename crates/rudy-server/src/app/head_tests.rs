//! Requests that get a response from their head alone: it must be the same as for the whole request.

use std::fs;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::HeaderMap;
use http::header::ETAG;
use proptest::prelude::*;
use rudy_http::h1::{Event, ServerConnection};
use rudy_message::{LazyHead, RequestHead};
use rudy_pipeline::Resources;
use rudy_service::{Body, Client, Peer, Reply, Request, RequestBody, Response, Service};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::App;
use crate::config::Config;

/// A configuration with all kinds of routes, over one folder.
struct Server {
    app: App,
    runtime: Runtime,
    /// The value for `/a.txt`.
    tag: String,
    _folder: TempDir,
}

const FILES: [(&str, usize); 6] = [
    ("a.txt", 1024),
    ("coded.txt", 2000),
    ("coded.txt.gz", 100),
    ("large.bin", 70_000),
    ("sub/index.html", 10),
    ("by-script/index.php", 10),
];

const TARGETS: [&str; 17] = [
    "/a.txt",
    "/a.txt?query",
    "/coded.txt",
    "/large.bin",
    "/sub/",
    "/by-script/",
    "/sub",
    "/%61.txt",
    "//a.txt",
    "/sub/../a.txt",
    "/a.txt/",
    "/nothing",
    "/pong",
    "/gone",
    "/empty",
    "/old/x",
    "http://files.org/a.txt",
];

const HOSTS: [&str; 7] =
    ["files.org", "FILES.org.:80", "other.org", "php.org", "guarded.org", "unknown.org", "files.org@"];

const FIELDS: [(&str, &str); 19] = [
    ("accept-encoding", "gzip"),
    ("Accept-Encoding", "br, *;q=0"),
    ("accept-encoding", "gzip;q=0"),
    ("if-none-match", "*"),
    ("If-None-Match", "TAG"),
    ("if-none-match", "\"x\", W/TAG"),
    ("if-none-match", "broken"),
    ("if-modified-since", "Fri, 31 Dec 9999 23:59:59 GMT"),
    ("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT"),
    ("if-modified-since", "yesterday"),
    ("if-unmodified-since", "Sun, 06 Nov 1994 08:49:37 GMT"),
    ("if-unmodified-since", "Fri, 31 Dec 9999 23:59:59 GMT"),
    ("if-match", "TAG"),
    ("if-match", "\"x\""),
    ("if-range", "TAG"),
    ("range", "bytes=0-9"),
    ("range", "bytes=90000-"),
    ("accept", "application/json"),
    ("user-agent", "test"),
];

impl Server {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        for (path, length) in FILES {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "x".repeat(length)).unwrap();
            let an_hour_ago = SystemTime::now() - Duration::from_hours(1);
            fs::File::options().write(true).open(&path).unwrap().set_modified(an_hour_ago).unwrap();
        }
        let file = folder.path().join("rudy.toml");
        let root = folder.path().display();
        let files = format!(
            "files = {{ root = '{root}', revalidate_after = '1h', cache_max_file_size = '64KiB', \
             index = ['index.html', 'index.php'] }}, error_pages = {{ 404 = '/sub/index.html' }}"
        );
        let app = format!("address = 'unix:{root}/none.sock'");
        let text = format!(
            r#"
            site = [
                {{ hosts = ["files.org"], route = [
                    {{ path = "*.php", respond = {{ body = "ran" }} }},
                    {{ path = "/pong", respond = {{ body = "pong" }} }},
                    {{ path = "/gone", respond = {{ status = 410 }} }},
                    {{ path = "/empty", respond = {{ status = 410, body = "" }} }},
                    {{ path = "/old/*", redirect = {{ to = "/{{rest}}" }} }},
                    {{ path = "/*", {files} }},
                ] }},
                {{ hosts = ["other.org"], route = [{{ path = "/*", {files} }}] }},
                {{ hosts = ["php.org"], route = [{{ path = "/*", php = {{ root = '{root}', {app} }} }}] }},
                {{ hosts = ["guarded.org"], authorize = {{ {app} }}, route = [{{ path = "/*", {files} }}] }},
            ]
        "#
        );
        fs::write(&file, text).unwrap();
        let app = Config::load(&file).and_then(|config| App::new(&config, &Resources::default()));
        let app = app.unwrap_or_else(|errors| panic!("{errors}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut server = Self { app, runtime, tag: String::new(), _folder: folder };
        for host in HOSTS {
            for (target, coding) in TARGETS.iter().flat_map(|target| [(target, ""), (target, "gzip")]) {
                let text = server.text("GET", target, host, &[("accept-encoding", coding)]);
                with_head(&text, |head| drop(server.call(head)));
            }
        }
        let text = server.text("GET", "/a.txt", "other.org", &[]);
        server.tag = with_head(&text, |head| server.call(head)).unwrap().1[ETAG].to_str().unwrap().to_owned();
        server
    }

    /// Builds the head of a request.
    fn text(&self, method: &str, target: &str, host: &str, fields: &[(&str, &str)]) -> String {
        let line = |(name, value): &(&str, &str)| format!("{name}: {}\r\n", value.replace("TAG", &self.tag));
        let fields: String = fields.iter().map(line).collect();
        format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n")
    }

    /// The response to a request that was not received: its fields are in a map.
    fn call(&self, head: RequestHead<'_>) -> (u16, HeaderMap, Bytes) {
        let request = Request::from(head.into_request().map(|_| RequestBody::empty()));
        seen(self.runtime.block_on(async { self.app.call(request, &client()).response().await }))
    }

    /// The response to a received request. `None` if it has to wait.
    fn call_received(&self, head: &RequestHead<'_>) -> Option<Response> {
        match self.app.call(Request::new(LazyHead::new(head), RequestBody::empty()), &client()) {
            Reply::Now(response) => Some(response),
            Reply::Later(_) => None,
        }
    }
}

fn client() -> Client<'static> {
    Client::new(Peer::Ip(([192, 0, 2, 7], 1).into()), 1, 1)
}

fn with_head<T>(text: &str, then: impl FnOnce(RequestHead<'_>) -> T) -> Option<T> {
    let now = Instant::now();
    match ServerConnection::new(now).receive(text.as_bytes(), now, &rudy_http::Limits::default()) {
        Ok(Some(Event::Request(head))) => Some(then(head)),
        _ => None,
    }
}

/// Formats status, fields and body. A range of a file is formatted as its position.
fn seen(response: Response) -> (u16, HeaderMap, Bytes) {
    let (status, fields) = (response.status().as_u16(), response.headers().clone());
    let body = match response.body {
        Body::Empty | Body::Silence => Bytes::new(),
        Body::Bytes(bytes) => bytes,
        Body::File(range) => format!("{} from {}", range.length, range.start).into(),
        Body::Stream(_) => Bytes::from_static(b"a stream"),
    };
    (status, fields, body)
}

thread_local! {
    /// Shared by the cases of a test. Its folder is removed with the thread, which a static would not do.
    static SERVER: Server = Server::new();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_received_request_gets_the_same_response_as_one_with_a_map(
        method in prop_oneof![4 => Just("GET"), 2 => Just("HEAD"), 1 => Just("POST"), 1 => Just("TRACE"), 1 => Just("BREW")],
        target in prop::sample::select(TARGETS.as_slice()),
        host in prop_oneof![2 => Just("files.org"), 1 => prop::sample::select(HOSTS.as_slice())],
        fields in prop::collection::vec(prop::sample::select(FIELDS.as_slice()), 0..4),
    ) {
        let text = SERVER.with(|server| server.text(method, target, host, &fields));
        let received = SERVER.with(|server| with_head(&text, |head| server.call_received(&head)).flatten());
        if let Some(response) = received {
            let response_to_request = SERVER.with(|server| with_head(&text, |head| server.call(head)));
            prop_assert_eq!(Some(seen(response)), response_to_request, "{}", text);
        }
    }
}

#[test]
fn cached_content_is_sent_at_once() {
    for (method, target, fields, expected) in [
        ("GET", "/a.txt", &[][..], (200, 1024)),
        ("HEAD", "/a.txt", &[], (200, 1024)),
        ("GET", "/a.txt?query", &[("user-agent", "test"), ("cookie", "a=b")], (200, 1024)),
        ("GET", "/a.txt", &[("if-none-match", "TAG")], (304, 0)),
        ("GET", "/a.txt", &[("if-modified-since", "Fri, 31 Dec 9999 23:59:59 GMT")], (304, 0)),
        ("GET", "/coded.txt", &[("accept-encoding", "gzip, br;q=0")], (200, 100)),
        ("GET", "/coded.txt", &[], (200, 2000)),
        ("GET", "/large.bin", &[], (200, "70000 from 0".len())),
        ("GET", "/sub/", &[], (200, 10)),
        ("GET", "/pong", &[], (200, 4)),
        ("HEAD", "/empty", &[], (410, 0)),
    ] {
        let text = SERVER.with(|server| server.text(method, target, "files.org", fields));
        let response = SERVER.with(|server| with_head(&text, |head| server.call_received(&head))).flatten();
        let response = response.map(seen).map(|(status, _, body)| (status, body.len()));
        assert_eq!(response, Some(expected), "{method} {target} {fields:?}");
    }
}
