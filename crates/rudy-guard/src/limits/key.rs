//! What a limit counts by.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;

use http::HeaderName;
use http::header::COOKIE;
use rudy_config::{OneOrMany, written_as_text};
use rudy_limit::{Key, KeyBuilder, KeyHasher};
use rudy_message::semantics::path::RequestPath;
use rudy_pipeline::Call;
use rudy_pipeline::network::network;
use rudy_pipeline::request_state::{HasRequestState, Identity};
use rudy_pipeline::routing::with_name;
use rudy_service::{Client, Observer, Peer, Request};
use rudy_units::visible;

/// A part of a request: `address`, `user`, `header.NAME`, `path`, `host`, or `all` for none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPart {
    /// The address of the client.
    Address,
    /// The user, after the login. Requests that an authorizer allows without naming a user count together.
    User,
    /// The values of a header field. Requests without it count together.
    Field(HeaderName),
    /// The canonical path.
    Path,
    /// The host, in lower case and without its port.
    Host,
    /// Nothing: all requests count together.
    All,
}

impl FromStr for KeyPart {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "address" => Self::Address,
            "user" => Self::User,
            "path" => Self::Path,
            "host" => Self::Host,
            "all" => Self::All,
            _ => {
                let name = text.strip_prefix("header.").ok_or(
                    "expected \"address\", \"user\", \"path\", \"host\", \"all\", or a field such as \"header.x-api-key\"",
                )?;
                let invalid = |_| format!("\"{}\" is not the name of a header field", visible(name));
                Self::Field(name.parse().map_err(invalid)?)
            }
        })
    }
}

impl fmt::Display for KeyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address => f.write_str("address"),
            Self::User => f.write_str("user"),
            Self::Field(name) => write!(f, "header.{name}"),
            Self::Path => f.write_str("path"),
            Self::Host => f.write_str("host"),
            Self::All => f.write_str("all"),
        }
    }
}

written_as_text!(KeyPart, "a part of a request (\"address\")", {
    doc: "A part of a request that a limit counts by.",
    pattern: "^(address|user|path|host|all|header\\..+)$",
    examples: ["address", "user", "header.x-api-key", "path", "host", "all"],
});

/// What a limit counts by: the combination of these parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeySettings {
    parts: Vec<KeyPart>,
    /// How many bits of an IPv6 address count.
    v6_bits: u32,
}

impl KeySettings {
    /// The default is the address.
    pub(super) fn new(parts: Option<&OneOrMany<KeyPart>>, v6_bits: u32) -> Self {
        Self {
            parts: parts.map_or_else(|| vec![KeyPart::Address], |parts| parts.as_slice().to_vec()),
            v6_bits,
        }
    }

    /// Whether the user is a part of the key.
    pub(super) fn has_user(&self) -> bool {
        self.parts.contains(&KeyPart::User)
    }

    /// Returns the keys of a request. There are several if a field has several lines: one for all lines together, because they are a list
    /// (RFC 9110 §5.3), and those of its first and of its last line, which applications use. So no further line changes what a client
    /// is counted by.
    pub(super) fn keys(&self, hasher: &KeyHasher, request: &KeySource<'_>) -> Keys {
        let mut keys = Keys::new(self.key(hasher, request, Line::All));
        if self.parts.iter().any(|part| matches!(part, KeyPart::Field(name) if request.has_several(name))) {
            keys.add(self.key(hasher, request, Line::First));
            keys.add(self.key(hasher, request, Line::Last));
        }
        keys
    }

    fn key(&self, hasher: &KeyHasher, request: &KeySource<'_>, line: Line) -> Key {
        let add = |key: KeyBuilder, part: &KeyPart| match part {
            KeyPart::Address => add_address(key, request.client.address(), self.v6_bits),
            KeyPart::User => key.bytes(request.user().as_bytes()),
            KeyPart::Field(name) => request.with_values(name, line, |value| key.bytes(value)),
            KeyPart::Path => key.bytes(request.path),
            KeyPart::Host => with_name(request.host(), |name| key.bytes(name.as_bytes())),
            KeyPart::All => key,
        };
        self.parts.iter().fold(hasher.start(), add).finish()
    }

