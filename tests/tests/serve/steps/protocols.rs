//! One site and one table of requests, over HTTP/1.1 and HTTP/2, with and without TLS.

use rudy_tests::prelude::*;

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
path = "/fixed"
respond = { body = "fixed", headers = { X-Both = "own" } }
response_headers = { X-Both = "route", X-Route = "{path}" }
"#;

/// The other routes.
const ROUTES: [(&str, &str); 10] = [
    ("/pages/*", "files = 'pages'"),
    ("/forbidden", "respond = 403"),
    ("/moved/*", "redirect = { to = '/pages/{rest}{query}', status = 301 }"),
    ("/late", "delay = { time = '10m' }\nrequest_timeout = '10ms'"),
    ("regex:^/user/([0-9]+)(?<below>/.*)?$", "rewrite = '/app/user?id={1}&more={below}'"),
    ("/own/*", "fastcgi = { address = 'APP' }"),
    ("/app/*", "fastcgi = { address = 'APP' }\nintercept_errors = true"),
    ("/proxied/*", "proxy = 'UPSTREAM'\nintercept_errors = true"),
    ("/item/*", "rewrite = '/proxied/item?id={rest}{query}'"),
    ("/down", "fastcgi = { address = '127.0.0.1:1' }"),
];

/// The site with its app. Both listeners speak HTTP/1.1 and HTTP/2.
struct Site {
    curl: Curl,
    server: Server,
    certificates: Certificates,
    _app: App,
    _upstream: Upstream,
}

impl Site {
    /// Starts the site. `None` if the test is skipped.
    fn start() -> Option<Self> {
        let (curl, certificates) = (Curl::find()?, Certificates::for_host("a", "a.test")?);
        let (folder, app, upstream) = (folder(), app(), upstream());
        let tls = certificates.settings("a");
        let routes = ROUTES.map(|(path, handler)| format!("[[site.route]]\npath = '{path}'\n{handler}\n"));
        let text = routes.concat().replace("APP", &app.address()).replace("UPSTREAM", &upstream.url());
        let site = format!("[[site]]\nhosts = 'a.test'\ntls = {{ {tls} }}\n{SITE}{text}");
        folder.write("rudy.toml", format!("listen = ['127.0.0.1:0,h2c', '127.0.0.1:0,tls']\n{site}"));
        let server = Server::build().config_of(folder).start();
        Some(Self { curl, server, certificates, _app: app, _upstream: upstream })
    }

    /// Sends a request.
    fn request(&self, (version, is_tls): (&str, bool), exchange: &Exchange) -> CurlResult {
        let mut words = exchange.request.split(' ');
        let [method, target] = [(); 2].map(|()| words.next().expect("a method and a target"));
        let scheme = if is_tls { "https" } else { "http" };
        let port = self.server.address_of(usize::from(is_tls)).port();
        let resolve = format!("a.test:{port}:127.0.0.1");
        let (authority, url) =
            (self.certificates.path("authority"), format!("{scheme}://a.test:{port}{target}"));
        let mut arguments =
            vec!["--path-as-is", "--cacert", &authority, "--resolve", &resolve, version, &url];
        arguments.extend(if method == "HEAD" { vec!["--head"] } else { vec!["-X", method] });
        arguments.extend(exchange.request_fields.iter().flat_map(|field| ["-H", field]));
        arguments.extend(words.flat_map(|body| ["-d", body]));
        self.curl.run(arguments)
    }
}

fn folder() -> Folder {
    let folder = Folder::new();
    for (name, text) in [
        ("pages/a.txt", "a file"),
        ("pages/missing.html", "<p>not here"),
        ("errors/403.html", "<p>not for you"),
        ("errors/error.html.j2", "<p>{{ status }} {{ reason }} at {{ host }}{{ path }}"),
        ("slow.html", "<p>too slow"),
        ("redirects.txt", "/old.html /pages/a.txt\n/caf%C3%A9 https://example.org/?x 302 # moved\n"),
    ] {
        folder.write(name, text);
        // The ETag of a file that has just changed is weak, and becomes strong a moment later.
        let file = File::options().write(true).open(folder.join(name)).expect("it was written");
        file.set_modified(SystemTime::now() - Duration::from_hours(1)).expect("the file is ours");
    }
    folder
}

/// An app that fails if the path says so, and else responds with variables of the request.
fn app() -> App {
    App::serve(|peer, params| {
        let Some(length) = peer.body() else { return };
        let response = match variable(&params, "PATH_INFO") {
            "/missing" => {
                "Status: 404\r\nContent-Type: text/plain\r\nContent-Length: 13\r\nETag: \"x\"\r\n\
                 X-App: app\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\nthe app's 404"
            }
            "/broken" => "Status: 500\r\nContent-Encoding: br\r\nX-Both: app\r\n\r\nnot brotli",
            "/die" => return peer.close(),
            _ => {
                let names = ["REQUEST_URI", "QUERY_STRING", "HTTP_X_ADDED"];
                let [uri, query, added] = names.map(|name| variable(&params, name));
                let user = params.get("HTTP_REMOTE_USER");
                &format!(
                    "Content-Type: text/plain\r\nX-Both: app\r\n\r\n\
                     uri={uri} query={query} added={added} user={user:?} body={length}"
                )
            }
        };
        peer.respond(response.as_bytes());
    })
}

