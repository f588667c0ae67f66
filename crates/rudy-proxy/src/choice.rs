//! Which upstream gets a request.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use http::HeaderName;
use rudy_config::written_as_text;
use rudy_message::LazyHead;
use rudy_pipeline::parts::{CookieName, cookies};
use rudy_service::Peer;
use rudy_units::visible;
use rudy_upstream::{Choice, hash};

/// How an upstream is chosen: `least-busy`, `round-robin`, or by the hash of a part of the request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum UpstreamChoice {
    /// The less busy of two that are chosen at random.
    #[default]
    LeastBusy,
    /// One after the other.
    RoundRobin,
    /// The same one for the same address, path, field or cookie.
    Hash(HashKey),
}

/// The part of a request that determines its upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HashKey {
    /// The IP address of the client.
    Address,
    /// The path, without the query.
    Path,
    /// The value of a header field.
    Field(HeaderName),
    /// The value of a cookie.
    Cookie(String),
}

impl UpstreamChoice {
    /// Returns the choice of the pool. With a hash, no upstream gets more requests at a time than `balance_percent` of the average.
    pub(super) fn of_pool(&self, balance_percent: Option<u32>) -> Choice {
        match self {
            Self::LeastBusy => Choice::LeastBusy,
            Self::RoundRobin => Choice::RoundRobin,
            Self::Hash(_) => Choice::Hash { balance_percent },
        }
    }

    /// Returns the hash that determines the upstream of a connection without requests.
    pub(super) fn key_of_client(&self, client: Peer) -> Option<u64> {
        matches!(self, Self::Hash(HashKey::Address)).then(|| address_hash(client)).flatten()
    }

    /// Returns the hash of the part of the request that determines its upstream; `None` if there is none, as a cookie before the first
    /// response.
    pub(super) fn key(&self, client: Peer, head: &LazyHead<'_>) -> Option<u64> {
        let Self::Hash(key) = self else { return None };
        match key {
            HashKey::Address => address_hash(client),
            HashKey::Path => Some(hash(head.path())),
            HashKey::Field(name) => head.get(name).map(hash),
            HashKey::Cookie(name) => cookies(head, name).next().map(hash),
        }
    }
}

/// Not of a client whose address is unknown: all of them would get the same upstream.
fn address_hash(client: Peer) -> Option<u64> {
    let Peer::Ip(address) = client else { return None };
    Some(match address.ip().to_canonical() {
        IpAddr::V4(address) => hash(&address.octets()),
        IpAddr::V6(address) => hash(&address.octets()),
    })
}

impl FromStr for UpstreamChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let key = match text.split_once(':') {
            None if text == "least-busy" => return Ok(Self::LeastBusy),
            None if text == "round-robin" => return Ok(Self::RoundRobin),
            Some(("hash", key)) => key,
            _ => {
                let choices = "\"least-busy\", \"round-robin\" or \"hash:address\"";
                return Err(format!("\"{}\" is not a choice: write {choices}", visible(text)));
            }
        };
        let key = match key.split_once(':') {
            None if key == "address" => HashKey::Address,
            None if key == "path" => HashKey::Path,
            Some(("field", name)) => HashKey::Field(
                name.parse().map_err(|_| format!("\"{}\" is not a field name", visible(name)))?,
            ),
            Some(("cookie", name)) => HashKey::Cookie(name.parse::<CookieName>()?.0),
            _ => {
                let keys =
                    "\"hash:address\", \"hash:path\", \"hash:field:X-User\" or \"hash:cookie:session\"";
                return Err(format!("no part of a request is named \"{}\": write {keys}", visible(key)));
            }
        };
        Ok(Self::Hash(key))
    }
}

written_as_text!(UpstreamChoice, "a choice (\"least-busy\")", {
    doc: "How an upstream is chosen.",
    pattern: "^(least-busy|round-robin|hash:(address|path|field:.+|cookie:.+))$",
    examples: ["least-busy", "round-robin", "hash:address", "hash:path", "hash:field:X-User", "hash:cookie:session"],
});

impl fmt::Display for UpstreamChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeastBusy => f.write_str("least-busy"),
            Self::RoundRobin => f.write_str("round-robin"),
            Self::Hash(HashKey::Address) => f.write_str("hash:address"),
            Self::Hash(HashKey::Path) => f.write_str("hash:path"),
            Self::Hash(HashKey::Field(name)) => write!(f, "hash:field:{name}"),
            Self::Hash(HashKey::Cookie(name)) => write!(f, "hash:cookie:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_prints_as_it_was_written() {
        for text in
            ["least-busy", "round-robin", "hash:address", "hash:path", "hash:field:x-user", "hash:cookie:a.b"]
        {
            assert_eq!(text.parse::<UpstreamChoice>().unwrap().to_string(), text);
        }
        for (text, expected) in [
            ("", "write \"least-busy\", \"round-robin\" or \"hash:address\""),
            ("random", "\"random\" is not a choice"),
            ("hash", "write \"least-busy\""),
            ("hash:", "write \"hash:address\", \"hash:path\""),
            ("hash:cookie", "\"hash:cookie:session\""),
            ("hash:cookie:a b", "\"a b\" is not a cookie name"),
            ("hash:cookie:", "is not a cookie name"),
            ("hash:field:a b", "\"a b\" is not a field name"),
        ] {
            let why = text.parse::<UpstreamChoice>().expect_err(text);
            assert!(why.contains(expected), "{text}: {why}");
        }
    }

    #[test]
    fn a_key_is_a_part_of_the_request() {
        let mut head = LazyHead::default();
        head.set_uri("/a".parse().unwrap());
        for (name, value) in
            [("x-user", "ann"), ("cookie", "a=1; session_old=2"), ("cookie", "session=x=y;session=z")]
        {
            head.add(HeaderName::from_static(name), value.parse().unwrap());
        }
        let client = Peer::Ip("[::ffff:192.0.2.7]:4000".parse().unwrap());
        for (choice, key) in [
            ("hash:address", Some(&[192, 0, 2, 7][..])),
            ("hash:path", Some(b"/a")),
            ("hash:field:X-User", Some(b"ann")),
            ("hash:field:X-Other", None),
            ("hash:cookie:session", Some(b"x=y")),
            ("hash:cookie:a", Some(b"1")),
            ("hash:cookie:b", None),
            ("least-busy", None),
        ] {
            let choice: UpstreamChoice = choice.parse().unwrap();
            assert_eq!(choice.key(client, &head), key.map(hash), "{choice}");
        }
        let by_address = UpstreamChoice::Hash(HashKey::Address);
        assert_eq!(by_address.key(Peer::Unnamed(None), &head), None);
    }
}
