//! Values that are written as text.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use rudy_net::engine::{Model, UnknownModel};
use rudy_net::listen::{Address, Endpoint};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Serialize, Serializer};

use crate::config::read::two_lines;
use crate::config::visible;

/// Where to accept connections, as [`rudy_net::listen`] reads it. A number is a port on all addresses.
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

/// An engine, as [`rudy_net::engine`] names it.
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

/// Takes text, and an integer in the place of text, for a type that is written so.
pub(crate) struct TextVisitor<T> {
    what: &'static str,
    takes_integers: bool,
    of: PhantomData<T>,
}

impl<T> TextVisitor<T> {
    /// `what` is what the text is, with an example: `a host ("example.org")`.
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, takes_integers: false, of: PhantomData }
    }

    /// Takes an integer for the text that it is written as.
    pub(crate) fn or_integer(self) -> Self {
        Self { takes_integers: true, ..self }
    }
}

impl<T: FromStr<Err = String>> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        // The label has an example already.
        let what = self.what.split(" (").next().unwrap_or_default();
        text.parse().map_err(|why: String| {
            E::custom(two_lines(format_args!("\"{}\" is not {what}", visible(text)), visible(&why)))
        })
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        if self.takes_integers {
            return self.visit_str(&number.to_string());
        }
        Err(E::invalid_type(Unexpected::Unsigned(number), &self))
    }
}

/// Text on the outside, a checked value on the inside: for a type with `FromStr`, whose error is what was expected, and `Display`.
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
