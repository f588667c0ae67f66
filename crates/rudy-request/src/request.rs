//! Requests, encoded once and sent many times.

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Version};
use rudy_http::h2;
use rudy_message::BodyLength;
use rudy_message::client::{RequestError, RequestHead, RequestInfo};

use crate::{Protocols, Url};

/// The parts of a request that do not depend on the URL.
#[derive(Debug, Clone)]
pub struct Template {
    /// The method.
    pub method: Method,
    /// Additional header fields. A `Host` field replaces that of the URL.
    pub fields: HeaderMap,
    /// The body. `None` differs from an empty body.
    pub body: Option<Bytes>,
    /// HTTP/1.0 or HTTP/1.1, if the request is not sent over HTTP/2.
    pub version: Version,
    /// The protocols for which the request is encoded.
    pub protocols: Protocols,
    /// Whether the connection should stay open.
    pub keep_alive: bool,
}

impl Default for Template {
    fn default() -> Self {
        Self {
            method: Method::GET,
            fields: HeaderMap::new(),
            body: None,
            version: Version::HTTP_11,
            protocols: Protocols::Http1,
            keep_alive: true,
        }
    }
}

/// An encoded request.
#[derive(Debug, Clone)]
pub struct Encoded {
    /// Head and body, for HTTP/1.1.
    pub bytes: Bytes,
    /// The properties of the request on which the parsing of its response depends.
    pub info: RequestInfo,
    /// The request for HTTP/2, if it can be chosen.
    pub http2: Option<Box<Http2Request>>,
}

/// A request for HTTP/2, which each connection encodes with its own table.
#[derive(Debug, Clone)]
pub struct Http2Request {
    /// The fields.
    pub head: h2::client::Request,
    /// The body.
    pub body: Bytes,
}

impl Template {
    /// Encodes the request for a URL.
    ///
    /// # Errors
    ///
    /// The fields do not form a valid request.
    pub fn encode(&self, url: &Url) -> Result<Encoded, RequestError> {
        let fields = self.all_fields(url)?;
        let head = RequestHead {
            method: &self.method,
            target: url.target(),
            version: self.version,
            fields: (&fields).into(),
            body: BodyLength::Known(self.body.as_ref().map_or(0, |body| body.len() as u64)),
        };
        let mut bytes = BytesMut::new();
        head.encode(&mut bytes)?;
        bytes.extend_from_slice(self.body.as_deref().unwrap_or_default());
        let http2 = if self.protocols.may_have_streams() {
            let scheme = if url.is_secure() { "https" } else { "http" };
            let body = self.body.clone().unwrap_or_default();
            Some(Box::new(Http2Request { head: h2::client::Request::new(&head, scheme)?, body }))
        } else {
            None
        };
        Ok(Encoded { bytes: bytes.freeze(), info: head.info(), http2 })
    }

    fn all_fields(&self, url: &Url) -> Result<HeaderMap, RequestError> {
        let mut fields = self.fields.clone();
        if !fields.contains_key(header::HOST) {
            let authority = url.authority();
            let host = HeaderValue::from_str(&authority).map_err(|_| RequestError::BadHost(authority))?;
            fields.insert(header::HOST, host);
        }
        let mut default = |name, value| {
            fields.entry(name).or_insert(HeaderValue::from_static(value));
        };
        default(header::USER_AGENT, concat!("rudy/", env!("CARGO_PKG_VERSION")));
        default(header::ACCEPT, "*/*");
        match (self.keep_alive, self.version) {
            (false, _) => default(header::CONNECTION, "close"),
            (true, Version::HTTP_10) => default(header::CONNECTION, "keep-alive"),
            (true, _) => {}
        }
        Ok(fields)
    }
}

/// Parses a header field from the command line: `Name: value`, or `Name;` for an empty value, as in curl.
///
/// # Errors
///
/// A message about the problem.
pub fn parse_field(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = match text.split_once(':') {
        Some((name, value)) => (name, value.trim()),
        None => (
            text.strip_suffix(';')
                .ok_or_else(|| format!("{text:?} is not a header field (expected \"Name: value\")"))?,
            "",
        ),
    };
    let name = name.parse().map_err(|_| format!("{name:?} is not a valid field name"))?;
    let value =
        value.parse().map_err(|_| format!("the value of {name} contains characters that are not allowed"))?;
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_default_fields_and_those_of_the_template() {
        let url: Url = "http://a:81/b?c".parse().unwrap();
        let text =
            |template: &Template| String::from_utf8(template.encode(&url).unwrap().bytes.to_vec()).unwrap();
        let plain = text(&Template::default());
        assert!(plain.starts_with("GET /b?c HTTP/1.1\r\nhost: a:81\r\n"), "{plain}");
        assert!(plain.contains("\r\nuser-agent: rudy/") && plain.contains("\r\naccept: */*\r\n"), "{plain}");
        let (name, value) = parse_field("Host: other").unwrap();
        let mut post = Template {
            method: Method::POST,
            body: Some(Bytes::from_static(b"x=1")),
            keep_alive: false,
            ..Template::default()
        };
        post.fields.insert(name, value);
        let post = text(&post);
        assert!(post.starts_with("POST /b?c HTTP/1.1\r\nhost: other\r\n"), "{post}");
        assert!(post.contains("\r\nconnection: close\r\n"), "{post}");
        assert!(post.ends_with("content-length: 3\r\n\r\nx=1"), "{post}");
    }

    #[test]
    fn a_field_is_parsed_as_by_curl() {
        assert_eq!(parse_field("X-A: b: c").unwrap().1, "b: c");
        assert_eq!(parse_field("X-A;").unwrap().1, "");
        for invalid in ["X-A", "X A: b", ": b", "X-A: b\r\nX-C: d"] {
            assert!(parse_field(invalid).is_err(), "{invalid}");
        }
    }
}
