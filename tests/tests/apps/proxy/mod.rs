//! The reverse proxy in front of a scripted upstream.

mod admin;
mod choice;
mod details;
mod ejection;
mod faults;
mod forwarding;
mod health;
mod http11_required;
mod http2;
mod http2_faults;
mod http2_websocket;
mod instructions;
mod proxy_protocol;
mod replacement;
mod resolver;
mod retries;
mod streaming;
mod tls;
mod too_early;
mod tunnels;
mod websocket;
mod workers;

use rudy_tests::prelude::*;

/// Starts a server whose requests go to the upstream, with more keys for its table.
fn proxy(upstream: &Upstream, more: &str) -> Server {
    proxy_with(upstream, "", more)
}

/// Starts a server whose requests go to the upstream with this URL. All its connections have one worker, so that they share
/// connections to the upstream.
fn proxy_http2(url: &str, more: &str) -> Server {
    Server::config(&format!(
        "listen = [\"127.0.0.1:0,h2c\"]\nengine = \"task\"\n[[site]]\n[[site.route]]\npath = \"/app/*\"\n\
         [site.route.proxy]\nupstreams = \"{url}\"\n{more}\n"
    ))
}

/// As [`proxy_http2`], for an upstream without TLS that speaks HTTP/2 only.
fn proxy_h2c(upstream: &Upstream, more: &str) -> Server {
    proxy_http2(&upstream.url().replace("http", "h2c"), more)
}

/// An upstream that responds with these bytes, and sends what it receives to a channel.
fn recorder(response: impl Into<Vec<u8>>) -> (Upstream, Receiver<UpstreamRequest>) {
    let (sender, requests) = mpsc::channel();
    let response = response.into();
    let upstream = Upstream::serve(move |peer, request| {
        peer.send(&response);
        sender.send(request).expect("the test runs");
    });
    (upstream, requests)
}

const FINE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine";

/// An upstream that speaks HTTP/2 without TLS, and calls `respond` for each stream.
fn h2c_upstream(respond: impl Fn(&mut Http2Connection, u32) + Send + Sync + 'static) -> Upstream {
    Upstream::start(move |peer| {
        let Some(mut connection) = peer.http2(&[]) else { return };
        while let Some((stream, _)) = connection.next_request() {
            respond(&mut connection, stream);
        }
    })
}

/// Checks that a response is an error of the proxy.
#[track_caller]
fn assert_error(response: &Response, status: u16, kind: &str) {
    let error = format!("rudy; error={kind}");
    assert_eq!((response.status, response.field("proxy-status")), (status, Some(&*error)));
}

/// The number of responses of each upstream to `requests` requests, each on a connection of its own.
fn counts(server: &Server, requests: usize) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for _ in 0..requests {
        *counts.entry(server.get("/a").text().to_owned()).or_default() += 1;
    }
    counts
}

/// Like [`proxy`], with more keys at the top of the configuration.
fn proxy_with(upstream: &Upstream, top: &str, more: &str) -> Server {
    Server::config(&format!(
        "listen = [\"127.0.0.1:0,h2c\"]\n{top}\n[[site]]\n[[site.route]]\npath = \"/app/*\"\n\
         [site.route.proxy]\nupstreams = \"{upstream}\"\n{more}\n"
    ))
}

/// Starts a server whose requests go to these upstreams, the elements of a list, with more keys for its table.
fn proxy_to_all(upstreams: &str, more: &str) -> Server {
    Server::config(&format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\n[[site.route]]\npath = \"/*\"\n\
         [site.route.proxy]\nupstreams = [{upstreams}]\n{more}\n"
    ))
}
