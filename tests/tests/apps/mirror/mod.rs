//! Mirrors of package repositories, in front of a small local origin of each kind.

mod faults;
mod forms;
mod links;
mod presets;
mod verify;
mod versions;

use rudy_tests::prelude::*;

/// A repository, and the requests that it has received.
struct Origin {
    upstream: Upstream,
    requests: Arc<Mutex<Vec<UpstreamRequest>>>,
}

impl Origin {
    /// Starts a repository that sends these messages, and closes the connection after one with `Connection: close`.
    fn start(respond: impl Fn(&UpstreamRequest) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let requests: Arc<Mutex<Vec<UpstreamRequest>>> = Arc::default();
        let seen = requests.clone();
        let upstream = Upstream::start(move |peer| {
            while let Some(request) = peer.request() {
                seen.lock().expect("no test fails").push(request.clone());
                let message = respond(&request);
                let closes = String::from_utf8_lossy(&message).contains("Connection: close");
                peer.send(message);
                if closes {
                    return;
                }
            }
        });
        Self { upstream, requests }
    }

    /// Starts a repository with these files: their paths and contents. Each has an entity tag, which it validates.
    fn with_files(files: Vec<(&'static str, &'static str, String)>) -> Self {
        Self::start(move |request| {
            let file = files.iter().find(|(path, ..)| *path == request.target());
            let Some((_, media_type, content)) = file else { return message("404 Not Found", "", "missing") };
            let tag = format!("ETag: \"{}\"\r\nContent-Type: {media_type}\r\n", content.len());
            if request.field("if-none-match").is_some_and(|given| tag.contains(given)) {
                return format!("HTTP/1.1 304 Not Modified\r\n{tag}\r\n").into_bytes();
            }
            message("200 OK", &tag, content)
        })
    }

    fn count(&self) -> usize {
        self.requests.lock().expect("no test fails").len()
    }

    /// The last request.
    fn last(&self) -> UpstreamRequest {
        self.requests.lock().expect("no test fails").last().cloned().unwrap_or_default()
    }
}

fn message(status: &str, fields: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// The folder of a configuration, of its cache and of the state of its servers.
struct Mirror(Folder);

impl Mirror {
    /// Creates a folder for a server with the mirror `table` for all paths.
    fn new(table: &str) -> Self {
        Self::with_route(&format!("path = \"/*\"\nmirror = {table}\n"))
    }

    /// Creates a folder for a server with a mirror of this repository, and starts the server.
    fn of(origin: &Origin, preset: &str) -> (Self, Server) {
        Self::with_keys(origin, preset, "")
    }

    /// As [`Self::of`], with more keys of the table.
    fn with_keys(origin: &Origin, preset: &str, more: &str) -> (Self, Server) {
        let mirror = Self::new(&format!("{{ url = \"{}\", preset = \"{preset}\"{more} }}", origin.upstream));
        let server = mirror.serve();
        (mirror, server)
    }

    fn with_route(route: &str) -> Self {
        let site = format!("[[site]]\n[[site.route]]\n{route}");
        let config = format!("listen = \"127.0.0.1:0,h2c\"\n[cache]\npath = \"cache\"\n{site}");
        Self(Folder::with(&[("rudy.toml", config)]))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Starts a server; an earlier one must have stopped.
    fn serve(&self) -> Server {
        let server = Server::build().arg("--config").arg(self.path().join("rudy.toml"));
        server.env("STATE_DIRECTORY", self.path()).start()
    }
}

fn get(server: &Server, target: &str, fields: &[&str]) -> Response {
    request(server, "GET", target, fields)
}

fn request(server: &Server, method: &str, target: &str, fields: &[&str]) -> Response {
    server.request(method, target, &[&[&*format!("Host: {}", server.address())], fields].concat())
}

/// Requests a file until it is stored.
fn get_stored(server: &Server, target: &str) -> Response {
    get_until(server, target, &[], "; hit")
}

/// Sends a GET until this is in the field `Cache-Status` of the response.
fn get_until(server: &Server, target: &str, fields: &[&str], part: &str) -> Response {
    eventually(part, || {
        let response = get(server, target, fields);
        response.field("cache-status").is_some_and(|status| status.contains(part)).then_some(response)
    })
}

/// The path of a URL of the server.
fn path_of<'u>(server: &Server, url: &'u str) -> &'u str {
    let root = format!("http://{}", server.address());
    url.strip_prefix(&root).unwrap_or_else(|| panic!("{url} is not on the mirror {root}"))
}
