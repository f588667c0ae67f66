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
mod proxy_protocol;
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

/// Like [`proxy`], with more keys at the top of the configuration.
fn proxy_with(upstream: &Upstream, top: &str, more: &str) -> Server {
    Server::config(&format!(
        "listen = [\"127.0.0.1:0,h2c\"]\n{top}\n[[site]]\n[[site.route]]\npath = \"/app/*\"\n\
         [site.route.proxy]\nupstreams = \"{}\"\n{more}\n",
        upstream.url()
    ))
}

/// Starts a server whose requests go to these upstreams, the elements of a list, with more keys for its table.
fn proxy_to_all(upstreams: &str, more: &str) -> Server {
    Server::config(&format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\n[[site.route]]\npath = \"/*\"\n\
         [site.route.proxy]\nupstreams = [{upstreams}]\n{more}\n"
    ))
}
