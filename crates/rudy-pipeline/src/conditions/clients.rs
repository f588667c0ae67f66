//! Groups of clients, by address.

use std::fmt;
use std::str::FromStr;

use http::HeaderName;
use rudy_config::written_as_text;
use rudy_service::{Client, Peer, Request};

use crate::hosts::Listeners;
use crate::network::Network;
use crate::request_state::HasRequestState;

/// A group of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowedClient {
    /// All clients.
    Anyone,
    /// Clients on this machine, connected to a loopback address or Unix socket without a proxy, for a host that no web page can have.
    Loopback,
    /// Clients with these addresses.
    Network(Network),
}

impl AllowedClient {
    /// Returns whether the client of a request belongs to the group. `in_doubt` is the result for one that may or may not: its address is
    /// unknown, or a web page may have made a browser of this machine send the request.
    pub fn is_client(
        &self,
        request: &Request<'_>,
        client: &Client<'_>,
        listeners: &Listeners,
        in_doubt: bool,
    ) -> bool {
        let is_doubtful = match self {
            Self::Anyone => false,
            Self::Loopback => !in_doubt && listeners.is_foreign_host(request, client),
            Self::Network(_) => matches!(client.address(), Peer::Unnamed(_)),
        };
        if is_doubtful { in_doubt } else { self.includes(request, client) }
    }

    /// Returns whether the client of a request belongs to the group.
    pub fn includes(&self, request: &Request<'_>, client: &Client<'_>) -> bool {
        match self {
            Self::Anyone => true,
            // The field with the address of the client may be any.
            Self::Loopback => {
                client.peer.is_local()
                    && client.address() == client.peer
                    && forwarding_field(request).is_none()
            }
            Self::Network(network) => {
                matches!(client.address(), Peer::Ip(address) if network.contains(address.ip()))
            }
        }
    }
}

/// Forwarding fields of standards (RFC 7239, RFC 9110 §7.6.3, RFC 8586), of nginx's examples, and of CDNs and tunnels.
const FORWARDING_FIELDS: [&str; 7] =
    ["forwarded", "via", "cdn-loop", "x-real-ip", "cf-connecting-ip", "true-client-ip", "x-client-ip"];

/// Returns a field that proxies add. A local client that sends one is rejected.
pub(crate) fn forwarding_field<'r>(request: &'r Request<'_>) -> Option<&'r str> {
    const PREFIX: &[u8] = b"x-forwarded-";
    let is_one = |name: &&[u8]| {
        let has_prefix = name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX));
        has_prefix || FORWARDING_FIELDS.iter().any(|field| name.eq_ignore_ascii_case(field.as_bytes()))
    };
    let removed = || request.state().came_through_proxy.as_ref().map(HeaderName::as_str);
    let sent = request.fields().map(|(name, _)| name).find(is_one);
    // A token is ASCII.
    sent.and_then(|name| str::from_utf8(name).ok()).or_else(removed)
}

impl FromStr for AllowedClient {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "anyone" => Ok(Self::Anyone),
            "loopback" => Ok(Self::Loopback),
            // In nginx and Apache.
            "all" => Err("write \"anyone\" for all clients".to_owned()),
            _ => text
                .parse()
                .map(Self::Network)
                .map_err(|expected: String| format!("{expected}, \"loopback\" or \"anyone\"")),
        }
    }
}

impl fmt::Display for AllowedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anyone => f.write_str("anyone"),
            Self::Loopback => f.write_str("loopback"),
            Self::Network(network) => network.fmt(f),
        }
    }
}

written_as_text!(AllowedClient, "an allowed client (\"loopback\")", {
    doc: "`loopback` (this machine, without a proxy), an IP address, a network in CIDR notation, or `anyone`.",
    examples: ["loopback", "10.0.0.0/8", "192.0.2.1", "anyone"],
});
