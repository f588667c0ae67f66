//! The parts of a request's head that logs show. The head is gone when the exchange is over.

use std::ops::Range;
use std::sync::Arc;

use http::header::HOST;
use http::{HeaderName, Method, Version};
use rudy_message::semantics::field::KnownField;
use rudy_message::{FieldValue, RequestHead};

/// What logs show of a request's head.
#[derive(Debug)]
pub enum RequestInfo {
    /// A copy of parts.
    Copied(Copied),
    /// The head that a request has which waits.
    Shared(Arc<RequestHead<'static>>),
}

/// A copy of parts of a request's head.
#[derive(Debug)]
pub struct Copied {
    method: Method,
    /// `None` for a connection that does not speak HTTP.
    version: Option<Version>,
    head_bytes: usize,
    /// The target, the path and the fields, concatenated.
    bytes: Vec<u8>,
    target_end: usize,
    path_end: usize,
    /// The first line of each field that the request has.
    fields: Vec<(HeaderName, Range<usize>)>,
}

impl Copied {
    /// Copies the target, the path, and the first line of each of these fields.
    fn new(head: &RequestHead<'_>, names: &[HeaderName]) -> Self {
        let (target, path) = (head.target(), head.path());
        // Room for values of 32 bytes: most are shorter, such as a host.
        let mut bytes = Vec::with_capacity(target.len() + path.len() + 32 * names.len());
        let mut copy = |part: &[u8]| {
            bytes.extend_from_slice(part);
            bytes.len() - part.len()..bytes.len()
        };
        let (target_end, path_end) = (copy(target).end, copy(path).end);
        let mut fields: Vec<(HeaderName, Range<usize>)> = Vec::with_capacity(names.len());
        let is_host = |name: &&HeaderName| **name == HOST;
        // The parser knows its place. A search for it alone would cost as much as routing the request.
        if names.iter().any(|name| is_host(&name))
            && let FieldValue::Once(host) = head.field(KnownField::Host)
        {
            fields.push((HOST, copy(host)));
        }
        let others = || names.iter().filter(|name| !is_host(name));
        let searched = others().next().map(|_| head.fields());
        for (name, value) in searched.into_iter().flatten() {
            let wanted = others().find(|wanted| wanted.as_str().eq_ignore_ascii_case(name));
            if let Some(wanted) = wanted
                && fields.iter().all(|(known, _)| known != wanted)
            {
                fields.push((wanted.clone(), copy(value)));
            }
        }
        let (method, version, head_bytes) = (head.method().clone(), Some(head.version()), head.size());
        Self { method, version, head_bytes, bytes, target_end, path_end, fields }
    }
}

impl RequestInfo {
    /// Copies the target, the path, and the first line of each of these fields.
    pub fn new(head: &RequestHead<'_>, names: &[HeaderName]) -> Self {
        Self::Copied(Copied::new(head, names))
    }

    /// Describes a connection that does not speak HTTP as if a client had requested it: with `CONNECT`, for the server name that it sent,
    /// or else for the address where it was accepted.
    #[must_use]
    pub fn of_connection(server_name: Option<&str>, listener: &str) -> Self {
        let target = server_name.unwrap_or(listener).as_bytes();
        let fields = vec![(HOST, 0..target.len())];
        let (bytes, target_end, path_end) = (target.to_vec(), target.len(), target.len());
        let (method, version, head_bytes) = (Method::CONNECT, None, 0);
        Self::Copied(Copied { method, version, head_bytes, bytes, target_end, path_end, fields })
    }

    /// Returns the method.
    #[must_use]
    pub fn method(&self) -> &Method {
        match self {
            Self::Copied(copied) => &copied.method,
            Self::Shared(head) => head.method(),
        }
    }

    /// Returns the protocol as in a request line.
    #[must_use]
    pub fn protocol(&self) -> &'static str {
        let version = match self {
            Self::Copied(copied) => copied.version,
            Self::Shared(head) => Some(head.version()),
        };
        match version {
            None => "TCP",
            Some(Version::HTTP_10) => "HTTP/1.0",
            Some(Version::HTTP_2) => "HTTP/2.0",
            Some(Version::HTTP_3) => "HTTP/3.0",
            Some(_) => "HTTP/1.1",
        }
    }

    /// Returns the size of the head.
    #[must_use]
    pub fn head_bytes(&self) -> u64 {
        let bytes = match self {
            Self::Copied(copied) => copied.head_bytes,
            Self::Shared(head) => head.size(),
        };
        bytes as u64
    }

    /// Returns the target as the client sent it.
    #[must_use]
    pub fn target(&self) -> &[u8] {
        match self {
            Self::Copied(copied) => &copied.bytes[..copied.target_end],
            Self::Shared(head) => head.target(),
        }
    }

    /// Returns the path as the client sent it.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        match self {
            Self::Copied(copied) => &copied.bytes[copied.target_end..copied.path_end],
            Self::Shared(head) => head.path(),
        }
    }

    /// Returns the first line of a field that was copied.
    pub fn field(&self, name: &HeaderName) -> Option<&[u8]> {
        match self {
            Self::Copied(copied) => {
                let (_, range) = copied.fields.iter().find(|(known, _)| known == name)?;
                Some(&copied.bytes[range.clone()])
            }
            Self::Shared(head) => head.lines_named(name).next(),
        }
    }
}
