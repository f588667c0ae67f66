//! Listen addresses, and how they are parsed.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Maximum length of a Unix socket path: the size of the kernel's `sun_path`, less the terminating NUL.
const UNIX_PATH_BYTES_MAX: usize = 107;

/// An address to listen on.
///
/// | written | meaning |
/// |---|---|
/// | `127.0.0.1:8080`, `[::1]:80` | this address; port 0 lets the kernel choose |
/// | `:8080`, `*:8080` | all interfaces, IPv4 and IPv6 |
/// | `unix:/run/rudy.sock`, `unix:/run/rudy.sock,mode=660` | a Unix socket, with its file's permissions in octal |
/// | `systemd`, `systemd:NAME` | all sockets that the service manager passes, or those with this name |
/// | `127.0.0.1:8443,tls` | any of these, with TLS |
/// | `127.0.0.1:8080,h2c` | any of these, also with HTTP/2 without TLS |
/// | `127.0.0.1:8080,proxy_protocol` | any of these, with a PROXY protocol header at the start of each connection |
#[derive(Debug, Clone)]
pub struct Address {
    /// The address or socket.
    pub endpoint: Endpoint,
    /// Whether each connection begins with a PROXY protocol header.
    pub proxy_protocol: bool,
    /// Whether connections use TLS.
    pub tls: bool,
    /// Whether clients may speak HTTP/2 without TLS (prior knowledge, RFC 9113 §3.3).
    pub h2c: bool,
    /// Whether the address also serves HTTP/3, over UDP. Not written with the address, and no difference of two: the sites that it serves
    /// decide, and change it while the address stays open.
    pub http3: bool,
    /// What the listener says about HTTP/3; its connections share it.
    pub offer: OfferState,
}

/// What a listener says about HTTP/3 to clients over TCP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Http3Offer {
    /// Nothing: it has never had HTTP/3.
    #[default]
    None,
    /// It has HTTP/3, which no client has used yet.
    New,
    /// A client has used HTTP/3, so that it is known to work.
    Proven,
    /// It has had HTTP/3.
    Withdrawn,
}

/// What a listener says about HTTP/3 now. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct OfferState(Arc<AtomicU8>);

impl OfferState {
    const ALL: [Http3Offer; 4] =
        [Http3Offer::None, Http3Offer::New, Http3Offer::Proven, Http3Offer::Withdrawn];

    /// Returns the offer.
    #[must_use]
    pub fn get(&self) -> Http3Offer {
        Self::ALL[usize::from(self.0.load(Ordering::Relaxed)) % Self::ALL.len()]
    }

    /// Changes the offer.
    pub fn set(&self, offer: Http3Offer) {
        self.0.store(offer as u8, Ordering::Relaxed);
    }

    /// A client has used HTTP/3.
    pub fn mark_used(&self) {
        if self.get() == Http3Offer::New {
            self.set(Http3Offer::Proven);
        }
    }
}

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        let parts = |address: &Self| (address.proxy_protocol, address.tls, address.h2c);
        self.endpoint == other.endpoint && parts(self) == parts(other)
    }
}

impl Eq for Address {}

impl Hash for Address {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.endpoint, self.proxy_protocol, self.tls, self.h2c).hash(state);
    }
}

/// Where a listener accepts connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// An IP address and port.
    Ip(SocketAddr),
    /// All interfaces.
    AllInterfaces {
        /// The port.
        port: u16,
    },
    /// A Unix socket.
    Unix {
        /// The path of the socket.
        path: PathBuf,
        /// The permissions of the socket file; `None` means those of the umask.
        mode: Option<u32>,
    },
    /// Sockets that the service manager has bound.
    Inherited {
        /// The `FileDescriptorName=` of the sockets; `None` means all sockets.
        name: Option<String>,
    },
}

/// The suffix of an address that enables the PROXY protocol.
const PROXY_PROTOCOL: &str = ",proxy_protocol";
/// The suffix of an address that enables TLS.
const TLS: &str = ",tls";
/// The suffix of an address that enables HTTP/2 without TLS.
const H2C: &str = ",h2c";

impl From<Endpoint> for Address {
    fn from(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            proxy_protocol: false,
            tls: false,
            h2c: false,
            http3: false,
            offer: OfferState::default(),
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(text) = without_option(text, PROXY_PROTOCOL) {
            return Ok(Self { proxy_protocol: true, ..text.parse()? });
        }
        if let Some(text) = without_option(text, TLS) {
            return Ok(Self { tls: true, ..text.parse()? });
        }
        if let Some(text) = without_option(text, H2C) {
            return Ok(Self { h2c: true, ..text.parse()? });
        }
        text.parse().map(|endpoint: Endpoint| endpoint.into())
    }
}

