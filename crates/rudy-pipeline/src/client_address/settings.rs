//! How the trusted proxies and their fields are written.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use http::HeaderName;
use rudy_config::{Invalid, Kind, Named, OneOrMany, Setting, Shape, Table, Value, written_as_text};

use crate::network::Network;

/// The trusted proxies, and which of their header fields to use.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(default)]
pub struct Options {
    /// Reverse proxies whose forwarding header fields are trusted: addresses, networks (`10.0.0.0/8`), files with a network in each line
    /// (`file:cdn.txt`), and `unix` for all connections to a Unix socket. The default is none. List only proxies that you operate or
    /// rent: they decide which client address the logs and access rules see. Rudy reads a file again when it changes; the path is
    /// relative to the configuration file.
    #[setting(read = OneOrMany<TrustedProxy>, example = ["10.0.0.0/8", "unix"])]
    pub trusted_proxies: Vec<TrustedProxy>,
    /// Header field from which to read the client address that a trusted proxy reports. Rudy reads the list of `x-forwarded-for` or
    /// `forwarded` (RFC 7239) from the right and uses the first address that is not a trusted proxy. Any other field, such as
    /// `cf-connecting-ip`, must have one line with one address; otherwise the client is unknown. Applications then get this address in
    /// `X-Forwarded-For`.
    #[setting(name = "client_address")]
    pub source: AddressField,
    /// Uses the host that a trusted proxy reports (`X-Forwarded-Host`, or `host=` in `Forwarded`) instead of `Host`.
    /// Enable it if the proxy changes `Host`.
    #[setting(name = "trust_forwarded_host")]
    pub trust_host: bool,
}

/// A trusted proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustedProxy {
    /// An address or network.
    Network(Network),
    /// The addresses and networks of a file.
    File(PathBuf),
    /// All connections to a Unix socket.
    Unix,
}

impl FromStr for TrustedProxy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("file:") {
            Some("") => Err("expected a path behind \"file:\"".to_owned()),
            Some(path) => Ok(Self::File(path.into())),
            None if text == "unix" => Ok(Self::Unix),
            None => text.parse().map(Self::Network).map_err(|expected: String| {
                format!("{expected}, or \"unix\", or a file with networks: \"file:cdn.txt\"")
            }),
        }
    }
}

impl fmt::Display for TrustedProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(network) => network.fmt(f),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Unix => f.write_str("unix"),
        }
    }
}

impl Setting for TrustedProxy {
    const SHAPE: Shape = Shape::Named(&Named {
        name: "TrustedProxy",
        doc: "An IP address, a network in CIDR notation, a file with them (`file:PATH`), or `unix` (all connections to a Unix socket).",
        kinds: &[Kind::Text],
        pattern: None,
        examples: &["\"127.0.0.1\"", "\"10.0.0.0/8\"", "\"2001:db8::/32\"", "\"file:cdn.txt\"", "\"unix\""],
    });

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        Ok(match value.parse("an address (\"10.0.0.0/8\")")? {
            Self::File(path) => Self::File(value.relative_to_file(&path)),
            other => other,
        })
    }

    fn written(&self) -> Option<String> {
        Some(format!("\"{self}\""))
    }
}

/// The header field from which the client address is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AddressField {
    /// The list `X-Forwarded-For`.
    #[default]
    XForwardedFor,
    /// The list `Forwarded` (RFC 7239).
    Forwarded,
    /// Another field, with one address.
    Named(HeaderName),
}

impl FromStr for AddressField {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A field with an underscore is, for many applications, the one with a hyphen, which clients can send.
        let is_name =
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let name = HeaderName::from_bytes(text.as_bytes()).ok().filter(|_| is_name);
        let name = name.ok_or("expected letters, digits and hyphens, as in \"x-real-ip\"")?;
        Ok(match name.as_str() {
            "x-forwarded-for" => Self::XForwardedFor,
            "forwarded" => Self::Forwarded,
            _ => Self::Named(name),
        })
    }
}

impl fmt::Display for AddressField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::XForwardedFor => "x-forwarded-for",
            Self::Forwarded => "forwarded",
            Self::Named(name) => name.as_str(),
        })
    }
}

written_as_text!(AddressField, "the name of a header field (\"x-real-ip\")", {
    doc: "The name of a header field: `x-forwarded-for` and `forwarded` are lists, and any other has one address.",
    examples: ["x-forwarded-for", "forwarded", "x-real-ip", "cf-connecting-ip"],
});
