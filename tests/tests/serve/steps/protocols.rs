//! One site and one table of requests, over HTTP/1.1 and HTTP/2, with and without TLS.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use rudy_tests::fastcgi::{App, variable};
use rudy_tests::{Certificates, Curl, CurlResult, Server, Upstream, Valid};
use tempfile::TempDir;

/// The options of curl for each protocol, and whether it uses TLS.
const PROTOCOLS: [(&str, bool); 4] =
    [("--http1.1", false), ("--http2-prior-knowledge", false), ("--http1.1", true), ("--http2", true)];

const SITE: &str = r#"
redirects = "redirects.txt"
security_headers = true
response_headers = { X-Site = "site", X-Both = "site", X-Echo = "{method} {path}{query} {header.x-in}", Vary = { add = "X-In" } }
request_headers = { X-Added = "{host}{path}", Remote-User = false }
error_pages = { folder = "errors", 404 = "/pages/missing.html", 504 = { file = "slow.html" } }
body_bytes = "1k"

[[site.route]]
path = "/pages/*"
files = "pages"

[[site.route]]
path = "/fixed"
respond = { body = "fixed", headers = { X-Both = "own" } }
response_headers = { X-Both = "route", X-Route = "{path}" }

[[site.route]]
path = "/forbidden"
respond = 403

[[site.route]]
path = "/moved/*"
redirect = { to = "/pages/{rest}{query}", status = 301 }

[[site.route]]
path = "/late"
delay = { time = "10m" }
request_timeout = "10ms"

[[site.route]]
path = 'regex:^/user/([0-9]+)(?<below>/.*)?$'
rewrite = "/app/user?id={1}&more={below}"

[[site.route]]
path = "/own/*"
fastcgi = { address = "APP" }

[[site.route]]
path = "/app/*"
fastcgi = { address = "APP" }
intercept_errors = true

[[site.route]]
path = "/proxied/*"
proxy = "UPSTREAM"
intercept_errors = true

[[site.route]]
path = "/item/*"
rewrite = "/proxied/item?id={rest}{query}"

[[site.route]]
path = "/down"
fastcgi = { address = "127.0.0.1:1" }
"#;

/// The site with its app. Both listeners speak HTTP/1.1 and HTTP/2.
struct Site {
    curl: Curl,
    server: Server,
    certificates: Certificates,
    _app: App,
    _upstream: Upstream,
    _folder: TempDir,
}

impl Site {
    /// Starts the site. `None` if the test is skipped.
    fn start() -> Option<Self> {
        let (curl, certificates) = (Curl::find()?, Certificates::new()?);
        certificates.signed("a", "a.test", Valid::Now);
        let (folder, app, upstream) = (folder(), app(), upstream());
        let path = certificates.path("a");
        let text = format!(
            "listen = ['127.0.0.1:0,h2c', '127.0.0.1:0,tls']\n[[site]]\nhosts = 'a.test'\n\
             tls = {{ certificate = '{path}', key = '{}' }}\n{}",
            path.replace(".pem", ".key"),
            SITE.replace("APP", &app.address()).replace("UPSTREAM", &upstream.url())
        );
        fs::write(folder.path().join("rudy.toml"), text).expect("a temp folder can be written");
        let server = Server::build().arg("--config").arg(folder.path().join("rudy.toml")).start();
        Some(Self { curl, server, certificates, _app: app, _upstream: upstream, _folder: folder })
    }

    /// Sends a request with these arguments of curl, the last of which is the target.
    fn request(&self, (version, is_tls): (&str, bool), arguments: &[&str]) -> CurlResult {
        let (target, options) = arguments.split_last().expect("a target");
        let scheme = if is_tls { "https" } else { "http" };
        let url = &self.server.addresses()[usize::from(is_tls)];
        let port = url.trim_end_matches('/').rsplit(':').next().expect("a port");
        let resolve = format!("a.test:{port}:127.0.0.1");
        let (authority, url) =
            (self.certificates.path("authority"), format!("{scheme}://a.test:{port}{target}"));
        let fixed = ["--path-as-is", "--cacert", &authority, "--resolve", &resolve, version, &url];
        self.curl.run([&fixed[..], options].concat())
    }
}

fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a temp folder can be created");
    for (name, text) in [
        ("pages/a.txt", "a file"),
        ("pages/missing.html", "<p>not here"),
        ("errors/403.html", "<p>not for you"),
        ("errors/error.html.j2", "<p>{{ status }} {{ reason }} at {{ host }}{{ path }}"),
        ("slow.html", "<p>too slow"),
        ("redirects.txt", "/old.html /pages/a.txt\n/caf%C3%A9 https://example.org/?x 302 # moved\n"),
    ] {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a name in a folder")).expect("a temp folder can be written");
        fs::write(&path, text).expect("a temp folder can be written");
        // The ETag of a file that has just changed is weak, and becomes strong a moment later.
        let file = File::options().write(true).open(path).expect("it was written");
        file.set_modified(SystemTime::now() - Duration::from_hours(1)).expect("the file is ours");
    }
    folder
}

/// An app that fails if the path says so, and else responds with variables of the request.
fn app() -> App {
    App::start(|mut peer| {
        while let Some(params) = peer.request() {
            let Some(length) = peer.body() else { return };
            let response = match variable(&params, "PATH_INFO") {
                "/missing" => {
                    "Status: 404\r\nContent-Type: text/plain\r\nContent-Length: 13\r\nETag: \"x\"\r\n\
                     X-App: app\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\nthe app's 404"
                }
                "/broken" => "Status: 500\r\nContent-Encoding: br\r\nX-Both: app\r\n\r\nnot brotli",
                "/die" => return,
                _ => &format!(
                    "Content-Type: text/plain\r\nX-Both: app\r\n\r\nuri={} query={} added={} user={:?} body={length}",
                    variable(&params, "REQUEST_URI"),
                    variable(&params, "QUERY_STRING"),
                    variable(&params, "HTTP_X_ADDED"),
                    params.get("HTTP_REMOTE_USER"),
                ),
            };
            peer.respond(response.as_bytes());
        }
    })
}

/// An upstream that responds with 404 if the path says so, and else with parts of the request.
fn upstream() -> Upstream {
    Upstream::start(|peer| {
        while let Some(request) = peer.request() {
            if request.target().starts_with("/proxied/missing") {
                let head =
                    "HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\nETag: \"x\"\r\nX-App: upstream\r\n\r\n";
                // A response to HEAD has no body.
                peer.send(format!("{head}{}", if request.head.starts_with("HEAD") { "" } else { "there" }));
                continue;
            }
            let (target, [added, user]) =
                (request.target(), ["x-added", "remote-user"].map(|name| request.field(name)));
            peer.respond(&format!("{target} added={added:?} user={user:?} body={}", request.body.len()));
        }
    })
}

/// Fields of the response, and their values; an empty value is a missing field.
type Fields = &'static [(&'static str, &'static str)];

