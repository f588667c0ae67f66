//! The capacity that an app reports when a web server queries it (section 4.1).

use bytes::BytesMut;
use rudy_message::syntax::parse_digits;

use crate::pairs::{Pairs, encode_pair};
use crate::record::{Kind, encode_discrete};

/// The capacity of an app. A value is `None` if it is missing or invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Values {
    /// Maximum number of connections: `FCGI_MAX_CONNS`.
    pub max_connections: Option<u32>,
    /// Maximum number of concurrent requests: `FCGI_MAX_REQS`.
    pub max_requests: Option<u32>,
    /// Whether the app accepts several requests at once on one connection: `FCGI_MPXS_CONNS`.
    pub multiplexes: Option<bool>,
}

/// Appends a query for all three values (`FCGI_GET_VALUES`).
pub(crate) fn encode_query(out: &mut BytesMut) {
    encode_pairs(Kind::GetValues, [MAX_CONNECTIONS, MAX_REQUESTS, MULTIPLEXES].map(|name| (name, None)), out);
}

impl Values {
    /// Decodes an app's result. Ignores unknown names, as the specification requires.
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

    /// Appends the result of a query (`FCGI_GET_VALUES_RESULT`): each requested value that is known, once.
    pub fn encode_result(&self, query: &Pairs<'_>, out: &mut BytesMut) {
        let known = [
            (MAX_CONNECTIONS, self.max_connections),
            (MAX_REQUESTS, self.max_requests),
            (MULTIPLEXES, self.multiplexes.map(u32::from)),
        ];
        let is_requested = |(name, value): &(&str, Option<u32>)| value.is_some() && query.get(name).is_some();
        encode_pairs(Kind::GetValuesResult, known.into_iter().filter(is_requested), out);
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
