//! Values of the main file that are written as text: addresses and engines.

use std::fmt;
use std::str::FromStr;

use rudy_config::{Invalid, OneOrMany, Setting, Shape, Value, written_as_text};
use rudy_net::engine::{Model, UnknownModel};
use rudy_service::listen_address::{Address, AddressError, Endpoint};

/// An address to accept connections on, parsed by [`rudy_net::listen`]. A number is a port on all addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ListenAddress(Address);

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(port) = text.parse::<u16>() {
            return Ok(Self(Endpoint::AllInterfaces { port }.into()));
        }
        text.parse().map(Self).map_err(|error: AddressError| error.problem().to_owned())
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

/// One or several addresses, with Unix sockets relative to the folder of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses(pub Vec<Address>);

impl Setting for Addresses {
    const SHAPE: Shape = <OneOrMany<ListenAddress>>::SHAPE;

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        let addresses = <OneOrMany<ListenAddress>>::read(value)?;
        let resolve = |ListenAddress(address): &ListenAddress| {
            let mut address = address.clone();
            if let Endpoint::Unix { path, .. } = &mut address.endpoint {
                *path = value.relative_to_file(path);
            }
            address
        };
        Ok(Self(addresses.as_slice().iter().map(resolve).collect()))
    }
}

/// The name of an engine, as in [`rudy_net::engine`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineName(pub Model);

impl FromStr for EngineName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|error: UnknownModel| error.to_string())
    }
}

impl From<EngineName> for Model {
    fn from(name: EngineName) -> Self {
        name.0
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