impl FromStr for Endpoint {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(rest) = text.strip_prefix("unix:") {
            return parse_unix(rest).map_err(|problem| AddressError { given: text.to_owned(), problem });
        }
        if text == "systemd" {
            return Ok(Self::Inherited { name: None });
        }
        if let Some(name) = text.strip_prefix("systemd:").filter(|name| !name.is_empty()) {
            return Ok(Self::Inherited { name: Some(name.to_owned()) });
        }
        let port = text.strip_prefix('*').unwrap_or(text).strip_prefix(':');
        if let Some(port) = port.and_then(|port| port.parse().ok()) {
            return Ok(Self::AllInterfaces { port });
        }
        text.parse()
            .map(Self::Ip)
            .map_err(|_| AddressError { given: text.to_owned(), problem: explain(text) })
    }
}

impl Endpoint {
    /// Returns the port. `None` for a Unix socket, and for the sockets of a service manager.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Ip(address) => Some(address.port()),
            Self::AllInterfaces { port } => Some(*port),
            Self::Unix { .. } | Self::Inherited { .. } => None,
        }
    }

    /// Whether connections to one of the two might be those of the other, so that they cannot be two listeners.
    /// The kernel chooses a separate port for each port 0.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unix { path, .. }, Self::Unix { path: other, .. }) => path == other,
            (Self::Inherited { name: Some(name) }, Self::Inherited { name: Some(other) }) => name == other,
            (Self::Inherited { .. }, Self::Inherited { .. }) => true,
            (Self::Ip(one), Self::Ip(two)) if one.is_ipv4() != two.is_ipv4() => false,
            (Self::Ip(one), Self::Ip(two)) if ![one, two].iter().any(|at| at.ip().is_unspecified()) => {
                one == two && one.port() != 0
            }
            _ => self.port().is_some_and(|port| port != 0 && other.port() == Some(port)),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tls = if self.tls { TLS } else { "" };
        let proxy_protocol = if self.proxy_protocol { PROXY_PROTOCOL } else { "" };
        let h2c = if self.h2c { H2C } else { "" };
        write!(f, "{}{tls}{h2c}{proxy_protocol}", self.endpoint)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::AllInterfaces { port } => write!(f, "*:{port}"),
            Self::Unix { path, mode: None } => write!(f, "unix:{}", path.display()),
            Self::Unix { path, mode: Some(mode) } => write!(f, "unix:{},mode={mode:o}", path.display()),
            Self::Inherited { name: None } => f.write_str("systemd"),
            Self::Inherited { name: Some(name) } => write!(f, "systemd:{name}"),
        }
    }
}

/// The error for an invalid listen address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not an address to listen on: {}", .given.escape_debug(), .problem)]
pub struct AddressError {
    given: String,
    problem: String,
}

impl AddressError {
    /// Returns what is wrong, without the address, for callers that show the address themselves.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

/// Returns the address without the option, which is at the end, or before the mode of a Unix socket.
fn without_option(text: &str, option: &str) -> Option<String> {
    if let Some(address) = text.strip_suffix(option) {
        return Some(address.to_owned());
    }
    let (address, mode) = text.rsplit_once(",mode=")?;
    Some(format!("{},mode={mode}", address.strip_suffix(option)?))
}

fn parse_unix(rest: &str) -> Result<Endpoint, String> {
    let (path, mode) = match rest.rsplit_once(",mode=") {
        Some((path, mode)) => (path, Some(parse_mode(mode)?)),
        None => (rest, None),
    };
    if path.is_empty() || path.contains('\0') {
        return Err("`unix:` needs a path, for example `unix:/run/rudy.sock`".to_owned());
    }
    if path.len() > UNIX_PATH_BYTES_MAX {
        return Err(format!("the path has {} bytes; the maximum is {UNIX_PATH_BYTES_MAX}", path.len()));
    }
    Ok(Endpoint::Unix { path: PathBuf::from(path), mode })
}

fn parse_mode(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| *mode <= 0o777)
        .ok_or_else(|| "`mode` needs octal permissions, for example `mode=660`".to_owned())
}

