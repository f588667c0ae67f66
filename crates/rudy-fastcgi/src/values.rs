//! What an app says of itself when it is asked (section 4.1).

use bytes::BytesMut;
use rudy_http::syntax::parse_digits;

use crate::pairs::{Pairs, encode_pair};
use crate::record::{Kind, encode_discrete};

/// How much an app takes at once. What it was not asked for, or says in a way that nobody understands, is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Values {
    /// Connections that it accepts at once: `FCGI_MAX_CONNS`.
    pub max_connections: Option<u32>,
    /// Requests that it takes at once: `FCGI_MAX_REQS`.
    pub max_requests: Option<u32>,
    /// Whether it takes several requests at once on one connection: `FCGI_MPXS_CONNS`.
    pub multiplexes: Option<bool>,
}

/// Asks for all three (`FCGI_GET_VALUES`).
pub(crate) fn encode_query(out: &mut BytesMut) {
    encode_pairs(Kind::GetValues, [MAX_CONNECTIONS, MAX_REQUESTS, MULTIPLEXES].map(|name| (name, None)), out);
}

impl Values {
    /// From an app's answer. Names that the specification does not have are passed over, as it asks.
    pub(crate) fn decode(pairs: &Pairs<'_>) -> Self {
        Self {
            max_connections: number(pairs, MAX_CONNECTIONS),
            max_requests: number(pairs, MAX_REQUESTS),
            multiplexes: match pairs.get(MULTIPLEXES) {
                Some(b"0") => Some(false),
                Some(b"1") => Some(true),
                _ => None,
            },
        }
    }

    /// Appends the answer to a question (`FCGI_GET_VALUES_RESULT`): what was asked and is known, each once.
    pub fn encode_result(&self, asked: &Pairs<'_>, out: &mut BytesMut) {
        let known = [
            (MAX_CONNECTIONS, self.max_connections),
            (MAX_REQUESTS, self.max_requests),
            (MULTIPLEXES, self.multiplexes.map(u32::from)),
        ];
        let is_asked = |(name, value): &(&str, Option<u32>)| value.is_some() && asked.get(name).is_some();
        encode_pairs(Kind::GetValuesResult, known.into_iter().filter(is_asked), out);
    }
}

fn encode_pairs<'a>(kind: Kind, pairs: impl IntoIterator<Item = (&'a str, Option<u32>)>, out: &mut BytesMut) {
    let mut content = BytesMut::new();
    for (name, value) in pairs {
        let value = value.map(|value| value.to_string()).unwrap_or_default();
        encode_pair(name.as_bytes(), value.as_bytes(), &mut content);
    }
    encode_discrete(kind, None, &content, out);
}

fn number(pairs: &Pairs<'_>, name: &str) -> Option<u32> {
    u32::try_from(parse_digits(pairs.get(name)?)?).ok()
}

const MAX_CONNECTIONS: &str = "FCGI_MAX_CONNS";
const MAX_REQUESTS: &str = "FCGI_MAX_REQS";
const MULTIPLEXES: &str = "FCGI_MPXS_CONNS";
