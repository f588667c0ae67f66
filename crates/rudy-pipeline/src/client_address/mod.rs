//! The client of a request: the peer, or the client for which a trusted proxy forwarded the request.
//!
//! Each proxy appends the address of its peer to a list. The list is read from the right while the addresses are trusted proxies;
//! the first other address is the client. A client can only forge addresses to the left of it. If all are trusted, the client is the
//! leftmost one. A malformed element, or one without an address, ends the search: the client is then unknown
//! ([`Peer::Unnamed`]), shown as the proxy that added the element, and matches no list of addresses.

use std::net::{IpAddr, SocketAddr};

use http::uri::{Authority, Scheme, Uri};
use http::{HeaderValue, header};
use rudy_config::{OneOrMany, Table, Words};
use rudy_message::semantics::forwarded::{Element, Node, elements_from_right};
use rudy_message::{RequestHead, is_host};
use rudy_service::{Client, Forwarded, Peer, Request};

use crate::network::TrustedProxy;

/// The trusted proxies, and which of their header fields to use.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(default)]
pub struct Options {
    /// Reverse proxies whose forwarding header fields are trusted: addresses, networks (`10.0.0.0/8`), and `unix` for
    /// all connections to a Unix socket. The default is none. List only proxies that you operate: they decide which
    /// client address the logs and access rules see.
    #[setting(read = OneOrMany<TrustedProxy>, example = ["10.0.0.0/8", "unix"])]
    pub trusted_proxies: Vec<TrustedProxy>,
    /// Header field from which to read the client address that a trusted proxy reports. Rudy reads the list from the
    /// right and uses the first address that is not a trusted proxy.
    #[setting(name = "client_address")]
    pub source: Source,
    /// Uses the host that a trusted proxy reports (`X-Forwarded-Host`, or `host=` in `Forwarded`) instead of `Host`.
    /// Enable it if the proxy changes `Host`.
    #[setting(name = "trust_forwarded_host")]
    pub trust_host: bool,
}

/// The header fields from which the client address is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Words)]
pub enum Source {
    /// `X-Forwarded-For`, with `X-Forwarded-Proto` and `X-Forwarded-Host`.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

impl Options {
    /// Whether a peer is a trusted proxy.
    #[must_use]
    pub fn trusts(&self, peer: &Peer) -> bool {
        match peer {
            Peer::Ip(address) => self.trusts_address(address.ip()),
            Peer::Unix => self.trusted_proxies.contains(&TrustedProxy::Unix),
            Peer::Unnamed(_) => false,
        }
    }

    fn trusts_address(&self, address: IpAddr) -> bool {
        self.trusted_proxies.iter().any(|proxy| match proxy {
            TrustedProxy::Network(network) => network.contains(address),
            TrustedProxy::Unix => false,
        })
    }

    /// Reads the forwarding fields of a trusted peer. `None` if it is not trusted or has sent none.
    pub fn forwarded(&self, head: &RequestHead<'_>, peer: &Peer) -> Option<Forwarded> {
        if !self.trusts(peer) {
            return None;
        }
        let forwarded = match self.source {
            Source::XForwardedFor => self.parse_x_forwarded(head, *peer),
            Source::Forwarded => self.parse_forwarded(head, *peer),
        };
        (forwarded.address != *peer || forwarded.scheme.is_some() || forwarded.host.is_some())
            .then_some(forwarded)
    }

    fn parse_x_forwarded(&self, head: &RequestHead<'_>, peer: Peer) -> Forwarded {
        let mut address = peer;
        for member in members_from_right(&lines(head, "x-forwarded-for")) {
            if !self.step(&mut address, Node::from_x_forwarded_for(member)) {
                break;
            }
        }
        // These fields have one value per proxy at most, so the nearest proxy's value is used.
        let last = |name| members_from_right(&lines(head, name)).next();
        let scheme = last("x-forwarded-proto").and_then(scheme);
        Forwarded { address, scheme, host: self.host(last("x-forwarded-host")) }
    }

    /// Reads `Forwarded`. Scheme and host come from the element of the client: the others describe the hops between proxies.
    fn parse_forwarded(&self, head: &RequestHead<'_>, peer: Peer) -> Forwarded {
        let (mut address, mut forwarded) = (peer, Element::default());
        let lines = lines(head, "forwarded");
        for element in lines.iter().rev().flat_map(|line| elements_from_right(line)) {
            let node = element.as_ref().ok().and_then(|element| element.node);
            let continues = self.step(&mut address, node);
            forwarded = element.unwrap_or_default();
            if !continues {
                break;
            }
        }
        let scheme = forwarded.proto.as_deref().and_then(scheme);
        Forwarded { address, scheme, host: self.host(forwarded.host.as_deref()) }
    }

    /// Moves one step to the left, from a trusted proxy to its peer. Returns whether that is a trusted proxy too.
    fn step(&self, address: &mut Peer, node: Option<Node>) -> bool {
        if let Some(Node::Address(ip, port)) = node {
            *address = Peer::Ip(SocketAddr::new(ip, port.unwrap_or(0)));
            self.trusts_address(ip)
        } else {
            *address = Peer::Unnamed(address.ip());
            false
        }
    }

    fn host(&self, value: Option<&[u8]>) -> Option<HeaderValue> {
        let value = value.filter(|value| self.trust_host && is_host(value))?;
        HeaderValue::from_bytes(value).ok()
    }
}

/// Returns the values of all lines of a field.
fn lines<'a>(head: &'a RequestHead<'_>, name: &str) -> Vec<&'a [u8]> {
    head.fields().filter(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
}

/// Iterates over the members of a list from the right. Several lines form one list (RFC 9110 §5.3); empty members are skipped.
fn members_from_right<'a>(lines: &[&'a [u8]]) -> impl Iterator<Item = &'a [u8]> {
    let members = lines.iter().rev().flat_map(|line| line.rsplit(|byte| *byte == b','));
    members.map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

fn scheme(value: &[u8]) -> Option<Scheme> {
    [Scheme::HTTP, Scheme::HTTPS]
        .into_iter()
        .find(|scheme| scheme.as_str().as_bytes().eq_ignore_ascii_case(value))
}

/// Replaces the host of the request by the one that a trusted proxy forwarded.
pub fn set_forwarded_host(request: &mut Request<'_>, client: &Client<'_>) {
    let forwarded = client.forwarded.as_ref().and_then(|forwarded| forwarded.host.clone());
    let Some(host) = forwarded else { return };
    if request.is_absolute() {
        let mut parts = request.uri().clone().into_parts();
        parts.authority = Authority::try_from(host.as_bytes()).ok();
        parts.scheme = parts.scheme.filter(|_| parts.authority.is_some());
        // A path with or without scheme and authority is a valid URI.
        request.set_uri(Uri::from_parts(parts).unwrap_or_default());
    }
    request.set(header::HOST, host);
}

#[cfg(test)]
mod tests;
