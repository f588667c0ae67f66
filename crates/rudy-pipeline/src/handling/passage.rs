//! Passes a request through the steps of its route to the handler, and the response back through those that it has entered.

use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use http::{HeaderName, HeaderValue, StatusCode};
use rudy_limit::Slot;
use rudy_message::RequestHead;
use rudy_message::semantics::path::RequestPath;
use rudy_service::{Client, Reply, Request, Response};
use rudy_system::file_access::Access;

use super::context::{Context, Routes};
use super::handler::Call;
use crate::compression::fields::Wanted;
use crate::field_changes::Change;
use crate::hold::{hold, limit};
use crate::pages::Form;
use crate::request_state::HasResponseState;
use crate::request_state::{Counted, LoggedIn};
use crate::routing::RouteId;

/// A request on its way to the handler.
#[derive(Default)]
pub struct Passage<'a> {
    /// The request as the steps have changed it.
    pub request: Request<'a>,
    /// What the steps keep for its response.
    pub kept: Kept<'a>,
    /// A response that takes the place of the handler.
    instead: Option<Box<Response>>,
}

impl<'a> From<Request<'a>> for Passage<'a> {
    fn from(request: Request<'a>) -> Self {
        Self { request, kept: Kept::default(), instead: None }
    }
}

impl Passage<'_> {
    /// Takes the request out, with a copy of what it borrows, for a step that waits.
    pub fn take(&mut self) -> Passage<'static> {
        let Passage { request, kept, instead } = std::mem::take(self);
        let copy = OnceLock::new();
        Passage { request: request.sharing(&copy), kept: kept.sharing(&copy), instead }
    }
}

/// What steps keep of a request for its response. Dropping it releases what it holds.
#[derive(Default)]
pub struct Kept<'a> {
    /// The codings that the client accepts.
    pub wanted: Option<Wanted>,
    /// The origin of the script that sends the request.
    pub origin: Option<HeaderValue>,
    /// The response fields, if they depend on the request.
    pub filled: Option<FilledFields>,
    /// The head of the request, for the page of an error.
    pub head: Option<Box<Request<'a>>>,
    /// The limits that have counted or rejected the request.
    pub counted: Counted,
    /// The login that the request has passed.
    pub login: Option<LoggedIn>,
    /// Cookies that an authorizer sets.
    pub cookies: Vec<HeaderValue>,
    /// The fields of rate limits.
    pub allowances: Vec<(HeaderName, String)>,
    /// They keep the request in progress until its response was sent.
    pub slots: Vec<Slot>,
    /// When the client gets an error instead of a response, in which form.
    pub timeout: Option<(Instant, Form)>,
    /// Whether the request is for a tunnel over HTTP/2.
    pub is_tunnel: bool,
}

/// Response fields for one request.
pub struct FilledFields {
    /// Over plain HTTP.
    pub plain: Vec<Change<HeaderValue>>,
    /// Over HTTPS.
    pub https: Vec<Change<HeaderValue>>,
}

impl Kept<'_> {
    fn sharing(self, copy: &OnceLock<Arc<RequestHead<'static>>>) -> Kept<'static> {
        Kept { head: self.head.map(|head| Box::new(head.sharing(copy))), ..self }
    }
}

/// What a step makes of a request.
pub enum Flow {
    /// The next step follows.
    Continue,
    /// The step responds.
    Respond(Box<Response>),
    /// The step decides later.
    Wait(Waiting),
}

/// A decision that is made later.
pub(crate) type Waiting = Pin<Box<dyn Future<Output = Decided> + Send>>;

/// A request on which a step has decided after a wait.
pub struct Decided {
    /// Where the request is.
    pub call: OwnedCall,
    /// The request.
    pub passage: Passage<'static>,
    /// The response of the step, if it does not pass the request on.
    pub response: Option<Response>,
}

impl From<Response> for Flow {
    fn from(response: Response) -> Self {
        Self::Respond(Box::new(response))
    }
}

/// A [`Call`], for what waits. Its route stays the same, whatever a step changes in the request.
#[derive(Debug)]
pub struct OwnedCall {
    /// Who has sent the request.
    pub client: Client<'static>,
    /// The routes of the configuration.
    pub routes: Arc<Routes>,
    /// The canonical path of the request.
    pub path: RequestPath<'static>,
    route: RouteId,
}

impl OwnedCall {
    /// Copies what a call borrows.
    #[must_use]
    pub fn of(call: &Call<'_>) -> Self {
        let Context { client, routes, .. } = call.context;
        call.context.observe_waiting(call.route);
        Self {
            client: client.to_owned(),
            routes: routes.clone(),
            path: call.path.clone().into_owned(),
            route: call.route.id,
        }
    }

