//! What one part of the server notes about a request or a response for another.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use http::HeaderValue;

use super::HasRequestState;

/// The limits that have counted or rejected a request already, by their addresses.
#[derive(Debug, Clone, Default)]
pub struct Counted {
    /// As many as nearly all routes have, without an allocation; 0 is none.
    first: [usize; 3],
    others: Vec<usize>,
}

impl Counted {
    /// Whether a limit has counted the request.
    pub fn includes<T>(&self, limit: &Arc<T>) -> bool {
        self.contains(Arc::as_ptr(limit).addr())
    }

    fn contains(&self, limit: usize) -> bool {
        self.first.contains(&limit) || self.others.contains(&limit)
    }

    /// Notes limits by their addresses.
    pub fn note(&mut self, limits: impl Iterator<Item = usize>) {
        for limit in limits {
            if self.contains(limit) {
                continue;
            }
            match self.first.iter_mut().find(|place| **place == 0) {
                Some(place) => *place = limit,
                None => self.others.push(limit),
            }
        }
    }

    /// Notes what another one has noted.
    pub fn add(&mut self, other: &Self) {
        let noted = other.first.iter().chain(&other.others).copied();
        self.note(noted.filter(|limit| *limit != 0));
    }
}

/// The URL of the origin, for a key.
#[derive(Debug, Clone)]
pub struct KeyUrl {
    /// Whether the URL is https.
    pub is_secure: bool,
    /// The host, with its port.
    pub authority: String,
    /// The path and the query.
    pub target: String,
}

impl KeyUrl {
    /// `origin` is a scheme with a host, `https://repo.example`.
    #[must_use]
    pub fn new(origin: &str, target: &str) -> Self {
        let (scheme, authority) = origin.split_once("://").unwrap_or(("http", origin));
        Self { is_secure: scheme == "https", authority: authority.to_owned(), target: target.to_owned() }
    }
}

/// The variables that authorizers have set for the app of the route.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables(pub Vec<(String, HeaderValue)>);

impl Variables {
    /// Adds those of another authorizer. They replace variables of the same names.
    pub fn extend(&mut self, more: Self) {
        self.0.retain(|(known, _)| more.0.iter().all(|(name, _)| name != known));
        self.0.extend(more.0);
    }
}

/// What a request to a mirror is for.
#[derive(Debug, Clone)]
pub struct Resource {
    /// The scheme, host and port: `https://files.example`.
    pub origin: String,
    /// The path with its query, as the client spelled it, but without dot segments.
    pub target: String,
    /// The canonical path, for an index below the path of its URL.
    pub path: String,
    /// Whether it is a resource of the index, and not of another host.
    pub is_of_index: bool,
}

impl Resource {
    /// Makes a request one for this resource.
    pub fn note(self, request: &mut impl HasRequestState) {
        let state = request.state_mut();
        state.key_url = Some(KeyUrl::new(&self.origin, &self.target));
        state.resource = Some(self);
    }
}

/// A response that is being stored: the end of its body comes before that.
pub struct Storing(Pin<Box<dyn Future<Output = ()> + Send + Sync>>);

impl Storing {
    /// `end` completes when the response is stored, or cannot be.
    pub fn new(end: impl Future<Output = ()> + Send + Sync + 'static) -> Self {
        Self(Box::pin(end))
    }

    /// Waits until the response is stored, or cannot be. Its body has to be received meanwhile.
    pub async fn end(self) {
        self.0.await;
    }
}

impl fmt::Debug for Storing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Storing")
    }
}
