//! The user of a request, after a step has verified who sends it.

use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use rudy_net::{Client, Reply, Request};

use super::Next;
use super::fields::replace_field;
use crate::exchange::note;
use crate::handlers::Call;

/// The field in which applications read the user. A client cannot set it on a route that verifies users.
pub(super) static REMOTE_USER: HeaderName = HeaderName::from_static("remote-user");

/// A user, in the extensions of a request, which clients cannot set.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    user: Arc<str>,
    /// The name as the value of a field.
    value: HeaderValue,
    /// The scheme of the login (RFC 3875 §4.1.1), if Rudy has verified it.
    pub(crate) auth_type: Option<&'static str>,
}

/// Marks a request with fields of an authorizer, in its extensions: the response may be for one user.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HasUserFields;

impl Identity {
    /// The user of a login with a password. `None` if the name cannot be the value of a field.
    pub(super) fn of_login(user: &str) -> Option<Self> {
        let value = HeaderValue::from_bytes(user.as_bytes()).ok()?;
        Some(Self { user: user.into(), value, auth_type: Some("Basic") })
    }

    /// The user that an authorizer names. `None` if the name is not UTF-8.
    pub(super) fn of_authorizer(value: &HeaderValue) -> Option<Self> {
        let user = std::str::from_utf8(value.as_bytes()).ok()?;
        Some(Self { user: user.into(), value: value.clone(), auth_type: None })
    }

    /// Returns the name.
    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    /// Adds the user to a request of a client, and to its line in the access log.
    pub(super) fn identify(self, mut request: Request, client: &Client<'_>) -> Request {
        note(client.observer.as_ref(), |notes| notes.user = Some((*self.user).into()));
        replace_field(&REMOTE_USER, [self.value.clone()], request.headers_mut());
        request.extensions_mut().insert(self);
        request
    }

    /// Passes a request of the user on.
    pub(super) fn pass_on(self, request: Request, call: Call<'_>, next: Next) -> Reply {
        next.call(self.identify(request, call.context.client), call)
    }
}