/// Explains a common mistake, or lists the valid forms.
fn explain(text: &str) -> String {
    const FORMS: &str =
        "expected `127.0.0.1:8080`, `[::1]:8080`, `:8080` (all interfaces), `unix:PATH` or `systemd`";
    if text.contains("://") {
        return format!("remove the scheme; {FORMS}");
    }
    if text.parse::<u16>().is_ok() {
        return format!("write `127.0.0.1:{text}` for this machine only, or `:{text}` for all interfaces");
    }
    if let Ok(IpAddr::V6(address)) = text.trim_matches(['[', ']']).parse() {
        return format!("an IPv6 address needs brackets and a port: `[{address}]:8080`");
    }
    if let Ok(IpAddr::V4(address)) = text.parse() {
        return format!("the port is missing: `{address}:8080`");
    }
    if let Some((_, option)) = text.split_once(',') {
        return format!(
            "unknown option `{}`; expected `tls`, `h2c` or `proxy_protocol`",
            option.escape_debug()
        );
    }
    match text.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_err() && !host.is_empty() => {
            format!("`{}` is not a port (0 to 65535)", port.escape_debug())
        }
        Some(("localhost", port)) => {
            format!("host names are not supported; write `127.0.0.1:{port}` or `[::1]:{port}`")
        }
        Some((host, _)) if host.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            "host names are not supported, because their addresses may change; write an IP address".to_owned()
        }
        _ => FORMS.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_parsed_and_printed() {
        for (text, written) in [
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("[::1]:80", "[::1]:80"),
            ("0.0.0.0:0", "0.0.0.0:0"),
            (":8080", "*:8080"),
            ("*:8080", "*:8080"),
            ("unix:/run/rudy.sock", "unix:/run/rudy.sock"),
            ("unix:rudy,x.sock,mode=0660", "unix:rudy,x.sock,mode=660"),
            ("systemd", "systemd"),
            ("systemd:web", "systemd:web"),
            ("127.0.0.1:8080,proxy_protocol", "127.0.0.1:8080,proxy_protocol"),
            (":80,proxy_protocol", "*:80,proxy_protocol"),
            ("systemd:web,proxy_protocol", "systemd:web,proxy_protocol"),
            ("unix:/x,mode=660,proxy_protocol", "unix:/x,mode=660,proxy_protocol"),
            ("unix:/x,proxy_protocol,mode=660", "unix:/x,mode=660,proxy_protocol"),
            ("[::1]:80,proxy_protocol,proxy_protocol", "[::1]:80,proxy_protocol"),
            (":443,tls", "*:443,tls"),
            ("systemd,tls", "systemd,tls"),
            ("unix:/x,tls,mode=660,proxy_protocol", "unix:/x,mode=660,tls,proxy_protocol"),
            ("[::1]:443,proxy_protocol,tls", "[::1]:443,tls,proxy_protocol"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), written);
            assert_eq!(written.parse::<Address>().unwrap(), address);
            assert_eq!(address.proxy_protocol, text.contains("proxy"));
            assert_eq!(address.tls, text.contains("tls"));
        }
    }

    #[test]
    fn addresses_overlap_if_they_have_connections_in_common() {
        for (one, other, expected) in [
            (":80", "*:80,tls", true),
            (":80", "127.0.0.1:80", true),
            (":80", "[::1]:80", true),
            (":80", ":81", false),
            ("0.0.0.0:80", ":80", true),
            ("0.0.0.0:80", "127.0.0.1:80", true),
            ("0.0.0.0:80", "[::]:80", false),
            ("[::]:80", "[::1]:80", true),
            ("127.0.0.1:80", "127.0.0.1:80,h2c", true),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("127.0.0.1:80", "[::1]:80", false),
            ("127.0.0.1:0", "127.0.0.1:0", false),
            (":0", ":0,tls", false),
            ("unix:/x", "unix:/./x,mode=660", true),
            ("unix:/x", "unix:/y", false),
            ("unix:/x", ":80", false),
            ("systemd", "systemd:web", true),
            ("systemd:web", "systemd:web,tls", true),
            ("systemd:web", "systemd:other", false),
            ("systemd", ":80", false),
        ] {
            let [a, b] = [one, other].map(|text| text.parse::<Address>().unwrap().endpoint);
            assert_eq!((a.overlaps(&b), b.overlaps(&a)), (expected, expected), "{one} {other}");
        }
    }

    #[test]
    fn an_error_shows_the_expected_syntax() {
        let long = format!("unix:/{}", "x".repeat(200));
        for (text, hint) in [
            ("", "expected `127.0.0.1:8080`"),
            ("8080", "`127.0.0.1:8080` for this machine only, or `:8080`"),
            ("localhost:80", "write `127.0.0.1:80`"),
            ("example.org:80", "write an IP address"),
            ("http://127.0.0.1:80", "remove the scheme"),
            ("127.0.0.1", "the port is missing: `127.0.0.1:8080`"),
            ("127.0.0.1:65536", "`65536` is not a port"),
            ("127.0.0.1:", "`` is not a port"),
            ("::1", "needs brackets and a port: `[::1]:8080`"),
            ("[::1]", "needs brackets and a port: `[::1]:8080`"),
            (":port", "expected"),
            ("unix:", "needs a path"),
            ("unix:/a,mode=999", "octal"),
            ("unix:/a,mode=7777", "octal"),
            (&long, "the maximum is 107"),
            ("systemd:", "is not a port"),
            (
                "127.0.0.1:80,proxy-protocol",
                "unknown option `proxy-protocol`; expected `tls`, `h2c` or `proxy_protocol`",
            ),
            ("127.0.0.1:80,mode=660", "unknown option `mode=660`"),
            ("127.0.0.1,proxy_protocol", "the port is missing"),
            (",proxy_protocol", "expected"),
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
