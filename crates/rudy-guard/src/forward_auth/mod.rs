//! The step that asks an authorizer over HTTP whether a request is allowed: `auth_request` of nginx, `forward_auth` of Caddy and Traefik.

mod copy;
mod login;
mod table;

use std::io;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use rudy_config::{Location, Problem};
use rudy_message::LazyHead;
use rudy_message::semantics::field::ChangeFields as _;
use rudy_message::semantics::path::RequestPath;
use rudy_message::semantics::percent::encode_query;
use rudy_pipeline::exchange::trace;
use rudy_pipeline::internal_redirect::{BODY_FIELDS, CONDITIONAL_FIELDS};
use rudy_pipeline::methods::decisive;
use rudy_pipeline::own_fields::{remove_spellings, replace_field};
use rudy_pipeline::request_state::{HasRequestState, Identity, REMOTE_USER};
use rudy_pipeline::{Call, Decided, Flow, Handler as _, Kept, OwnedCall, Passage, ResponseStep, Start, Step};
use rudy_proxy::{Proxy, Subrequest, Subresponse};
use rudy_service::{Client, Reply, Request, Response};

use self::copy::Copied;
pub use self::copy::CopiedFields;
use self::login::LoginRequest;
pub use self::login::LoginUrl;
use self::table::CREDENTIALS;
pub use self::table::{AuthorizerUrl, ForwardAuthTable};

/// The fields that tell the authorizer about the request: those of Traefik and Caddy, and those of nginx's examples.
static FORWARDED_METHOD: HeaderName = HeaderName::from_static("x-forwarded-method");
static FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
static FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
static ORIGINAL_METHOD: HeaderName = HeaderName::from_static("x-original-method");
static ORIGINAL_URI: HeaderName = HeaderName::from_static("x-original-uri");
static ORIGINAL_URL: HeaderName = HeaderName::from_static("x-original-url");

/// Passes on the requests that the authorizer allows. Clones share everything.
#[derive(Debug, Clone)]
pub struct ForwardAuth(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    proxy: Proxy,
    /// The path of the requests to the authorizer.
    target: String,
    /// The fields that it sets for the handler.
    copied: Vec<Copied>,
    /// The page to which a 401 leads.
    login: Option<LoginUrl>,
    /// Its URL, for `rudy check`.
    name: String,
}

impl ForwardAuth {
    /// Prepares the connections to an authorizer. None is opened yet.
    pub fn new(table: &ForwardAuthTable, location: &Location) -> Result<Self, Vec<Problem>> {
        let (proxy, copied) = (table.proxy(location)?, table.copied());
        let (target, name) = (table.url.target.clone(), table.url.to_string());
        let login = table.login.clone();
        Ok(Self(Arc::new(Shared { proxy, target, copied, login, name })))
    }

    /// Returns the request to the authorizer: a GET without a body.
    fn subrequest(&self, request: &Request<'_>, path: &RequestPath<'_>, client: &Client<'_>) -> Subrequest {
        let mut head = LazyHead::clone(request).into_owned();
        for name in [&FORWARDED_METHOD, &FORWARDED_URI, &ORIGINAL_METHOD, &ORIGINAL_URI, &ORIGINAL_URL] {
            remove_spellings(name, &mut head);
        }
        for (name, values) in &request.state().credentials {
            replace_field(name, values.iter().cloned(), &mut head);
        }
        // The response must not depend on what the client has stored of another resource.
        for name in BODY_FIELDS.iter().chain(&CONDITIONAL_FIELDS) {
            head.remove(name);
        }
        let mut subrequest = self.0.proxy.subrequest(&self.0.target, head, client);
        // The path by which the route was found: another spelling of it must not get another decision.
        let query = request.uri().query().map(|query| format!("?{}", encode_query(query)));
        let uri = path.encoded_from(0) + &query.unwrap_or_default();
        let host = subrequest.head.get(&FORWARDED_HOST).unwrap_or_default();
        let scheme = client.scheme();
        let url = [scheme.as_str().as_bytes(), b"://", host, uri.as_bytes()].concat();
        let method = decisive(request.method()).as_str().as_bytes();
        for (name, value) in [
            (&FORWARDED_METHOD, method),
            (&ORIGINAL_METHOD, method),
            (&FORWARDED_URI, uri.as_bytes()),
            (&ORIGINAL_URI, uri.as_bytes()),
            (&ORIGINAL_URL, &url),
        ] {
            // The parts were valid in the request.
            if let Ok(value) = HeaderValue::from_bytes(value) {
                subrequest.head.set(name.clone(), value);
            }
        }
        subrequest
    }

