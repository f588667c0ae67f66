//! The user of a request, after a step has verified who sends it.

use std::any::Any;
use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use rudy_service::{Client, Request};

use super::HasRequestState;
use crate::exchange::note;
use crate::own_fields::replace_field;

/// The field in which applications read the user. A client cannot set it on a site that verifies users.
pub static REMOTE_USER: HeaderName = HeaderName::from_static("remote-user");

/// A user.
#[derive(Debug, Clone)]
pub struct Identity {
    user: Arc<str>,
    /// The name as the value of a field.
    value: HeaderValue,
    /// The scheme of the login (RFC 3875 §4.1.1), if Rudy has verified it.
    pub auth_type: Option<&'static str>,
}

/// A login that a request has passed.
#[derive(Debug, Clone)]
pub struct LoggedIn {
    /// The file of its passwords.
    file: Arc<dyn Any + Send + Sync>,
    user: Arc<str>,
}

impl LoggedIn {
    /// A user of a password file.
    pub fn new(file: Arc<dyn Any + Send + Sync>, identity: &Identity) -> Self {
        Self { file, user: identity.user.clone() }
    }

    /// Returns whether both are logins of the same user of the same file.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.file, &other.file) && self.user == other.user
    }
}

impl Identity {
    /// The user of a login with a password. `None` if the name cannot be the value of a field.
    #[must_use]
    pub fn of_login(user: &str) -> Option<Self> {
        let value = HeaderValue::from_bytes(user.as_bytes()).ok()?;
        Some(Self { user: user.into(), value, auth_type: Some("Basic") })
    }

    /// The user that an authorizer names. `None` if the name is not UTF-8.
    pub fn of_authorizer(value: &HeaderValue) -> Option<Self> {
        let user = std::str::from_utf8(value.as_bytes()).ok()?;
        Some(Self { user: user.into(), value: value.clone(), auth_type: None })
    }

    /// Returns the name.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Adds the user to a request of a client, and to its line in the access log.
    pub fn identify(self, request: &mut Request<'_>, client: &Client<'_>) {
        note(client.observer.get(), |notes| notes.user = Some((*self.user).into()));
        replace_field(&REMOTE_USER, [self.value.clone()], request);
        request.state_mut().identity = Some(self);
    }
}
