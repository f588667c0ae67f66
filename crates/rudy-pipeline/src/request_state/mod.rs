//! What the server knows about a request and its response, beside what was sent.

mod facts;
mod identity;

use std::sync::LazyLock;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use rudy_message::Expires;
use rudy_service::{Request, Response};

pub use self::facts::{Counted, KeyUrl, Resource, Storing, Variables};
pub use self::identity::{Identity, LoggedIn, REMOTE_USER};
use crate::compression::StoredContent;

/// What the server knows about a request. Clients cannot set it.
///
/// Each way in which a request leads to another one is a method that names every field, so that the compiler asks what a new field
/// means for it.
#[derive(Debug, Clone, Default)]
pub struct RequestState {
    /// The number of internal redirects that led to the request.
    pub redirects: u32,
    /// The status of the error that the request fetches the page for. An application reads it as `REDIRECT_STATUS`.
    pub error_page_for: Option<StatusCode>,
    /// The target as the client sent it, if a rewrite has changed the URI. An application reads it as `REQUEST_URI`.
    pub original_target: Option<Bytes>,
    /// The limits that have counted the request.
    pub counted: Counted,
    /// Whether it is the request of a flight. After an internal redirect, it joins no flight: it could wait for itself.
    pub is_in_flight: bool,
    /// The login of the failed request, in the request for its page.
    pub login: Option<LoggedIn>,
    /// The user that a step has verified.
    pub identity: Option<Identity>,
    /// Whether a step has allowed the request by who sends it, on a route that led to this one or without a name: an authorizer may know
    /// the user by a cookie.
    pub was_allowed: bool,
    /// The credentials of the client that an authorizer has replaced. After an internal redirect, an authorizer needs them again.
    pub credentials: Vec<(HeaderName, Vec<HeaderValue>)>,
    /// What an authorizer has set for the app of the route.
    pub variables: Variables,
    /// A field that only proxies set, which a step has removed.
    pub came_through_proxy: Option<HeaderName>,
    /// The URL of the origin, if that is the key: clients may have different names for a mirror.
    pub key_url: Option<KeyUrl>,
    /// What a request to a mirror is for.
    pub resource: Option<Resource>,
    /// Whether the state of the response has [`ResponseState::storing`], if it is being stored.
    pub follows_storing: bool,
}

impl RequestState {
    /// Whether a step has allowed the request by who sends it, on this route or on one that led to it: the response may be for one user.
    pub fn is_of_user(&self) -> bool {
        self.was_allowed || self.identity.is_some()
    }

    /// The state of the same request after an internal redirect to another route.
    #[must_use]
    pub fn redirected(self) -> Self {
        let is_of_user = self.is_of_user();
        let Self {
            redirects,
            error_page_for,
            original_target,
            counted,
            is_in_flight,
            login,
            credentials,
            came_through_proxy,
            // Only the previous route has verified the user, whose response a cache of the next one must not share.
            identity: _,
            was_allowed: _,
            // They are for the app and the origin of the previous route.
            variables: _,
            key_url: _,
            resource: _,
            follows_storing: _,
        } = self;
        Self {
            redirects: redirects + 1,
            error_page_for,
            original_target,
            counted,
            is_in_flight,
            login,
            was_allowed: is_of_user,
            credentials,
            came_through_proxy,
            ..Self::default()
        }
    }

    /// The state of the request for the target of a local redirect, which the application has chosen.
    #[must_use]
    pub fn for_target(self) -> Self {
        Self { original_target: None, error_page_for: None, ..self.redirected() }
    }

    /// The state of the request for the page of an error.
    #[must_use]
    pub fn for_page(self, error: StatusCode) -> Self {
        Self { error_page_for: Some(error), ..self.redirected() }
    }
}

/// A request with a [`RequestState`].
pub trait HasRequestState {
    /// Returns the state.
    fn state(&self) -> &RequestState;

    /// Returns the state to change it.
    fn state_mut(&mut self) -> &mut RequestState;
}

static UNKNOWN_REQUEST: LazyLock<RequestState> = LazyLock::new(RequestState::default);

impl HasRequestState for Request<'_> {
    fn state(&self) -> &RequestState {
        self.state.as_ref().and_then(|state| state.downcast_ref()).unwrap_or(&UNKNOWN_REQUEST)
    }

    fn state_mut(&mut self) -> &mut RequestState {
        let state = self.state.get_or_insert_with(|| Box::new(RequestState::default()));
        state.downcast_mut().expect("no other type is stored")
    }
}

/// What the server knows about a response.
#[derive(Debug, Default)]
pub struct ResponseState {
    /// Why the server itself responds with an error.
    pub explanation: Option<String>,
    /// Whether the content is an error page already.
    pub has_page: bool,
    /// Whether an internal redirect led to it: its fields are final.
    pub is_redirected: bool,
    /// Whether an application has named its content for this request, after a check of access: no cache may store it.
    pub is_replacement: bool,
    /// Whether the application has chosen the bytes per second.
    pub has_own_rate: bool,
    /// How long a cache of this server may use the response, if the application says so to the server in front of it.
    pub expires: Option<Expires>,
    /// The whole content of a stored response with this body.
    pub content: Option<StoredContent>,
    /// Where it is being stored.
    pub storing: Option<Storing>,
}

impl ResponseState {
    /// Whether the server itself responds, with an error.
    #[must_use]
    pub fn is_own_error(&self) -> bool {
        self.explanation.is_some() || self.has_page
    }
}

/// A response with a [`ResponseState`].
pub trait HasResponseState {
    /// Returns the state.
    fn state(&self) -> &ResponseState;

    /// Returns the state to change it.
    fn state_mut(&mut self) -> &mut ResponseState;

    /// Takes a part of the state out, without making one.
    fn take<T: Default>(&mut self, part: impl FnOnce(&mut ResponseState) -> &mut T) -> T;

    /// Whether the handler, or the route that an internal redirect led to, has chosen the coding.
    fn is_final(&self) -> bool;
}

static UNKNOWN_RESPONSE: LazyLock<ResponseState> = LazyLock::new(ResponseState::default);

impl HasResponseState for Response {
    fn state(&self) -> &ResponseState {
        self.state.as_ref().and_then(|state| state.downcast_ref()).unwrap_or(&UNKNOWN_RESPONSE)
    }

    fn state_mut(&mut self) -> &mut ResponseState {
        let state = self.state.get_or_insert_with(|| Box::new(ResponseState::default()));
        state.downcast_mut().expect("no other type is stored")
    }

    fn take<T: Default>(&mut self, part: impl FnOnce(&mut ResponseState) -> &mut T) -> T {
        if self.state.is_some() { std::mem::take(part(self.state_mut())) } else { T::default() }
    }

    fn is_final(&self) -> bool {
        self.state().is_redirected || self.is_negotiated
    }
}
