//! The address of an upstream in a configuration.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use rudy_config::written_as_text;
use rudy_units::visible;

/// The address of an upstream: `unix:/run/php/php-fpm.sock`, `127.0.0.1:9000`, `[::1]:9000` or `php:9000`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum UpstreamAddress {
    /// An IP address and a port.
    Ip(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
    /// A host name as it was written, and a port.
    Name {
        /// The host name, which the system resolves.
        host: String,
        /// The port.
        port: u16,
    },
}

/// The maximum length of a name and of a label (RFC 1035 §2.3.4).
const NAME_MAX: usize = 253;
const LABEL_MAX: usize = 63;

impl FromStr for UpstreamAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            let missing = "the path is missing: write \"unix:/run/php/php-fpm.sock\"";
            return if path.is_empty() { Err(missing.to_owned()) } else { Ok(Self::Unix(path.into())) };
        }
        match text.parse::<SocketAddr>() {
            Ok(address) if address.port() > 0 => Ok(Self::Ip(address)),
            // The message contains the input, escaped so that it stays one line.
            _ => read_name(text).map_err(|why| visible(&why)),
        }
    }
}

/// Parses an address that is neither a Unix socket nor an IP address with a port.
fn read_name(text: &str) -> Result<UpstreamAddress, String> {
    if text.is_empty() {
        let examples = "\"unix:/run/php/php-fpm.sock\", \"127.0.0.1:9000\" or \"php:9000\"";
        return Err(format!("expected an address, as in {examples}"));
    }
    if let Some((_, rest)) = text.split_once("://") {
        let rest = rest.split('/').next().filter(|rest| rest.parse::<UpstreamAddress>().is_ok());
        return Err(format!("an address has no scheme: write \"{}\"", rest.unwrap_or("php:9000")));
    }
    match text.find(['/', ':']) {
        Some(at) if text[at..].starts_with('/') => {
            return Err(format!("a Unix socket begins with \"unix:\": write \"unix:{text}\""));
        }
        Some(0) if text.parse::<Ipv6Addr>().is_err() => {
            return Err(format!("the host is missing: write \"127.0.0.1{text}\" or \"php{text}\""));
        }
        _ => {}
    }
    let (host, port) = match text.rsplit_once(':') {
        // A colon within brackets does not start a port.
        Some((host, port)) if !text.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    check_host(host)?;
    let port = read_port(host, port)?;
    Ok(UpstreamAddress::Name { host: host.to_owned(), port })
}

fn check_host(host: &str) -> Result<(), String> {
    let in_brackets = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    if in_brackets.is_some_and(|host| host.parse::<Ipv6Addr>().is_ok()) || host.parse::<Ipv4Addr>().is_ok() {
        return Ok(());
    }
    if host.contains([':', '[', ']']) {
        return Err("an IPv6 address needs brackets: write it as in \"[::1]:9000\"".to_owned());
    }
    // A trailing dot disables the search domains of resolv.conf.
    let mut labels = host.strip_suffix('.').unwrap_or(host).split('.');
    // The system would parse these as IPv4 addresses: `127.1`, `0x7f000001`.
    if labels.clone().next_back().is_some_and(is_number) {
        return Err(format!(
            "\"{host}\" is not an IPv4 address: write four numbers, as in \"127.0.0.1:9000\""
        ));
    }
    // Names of Docker services may contain underscores.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_label = |label: &str| (1..=LABEL_MAX).contains(&label.len()) && label.bytes().all(is_plain);
    if host.len() <= NAME_MAX && labels.all(is_label) {
        return Ok(());
    }
    Err(format!(
        "\"{host}\" is not a host name: write letters, digits, hyphens and underscores, with dots between them"
    ))
}

/// Returns whether the system parses the last label of a name as a number: decimal, octal or hexadecimal.
fn is_number(label: &str) -> bool {
    let hexadecimal = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    hexadecimal.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
        || !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_digit())
}

fn read_port(host: &str, port: Option<&str>) -> Result<u16, String> {
    let Some(port) = port.filter(|port| !port.is_empty()) else {
        return Err(format!("the port is missing: write \"{host}:9000\""));
    };
    if let Some((number, _)) = port.split_once('/')
        && let Ok(number) = read_port(host, Some(number))
    {
        return Err(format!("an address has no path: write \"{host}:{number}\""));
    }
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    let number = port.parse().ok().filter(|number| is_number && *number > 0);
    number.ok_or_else(|| {
        format!("\"{port}\" is not a port: write a number from 1 to 65535, as in \"{host}:9000\"")
    })
}

