//! A name server in a configuration.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use rudy_config::written_as_text;
use rudy_units::visible;

/// The port of DNS (RFC 1035 §4.2).
const PORT: u16 = 53;

/// A name server: `10.0.0.2`, `10.0.0.2:5353`, `[2001:db8::2]:53`, or `system` for those in `/etc/resolv.conf`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameServer {
    /// Those of the system, with its search domains and `/etc/hosts`.
    System,
    /// The address of one.
    Address(SocketAddr),
}

impl FromStr for NameServer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "system" {
            return Ok(Self::System);
        }
        let address = text.parse().or_else(|_| text.parse().map(|ip: IpAddr| SocketAddr::new(ip, PORT)));
        address.ok().filter(|address| address.port() > 0).map(Self::Address).ok_or_else(|| {
            let given = visible(text);
            format!("\"{given}\" is not the address of a name server: write it as in \"10.0.0.2\" or \"10.0.0.2:5353\", or \"system\"")
        })
    }
}

written_as_text!(NameServer, "the address of a name server (\"10.0.0.2\")", {
    doc: "The IP address of a name server, with its port if that is not 53, or \"system\".",
    examples: ["10.0.0.2", "10.0.0.2:5353", "system"],
});

impl fmt::Display for NameServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("system"),
            Self::Address(address) if address.port() == PORT => address.ip().fmt(f),
            Self::Address(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_server_prints_as_it_was_written() {
        for text in ["10.0.0.2", "10.0.0.2:5353", "2001:db8::2", "[2001:db8::2]:5353", "system"] {
            assert_eq!(text.parse::<NameServer>().unwrap().to_string(), text);
        }
        for text in
            ["", "ns.example", "10.0.0.2:", "10.0.0.2:0", "10.0.0.2:70000", "udp://10.0.0.2", "System"]
        {
            let why = text.parse::<NameServer>().expect_err(text);
            assert!(why.contains("as in \"10.0.0.2\""), "{text}: {why}");
        }
    }
}
