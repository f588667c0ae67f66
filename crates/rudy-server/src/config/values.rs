//! Values of the main file that are written as text: addresses and engines.

use std::fmt;
use std::str::FromStr;

use rudy_config::written_as_text;
use rudy_net::engine::{Model, UnknownModel};
use rudy_service::listen_address::{Address, Endpoint};

/// An address to accept connections on, parsed by [`rudy_net::listen`]. A number is a port on all addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenAddress(pub Address);

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(port) = text.parse::<u16>() {
            return Ok(Self(Endpoint::AllInterfaces { port }.into()));
        }
        text.parse()
            .map(Self)
            .map_err(|error: rudy_service::listen_address::AddressError| error.problem().to_owned())
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

written_as_text!(ListenAddress, "an address to listen on (\"127.0.0.1:8080\")", {
    doc: "An IP address and a port, a port on all addresses, a Unix socket, or sockets passed by systemd.",
    examples: [8080, "127.0.0.1:8080", "[::1]:80", ":8080", "unix:/run/rudy.sock", "systemd"],
    or_integer,
});

/// The name of an engine, as in [`rudy_net::engine`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineName(pub Model);

impl FromStr for EngineName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|error: UnknownModel| error.to_string())
    }
}

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

written_as_text!(EngineName, "an engine (\"percore\")", {
    doc: "The name of a concurrency model.",
    pattern: "^(serial|thread|pool:[0-9]+|task|mailbox|percore)$",
    examples: ["percore", "pool:16"],
});
