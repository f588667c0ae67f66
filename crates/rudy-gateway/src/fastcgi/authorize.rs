//! The `authorize` setting: an app allows or denies each request before any handler runs (FastCGI 1.0 §6.3).
//!
//! A request is allowed only if the app responds with status 200 and ends its request regularly. Any other
//! response goes to the client. If there is no response, that is a [`Failure`], as for other apps.

use std::io;
use std::sync::Arc;

use http::header::LOCATION;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use rudy_client::Upload;
use rudy_client::buffer::Buffers;
use rudy_config::{Location, Problem};
use rudy_fastcgi::cgi::ResponseKind;
use rudy_fastcgi::{ProtocolStatus, Role};
use rudy_files::replacement::ReplacementError;
use rudy_message::semantics::path::RequestPath;
use rudy_pipeline::exchange::trace;
use rudy_pipeline::request_state::{HasRequestState, Variables};
use rudy_pipeline::{Call, Decided, Flow, OwnedCall, Passage, Resources, Start, Step};
use rudy_service::{Client, Request, Response};

use super::AuthorizeTable;
use super::app::App;
use super::failure::{AppCause, Cause, Failure};
use super::params::{Constants, Params, Purpose, is_reserved};

/// The maximum size of the body of a 200 response, which no client sees. An app that sends more is probably
/// not an authorizer.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// An app that authorizes requests. Clones share everything.
#[derive(Debug, Clone)]
pub struct Authorizer(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// What `rudy check` shows of the app.
    name: String,
    app: Arc<App>,
    constants: Constants,
    buffers: Arc<Buffers>,
}

/// Why an authorizer must not name a file.
const NOT_FOR_AUTHORIZERS: &str = "but an authorizer cannot send files";

enum Decision {
    Allow(Variables),
    Deny(Response),
}

impl Authorizer {
    /// Prepares the app's pool. No connection is opened yet.
    pub fn new(
        table: &AuthorizeTable,
        location: &Location,
        resources: &Resources,
    ) -> Result<Self, Vec<Problem>> {
        let problems = table.app.problems(location);
        if !problems.is_empty() {
            return Err(problems);
        }
        let app = App::new(&table.app, &format!("authorizer {}", table.app.name()));
        let constants = Constants::new(None, table.params.clone().into_iter().collect());
        Ok(Self(Arc::new(Shared { name: table.app.describe(), app, constants, buffers: resources.of() })))
    }

    async fn decide(self, mut passage: Passage<'static>, call: OwnedCall) -> Decided {
        let request = &mut passage.request;
        let observer = call.client.observer.get();
        let span = trace::authorize(observer);
        trace::pass_on(request, &call.routes.observers, &call.client, span);
        let decision = self.authorize(request, &call.path, &call.client).await;
        let result = match &decision {
            Ok(Decision::Allow(_)) => Ok(StatusCode::OK),
            Ok(Decision::Deny(response)) => Ok(response.status()),
            Err(failure) => Err(failure.kind()),
        };
        trace::authorized(observer, result);
        let response = match decision {
            Ok(Decision::Allow(variables)) => {
                let state = request.state_mut();
                state.variables.extend(variables);
                state.was_allowed = true;
                None
            }
            Ok(Decision::Deny(response)) => Some(response),
            Err(failure) => {
                self.0.app.info(request, &call.client).log_failure(&failure);
                Some(failure.response(request.headers()))
            }
        };
        Decided { call, passage, response }
    }

    async fn authorize(
        &self,
        request: &Request<'_>,
        path: &RequestPath<'_>,
        client: &Client<'_>,
    ) -> Result<Decision, Failure> {
        let Shared { app, constants, buffers, .. } = &*self.0;
        let purpose = Purpose::Authorize(path);
        let params = Params { request, client, purpose, content_length: None, constants };
        // A query has no side effects, so it can be repeated.
        let response = app
            .send_request(Role::Authorizer, &params, &mut Upload::default(), true)
            .await
            .map_err(name_role)?;
        if response.head.kind == ResponseKind::Document(StatusCode::OK) {
            let variables = variables(&response.head.fields.to_map())?;
            response.expect_end(BODY_BYTES_MAX).await.map_err(name_role)?;
            return Ok(Decision::Allow(variables));
        }
        if let Some(replacement) = response.head.replacement() {
            let error = ReplacementError::new(replacement, NOT_FOR_AUTHORIZERS);
            return Err(AppCause::from(error).into());
        }
        let kind = response.head.kind.clone();
        // Denial pages are small and need no file.
        let mut response = response.into_response(request.method(), buffers, 0)?;
        deny(&kind, response.headers_mut());
        Ok(Decision::Deny(response))
    }
}

