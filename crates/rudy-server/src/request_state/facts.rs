//! What one part of the server notes about a request or a response for another.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use http::HeaderValue;

use super::HasRequestState;

/// The limits that have counted or rejected a request already.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counted(Vec<usize>);

impl Counted {
    pub(crate) fn includes<T>(&self, limit: &Arc<T>) -> bool {
        self.0.contains(&Arc::as_ptr(limit).addr())
    }

    /// Notes limits by their addresses.
    pub(crate) fn note(&mut self, limits: impl Iterator<Item = usize>) {
        for limit in limits {
            if !self.0.contains(&limit) {
                self.0.push(limit);
            }
        }
    }

    /// Notes what another one has noted.
    pub(crate) fn add(&mut self, other: &Self) {
        self.note(other.0.iter().copied());
    }
}

/// The URL of the origin, for a key.
#[derive(Debug, Clone)]
pub(crate) struct KeyUrl {
    pub(crate) is_secure: bool,
    pub(crate) authority: String,
    pub(crate) target: String,
}

impl KeyUrl {
    /// `origin` is a scheme with a host, `https://repo.example`.
    pub(crate) fn new(origin: &str, target: &str) -> Self {
        let (scheme, authority) = origin.split_once("://").unwrap_or(("http", origin));
        Self { is_secure: scheme == "https", authority: authority.to_owned(), target: target.to_owned() }
    }
}

/// The variables that an authorizer has set for the app of the route.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Variables(pub(crate) Vec<(String, HeaderValue)>);

/// What a request to a mirror is for.
#[derive(Debug, Clone)]
pub(crate) struct Resource {
    /// The scheme, host and port: `https://files.example`.
    pub(crate) origin: String,
    /// The path with its query, as the client spelled it, but without dot segments.
    pub(crate) target: String,
    /// The canonical path, for an index below the path of its URL.
    pub(crate) path: String,
    /// Whether it is a resource of the index, and not of another host.
    pub(crate) is_of_index: bool,
}

impl Resource {
    /// Makes a request one for this resource.
    pub(crate) fn note(self, request: &mut impl HasRequestState) {
        let state = request.state_mut();
        state.key_url = Some(KeyUrl::new(&self.origin, &self.target));
        state.resource = Some(self);
    }
}

/// A response that is being stored: the end of its body comes before that.
pub(crate) struct Storing(Pin<Box<dyn Future<Output = ()> + Send + Sync>>);

impl Storing {
    /// `end` completes when the response is stored, or cannot be.
    pub(crate) fn new(end: impl Future<Output = ()> + Send + Sync + 'static) -> Self {
        Self(Box::pin(end))
    }

    /// Waits until the response is stored, or cannot be. Its body has to be received meanwhile.
    pub(crate) async fn end(self) {
        self.0.await;
    }
}

impl fmt::Debug for Storing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Storing")
    }
}
