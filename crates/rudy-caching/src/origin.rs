//! Calls the handler of a route again, after the step has returned.

use std::net::SocketAddr;

use http::uri::Scheme;
use rudy_pipeline::internal_redirect::copy_head;
use rudy_pipeline::{Call, Next, OwnedCall};
use rudy_service::{LocalAddress, Request, Response};
use rudy_system::file_access::Access;

/// What comes after the step: the handler of the route. It can be called several times, also without a client that waits.
pub struct Origin {
    call: OwnedCall,
    next: Next,
    /// The request of the client, without a body.
    pub head: Request<'static>,
}

impl Origin {
    /// Drops the body of the request, which is empty.
    pub fn new(request: Request<'_>, call: &Call<'_>, next: Next) -> Self {
        let mut call = OwnedCall::of(call);
        let client = &mut call.client;
        // An application may make the port a part of the response, which is for all listeners: its port is that of the URL.
        let port = url_port(request.host(), &client.scheme());
        let local = client.local_address.get().map(|local| SocketAddr::new(local.ip(), port));
        client.local_address = LocalAddress::known(local);
        Self { call, next, head: request.into_owned() }
    }

    /// Returns the request, to change and send it.
    pub fn request(&self) -> Request<'static> {
        copy_head(&self.head)
    }

    /// Sends a request.
    pub async fn send(&self, request: Request<'static>) -> Response {
        self.call.with(Access::Cached, |call| self.next.call(request, call)).response().await
    }
}

/// Returns the port of a URL with this host.
fn url_port(host: &[u8], scheme: &Scheme) -> u16 {
    let named = host.rsplit(|byte| *byte == b':').next().filter(|port| port.len() < host.len());
    let port = named.and_then(|port| std::str::from_utf8(port).ok()?.parse().ok());
    port.unwrap_or(if *scheme == Scheme::HTTPS { 443 } else { 80 })
}
