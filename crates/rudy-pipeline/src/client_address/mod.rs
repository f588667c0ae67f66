//! The client of a request: the peer, or the client for which a trusted proxy forwarded the request.
//!
//! Each proxy appends the address of its peer to a list. The list is read from the right while the addresses are trusted proxies;
//! the first other address is the client. A client can only forge addresses to the left of it. If all are trusted, the client is the
//! leftmost one. A malformed element, or one without an address, ends the search: the client is then unknown
//! ([`Peer::Unnamed`]), shown as the proxy that added the element, and matches no list of addresses.
//!
//! Instead of a list, the proxies may set a field to one address, as CDNs do.

mod networks;
mod settings;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::uri::{Authority, Scheme, Uri};
use http::{HeaderName, HeaderValue, header};
use rudy_config::{Location, Problem};
use rudy_message::semantics::forwarded::{Element, Node, elements_from_right};
use rudy_message::{RequestHead, is_host};
use rudy_service::{Client, Forwarded, Peer, Request};
use rudy_system::watched_files::WatchedFiles;

use self::networks::{NetworkFile, Networks};
pub use self::settings::{AddressField, Options, TrustedProxy};

/// The trusted proxies of a configuration, ready for requests.
#[derive(Debug)]
pub struct TrustedProxies {
    networks: Networks,
    files: Vec<Arc<NetworkFile>>,
    /// Whether connections to a Unix socket are trusted.
    with_unix: bool,
    source: AddressField,
    trust_host: bool,
}

impl TrustedProxies {
    /// Reads the files, and again when they change. Reports those that cannot be used.
    pub fn new(options: &Options, watched: &WatchedFiles, problems: &mut Vec<Problem>) -> Self {
        let location = Location::file(0).key("trusted_proxies");
        let (mut networks, mut files) = (Vec::new(), Vec::new());
        for (number, proxy) in options.trusted_proxies.iter().enumerate() {
            match proxy {
                TrustedProxy::Network(network) => networks.push(*network),
                TrustedProxy::Unix => {}
                TrustedProxy::File(path) => match NetworkFile::read(path).map(Arc::new) {
                    Ok(file) => {
                        watched.add(&file);
                        files.push(file);
                    }
                    Err(faults) => problems.extend(faults.into_iter().map(|why| {
                        let title = format!("cannot use the networks of {}", path.display());
                        Problem::value(&location.index(number), title).label(why)
                    })),
                },
            }
        }
        Self {
            networks: networks.into_iter().collect(),
            files,
            with_unix: options.trusted_proxies.contains(&TrustedProxy::Unix),
            source: options.source.clone(),
            trust_host: options.trust_host,
        }
    }

    /// Whether a peer is a trusted proxy.
    #[must_use]
    pub fn trusts(&self, peer: &Peer) -> bool {
        match peer {
            Peer::Ip(address) => self.trusts_address(address.ip()),
            Peer::Unix => self.with_unix,
            Peer::Unnamed(_) => false,
        }
    }

    fn trusts_address(&self, address: IpAddr) -> bool {
        self.networks.contains(address) || self.files.iter().any(|file| file.contains(address))
    }

    /// Returns the field with one address, if the address of a client is read from one.
    #[must_use]
    pub fn named_field(&self) -> Option<&HeaderName> {
        if let AddressField::Named(name) = &self.source { Some(name) } else { None }
    }

    /// Reads the forwarding fields of a trusted peer. `None` if it is not trusted or has sent none.
    pub fn forwarded(&self, head: &RequestHead<'_>, peer: &Peer) -> Option<Forwarded> {
        if !self.trusts(peer) {
            return None;
        }
        let forwarded = match &self.source {
            AddressField::XForwardedFor => self.with_x_fields(head, self.last_untrusted(head, *peer)),
            AddressField::Forwarded => self.parse_forwarded(head, *peer),
            AddressField::Named(name) => self.with_x_fields(head, address_of(head, name, *peer)),
        };
        (forwarded.address != *peer || forwarded.scheme.is_some() || forwarded.host.is_some())
            .then_some(forwarded)
    }

    /// Returns the first address of `X-Forwarded-For` from the right that is not a trusted proxy.
    fn last_untrusted(&self, head: &RequestHead<'_>, peer: Peer) -> Peer {
        let mut address = peer;
        for member in members_from_right(&lines(head, "x-forwarded-for")) {
            if !self.step(&mut address, Node::from_x_forwarded_for(member)) {
                break;
            }
        }
        address
    }

    /// Adds what the other `X-Forwarded` fields state.
    fn with_x_fields(&self, head: &RequestHead<'_>, address: Peer) -> Forwarded {
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
        *address = peer_of(node, *address);
        matches!(address, Peer::Ip(address) if self.trusts_address(address.ip()))
    }

    fn host(&self, value: Option<&[u8]>) -> Option<HeaderValue> {
        let value = value.filter(|value| self.trust_host && is_host(value))?;
        HeaderValue::from_bytes(value).ok()
    }
}

/// Returns the address that a proxy states; without one, an unknown client of the proxy.
fn peer_of(node: Option<Node>, proxy: Peer) -> Peer {
    match node {
        Some(Node::Address(ip, port)) => Peer::Ip(SocketAddr::new(ip, port.unwrap_or(0))),
        Some(Node::Hidden) | None => Peer::Unnamed(proxy.ip()),
    }
}

/// Returns the address in a field that a proxy sets to one address. Several lines, a list or another value are not from a proxy that
/// replaces the field, so they name no client.
fn address_of(head: &RequestHead<'_>, name: &HeaderName, peer: Peer) -> Peer {
    match lines(head, name.as_str())[..] {
        [] => peer,
        [value] => peer_of(Node::from_x_forwarded_for(value.trim_ascii()), peer),
        _ => peer_of(None, peer),
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
