//! The user of a request, after a step has verified who sends it.

use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use rudy_net::{Client, Request};

use super::fields::{remove_spellings, remove_trailers, replace_field};
use super::{Flow, Passage, Step};
use crate::exchange::note;
use crate::handlers::Call;
use crate::passwords::PasswordFile;
use crate::request_state::HasRequestState;

/// The field in which applications read the user. A client cannot set it on a site that verifies users.
pub(super) static REMOTE_USER: HeaderName = HeaderName::from_static("remote-user");

/// A user.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    user: Arc<str>,
    /// The name as the value of a field.
    value: HeaderValue,
    /// The scheme of the login (RFC 3875 §4.1.1), if Rudy has verified it.
    pub(crate) auth_type: Option<&'static str>,
}

/// A login that a request has passed.
#[derive(Debug, Clone)]
pub(crate) struct LoggedIn {
    file: Arc<PasswordFile>,
    user: Arc<str>,
}

impl LoggedIn {
    pub(super) fn new(file: Arc<PasswordFile>, identity: &Identity) -> Self {
        Self { file, user: identity.user.clone() }
    }

    /// Returns whether both are logins of the same user of the same file.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.file, &other.file) && self.user == other.user
    }
}

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
    pub(super) fn identify(self, request: &mut Request<'_>, client: &Client<'_>) {
        note(client.observer.get(), |notes| notes.user = Some((*self.user).into()));
        replace_field(&REMOTE_USER, [self.value.clone()], request);
        request.state_mut().identity = Some(self);
    }
}

/// Removes the fields in which the logins of a site name users, on all its routes: an application behind a route without a login may be
/// the same as behind one with a login.
#[derive(Debug)]
pub(super) struct WithoutUserFields(pub(super) Vec<HeaderName>);

impl Step for WithoutUserFields {
    fn request(&self, passage: &mut Passage<'_>, _: &Call<'_>) -> Flow {
        for name in &self.0 {
            remove_spellings(name, &mut passage.request);
        }
        remove_trailers(&mut passage.request);
        Flow::Continue
    }

    fn describe(&self) -> Vec<String> {
        let names: Vec<_> = self.0.iter().map(HeaderName::as_str).collect();
        vec![format!("request: remove {}, which only logins set", names.join(", "))]
    }
}