    async fn decide(self, mut passage: Passage<'static>, subrequest: Subrequest, call: OwnedCall) -> Decided {
        let request = &mut passage.request;
        let login = self.login(request, &subrequest);
        let answer = self.0.proxy.ask(subrequest, request).await;
        let status = answer.as_ref().map_or_else(Response::status, Subresponse::status);
        trace::authorized(call.client.observer.get(), Ok(status));
        let response = match answer {
            Ok(answer) if answer.status().is_success() => {
                let fields = answer.into_fields();
                passage.kept.cookies = fields.get_all(header::SET_COOKIE).iter().cloned().collect();
                self.identify(request, &fields, &call.client);
                None
            }
            Ok(answer) => {
                let login = login.filter(|_| answer.status() == StatusCode::UNAUTHORIZED);
                Some(if let Some(login) = login {
                    login.redirect(&answer.into_fields())
                } else {
                    let (method, fields) = (request.method().clone(), request.headers());
                    answer.into_response(&method, fields, self.0.proxy.buffers())
                })
            }
            Err(response) => Some(response),
        };
        Decided { call, passage, response }
    }

    /// Returns what a redirect to the login page needs, if the request may get one.
    fn login(&self, request: &Request<'_>, subrequest: &Subrequest) -> Option<LoginRequest> {
        let of_request = |name| subrequest.head.get(name).unwrap_or_default();
        self.0.login.as_ref()?.request(request, of_request(&ORIGINAL_URL), of_request(&ORIGINAL_URI))
    }

    /// Replaces the copied fields of an allowed request. An empty field is as none, as in nginx and Caddy.
    fn identify(&self, request: &mut Request<'_>, fields: &HeaderMap, client: &Client<'_>) {
        let values = |from| fields.get_all(from).iter().filter(|value| !value.is_empty());
        for Copied { from, to } in &self.0.copied {
            keep_credentials(to, request);
            replace_field(to, values(from).cloned(), request);
        }
        request.state_mut().was_allowed = true;
        let user = self.0.copied.iter().find(|field| field.to == REMOTE_USER);
        let user = user.and_then(|field| values(&field.from).next());
        if let Some(identity) = user.and_then(Identity::of_authorizer) {
            identity.identify(request, client);
        }
    }
}

/// Keeps what the client has sent in a field with credentials before it is replaced, for an authorizer after an internal redirect.
fn keep_credentials(name: &HeaderName, request: &mut Request<'_>) {
    let is_kept = request.state().credentials.iter().any(|(kept, _)| kept == name);
    if CREDENTIALS.contains(name) && !is_kept {
        let values = request.get_all(name).filter_map(|value| HeaderValue::from_bytes(value).ok()).collect();
        request.state_mut().credentials.push((name.clone(), values));
    }
}

impl ResponseStep for ForwardAuth {
    /// Adds the cookies of the authorizer, such as a session that was prolonged.
    fn response(&self, mut response: Response, kept: &mut Kept<'_>, _: &Call<'_>) -> Reply {
        for cookie in std::mem::take(&mut kept.cookies) {
            response.add(header::SET_COOKIE, cookie);
        }
        response.into()
    }
}

impl Step for ForwardAuth {
    fn request(&self, passage: &mut Passage<'_>, call: &Call<'_>) -> Flow {
        let client = call.context.client;
        let mut subrequest = self.subrequest(&passage.request, call.path, client);
        let span = trace::authorize(client.observer.get());
        trace::pass_on(&mut subrequest.head, &call.context.routes.observers, client, span);
        let passage = passage.take();
        Flow::Wait(Box::pin(self.clone().decide(passage, subrequest, OwnedCall::of(call))))
    }

    fn for_responses(&self) -> Option<&dyn ResponseStep> {
        Some(self)
    }

    fn acts_on(&self, _: &Request<'_>) -> Option<&'static str> {
        Some("forward authentication: the authorizer is not asked")
    }

    fn describe(&self) -> Vec<String> {
        let copied: Vec<_> = self.0.copied.iter().map(|field| field.to.as_str()).collect();
        let login = self.0.login.as_ref().map_or_else(String::new, |login| format!("; login at {login}"));
        let copied = copied.join(", ");
        vec![format!("authorization: {} must allow the request, and sets {copied}{login}", self.0.name)]
    }

    fn start(&self, start: &Start<'_>) -> io::Result<()> {
        self.0.proxy.start(start)
    }
}
