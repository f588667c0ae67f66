//! Values written as text.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use rudy_net::engine::{Model, UnknownModel};
use rudy_net::listen::{Address, Endpoint};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Serialize, Serializer};

use crate::config::read::two_lines;
use crate::config::visible;

/// An address to accept connections on, parsed by [`rudy_net::listen`]. A number is a port on all addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenAddress(pub Address);

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(port) = text.parse::<u16>() {
            return Ok(Self(Endpoint::AllInterfaces { port }.into()));
        }
        text.parse().map(Self).map_err(|error: rudy_net::listen::AddressError| error.problem().to_owned())
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
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

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Visits text, and optionally an integer, for a type that implements `FromStr`.
pub(crate) struct TextVisitor<T> {
    what: &'static str,
    accepts_integers: bool,
    of: PhantomData<T>,
}

impl<T> TextVisitor<T> {
    /// `what` describes the text, with an example: `a host ("example.org")`.
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, accepts_integers: false, of: PhantomData }
    }

    /// Also accepts integers, which are converted to text.
    pub(crate) fn or_integer(self) -> Self {
        Self { accepts_integers: true, ..self }
    }
}

impl<T: FromStr<Err = String>> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        // The label already has an example.
        let what = self.what.split(" (").next().unwrap_or_default();
        text.parse().map_err(|why: String| {
            E::custom(two_lines(format_args!("\"{}\" is not {what}", visible(text)), visible(&why)))
        })
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        if self.accepts_integers {
            return self.visit_str(&number.to_string());
        }
        Err(E::invalid_type(Unexpected::Unsigned(number), &self))
    }
}

/// Implements `Deserialize` and `JsonSchema` for a type with `FromStr`, whose error is the expected value, and `Display`.
macro_rules! written_as_text {
    ($type:ident, $what:literal, $schema:tt $($or_integer:ident)?) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any($crate::config::TextVisitor::<$type>::new($what)$(.$or_integer())?)
            }
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    };
}

written_as_text!(ListenAddress, "an address to listen on (\"127.0.0.1:8080\")",
    {
        "type": ["string", "integer"],
        "description": "An IP address and a port, a port on all addresses, a Unix socket, or sockets passed by systemd.",
        "examples": [8080, "127.0.0.1:8080", "[::1]:80", ":8080", "unix:/run/rudy.sock", "systemd"]
    }
    or_integer);

written_as_text!(EngineName, "an engine (\"percore\")",
{
    "type": "string",
    "description": "The name of a concurrency model.",
    "pattern": "^(serial|thread|pool:[0-9]+|task|mailbox|percore)$",
    "examples": ["percore", "pool:16"]
});

pub(crate) use written_as_text;

impl Serialize for EngineName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
