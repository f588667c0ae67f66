//! The response cache in front of a scripted origin.

mod admin;
mod app_purges;
mod collapsing;
mod conditions;
pub(crate) mod faults;
mod machine;
mod rules;
mod settings;
mod statuses;

use rudy_tests::prelude::*;

/// An origin, and the requests that it has received.
struct Origin {
    upstream: Upstream,
    requests: Arc<Mutex<Vec<UpstreamRequest>>>,
}

impl Origin {
    /// Starts an origin that responds with fields and a body: `Cache-Control: max-age=60|body`.
    fn start(respond: impl Fn(&UpstreamRequest, usize) -> String + Send + Sync + 'static) -> Self {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        let upstream = Upstream::serve(move |peer, request| {
            let mut seen = seen.lock().expect("no test fails");
            seen.push(request.clone());
            let number = seen.len();
            drop(seen);
            peer.send(message(&respond(&request, number)));
        });
        Self { upstream, requests }
    }

    /// The number of requests so far.
    fn count(&self) -> usize {
        self.requests.lock().expect("no test fails").len()
    }

    /// The value of a field in the last request.
    fn last(&self, field: &str) -> Option<String> {
        let requests = self.requests.lock().expect("no test fails");
        requests.last().and_then(|request| request.field(field)).map(str::to_owned)
    }
}

/// Encodes `STATUS FIELD: VALUE; FIELD: VALUE|BODY`; the status is 200 if it is missing. Fields are separated by line feeds.
fn message(text: &str) -> String {
    let (head, body) = text.split_once('|').unwrap_or((text, ""));
    let (status, fields) = match head.split_once(' ') {
        Some((status, fields)) if status.parse::<u16>().is_ok() => (status, fields),
        _ => ("200", head),
    };
    let fields = fields.split('\n').filter(|line| !line.is_empty());
    let fields = fields.fold(String::new(), |lines, line| lines + line + "\r\n");
    let length = if status == "304" { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    format!("HTTP/1.1 {status} X\r\n{fields}{length}\r\n{body}")
}

/// A server with a cache in its own folder, and a proxy for all paths with more keys for its `cache`.
fn server(origin: &Upstream, cache: &str) -> Server {
    Server::config(&config(origin, cache))
}

fn config(origin: &Upstream, cache: &str) -> String {
    format!(
        "listen = [\"127.0.0.1:0\"]\n[cache]\npath = \"cache\"\n[[site]]\n[[site.route]]\npath = \"/*\"\n\
         proxy = \"{origin}\"\ncache = {cache}\n"
    )
}

/// Like [`config`], for a site with the host of the requests: `loopback` needs it.
fn config_with_host(origin: &Upstream, cache: &str) -> String {
    config(origin, cache).replace("[[site]]\n", "[[site]]\nhosts = \"a.example\"\n")
}

/// Like [`config`], with the cache in another folder, which several servers can use.
fn config_in(origin: &Upstream, cache: &str, folder: &Path) -> String {
    config(origin, cache).replace("path = \"cache\"", &format!("path = \"{}\"", folder.display()))
}

/// Sends a GET with fields.
fn get(server: &Server, target: &str, fields: &[&str]) -> Response {
    request(server, "GET", target, fields)
}

fn request(server: &Server, method: &str, target: &str, fields: &[&str]) -> Response {
    server.request(method, target, &[&["Host: a.example"], fields].concat())
}

/// Sends a GET, and does not wait for the response.
fn begin(server: &Server, target: &str, fields: &[&str]) -> Connection {
    begin_with(server, "GET", target, fields)
}

fn begin_with(server: &Server, method: &str, target: &str, fields: &[&str]) -> Connection {
    let fields = fields.iter().fold(String::new(), |lines, field| lines + field + "\r\n");
    server.send(format!("{method} {target} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n"))
}

/// Sends a GET until the response is a stored one.
fn hit(server: &Server, target: &str, fields: &[&str]) -> Response {
    eventually("it is stored", || {
        Some(get(server, target, fields)).filter(|response| handled(response) == "hit")
    })
}

/// Sends a GET for a stored response only, until there is one.
fn stored(server: &Server, target: &str) -> Response {
    eventually("it is stored", || {
        let response = get(server, target, &["Cache-Control: only-if-cached"]);
        Some(response).filter(|response| response.status == 200)
    })
}

/// How the cache has handled a request: `hit`, or `uri-miss` and the like.
fn handled(response: &Response) -> String {
    let status = response.field("cache-status").unwrap_or_else(|| panic!("no status: {}", response.head));
    let word = status.split("; ").nth(1).unwrap_or_default();
    word.strip_prefix("fwd=").unwrap_or(word).to_owned()
}

/// Upgrades a server. Returns the new process, which the test has to end.
fn upgrade(server: &mut Server) -> Pid {
    server.forget_lines();
    server.signal(Signal::USR2);
    let line = server.wait_for_line(" has replaced process ");
    let (before, _) = line.split_once(" has replaced process").expect("the loop found this text");
    before.rsplit(' ').next().and_then(|pid| Pid::from_raw(pid.parse().ok()?)).expect("a pid")
}