    /// Describes the key of a request for people. The values of fields may be secret, so they are shown as a checksum.
    pub(super) fn name(&self, key: Key, request: &KeySource<'_>) -> String {
        let name = |part: &KeyPart| match part {
            KeyPart::Address => network(request.client.address(), self.v6_bits),
            KeyPart::User => visible(request.user()),
            KeyPart::Field(name) => format!("{name} #{:08x}", key.short()),
            KeyPart::Path => visible(&String::from_utf8_lossy(request.path)),
            KeyPart::Host => with_name(request.host(), visible),
            KeyPart::All => "all requests".to_owned(),
        };
        self.parts.iter().map(name).collect::<Vec<_>>().join(" ")
    }
}

impl fmt::Display for KeySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<_> = self.parts.iter().map(ToString::to_string).collect();
        f.write_str(&parts.join(" and "))
    }
}

/// Clients without an address of their own count together: those of a Unix socket, and those that a proxy does not name.
fn add_address(key: KeyBuilder, client: Peer, v6_bits: u32) -> KeyBuilder {
    match client {
        Peer::Ip(address) => key.address(address.ip(), v6_bits),
        Peer::Unix => key.bytes(b"unix"),
        Peer::Unnamed(None) => key.bytes(b"unnamed"),
        Peer::Unnamed(Some(proxy)) => key.bytes(b"unnamed").address(proxy, 128),
    }
}

/// The lines of a field that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    All,
    First,
    Last,
}

/// The keys of a request, each once.
#[derive(Debug)]
pub(super) struct Keys {
    keys: [Key; 3],
    count: usize,
}

impl Keys {
    fn new(key: Key) -> Self {
        Self { keys: [key; 3], count: 1 }
    }

    fn add(&mut self, key: Key) {
        if !self.contains(&key) && self.count < self.keys.len() {
            self.keys[self.count] = key;
            self.count += 1;
        }
    }
}

impl Deref for Keys {
    type Target = [Key];

    fn deref(&self) -> &[Key] {
        &self.keys[..self.count]
    }
}

/// A request, with its path and client.
pub(super) struct KeySource<'a> {
    client: &'a Client<'a>,
    path: &'a [u8],
    request: &'a Request<'a>,
}

impl<'a> KeySource<'a> {
    pub(super) fn of_request(request: &'a Request<'_>, call: &Call<'a>) -> Self {
        Self::new(request, call.path, call.context.client)
    }

    pub(super) fn new(request: &'a Request<'_>, path: &'a RequestPath<'_>, client: &'a Client<'a>) -> Self {
        Self { client, path: path.as_bytes(), request }
    }

    /// The client as the error log shows it.
    pub(super) fn observer(&self) -> Option<&Arc<dyn Observer>> {
        self.client.observer.get()
    }

    pub(super) fn client(&self) -> Peer {
        self.client.address()
    }

    /// Requests without a user have an empty name.
    fn user(&self) -> &str {
        self.request.state().identity.as_ref().map(Identity::user).unwrap_or_default()
    }

    fn host(&self) -> &[u8] {
        self.request.host()
    }

    /// Whether a field has several lines. HTTP/2 splits `Cookie` into lines (RFC 9113 §8.2.3), which are one.
    fn has_several(&self, name: &HeaderName) -> bool {
        self.request.get_all(name).take(2).count() > 1 && *name != COOKIE
    }

    /// Passes on the values of these lines of a field as one.
    fn with_values<T>(&self, name: &HeaderName, line: Line, then: impl FnOnce(&[u8]) -> T) -> T {
        let line = if *name == COOKIE { Line::All } else { line };
        let separator: &[u8] = if *name == COOKIE { b"; " } else { b", " };
        chosen(self.request.get_all(name), line, separator, then)
    }
}

fn chosen<'v, T>(
    mut values: impl Iterator<Item = &'v [u8]>,
    line: Line,
    separator: &'v [u8],
    then: impl FnOnce(&[u8]) -> T,
) -> T {
    let first = values.next().unwrap_or_default();
    match (line, values.next()) {
        (Line::First, _) | (_, None) => then(first),
        (Line::Last, Some(second)) => then(values.last().unwrap_or(second)),
        (Line::All, Some(second)) => {
            let rest = values.flat_map(|value| [separator, value]);
            then(&[first, separator, second].into_iter().chain(rest).collect::<Vec<_>>().concat())
        }
    }
}