/// An upstream that responds with 404 if the path says so, and else with parts of the request.
fn upstream() -> Upstream {
    Upstream::serve(|peer, request| {
        let target = request.target();
        if target.starts_with("/proxied/missing") {
            let head =
                "HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\nETag: \"x\"\r\nX-App: upstream\r\n\r\n";
            // A response to HEAD has no body.
            return peer
                .send(format!("{head}{}", if request.head.starts_with("HEAD") { "" } else { "there" }));
        }
        let [added, user] = ["x-added", "remote-user"].map(|name| request.field(name));
        peer.respond(&format!("{target} added={added:?} user={user:?} body={}", request.body.len()));
    })
}

/// The method, the target and the body. Of several fields of a name, the last one counts.
const REQUESTS: &str = r#"
GET /pages/a.txt?b=c | X-In: 1
    => 200 a file | x-site: site | x-both: site | x-echo: GET /pages/a.txt?b=c 1 | x-frame-options: SAMEORIGIN | x-content-type-options: nosniff
GET /pages/a.txt | Range: bytes=2- => 206 file | x-site: site | content-range: bytes 2-5/6
GET /pages/a.txt | If-None-Match: * => 304 | x-site: site
HEAD /pages/a.txt => 200 | x-site: site | content-length: 6
DELETE /pages/a.txt => 405 <p>405 Method... | allow: GET, HEAD, OPTIONS | x-site: site
GET /pages/none => 404 <p>not here | etag: | last-modified: | x-site: site
HEAD /pages/none => 404 | content-length: 11 | x-site: site
GET /forbidden | Accept: application/json => 403 {... | content-type: application/problem+json
GET /fixed => 200 fixed | x-both: route | x-route: /fixed | vary: X-In
GET /forbidden => 403 <p>not for you | content-type: text/html; charset=utf-8 | x-site: site
HEAD /forbidden => 403 | content-length: 14
GET /moved/a.txt?x => 301 301... | location: /pages/a.txt?x | x-site: site
GET /old.html?x => 301 301... | location: /pages/a.txt?x | x-site: site
GET /caf%c3%a9 => 302 302... | location: https://example.org/?x | x-site: site
GET /late => 504 <p>too slow | x-site: site | content-length: 11
GET /none => 404 <p>not here | x-site: site | x-echo: GET /none
GET /.. => 400 <p>400 Bad Request at a.test... | x-site: site
GET /down => 502 <p>502 Bad Gateway at a.test... | x-site: site | retry-after:
GET /own/x?y | Remote-User: root | REMOTE_USER: root | X-Added: mine
    => 200 uri=/own/x?y query=y added=a.test/own/x user=None body=0 | x-both: site | x-echo: GET /own/x?y
POST /app/x 0123456789 => 200 uri=/app/x query= added=a.test/app/x user=None body=10
GET /user/12/caf%C3%A9?z
    => 200 uri=/user/12/caf%C3%A9?z query=id=12&more=/caf%C3%A9 added=a.test/app/user user=None body=0 | x-echo: GET /app/user?id=12&more=/caf%C3%A9
GET /own/missing => 404 the app's 404 | x-app: app | etag: "x"
GET /app/missing => 404 <p>not here | x-app: app | etag: | content-length: 11 | x-site: site | set-cookie: b=2
HEAD /app/missing => 404 | content-length: 11 | x-app: app
GET /app/broken
    => 500 <p>500 Internal Server Error at a.test/app/broken | x-both: site | content-encoding: | content-type: text/html; charset=utf-8
POST /proxied/x?y 0123456789 | Remote-User: root
    => 200 /proxied/x?y added=Some("a.test/proxied/x") user=None body=10 | x-both: site | x-echo: POST /proxied/x?y
GET /item/a&b?z
    => 200 /proxied/item?id=a%26b&z added=Some("a.test/proxied/item") user=None body=0 | x-site: site
GET /proxied/missing => 404 <p>not here | etag: | x-app: upstream | x-site: site
HEAD /proxied/missing => 404 | content-length: 11 | x-app: upstream
GET /own/die => 502 <p>502 Bad Gateway at a.test/own/die | x-site: site
"#;

#[test]
fn every_step_does_the_same_for_every_handler_over_every_protocol() {
    let Some(site) = Site::start() else { return };
    for exchange in Exchange::table(REQUESTS) {
        let (mut first, is_head) = (None, exchange.request.starts_with("HEAD "));
        for protocol in PROTOCOLS {
            let result = site.request(protocol, &exchange);
            let text = String::from_utf8_lossy(&result.body).into_owned();
            let place = format!("{protocol:?} {}\n{}{text}", exchange.line, result.heads);
            assert_eq!(result.status(), u64::from(exchange.status), "{place}");
            for (name, value) in &exchange.fields {
                assert_eq!(result.field(name).unwrap_or_default(), *value, "{name}: {place}");
            }
            // With `--head`, curl prints the head as the body.
            assert!(is_head || exchange.has_body(&text), "{place}");
            let message = (fields_of_message(&result), if is_head { "" } else { &text }.to_owned());
            assert_eq!(*first.get_or_insert_with(|| message.clone()), message, "{place}");
        }
    }
}

/// The fields that neither depend on the time nor belong to the connection.
fn fields_of_message(result: &CurlResult) -> Vec<String> {
    let of_connection = ["date:", "alt-svc:", "connection:", "keep-alive:", "transfer-encoding:"];
    let lines = result.heads.lines().skip(1).map(str::to_ascii_lowercase);
    let mut fields: Vec<_> =
        lines.filter(|line| !of_connection.iter().any(|name| line.starts_with(name))).collect();
    fields.sort();
    fields
}
