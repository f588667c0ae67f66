//! Addresses as people write them.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// Bytes of a Unix socket's path: what the kernel's `sun_path` holds, less the NUL at its end.
const UNIX_PATH_BYTES_MAX: usize = 107;

/// An address to listen on.
///
/// | written | meaning |
/// |---|---|
/// | `127.0.0.1:8080`, `[::1]:80` | this address; port 0 lets the kernel choose |
/// | `:8080`, `*:8080` | every interface, IPv4 and IPv6 |
/// | `unix:/run/rudy.sock`, `unix:/run/rudy.sock,mode=660` | a Unix socket, with its file's permissions in octal |
/// | `systemd`, `systemd:NAME` | the sockets that the service manager passes: all, or those of this name |
/// | `127.0.0.1:8080,proxy_protocol` | any of these, whose connections begin with a header of the PROXY protocol |
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// Where it is.
    pub endpoint: Endpoint,
    /// Whether each connection begins with a header of the PROXY protocol.
    pub proxy_protocol: bool,
}

/// Where connections are accepted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// One IP address and port.
    Ip(SocketAddr),
    /// Every interface.
    AllInterfaces {
        /// The port.
        port: u16,
    },
    /// A Unix socket.
    Unix {
        /// Where it is.
        path: PathBuf,
        /// Permissions of the file; `None` leaves them to the umask.
        mode: Option<u32>,
    },
    /// Sockets that the service manager has bound.
    Inherited {
        /// Its `FileDescriptorName=`; `None` takes all of them.
        name: Option<String>,
    },
}

/// The option for it.
const PROXY_PROTOCOL: &str = ",proxy_protocol";

impl From<Endpoint> for Address {
    fn from(endpoint: Endpoint) -> Self {
        Self { endpoint, proxy_protocol: false }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(text) = without_proxy_protocol(text) {
            return Ok(Self { proxy_protocol: true, ..text.parse()? });
        }
        text.parse().map(|endpoint| Self { endpoint, proxy_protocol: false })
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
            .map_err(|_| AddressError { given: text.to_owned(), problem: what_is_wrong(text) })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let option = if self.proxy_protocol { PROXY_PROTOCOL } else { "" };
        write!(f, "{}{option}", self.endpoint)
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

/// Why an address is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressError {
    given: String,
    problem: String,
}

impl AddressError {
    /// What was expected, for whoever shows the address anyway.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not an address to listen on: {}", self.given.escape_debug(), self.problem)
    }
}

impl std::error::Error for AddressError {}

/// The address without the option, if it has it: at the end, or before the mode of a Unix socket.
fn without_proxy_protocol(text: &str) -> Option<String> {
    if let Some(address) = text.strip_suffix(PROXY_PROTOCOL) {
        return Some(address.to_owned());
    }
    let (address, mode) = text.rsplit_once(",mode=")?;
    Some(format!("{},mode={mode}", address.strip_suffix(PROXY_PROTOCOL)?))
}

fn parse_unix(rest: &str) -> Result<Endpoint, String> {
    let (path, mode) = match rest.rsplit_once(",mode=") {
        Some((path, mode)) => (path, Some(parse_mode(mode)?)),
        None => (rest, None),
    };
    if path.is_empty() || path.contains('\0') {
        return Err("`unix:` wants a path, as in `unix:/run/rudy.sock`".to_owned());
    }
    if path.len() > UNIX_PATH_BYTES_MAX {
        return Err(format!(
            "the path has {} bytes; the kernel takes {UNIX_PATH_BYTES_MAX} at most",
            path.len()
        ));
    }
    Ok(Endpoint::Unix { path: PathBuf::from(path), mode })
}

fn parse_mode(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| *mode <= 0o777)
        .ok_or_else(|| "`mode` wants permissions in octal, as in `mode=660`".to_owned())
}

/// Says what the writer probably meant, by the commonest mistakes.
fn what_is_wrong(text: &str) -> String {
    const FORMS: &str =
        "expected `127.0.0.1:8080`, `[::1]:8080`, `:8080` (every interface), `unix:PATH` or `systemd`";
    if text.contains("://") {
        return format!("leave the scheme off; {FORMS}");
    }
    if text.parse::<u16>().is_ok() {
        return format!("write `127.0.0.1:{text}` for this machine only, or `:{text}` for every interface");
    }
    if let Ok(IpAddr::V6(address)) = text.trim_matches(['[', ']']).parse() {
        return format!("an IPv6 address is written in brackets, with a port: `[{address}]:8080`");
    }
    if let Ok(IpAddr::V4(address)) = text.parse() {
        return format!("the port is missing: `{address}:8080`");
    }
    if let Some((_, option)) = text.split_once(',') {
        return format!("`{}` is no option of it; there is `,proxy_protocol`", option.escape_debug());
    }
    match text.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_err() && !host.is_empty() => {
            format!("`{}` is not a port (0 to 65535)", port.escape_debug())
        }
        Some(("localhost", port)) => format!("names are not looked up; write `127.0.0.1:{port}` or `[::1]:{port}`"),
        Some((host, _)) if host.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            "names are not looked up, since a name may stand for another address tomorrow; write the IP address"
                .to_owned()
        }
        _ => FORMS.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read_and_written_back() {
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
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), written);
            assert_eq!(written.parse::<Address>().unwrap(), address);
            assert_eq!(address.proxy_protocol, text.contains("proxy"));
        }
    }

    #[test]
    fn a_mistake_is_told_with_what_to_write_instead() {
        let long = format!("unix:/{}", "x".repeat(200));
        for (text, hint) in [
            ("", "expected `127.0.0.1:8080`"),
            ("8080", "`127.0.0.1:8080` for this machine only, or `:8080`"),
            ("localhost:80", "write `127.0.0.1:80`"),
            ("example.org:80", "write the IP address"),
            ("http://127.0.0.1:80", "leave the scheme off"),
            ("127.0.0.1", "the port is missing: `127.0.0.1:8080`"),
            ("127.0.0.1:65536", "`65536` is not a port"),
            ("127.0.0.1:", "`` is not a port"),
            ("::1", "in brackets, with a port: `[::1]:8080`"),
            ("[::1]", "in brackets, with a port: `[::1]:8080`"),
            (":port", "expected"),
            ("unix:", "wants a path"),
            ("unix:/a,mode=999", "in octal"),
            ("unix:/a,mode=7777", "in octal"),
            (&long, "107 at most"),
            ("systemd:", "is not a port"),
            (
                "127.0.0.1:80,proxy-protocol",
                "`proxy-protocol` is no option of it; there is `,proxy_protocol`",
            ),
            ("127.0.0.1:80,mode=660", "`mode=660` is no option"),
            ("127.0.0.1,proxy_protocol", "the port is missing"),
            (",proxy_protocol", "expected"),
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