/// The arguments of curl, the status, some fields, and the body, or its beginning if it ends in `...`.
const REQUESTS: &[(&[&str], u64, Fields, &str)] = &[
    (
        &["-H", "X-In: 1", "/pages/a.txt?b=c"],
        200,
        &[
            ("x-site", "site"),
            ("x-both", "site"),
            ("x-echo", "GET /pages/a.txt?b=c 1"),
            ("x-frame-options", "SAMEORIGIN"),
            ("x-content-type-options", "nosniff"),
        ],
        "a file",
    ),
    (&["-r", "2-", "/pages/a.txt"], 206, &[("x-site", "site"), ("content-range", "bytes 2-5/6")], "file"),
    (&["-H", "If-None-Match: *", "/pages/a.txt"], 304, &[("x-site", "site")], ""),
    (&["--head", "/pages/a.txt"], 200, &[("x-site", "site"), ("content-length", "6")], ""),
    (
        &["-X", "DELETE", "/pages/a.txt"],
        405,
        &[("allow", "GET, HEAD, OPTIONS"), ("x-site", "site")],
        "<p>405 Method...",
    ),
    (&["/pages/none"], 404, &[("etag", ""), ("last-modified", ""), ("x-site", "site")], "<p>not here"),
    (&["--head", "/pages/none"], 404, &[("content-length", "11"), ("x-site", "site")], ""),
    (
        &["-H", "Accept: application/json", "/forbidden"],
        403,
        &[("content-type", "application/problem+json")],
        "{...",
    ),
    (&["/fixed"], 200, &[("x-both", "route"), ("x-route", "/fixed"), ("vary", "X-In")], "fixed"),
    (
        &["/forbidden"],
        403,
        &[("content-type", "text/html; charset=utf-8"), ("x-site", "site")],
        "<p>not for you",
    ),
    (&["--head", "/forbidden"], 403, &[("content-length", "14")], ""),
    (&["/moved/a.txt?x"], 301, &[("location", "/pages/a.txt?x"), ("x-site", "site")], "301..."),
    (&["/old.html?x"], 301, &[("location", "/pages/a.txt?x"), ("x-site", "site")], "301..."),
    (&["/caf%c3%a9"], 302, &[("location", "https://example.org/?x"), ("x-site", "site")], "302..."),
    (&["/late"], 504, &[("x-site", "site"), ("content-length", "11")], "<p>too slow"),
    (&["/none"], 404, &[("x-site", "site"), ("x-echo", "GET /none")], "<p>not here"),
    (&["/.."], 400, &[("x-site", "site")], "<p>400 Bad Request at a.test..."),
    (&["/down"], 502, &[("x-site", "site"), ("retry-after", "")], "<p>502 Bad Gateway at a.test..."),
    (
        &["-H", "Remote-User: root", "-H", "REMOTE_USER: root", "-H", "X-Added: mine", "/own/x?y"],
        200,
        &[("x-both", "site"), ("x-echo", "GET /own/x?y")],
        "uri=/own/x?y query=y added=a.test/own/x user=None body=0",
    ),
    (&["-d", "0123456789", "/app/x"], 200, &[], "uri=/app/x query= added=a.test/app/x user=None body=10"),
    (
        &["/user/12/caf%C3%A9?z"],
        200,
        &[("x-echo", "GET /app/user?id=12&more=/caf%C3%A9")],
        "uri=/user/12/caf%C3%A9?z query=id=12&more=/caf%C3%A9 added=a.test/app/user user=None body=0",
    ),
    (&["/own/missing"], 404, &[("x-app", "app"), ("etag", "\"x\"")], "the app's 404"),
    (
        &["/app/missing"],
        404,
        &[
            ("x-app", "app"),
            ("etag", ""),
            ("content-length", "11"),
            ("x-site", "site"),
            ("set-cookie", "b=2"),
        ],
        "<p>not here",
    ),
    (&["--head", "/app/missing"], 404, &[("content-length", "11"), ("x-app", "app")], ""),
    (
        &["/app/broken"],
        500,
        &[("x-both", "site"), ("content-encoding", ""), ("content-type", "text/html; charset=utf-8")],
        "<p>500 Internal Server Error at a.test/app/broken",
    ),
    (
        &["-H", "Remote-User: root", "-d", "0123456789", "/proxied/x?y"],
        200,
        &[("x-both", "site"), ("x-echo", "POST /proxied/x?y")],
        "/proxied/x?y added=Some(\"a.test/proxied/x\") user=None body=10",
    ),
    (
        &["/item/a&b?z"],
        200,
        &[("x-site", "site")],
        "/proxied/item?id=a%26b&z added=Some(\"a.test/proxied/item\") user=None body=0",
    ),
    (&["/proxied/missing"], 404, &[("etag", ""), ("x-app", "upstream"), ("x-site", "site")], "<p>not here"),
    (&["--head", "/proxied/missing"], 404, &[("content-length", "11"), ("x-app", "upstream")], ""),
    (&["/own/die"], 502, &[("x-site", "site")], "<p>502 Bad Gateway at a.test/own/die"),
];

#[test]
fn every_step_does_the_same_for_every_handler_over_every_protocol() {
    let Some(site) = Site::start() else { return };
    for (arguments, status, fields, body) in REQUESTS {
        let mut first = None;
        for protocol in PROTOCOLS {
            let result = site.request(protocol, arguments);
            let text = String::from_utf8_lossy(&result.body).into_owned();
            let place = format!("{protocol:?} {arguments:?}\n{}{text}", result.heads);
            assert_eq!(result.status(), *status, "{place}");
            for (name, value) in *fields {
                assert_eq!(result.field(name).unwrap_or_default(), *value, "{name}: {place}");
            }
            // With `--head`, curl prints the head as the body.
            if !arguments.contains(&"--head") {
                let is_expected =
                    body.strip_suffix("...").map_or(text == *body, |begin| text.starts_with(begin));
                assert!(is_expected, "expected {body:?}: {place}");
            }
            let message = (
                fields_of_message(&result),
                if arguments.contains(&"--head") { "" } else { &text }.to_owned(),
            );
            assert_eq!(*first.get_or_insert_with(|| message.clone()), message, "{place}");
        }
    }
}

/// The fields that neither depend on the time nor belong to the connection.
fn fields_of_message(result: &CurlResult) -> Vec<String> {
    let of_connection = ["date:", "connection:", "keep-alive:", "transfer-encoding:"];
    let lines = result.heads.lines().skip(1).map(str::to_ascii_lowercase);
    let mut fields: Vec<_> =
        lines.filter(|line| !of_connection.iter().any(|name| line.starts_with(name))).collect();
    fields.sort();
    fields
}
