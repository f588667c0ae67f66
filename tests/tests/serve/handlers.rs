//! Tests all handlers with finite responses on every engine: the responses are equal byte by byte.

use std::borrow::Cow;
use std::fmt::Write;

use rudy_tests::prelude::*;
use rustix::net::sockopt::set_socket_recv_buffer_size;

const SITE: &str = r#"
listen = ["127.0.0.1:0"]
[[site]]
root = "."
route = [
    { path = "/list/*", files = { root = ".", browse = true } },
    { path = "/unkept/*", files = { root = ".", cache_size = 0 } },
    { path = "/old/*", redirect = { to = "/{rest}{query}", status = 308 } },
    { path = "/fixed", respond = { status = 203, body = "fixed", headers = { x-by = "hand" } } },
    { path = "/later", delay = { time = "1ms" } },
]
"#;

/// Requests for all kinds of responses: immediate, after disk access, from memory, with `sendfile`, with ranges, compressed on the
/// fly, without a body.
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

fn folder() -> Folder {
    let folder = Folder::new();
    let (text, binary) = (b"a line of text\n".repeat(200_000), b"\x00\xff\x17".repeat(1_000_000));
    for (name, content) in
        [("page.html", b"<p>0123456789</p>".repeat(100)), ("large.txt", text), ("large.bin", binary)]
    {
        folder.write(name, content);
        // The ETag of a file that has just changed is weak, and becomes strong a moment later.
        let file = File::options().write(true).open(folder.join(name)).expect("it was written");
        let hour = Duration::from_hours(1);
        file.set_modified(SystemTime::now() - hour).expect("the file is ours");
    }
    folder
}

fn server(folder: &Folder, model: Model, arguments: &[&str]) -> Server {
    let site = SITE.replace("\".\"", &format!("'{folder}'"));
    Server::build().config(&site).engine(model).args(arguments).start()
}

/// Returns the head and the body without the date and the random boundary of parts.
fn comparable(response: &Response) -> (Vec<String>, Cow<'_, [u8]>) {
    let fields = response.head.lines().filter(|line| !line.starts_with("date:"));
    let Some((_, boundary)) = response.field("content-type").and_then(|kind| kind.split_once("boundary="))
    else {
        return (fields.map(ToOwned::to_owned).collect(), Cow::Borrowed(&response.body));
    };
    let body = response.text().replace(boundary, "BOUNDARY");
    (fields.map(|line| line.replace(boundary, "BOUNDARY")).collect(), Cow::Owned(body.into_bytes()))
}

#[test]
fn every_engine_sends_the_same_responses() {
    let folder = folder();
    let percore = server(&folder, Model::PerCore, &[]);
    let mut connection = percore.connect();
    let mut ask = |request: &&str| {
        connection.send(request.as_bytes());
        connection.response()
    };
    let expected: Vec<Response> = REQUESTS.iter().map(&mut ask).collect();
    let statuses: Vec<u16> = expected.iter().map(|response| response.status).collect();
    assert_eq!(statuses, [200, 304, 206, 200, 200, 206, 200, 200, 200, 404, 405, 308, 203, 200]);
    for model in engines() {
        let server = server(&folder, model, &["--keep-alive"]);
        let mut connection = server.connect();
        for (request, expected) in REQUESTS.iter().zip(&expected) {
            connection.send(request.as_bytes());
            let response = connection.response();
            assert_eq!(comparable(&response), comparable(expected), "{model}: {request}");
        }
    }
}

#[test]
fn engines_with_few_threads_close_after_each_response_by_default() {
    let folder = folder();
    for model in engines() {
        let server = server(&folder, model, &[]);
        let mut connection = server.send(REQUESTS[0].as_bytes());
        let response = connection.response();
        let is_closed = response.field("connection") == Some("close");
        assert_eq!(is_closed, model.has_fixed_threads(), "{model}: {}", response.head);
        if model.has_fixed_threads() {
            assert!(connection.is_closed(), "{model}");
        }
    }
}

/// Returns text that compresses only to a half, so that the result is larger than the socket buffers.
fn hexadecimal(bytes: usize) -> String {
    let mut state = 1_u64;
    let mut digits = String::with_capacity(bytes + 16);
    while digits.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        write!(digits, "{state:016x}").expect("writing to a String cannot fail");
    }
    digits
}

#[test]
fn slow_clients_do_not_disable_compression_for_others() {
    let folder = folder();
    folder.write("huge.txt", hexadecimal(12 * 1024 * 1024));
    folder.write("small.css", "a { color: red }\n".repeat(200));
    let server = server(&folder, Model::PerCore, &[]);
    // Cached in memory, and compressed on the fly.
    for path in ["/huge.txt", "/unkept/huge.txt"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: zstd\r\n\r\n");
        let slow = [(); 20].map(|()| {
            let mut connection = server.connect();
            set_socket_recv_buffer_size(connection.socket(), 4096).expect("a small buffer is allowed");
            connection.send(request.as_bytes());
            assert_eq!(connection.head().field("content-encoding"), Some("zstd"), "{path}");
            connection
        });
        for coding in ["gzip", "br"] {
            let path = path.replace("huge.txt", "small.css");
            let response = server.get_with(&path, &["Host: a", &format!("Accept-Encoding: {coding}")]);
            assert_eq!(response.field("content-encoding"), Some(coding), "{path}");
        }
        drop(slow);
    }
}

