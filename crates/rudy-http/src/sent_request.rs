//! Requests that a client sends: the fields of a section.

use http::{Method, header};
use rudy_message::BodyLength;
use rudy_message::client::{RequestError, RequestHead};

use crate::field_section::is_for_connection;
use crate::hpack::Indexing;

/// Shorter cookies are never added to a table: an attacker who controls other fields could guess them by the size of blocks
/// (RFC 7541 §7.1).
const COOKIE_BYTES_MIN: usize = 20;

/// A request that is checked and turned into the fields of HTTP/2 and HTTP/3. It can be sent many times, on any connection.
#[derive(Debug, Clone)]
pub struct Request {
    /// The names and values of all fields.
    text: Vec<u8>,
    fields: Vec<Field>,
    body: BodyLength,
    is_head: bool,
    is_tunnel: bool,
}

/// A field in the text.
#[derive(Debug, Clone, Copy)]
struct Field {
    start: usize,
    value: usize,
    end: usize,
    indexing: Indexing,
}

impl Request {
    /// Creates a request from a head of HTTP/1.1, whose version does not matter. `scheme` is `http` or `https`. Fields for the
    /// connection, such as Connection, are omitted (RFC 9113 §8.2.2, RFC 9114 §4.2).
    ///
    /// # Errors
    ///
    /// The head is invalid or ambiguous, or its target is an absolute URI.
    pub fn new(head: &RequestHead<'_>, scheme: &str) -> Result<Self, RequestError> {
        head.check_for_http2()?;
        let mut request = Self::empty(head.body);
        request.is_head = head.method == Method::HEAD;
        let method = head.method.as_str();
        request.add(":method", method.as_bytes(), index(method == "GET" || method == "POST"));
        // RFC 9113 §8.5: a CONNECT has neither a scheme nor a path.
        if head.method != Method::CONNECT {
            request.add_target(head.target, scheme)?;
        }
        request.add_fields(head);
        Ok(request)
    }

    /// Creates a request for a tunnel of a protocol such as `websocket` (RFC 8441 §4, RFC 9220) from a GET of HTTP/1.1 with `Upgrade`. Its
    /// body and that of a successful response are the directions of the tunnel. Send it only to a server that
    /// [accepts it](crate::h2::client::ClientConnection::accepts_tunnels).
    ///
    /// # Errors
    ///
    /// Those of [`Self::new`].
    pub fn tunnel(head: &RequestHead<'_>, scheme: &str, protocol: &str) -> Result<Self, RequestError> {
        head.check_for_http2()?;
        let mut request = Self::empty(BodyLength::Chunked);
        request.is_tunnel = true;
        request.add(":method", Method::CONNECT.as_str().as_bytes(), Indexing::Incremental);
        request.add(":protocol", protocol.as_bytes(), Indexing::Incremental);
        request.add_target(head.target, scheme)?;
        request.add_fields(&RequestHead { body: BodyLength::Chunked, ..*head });
        Ok(request)
    }

    fn empty(body: BodyLength) -> Self {
        Self { text: Vec::new(), fields: Vec::new(), body, is_head: false, is_tunnel: false }
    }

    fn add_target(&mut self, target: &str, scheme: &str) -> Result<(), RequestError> {
        if !target.starts_with('/') && target != "*" {
            return Err(RequestError::BadTarget(target.to_owned()));
        }
        self.add(":scheme", scheme.as_bytes(), Indexing::Incremental);
        // Paths differ from request to request.
        self.add(":path", target.as_bytes(), Indexing::Without);
        Ok(())
    }

    /// Adds the authority and the fields without those of an HTTP/1.1 connection.
    fn add_fields(&mut self, head: &RequestHead<'_>) {
        let fields = head.fields.map();
        if let Some(host) = fields.get(header::HOST) {
            self.add(":authority", host.as_bytes(), Indexing::Incremental);
        }
        for (name, value) in fields {
            let is_omitted = [header::HOST, header::CONTENT_LENGTH].contains(name)
                || is_for_connection(name.as_str().as_bytes())
                // RFC 8441 §5: a key and its echo have no purpose.
                || (self.is_tunnel && name == header::SEC_WEBSOCKET_KEY)
                || (name == header::TE && !value.as_bytes().eq_ignore_ascii_case(b"trailers"));
            if !is_omitted {
                let indexing =
                    if value.is_sensitive() { Indexing::Never } else { indexing(name, value.len()) };
                self.add(name.as_str(), value.as_bytes().trim_ascii(), indexing);
            }
        }
        match head.body {
            BodyLength::Known(length) if length > 0 || head.expects_content() => {
                let mut buffer = itoa::Buffer::new();
                self.add("content-length", buffer.format(length).as_bytes(), Indexing::Without);
            }
            _ => {}
        }
    }

    /// Returns the length of the body.
    #[must_use]
    pub fn body(&self) -> BodyLength {
        self.body
    }

    /// Whether the method is HEAD, so that the response has no body.
    pub(crate) fn is_head(&self) -> bool {
        self.is_head
    }

    /// Whether a successful response opens a tunnel.
    pub(crate) fn is_tunnel(&self) -> bool {
        self.is_tunnel
    }

    pub(crate) fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8], Indexing)> {
        self.fields.iter().map(|field| {
            let &Field { start, value, end, indexing } = field;
            (&self.text[start..value], &self.text[value..end], indexing)
        })
    }

    fn add(&mut self, name: &str, value: &[u8], indexing: Indexing) {
        let start = self.text.len();
        self.text.extend_from_slice(name.as_bytes());
        self.text.extend_from_slice(value);
        let value = start + name.len();
        self.fields.push(Field { start, value, end: self.text.len(), indexing });
    }
}