impl Step for Authorizer {
    /// Calls the authorizer, and passes the request on if it is allowed. The request's body is not read meanwhile.
    fn request(&self, passage: &mut Passage<'_>, call: &Call<'_>) -> Flow {
        Flow::Wait(Box::pin(self.clone().decide(passage.take(), OwnedCall::of(call))))
    }

    fn acts_on(&self, _: &Request<'_>) -> Option<&'static str> {
        Some("authorization: the application is not asked")
    }

    fn describe(&self) -> Vec<String> {
        vec![format!("authorization: {} must allow the request", self.0.name)]
    }

    /// Starts the app's processes if Rudy manages them, and sets the log.
    fn start(&self, start: &Start<'_>) -> io::Result<()> {
        self.0.app.log_to(start.log.clone());
        self.0.app.start(start)
    }
}

/// Most apps implement only the responder role.
fn name_role(failure: Failure) -> Failure {
    match failure.cause {
        Cause::Protocol(AppCause::Rejected(ProtocolStatus::UnknownRole)) => AppCause::NotAnAuthorizer.into(),
        _ => failure,
    }
}

/// Turns the fields of a denial of this kind into those for the client.
fn deny(kind: &ResponseKind, fields: &mut HeaderMap) {
    let set_variables: Vec<_> = fields.keys().filter(|name| variable_name(name).is_some()).cloned().collect();
    for name in set_variables {
        fields.remove(name);
    }
    // Send the client to the login page, as lighttpd and Apache do. An internal redirect would show that page
    // under the address of every image.
    if let ResponseKind::LocalRedirect(path) = kind {
        let location = HeaderValue::from_bytes(path.as_bytes()).expect("the path comes from a field value");
        fields.insert(LOCATION, location);
    }
}

/// Returns the variables that the fields of a 200 set for the app of the route. Other fields are ignored, as
/// by lighttpd and Apache.
fn variables(fields: &HeaderMap) -> Result<Variables, Failure> {
    let mut variables: Vec<(String, HeaderValue)> = Vec::new();
    for (field, value) in fields {
        let Some(name) = variable_name(field) else { continue };
        let invalid = |why| Err(AppCause::Variable { name: name.clone(), why }.into());
        if name.is_empty() {
            return invalid("which has no name");
        }
        if is_reserved(&name) {
            return invalid("which only the server may set");
        }
        if variables.iter().any(|(known, _)| *known == name) {
            return invalid("which it has already set");
        }
        variables.push((name, value.clone()));
    }
    Ok(Variables(variables))
}

/// Returns the name of the variable that a field sets, if it does: `REMOTE_USER` for `Variable-REMOTE_USER`.
/// Field names are case-insensitive, so the name is uppercase, as all CGI variables are.
fn variable_name(field: &HeaderName) -> Option<String> {
    field.as_str().strip_prefix("variable-").map(|name| name.replace('-', "_").to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fields: &[(&str, &str)]) -> Result<Vec<(String, String)>, String> {
        let fields = fields.iter().map(|(name, value)| {
            (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap())
        });
        let text = |(name, value): (String, HeaderValue)| (name, value.to_str().unwrap().to_owned());
        match variables(&fields.collect()) {
            Ok(Variables(all)) => Ok(all.into_iter().map(text).collect()),
            Err(failure) => Err(failure.to_string()),
        }
    }

    #[test]
    fn only_variable_fields_of_a_200_set_variables() {
        let fields =
            [("Variable-REMOTE_USER", "ann"), ("Set-Cookie", "a=b"), ("variable-auth-method", "cookie")];
        let expected = [("REMOTE_USER", "ann"), ("AUTH_METHOD", "cookie")];
        assert_eq!(read(&fields), Ok(expected.map(|(a, b)| (a.to_owned(), b.to_owned())).to_vec()));
        assert_eq!(read(&[]), Ok(Vec::new()));
    }

    #[test]
    fn reserved_variables_are_rejected() {
        for name in [
            "SCRIPT_FILENAME",
            "DOCUMENT_ROOT",
            "PATH_INFO",
            "HTTP_PROXY",
            "HTTP-Host",
            "REQUEST_URI",
            "CONTENT_LENGTH",
            "SERVER_NAME",
            "REMOTE_ADDR",
            "HTTPS",
            "PHP_ADMIN_VALUE",
            "FCGI_ROLE",
        ] {
            let failure = read(&[(&format!("Variable-{name}"), "x")]).unwrap_err();
            assert!(failure.ends_with("which only the server may set"), "{name}: {failure}");
        }
    }

    #[test]
    fn a_variable_has_a_name_and_is_set_once() {
        let failure = read(&[("Variable-REMOTE_USER", "ann"), ("Variable-Remote-User", "root")]).unwrap_err();
        assert!(failure.contains("Variable-REMOTE_USER, which it has already set"), "{failure}");
        assert!(read(&[("Variable-", "x")]).unwrap_err().contains("no name"));
    }
}