#[test]
fn a_reload_does_not_reopen_files() {
    let folder = folder();
    let mut server = server(&folder, Model::PerCore, &[]);
    let open = |server: &Server| {
        let links = fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("the process is running");
        let links = links.filter_map(|link| fs::read_link(link.ok()?.path()).ok());
        links.filter(|target| target.starts_with(folder.path())).count()
    };
    assert_eq!(open(&server), 0, "there was no request yet");
    // An hour old, because a file that has just changed does not stay open.
    let file = File::options().write(true).open(folder.join("large.bin")).expect("the file exists");
    file.set_modified(SystemTime::now() - Duration::from_hours(1)).expect("the file is writable");
    let mut connections = Vec::new();
    for _ in 0..4 {
        let mut connection = server.send(b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(connection.response().status, 200);
        // The connection keeps its generation alive.
        connections.push(connection);
        assert_eq!(open(&server), 2, "the folder and the file");
        server.reload("the configuration was reloaded");
    }
}

/// Responses that were pipelined before are sent, and the log has a line.
#[test]
fn a_status_of_444_ends_the_connection_without_a_response() {
    const SITE: &str = "listen = ['127.0.0.1:0']\naccess_log = 'access.log'\nerror_pages = { 444 = '/ok' }\nintercept_errors = true\n\
        [[site]]\nresponse_headers = { X-Own = 'own' }\n\
        [[site.route]]\npath = '/ok'\nrespond = 'ok'\n[[site.route]]\npath = '/*'\nrespond = 444\n";
    for model in engines() {
        let server = Server::build().config(SITE).engine(model).start();
        for request in [
            "GET /x HTTP/1.1\r\nHost: a\r\n\r\n",
            "HEAD /x HTTP/1.0\r\n\r\n",
            "BREW /x HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n",
            "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /ok HTTP/1.1\r\nHost: a\r\n\r\n",
        ] {
            assert_eq!(server.exchange(request.as_bytes()), b"", "{model} {request}");
        }
        let mut connection =
            server.send("GET /ok HTTP/1.1\r\nHost: a\r\n\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(connection.response().text(), "ok", "{model}");
        assert_eq!(connection.read_to_end(), b"", "{model}");
        // Engines with few threads may end a connection after the first response.
        let lines = crate::logs::lines(&server.path().join("access.log"), 6);
        let are_silent = lines.iter().all(|line| line.contains(" /x ") == line.contains("\" 444 "));
        assert!(are_silent, "{model} {lines:?}");
    }
    let server = Server::config(&SITE.replace(":0'", ":0,h2c'"));
    let mut connection = Http2Connection::open(server.address(), &[]);
    connection.request(1, "POST", "/x", &[], false);
    connection.request(3, "GET", "/ok", &[], true);
    let responses = connection.responses(&[1, 3]);
    assert_eq!((responses[0].status, responses[0].reset), (0, Some(8)), "CANCEL");
    assert_eq!((responses[1].status, &responses[1].body[..]), (200, &b"ok"[..]));
}

/// By internal redirects of an application or for an error, with fields of a site, beside a cache and on routes without.
#[test]
fn a_status_of_444_of_another_route_ends_the_connection_too() {
    let app = Upstream::serve(|peer, _| {
        peer.send("HTTP/1.1 200 X\r\nX-Accel-Redirect: /silent\r\nCache-Control: max-age=60\r\nContent-Length: 0\r\n\r\n");
    });
    let broken = Upstream::serve(|peer, _| peer.send("HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n"));
    let cache = "cache = { default_freshness = '1h' }\n";
    let route = |path: &str, more: &str| format!("[[site.route]]\npath = '{path}'\n{more}");
    let routes = ["", cache].map(|cache| {
        let (folder, pages) =
            (if cache.is_empty() { "/plain" } else { "/cached" }, "intercept_errors = true\n");
        [
            route(
                &format!("{folder}/accel"),
                &format!("proxy = {{ upstreams = '{app}', accel_redirect = '/silent' }}\n{cache}"),
            ),
            route(
                &format!("{folder}/page"),
                &format!("proxy = '{broken}'\n{cache}{pages}error_pages = {{ 500 = '/silent' }}\n"),
            ),
            route(
                &format!("{folder}/rewrite"),
                &format!(
                    "proxy = '{broken}'\n{cache}{pages}error_pages = {{ 500 = {{ rewrite = '/silent' }} }}\n"
                ),
            ),
        ]
        .concat()
    });
    let server = Server::config(&format!(
        "listen = ['127.0.0.1:0,h2c']\n[cache]\npath = 'cache'\n[[site]]\nresponse_headers = {{ X-Own = '{{method}}' }}\n{}{}",
        route("/silent", "respond = 444\n"),
        routes.concat()
    ));
    for folder in ["plain", "cached"] {
        for path in ["accel", "page", "rewrite"] {
            let target = format!("/{folder}/{path}");
            for method in ["GET", "GET", "HEAD", "POST"] {
                let request = format!("{method} {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
                assert_eq!(
                    server.exchange(request.as_bytes()).escape_ascii().to_string(),
                    "",
                    "{method} {target}"
                );
            }
            let mut connection = Http2Connection::open(server.address(), &[]);
            connection.request(1, "GET", &target, &[], true);
            assert_eq!(connection.response(1).reset, Some(8), "CANCEL: {target}");
        }
    }
}