fn index(is_indexed: bool) -> Indexing {
    if is_indexed { Indexing::Incremental } else { Indexing::Without }
}

/// Decides whether a field is added to the table: secrets never, and those that differ from request to request neither.
pub(crate) fn indexing(name: &header::HeaderName, value_bytes: usize) -> Indexing {
    match name {
        &header::AUTHORIZATION | &header::PROXY_AUTHORIZATION => Indexing::Never,
        &header::COOKIE if value_bytes < COOKIE_BYTES_MIN => Indexing::Never,
        &header::IF_NONE_MATCH
        | &header::IF_MATCH
        | &header::IF_MODIFIED_SINCE
        | &header::IF_UNMODIFIED_SINCE
        | &header::IF_RANGE
        | &header::RANGE
        | &header::DATE => Indexing::Without,
        _ => Indexing::Incremental,
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue, Version};

    use super::*;

    fn request(
        method: &str,
        target: &str,
        fields: &[(&str, &str)],
        body: BodyLength,
    ) -> Result<Vec<String>, RequestError> {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap());
        }
        let method = Method::try_from(method).unwrap();
        let head =
            RequestHead { method: &method, target, version: Version::HTTP_11, fields: (&map).into(), body };
        let request = Request::new(&head, "https")?;
        let line = |(name, value, indexing): (&[u8], &[u8], Indexing)| {
            format!("{} {} {indexing:?}", name.escape_ascii(), value.escape_ascii())
        };
        Ok(request.fields().map(line).collect())
    }

    #[test]
    fn pseudo_fields_are_first_and_host_is_the_authority() {
        let fields = [("accept", "*/*"), ("host", "a:1"), ("te", "trailers")];
        assert_eq!(
            request("GET", "/b?c", &fields, BodyLength::Known(0)).unwrap(),
            [
                ":method GET Incremental",
                ":scheme https Incremental",
                ":path /b?c Without",
                ":authority a:1 Incremental",
                "accept */* Incremental",
                "te trailers Incremental"
            ]
        );
        let connect = request("CONNECT", "a:1", &[("host", "a:1")], BodyLength::Known(0)).unwrap();
        assert_eq!(connect, [":method CONNECT Without", ":authority a:1 Incremental"]);
    }

    #[test]
    fn an_upgrade_becomes_a_connect_with_a_protocol() {
        let mut fields = HeaderMap::new();
        for (name, value) in [
            ("host", "a"),
            ("connection", "upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-key", "x"),
            ("sec-websocket-version", "13"),
        ] {
            fields.insert(name, HeaderValue::from_static(value));
        }
        let head = RequestHead {
            method: &Method::GET,
            target: "/chat",
            version: Version::HTTP_11,
            fields: (&fields).into(),
            body: BodyLength::Known(0),
        };
        let request = Request::tunnel(&head, "http", "websocket").unwrap();
        let lines: Vec<_> = request
            .fields()
            .map(|(name, value, _)| format!("{} {}", name.escape_ascii(), value.escape_ascii()))
            .collect();
        assert_eq!(
            lines,
            [
                ":method CONNECT",
                ":protocol websocket",
                ":scheme http",
                ":path /chat",
                ":authority a",
                "sec-websocket-version 13"
            ]
        );
        assert_eq!(request.body(), BodyLength::Chunked);
    }

    #[test]
    fn fields_of_the_connection_are_omitted_and_the_length_is_that_of_the_body() {
        let fields = [
            ("host", "a"),
            ("connection", "keep-alive, x"),
            ("keep-alive", "1"),
            ("upgrade", "h2c"),
            ("te", "gzip"),
            ("content-length", "3"),
        ];
        let lines = request("PUT", "/", &fields, BodyLength::Known(3)).unwrap();
        assert_eq!(lines[4..], ["content-length 3 Without"]);
        let lines = request("POST", "/", &fields[..1], BodyLength::Known(0)).unwrap();
        assert_eq!(lines[4..], ["content-length 0 Without"]);
        assert_eq!(request("POST", "/", &fields[..1], BodyLength::Chunked).unwrap().len(), 4);
    }

    #[test]
    fn secrets_are_never_indexed() {
        let fields = [
            ("host", "a"),
            ("authorization", "Bearer 0123456789abcdef0123456789abcdef"),
            ("proxy-authorization", "Basic YTpi"),
            ("cookie", "a=1"),
            ("cookie", "session=0123456789abcdef"),
            ("if-none-match", "\"x\""),
        ];
        let lines = request("GET", "/", &fields, BodyLength::Known(0)).unwrap();
        let ends: Vec<_> = lines[4..].iter().map(|line| line.rsplit(' ').next().unwrap()).collect();
        assert_eq!(ends, ["Never", "Never", "Never", "Incremental", "Without"]);
    }

    #[test]
    fn invalid_requests_are_rejected() {
        let none = BodyLength::Known(0);
        for (method, target, fields) in [
            ("GET", "http://a/", &[("host", "a")][..]),
            ("GET", "a", &[("host", "a")]),
            ("GET", "*", &[("host", "a")]),
            ("GET", "/a b", &[("host", "a")]),
            ("GET", "/", &[]),
            ("GET", "/", &[("host", "a"), ("host", "b")]),
            ("GET", "/", &[("host", "a b")]),
            ("GET", "/", &[("host", "a"), ("content-length", "1")]),
        ] {
            assert!(request(method, target, fields, none).is_err(), "{method} {target} {fields:?}");
        }
    }
}
