//! A request as a source describes it.

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, Method};

/// A request to send to both servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Where the source has it.
    pub place: Place,
    /// The method.
    pub method: Method,
    /// Path and query.
    pub target: String,
    /// The host, if the source has it.
    pub host: Option<String>,
    /// Header fields to send.
    pub fields: HeaderMap,
    /// The body.
    pub body: Option<Bytes>,
}

/// A place in a source: the line of a file, or the number of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(pub u64);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Request {
    /// A GET request without fields.
    #[must_use]
    pub fn get(place: Place, target: &str) -> Self {
        Self {
            place,
            method: Method::GET,
            target: target.to_owned(),
            host: None,
            fields: HeaderMap::new(),
            body: None,
        }
    }

    /// Adds a field. A value that cannot be sent is left out.
    pub(crate) fn add_field(&mut self, name: &str, value: &str) {
        if let (Ok(name), Ok(value)) = (name.parse::<http::HeaderName>(), value.parse()) {
            self.fields.append(name, value);
        }
    }
}

/// Returns whether it can be the target of a request: a path with an optional query.
pub(crate) fn is_target(text: &str) -> bool {
    text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#')
}