written_as_text!(UpstreamAddress, "an address (\"127.0.0.1:9000\")", {
    doc: "The address of an app: a Unix socket, or a host and a port.",
    examples: ["unix:/run/php/php-fpm.sock", "127.0.0.1:9000", "[::1]:9000", "php:9000"],
});

impl fmt::Display for UpstreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Name { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_prints_as_it_was_written() {
        for text in [
            "unix:/run/php/php-fpm.sock",
            "127.0.0.1:9000",
            "[::1]:9000",
            "php:9000",
            "localhost:9000",
            "Php_1.my-app.example.org.:65535",
            "3com.1st:1",
        ] {
            let address: UpstreamAddress = text.parse().unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(address.to_string(), text);
            let is_name =
                text.starts_with(char::is_alphanumeric) && !text.starts_with("127.") && !text.contains('/');
            assert_eq!(matches!(address, UpstreamAddress::Name { .. }), is_name, "{text}");
        }
    }

    #[test]
    fn an_invalid_address_is_an_error_with_a_suggestion() {
        let long = format!("{}:9000", ["a"; 127].join("."));
        assert!(long.parse::<UpstreamAddress>().is_ok());
        let (longer, label) = (format!("a{long}"), format!("{}:9000", "a".repeat(64)));
        for (text, expected) in [
            ("", "\"127.0.0.1:9000\" or \"php:9000\""),
            ("unix:", "the path is missing: write \"unix:/run/php/php-fpm.sock\""),
            ("/run/app.sock", "a Unix socket begins with \"unix:\": write \"unix:/run/app.sock\""),
            ("run/app.sock:1", "write \"unix:run/app.sock:1\""),
            ("php", "the port is missing: write \"php:9000\""),
            ("php:", "the port is missing: write \"php:9000\""),
            ("127.0.0.1", "the port is missing: write \"127.0.0.1:9000\""),
            ("[::1]", "the port is missing: write \"[::1]:9000\""),
            ("::1", "an IPv6 address needs brackets: write it as in \"[::1]:9000\""),
            ("fe80::1:9000", "an IPv6 address needs brackets: write it as in \"[::1]:9000\""),
            ("[::g]:9000", "an IPv6 address needs brackets: write it as in \"[::1]:9000\""),
            ("php:port", "\"port\" is not a port: write a number from 1 to 65535, as in \"php:9000\""),
            ("php:+80", "\"+80\" is not a port"),
            ("php:0", "\"0\" is not a port"),
            ("php:65536", "\"65536\" is not a port"),
            ("127.0.0.1:99999", "as in \"127.0.0.1:9000\""),
            ("127.0.0.1:0", "\"0\" is not a port"),
            ("[::1]:0", "as in \"[::1]:9000\""),
            (":9000", "the host is missing: write \"127.0.0.1:9000\" or \"php:9000\""),
            ("http://php:9000", "an address has no scheme: write \"php:9000\""),
            ("tcp://10.0.0.1:9000/", "an address has no scheme: write \"10.0.0.1:9000\""),
            ("https://example.org", "an address has no scheme: write \"php:9000\""),
            ("php:9000/app", "an address has no path: write \"php:9000\""),
            ("my app:9000", "\"my app\" is not a host name"),
            ("*:9000", "\"*\" is not a host name"),
            ("bücher.example:9000", "\"bücher.example\" is not a host name"),
            ("a..b:9000", "\"a..b\" is not a host name"),
            (".:9000", "\".\" is not a host name"),
            ("p\u{1b}hp:9000", "\"p\\u{1b}hp\" is not a host name"),
            (&longer, "is not a host name"),
            (&label, "is not a host name"),
            ("256.0.0.1:9000", "\"256.0.0.1\" is not an IPv4 address"),
            ("127.1:9000", "\"127.1\" is not an IPv4 address"),
            ("2130706433:9000", "is not an IPv4 address"),
            ("0x7f000001:9000", "is not an IPv4 address"),
        ] {
            let why = text.parse::<UpstreamAddress>().expect_err(text);
            assert!(why.contains(expected), "{text}: {why}");
        }
    }
}
