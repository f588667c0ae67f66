//! Connections that do not speak HTTP: each goes to an upstream as it is.
//!
//! The connections use the [pool](super::pool) of a proxy with the same upstreams, so they have its choice, its queue, its health checks and its
//! state for `rudy upstreams`. Between both connections is a [tunnel](super::tunnel), as after a change of protocol.

mod session;
mod table;

use std::io;
use std::sync::Arc;

use http::StatusCode;
use rudy_config::{Location, OneOrMany, Problem};
use rudy_pipeline::{AllowedClient, Call, Handler, Start, pages};
use rudy_service::{Client, Observer, Peer, Reply, Request, Upgrade, poll_time};

use self::session::{Report, Session};
pub use self::table::{TcpHealthCheckTable, TcpProxyTable, TcpUpstreamTable};
use super::tunnel::TunnelLimits;
use super::{Proxy, preamble};

/// Passes connections to upstreams.
#[derive(Debug)]
pub struct TcpProxy {
    proxy: Proxy,
    allow: Option<OneOrMany<AllowedClient>>,
    deny: Option<OneOrMany<AllowedClient>>,
    limits: TunnelLimits,
}

impl TcpProxy {
    /// Prepares the upstreams of a table at `location`. `name` is that of the table in logs. No connection is opened yet.
    ///
    /// # Errors
    ///
    /// All problems of the table.
    pub fn new(table: &TcpProxyTable, location: &Location, name: String) -> Result<Self, Vec<Problem>> {
        let problems = table.problems(location);
        if !problems.is_empty() {
            return Err(problems);
        }
        let idle = table.idle_timeout.0;
        let limits = TunnelLimits {
            idle,
            // An end may send for as long as the other one only listens, as `nc -N` and many protocols do.
            closing: idle,
            lifetime: table.lifetime.map(|lifetime| lifetime.0),
            ends_at_stop: false,
        };
        let (allow, deny) = (table.allow.clone(), table.deny.clone());
        Ok(Self { proxy: table.proxy().proxy(location, name)?, allow, deny, limits })
    }

    /// Returns the proxy that has the upstreams.
    #[must_use]
    pub fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// Whether a client may connect.
    fn allows(&self, client: &Client<'_>) -> bool {
        let request = Request::default();
        let includes = |groups: &OneOrMany<AllowedClient>, in_doubt: bool| {
            groups.as_slice().iter().any(|group| match client.address() {
                Peer::Unnamed(_) if matches!(group, AllowedClient::Network(_)) => in_doubt,
                _ => group.includes(&request, client),
            })
        };
        let is_denied = self.deny.as_ref().is_some_and(|deny| includes(deny, true));
        !is_denied && self.allow.as_ref().is_none_or(|allow| includes(allow, false))
    }
}

impl Handler for TcpProxy {
    /// A request over a connection to another site, for a name of this table.
    fn call(&self, request: Request<'_>, _: Call<'_>) -> Reply {
        let explanation = "This host does not speak HTTP on this connection.";
        pages::error(StatusCode::MISDIRECTED_REQUEST, request.headers(), explanation).into()
    }

    fn start(&self, start: &Start<'_>) -> io::Result<()> {
        self.proxy.start(start)
    }

    fn take_over(&self, client: &Client<'_>, observer: Arc<dyn Observer>) -> Option<Upgrade> {
        let report = Report::new(observer, poll_time());
        if !self.allows(client) {
            return Some(session::reject(report));
        }
        let shared = &self.proxy.0;
        let session = Session {
            shared: shared.clone(),
            limits: self.limits,
            client: client.address(),
            preamble: shared.table.send_proxy_protocol.then(|| preamble(client)),
            report,
        };
        Some(Box::new(|client| Box::pin(session.run(client))))
    }
}
