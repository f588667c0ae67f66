//! What clients ask for.

use std::fmt;

/// A resource of an origin. Its path says everything about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resource {
    /// Decides the bytes.
    pub number: u64,
    /// The length in bytes.
    pub length: usize,
    /// Whether the origin sends chunks, without a length.
    pub is_chunked: bool,
}

impl Resource {
    /// Returns the path below that of a route.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}-{}-{}", self.number, self.length, u8::from(self.is_chunked))
    }

    /// Reads the last segment of a path. Anything else is the empty resource 0.
    #[must_use]
    pub fn of_path(path: &str) -> Self {
        let mut parts = path.rsplit('/').next().unwrap_or_default().split('-').map(str::parse);
        let mut next = || parts.next().and_then(Result::ok).unwrap_or(0_u64);
        let (number, length, is_chunked) = (next(), next(), next());
        Self { number, length: usize::try_from(length).unwrap_or(0), is_chunked: is_chunked == 1 }
    }
}

/// A route of the server: the protocol of its applications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Route {
    /// HTTP/1.1, with TLS or without.
    Http1,
    /// HTTP/2 without TLS.
    Http2,
    /// FastCGI.
    FastCgi,
    /// HTTP/1.1 behind the response cache.
    Cached,
}

impl Route {
    /// Those that are not cached.
    pub(crate) const PASSED_ON: [Self; 3] = [Self::Http1, Self::Http2, Self::FastCgi];

    /// Returns the path that its requests begin with.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Http1 => "/origin/",
            Self::Http2 => "/http2/",
            Self::FastCgi => "/fastcgi/",
            Self::Cached => "/cached/",
        }
    }
}

/// A request, and what the response must be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) id: u64,
    pub(crate) method: &'static str,
    pub(crate) route: Route,
    pub(crate) resource: Resource,
    /// The length of its body.
    pub(crate) upload: usize,
}

impl Request {
    pub(crate) fn random(random: &mut fastrand::Rng, id: u64) -> Self {
        let length = match random.u32(..10) {
            0 => 0,
            1..7 => random.usize(1..2_000),
            7..9 => random.usize(1..60_000),
            _ => random.usize(1..600_000),
        };
        let resource = Resource { number: random.u64(..40), length, is_chunked: random.bool() };
        let (method, upload) = match random.u32(..10) {
            0 => ("HEAD", 0),
            1 | 2 => ("POST", random.usize(..100_000)),
            _ => ("GET", 0),
        };
        let route = Route::PASSED_ON[random.usize(..Route::PASSED_ON.len())];
        Self { id, method, route, resource, upload }
    }

    /// Returns the target of the request.
    pub(crate) fn path(&self) -> String {
        format!("{}{}", self.route.prefix(), self.resource.path())
    }

    /// Returns whether it may reach an application more than once (RFC 9110 §9.2.2).
    pub(crate) fn is_repeatable(&self) -> bool {
        self.method != "POST"
    }

    /// Returns the length of the body of a complete response.
    pub(crate) fn body_length(&self) -> usize {
        if self.method == "HEAD" { 0 } else { self.resource.length }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {} ({} {})", self.id, self.method, self.path())
    }
}
