//! Generated requests through nginx and through Rudy, to an upstream that records what it receives. Every difference has an explanation.

mod explained;
mod generate;

use rudy_tests::prelude::*;

use self::explained::EXPLANATIONS;
use self::generate::{Generated, NUMBER};
use crate::fastcgi_app::web_server::WebServer;

/// How many requests are compared: the first thousands meet each explanation.
const REQUESTS: usize = 2_500;

/// How many the long checks compare.
const REQUESTS_LONG: usize = 10_000;

/// The seed. Other seeds find the same differences.
const SEED: u64 = 20_240_601;

/// How many unexplained differences are printed.
const PRINTED_MAX: usize = 20;

/// A part of what the client and the upstream get.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// The status that the client gets.
    Status,
    /// The request line.
    Line,
    /// A field: its values are joined.
    Field(String),
    Body,
    Trailers,
}

/// A part that differs.
#[derive(Debug)]
struct Difference {
    part: Part,
    /// Nothing if it is missing.
    nginx: String,
    rudy: String,
}

/// The requests that the upstream has received, by number.
type Recorded = Arc<Mutex<HashMap<String, UpstreamRequest>>>;

/// A proxy with a connection to it.
struct Proxy {
    address: SocketAddr,
    connection: Option<Connection>,
    recorded: Recorded,
}

impl Proxy {
    fn new(address: SocketAddr, recorded: &Recorded) -> Self {
        Self { address, connection: None, recorded: recorded.clone() }
    }

    /// Sends a request, and returns the parts of what comes of it.
    fn send(&mut self, request: &Generated) -> BTreeMap<Part, String> {
        let mut connection = self.connection.take().unwrap_or_else(|| Connection::open(self.address));
        connection.send(request.encode().as_bytes());
        let response =
            if request.method == "HEAD" { connection.head_response() } else { connection.response() };
        let is_last = response.field("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        if !is_last && request.version == "1.1" {
            self.connection = Some(connection);
        }
        let mut parts = BTreeMap::from([(Part::Status, response.status.to_string())]);
        let received = self.recorded.lock().expect("no panic").remove(&request.number.to_string());
        if let Some(received) = received {
            add_parts(&received, &mut parts);
        }
        parts
    }
}

fn add_parts(received: &UpstreamRequest, parts: &mut BTreeMap<Part, String>) {
    let mut lines = received.head.lines();
    parts.insert(Part::Line, lines.next().unwrap_or_default().to_owned());
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let values = parts.entry(Part::Field(name.to_ascii_lowercase())).or_default();
        // An empty value differs from none.
        values.push_str(if values.is_empty() { "" } else { ", " });
        values.push_str(if value.trim().is_empty() { "(empty)" } else { value.trim() });
    }
    parts.insert(Part::Body, String::from_utf8_lossy(&received.body).into_owned());
    parts.insert(Part::Trailers, received.trailers.to_ascii_lowercase());
}

/// Returns the parts that differ: only the status if that does.
fn differences(nginx: &BTreeMap<Part, String>, rudy: &BTreeMap<Part, String>) -> Vec<Difference> {
    let mut parts: BTreeSet<_> = nginx.keys().chain(rudy.keys()).collect();
    if nginx[&Part::Status] != rudy[&Part::Status] {
        parts.retain(|part| **part == Part::Status);
    }
    let difference = |part: &Part| {
        let [nginx, rudy] = [nginx, rudy].map(|parts| parts.get(part).cloned().unwrap_or_default());
        Difference { part: part.clone(), nginx, rudy }
    };
    parts.into_iter().map(difference).filter(|difference| difference.nginx != difference.rudy).collect()
}

fn upstream(recorded: &Recorded) -> Upstream {
    let recorded = recorded.clone();
    Upstream::serve(move |peer, request| {
        let body = if request.head.starts_with("HEAD ") { "" } else { "ok" };
        let number = request.field(NUMBER).unwrap_or_default().to_owned();
        recorded.lock().expect("no panic").insert(number, request);
        peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{body}"));
    })
}

/// Starts nginx with the fields that its documentation recommends, which Rudy sets by default.
fn nginx(upstream: &Upstream) -> Option<WebServer> {
    let upstream = upstream.address();
    WebServer::nginx_with(|address| {
        format!(
            r#"upstream application {{ server {upstream}; keepalive 8; }}
            server {{
                listen {address};
                location / {{
                    proxy_pass http://application; proxy_http_version 1.1; proxy_set_header Connection "";
                    proxy_set_header Host $http_host; proxy_set_header X-Forwarded-Host $http_host;
                    proxy_set_header X-Forwarded-Proto $scheme;
                    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
                }}
            }}"#
        )
    })
}

#[test]
fn requests_reach_an_upstream_as_through_nginx_or_the_difference_is_explained() {
    let recorded = Recorded::default();
    let upstream = upstream(&recorded);
    let Some(of_nginx) = nginx(&upstream) else { return };
    let server = Server::config(&format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\n[[site.route]]\npath = \"/*\"\nproxy = \"{upstream}\"\n"
    ));
    let mut proxies = [of_nginx.address(), server.address()].map(|address| Proxy::new(address, &recorded));
    let mut random = Random::new(SEED);
    let (mut uses, mut unexplained) = (vec![0; EXPLANATIONS.len()], Vec::new());
    for number in 0..if is_long() { REQUESTS_LONG } else { REQUESTS } {
        let request = Generated::new(number, &mut random);
        let [nginx, rudy] = proxies.each_mut().map(|proxy| proxy.send(&request));
        for difference in differences(&nginx, &rudy) {
            let applies = EXPLANATIONS.iter().position(|known| (known.applies)(&request, &difference));
            match applies {
                Some(index) => uses[index] += 1,
                None => unexplained.push(format!("{difference:?}\n{:?}", request.encode())),
            }
        }
    }
    let printed = unexplained.iter().take(PRINTED_MAX).cloned().collect::<Vec<_>>().join("\n\n");
    assert!(unexplained.is_empty(), "{} differences, such as:\n{printed}", unexplained.len());
    for (known, uses) in EXPLANATIONS.iter().zip(uses) {
        assert!(uses > 0, "this does not occur: {}", known.reason);
        println!("{uses:>6}  {}", known.reason);
    }
}