    /// Continues the call.
    pub fn with<R>(&self, access: Access, then: impl FnOnce(Call<'_>) -> R) -> R {
        let route = &self.routes.router.at(self.route);
        then(Call {
            path: &self.path,
            route,
            context: Context { client: &self.client, routes: &self.routes, access, received: None },
        })
    }
}

/// What comes after a step that is around the next ones and calls them itself: the steps from this number on, and the handler.
#[derive(Debug, Clone, Copy)]
pub struct Next(pub usize);

impl Next {
    /// Passes a request through these steps to the handler, and its response back.
    pub fn call(self, request: Request<'_>, call: Call<'_>) -> Reply {
        let target = call.route.handler;
        if self.0 == target.steps.len() {
            return target.handler.call(request, call);
        }
        enter(request.into(), call, self.0, self.0)
    }
}

/// Passes this response back through all steps of a route, as if it were that of the handler.
pub(super) fn respond(request: Request<'_>, response: Response, call: Call<'_>) -> Reply {
    enter(Passage { instead: Some(Box::new(response)), ..request.into() }, call, 0, 0)
}

/// Passes a request that has entered the steps from `first` to the one with number `at`, and further.
fn enter(mut passage: Passage<'_>, call: Call<'_>, first: usize, at: usize) -> Reply {
    let target = call.route.handler;
    for (number, step) in target.steps.iter().enumerate().skip(at) {
        if let Some(around) = step.around().filter(|_| passage.instead.is_none()) {
            let reply = around.call(passage.request, call, Next(number + 1));
            return leave(reply, passage.kept, call, first..number);
        }
        match step.request(&mut passage, &call) {
            Flow::Continue => {}
            Flow::Respond(response) => {
                return leave((*response).into(), passage.kept, call, first..number + 1);
            }
            Flow::Wait(decision) => return Reply::Later(Box::pin(resume(decision, first, number))),
        }
    }
    let reply = match passage.instead {
        Some(response) => (*response).into(),
        None => target.handler.call(passage.request, call),
    };
    leave(reply, passage.kept, call, first..target.steps.len())
}

/// What a step makes of a request that is explained.
#[derive(Debug)]
pub enum Explained {
    /// It was not called, because it would count, send or wait.
    Skipped(&'static str),
    /// It passes the request on for this reason.
    Allowed(String),
    /// It responds with this status, for this reason.
    Responded(StatusCode, Option<String>),
}

/// Passes a request through the steps of its route as [`enter`] does, until one responds, but calls none that would count, send or wait.
pub fn explain(request: Request<'_>, call: &Call<'_>) -> Vec<Explained> {
    let mut passage = Passage::from(request);
    let mut explained = Vec::new();
    for step in &call.route.handler.steps {
        if let Some(what) = step.acts_on(&passage.request) {
            explained.push(Explained::Skipped(what));
            continue;
        }
        let reason = step.reason(&passage.request, call);
        match step.request(&mut passage, call) {
            Flow::Continue => explained.extend(reason.map(Explained::Allowed)),
            Flow::Respond(response) => {
                let reason = reason.or_else(|| response.state().explanation.clone());
                explained.push(Explained::Responded(response.status(), reason));
                break;
            }
            // It is dropped before its first poll.
            Flow::Wait(_) => explained.push(Explained::Skipped("a step that waits")),
        }
    }
    explained
}

/// Continues after the step with number `at` has decided.
async fn resume(decision: Waiting, first: usize, at: usize) -> Response {
    let Decided { call, passage, response } = decision.await;
    let reply = call.with(Access::Cached, |call| match response {
        Some(response) => leave(response.into(), passage.kept, call, first..at + 1),
        None => enter(passage, call, first, at + 1),
    });
    reply.response().await
}

/// Passes a response back through the steps that its request has entered, the last one first.
fn leave(reply: Reply, mut kept: Kept<'_>, call: Call<'_>, entered: Range<usize>) -> Reply {
    let steps = &call.route.handler.steps;
    let mut response = match limit(reply, kept.timeout.take()) {
        Reply::Now(response) => response,
        Reply::Later(response) => {
            let is_changed = steps[entered.clone()].iter().any(|step| step.for_responses().is_some());
            if !is_changed && kept.slots.is_empty() {
                return Reply::Later(response);
            }
            let (call, kept) = (OwnedCall::of(&call), kept.sharing(&call.context.client.head));
            return Reply::Later(Box::pin(async move {
                let response = response.await;
                let reply = call.with(Access::Cached, |call| leave(response.into(), kept, call, entered));
                reply.response().await
            }));
        }
    };
    for number in entered.clone().rev() {
        let Some(step) = steps[number].for_responses() else { continue };
        match step.response(response, &mut kept, &call) {
            Reply::Now(changed) => response = changed,
            later @ Reply::Later(_) => return leave(later, kept, call, entered.start..number),
        }
    }
    hold(response, kept.slots).into()
}
