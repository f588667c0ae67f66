//! `authorize`: an app says who may come in, before anything of a route is done (FastCGI 1.0 §6.3).
//!
//! Only a 200 that the app has ended itself lets a request in. Whatever else happens keeps it out: another answer goes to the
//! client, and no answer is a [`Failure`], as it is where the app is asked for a page.

use std::io;
use std::sync::Arc;

use http::header::LOCATION;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use rudy_fastcgi::cgi::ResponseKind;
use rudy_fastcgi::{ProtocolStatus, Role};
use rudy_http::semantics::path::RequestPath;
use rudy_net::{Client, Reply, Request, Response};

use super::app::App;
use super::failure::Failure;
use super::params::{Constants, Params, Subject, is_of_server};
use super::response::Begun;
use super::sendfile;
use super::upload::Upload;
use crate::buffer::Buffers;
use crate::config::{AuthorizeTable, Location, Problem};
use crate::files::access::Access;
use crate::handlers::Start;
use crate::routes::{Context, Routes};

/// What is passed over of the body of a 200, which nobody sees. Who sends more is no authorizer.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// An app that says who may come in. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Authorizer(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    app: App,
    constants: Constants,
}

/// What an authorizer has said of a request that it let in, for the app of the route. It stands among the request's
/// extensions, where no client can put anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Variables(pub(super) Vec<(String, HeaderValue)>);

enum Verdict {
    In(Variables),
    Out(Response),
}

impl Authorizer {
    /// Makes the app's pool ready. Nothing is connected to yet.
    pub(crate) fn new(table: &AuthorizeTable, location: &Location) -> Result<Self, Vec<Problem>> {
        let problems = table.app.problems(location);
        if !problems.is_empty() {
            return Err(problems);
        }
        let app = App::new(&table.app, &format!("authorizer {}", table.app.name()));
        let constants = Constants::new(None, table.params.clone().into_iter().collect());
        Ok(Self(Arc::new(Shared { app, constants })))
    }

    /// Starts the app's processes, where Rudy does, and says in the log what the app says, and why it gave no response.
    ///
    /// # Errors
    ///
    /// As [`App::start`].
    pub(crate) fn start(&self, start: &Start<'_>) -> io::Result<()> {
        self.0.app.log_to(start.log.clone());
        self.0.app.start(start.apps, start.log)
    }

    /// Asks the app, and has the routes of `context` answer if it allows the request to `path`. The request's body waits where it is.
    pub(crate) fn call(&self, request: Request, path: RequestPath<'static>, context: Context<'_>) -> Reply {
        let Context { client, routes, .. } = context;
        let answer = self.clone().answer(request, path, client.to_owned(), routes.clone());
        Reply::Later(Box::pin(answer))
    }

    async fn answer(
        self,
        request: Request,
        path: RequestPath<'static>,
        client: Client<'static>,
        routes: Arc<Routes>,
    ) -> Response {
        let (mut head, body) = request.into_parts();
        match self.ask(&head, &path, &client, &routes.buffers).await {
            Ok(Verdict::In(variables)) => {
                head.extensions.insert(variables);
                let request = Request::from_parts(head, body);
                let context = Context { client: &client, routes: &routes, access: Access::Cached };
                let reply = context.reply_to_admitted(request, path);
                reply.response().await
            }
            Ok(Verdict::Out(response)) => response,
            Err(failure) => {
                self.0.app.info(&head.method, &head.uri, &client).log_failure(&failure);
                failure.answer(&head.headers)
            }
        }
    }

    async fn ask(
        &self,
        head: &Parts,
        path: &RequestPath<'_>,
        client: &Client<'_>,
        buffers: &Buffers,
    ) -> Result<Verdict, Failure> {
        let Shared { app, constants } = &*self.0;
        let subject = Subject::Access(path);
        let params = Params { head, client, subject, content_length: None, constants };
        // A question has no effect, so that it may be asked again.
        let begun =
            app.ask(Role::Authorizer, &params, &mut Upload::default(), true).await.map_err(name_role)?;
        if begun.head.kind == ResponseKind::Document(StatusCode::OK) {
            let variables = variables(&begun.head.fields)?;
            begun.end(BODY_BYTES_MAX).await.map_err(name_role)?;
            return Ok(Verdict::In(variables));
        }
        let begun = for_client(begun)?;
        // Pages that refuse are small: they have no use for a file.
        begun.into_response(&head.method, buffers, 0).map(Verdict::Out)
    }
}

/// Most apps know one role, and it is not this one.
fn name_role(failure: Failure) -> Failure {
    match failure {
        Failure::Refused(ProtocolStatus::UnknownRole) => Failure::NoAuthorizer,
        other => other,
    }
}

/// Makes of a refusal what is the client's to see.
fn for_client(mut begun: Begun) -> Result<Begun, Failure> {
    let fields = &mut begun.head.fields;
    if let Some(file) = sendfile::Wanted::take(fields) {
        return Err(file.for_authorizer());
    }
    let ours: Vec<_> = fields.keys().filter(|name| variable(name).is_some()).cloned().collect();
    for name in ours {
        fields.remove(name);
    }
    // The client is sent to log in, as by lighttpd and Apache. To answer with that page here would show it under the address of
    // every picture of a page.
    if let ResponseKind::LocalRedirect(path) = &begun.head.kind {
        let location = HeaderValue::from_bytes(path.as_bytes()).expect("it was the value of a field");
        fields.insert(LOCATION, location);
    }
    Ok(begun)
}

/// What the fields of a 200 say for the app of the route. The others are nobody's, as for lighttpd and Apache.
fn variables(fields: &HeaderMap) -> Result<Variables, Failure> {
    let mut variables: Vec<(String, HeaderValue)> = Vec::new();
    for (field, value) in fields {
        let Some(name) = variable(field) else { continue };
        let wrong = |why| Err(Failure::Variable { name: name.clone(), why });
        if name.is_empty() {
            return wrong("which is no name");
        }
        if is_of_server(&name) {
            return wrong("which is the server's to say");
        }
        if variables.iter().any(|(known, _)| *known == name) {
            return wrong("and has said it before");
        }
        variables.push((name, value.clone()));
    }
    Ok(Variables(variables))
}

/// The variable that a field gives a value, if it does: `REMOTE_USER` for `Variable-REMOTE_USER`. Fields are the same in
/// whichever letters, so all are capitals, as in every variable of CGI.
fn variable(field: &HeaderName) -> Option<String> {
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
    fn a_field_of_a_200_is_a_variable_and_others_are_not() {
        let said =
            [("Variable-REMOTE_USER", "ann"), ("Set-Cookie", "a=b"), ("variable-auth-method", "cookie")];
        let expected = [("REMOTE_USER", "ann"), ("AUTH_METHOD", "cookie")];
        assert_eq!(read(&said), Ok(expected.map(|(a, b)| (a.to_owned(), b.to_owned())).to_vec()));
        assert_eq!(read(&[]), Ok(Vec::new()));
    }

    #[test]
    fn what_the_server_says_itself_is_not_the_authorizers_to_say() {
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
            assert!(failure.ends_with("which is the server's to say"), "{name}: {failure}");
        }
    }

    #[test]
    fn a_variable_is_said_once_and_has_a_name() {
        let failure = read(&[("Variable-REMOTE_USER", "ann"), ("Variable-Remote-User", "root")]).unwrap_err();
        assert!(failure.contains("Variable-REMOTE_USER, and has said it before"), "{failure}");
        assert!(read(&[("Variable-", "x")]).unwrap_err().contains("no name"));
    }
}
