//! What surrounds every handler. Each step is a file here; [`plan`] puts them in order.
//!
//! A step decides on a request and may change it; a step for responses also changes what comes back. [`pipeline`] calls them.
//! ARCHITECTURE.md has the order of all steps.

mod access;
mod admission;
mod authorize;
mod basic_auth;
mod body_limit;
mod compress;
mod cors;
mod derived_heads;
mod error_pages;
mod field_changes;
mod fields;
mod forward_auth;
mod forwarding_fields;
mod identity;
mod limits;
mod maintenance;
mod pipeline;
mod plan;
#[cfg(test)]
mod tests;
mod timeout;

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use rudy_http::h1::RequestHead;
use rudy_http::semantics::path::RequestPath;
use rudy_net::{Client, Reply, Request, Response};

pub use self::access::{AccessRuleTable, FieldPatterns, MethodName};
pub use self::admission::AdmissionTable;
use self::admission::Login;
pub use self::basic_auth::{BasicAuthTable, Realm};
pub use self::cors::CorsTable;
pub use self::error_pages::ErrorPagesTable;
pub use self::field_changes::FieldChanges;
pub(crate) use self::fields::CONNECTION_FIELDS;
pub(crate) use self::fields::set_request_field;
pub use self::forward_auth::{AuthorizerUrl, ForwardAuthTable};
pub(crate) use self::identity::{Identity, LoggedIn};
pub use self::limits::{BandwidthTable, ConcurrencyTable, Events, KeyPart, RateLimitTable, RequestRate};
pub(crate) use self::limits::{Counted, LimitStatus, Limits, TopKeyStatus, problems as limit_problems};
pub use self::maintenance::MaintenanceTable;
pub(crate) use self::pipeline::{Decided, Flow, Kept, Next, OwnedCall, Passage, Waiting, respond};
pub(crate) use self::plan::SiteSteps;
pub use self::plan::StepsTable;
use crate::cache::Cache;
use crate::exchange::RouteName;
use crate::handlers::{Call, Handler, Start};
use crate::routes::Context;
use crate::routing::RouteMatch;

/// A step around a handler.
pub(crate) trait Step: Debug + Send + Sync {
    /// Decides on a request, changes it, and keeps what its response needs.
    fn request(&self, passage: &mut Passage, call: &Call<'_>) -> Flow {
        let _ = (passage, call);
        Flow::Continue
    }

    /// Returns the step if it also changes responses.
    fn for_responses(&self) -> Option<&dyn ResponseStep> {
        None
    }

    /// Returns the step if it calls the next ones itself, perhaps several times. [`Self::request`] is not called then.
    fn around(&self) -> Option<&dyn Around> {
        None
    }

    /// Changes the response to a request of which only the head was needed, in the same way as for a whole request. `None` if that needs
    /// the request.
    fn finish(&self, response: Response, call: HeadCall<'_>) -> Option<Response> {
        let _ = (response, call);
        None
    }

    /// Whether [`Self::finish`] may return a response.
    fn can_finish(&self) -> bool {
        false
    }

    /// Counts a request of which only the head was needed, after all steps have finished its response. `None` rejects it: the request
    /// then passes the steps, and [`Self::request`] of this one responds.
    fn admit(&self, response: Response, call: HeadCall<'_>) -> Option<Response> {
        let _ = call;
        Some(response)
    }

    /// Responds to a GET or HEAD from its head alone instead of the steps that come next and the handler, as [`Around::call`] does.
    fn call_head(&self, call: HeadCall<'_>) -> Option<Response> {
        let _ = call;
        None
    }

    /// Whether [`Self::call_head`] may return a response.
    fn responds_to_heads(&self) -> bool {
        false
    }

    /// Returns the cache, if the step is one.
    fn cache(&self) -> Option<&Cache> {
        None
    }

    /// Describes the step for `rudy check --explain`, in a line or several.
    fn describe(&self) -> Vec<String>;

    /// Decides about a request as [`Self::request`] does, for `rudy check --explain`. `None` if the step rejects no requests, or
    /// cannot know without waiting.
    fn explain(&self, request: &Request, context: Context<'_>) -> Option<Decision> {
        let _ = (request, context);
        None
    }

    /// Starts background work, as [`Handler::start`] does.
    fn start(&self, start: &Start<'_>) -> io::Result<()> {
        let _ = start;
        Ok(())
    }
}

/// A step that changes responses.
pub(crate) trait ResponseStep {
    /// Changes the response to a request that the step has passed on, or its own, now or later.
    fn response(&self, response: Response, kept: &mut Kept, call: &Call<'_>) -> Reply;
}

/// A step around the next ones.
pub(crate) trait Around {
    /// Responds to a request, with or without the next steps.
    fn call(&self, request: Request, call: Call<'_>, next: Next) -> Reply;
}

/// What a step does with a request, and why.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It passes the request on.
    Allow(String),
    /// It responds with an error: the status and the reason.
    Reject(String),
}

/// A request of which only the head is needed.
#[derive(Clone, Copy)]
pub(crate) struct HeadCall<'a> {
    pub(crate) head: &'a RequestHead<'a>,
    /// The canonical path of the request.
    pub(crate) path: &'a RequestPath<'a>,
    pub(crate) client: &'a Client<'a>,
}

/// The target of a route: its handler, and the steps around it.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) steps: Vec<Arc<dyn Step>>,
    /// Whether every step can finish a response without the request.
    can_finish: bool,
    /// The step that may respond from the head alone, if all outer ones can finish a response.
    responding: Option<usize>,
    /// Whether TRACE requests reach the handler.
    pub(crate) allow_trace: bool,
    pub(crate) handler: Box<dyn Handler>,
    /// Its names in logs and metrics.
    pub(crate) name: Arc<RouteName>,
}

impl Target {
    pub(crate) fn new(steps: Vec<Arc<dyn Step>>, allow_trace: bool, handler: Box<dyn Handler>) -> Self {
        let can_finish = steps.iter().all(|step| step.can_finish());
        let responding = steps.iter().position(|step| step.responds_to_heads());
        let responding = responding.filter(|first| steps[..*first].iter().all(|step| step.can_finish()));
        Self { steps, can_finish, responding, allow_trace, handler, name: Arc::default() }
    }

    /// Sets its names in logs and metrics.
    pub(crate) fn named(self, name: RouteName) -> Self {
        Self { name: Arc::new(name), ..self }
    }

    /// Responds to a request from its head alone, if the handler has a response ready and all steps can finish it.
    pub(crate) fn call_head(&self, route: &RouteMatch<'_, Self>, call: HeadCall<'_>) -> Option<Response> {
        let finish = |steps: &[Arc<dyn Step>], response| {
            let mut reversed = steps.iter().rev();
            let response = reversed.try_fold(response, |response, step| step.finish(response, call))?;
            steps.iter().try_fold(response, |response, step| step.admit(response, call))
        };
        if let Some(step) = self.responding
            && let Some(response) = self.steps[step].call_head(call)
        {
            return finish(&self.steps[..step], response);
        }
        if !self.can_finish {
            return None;
        }
        finish(&self.steps, self.handler.call_head(call.head, route, call.path)?)
    }

    /// Starts the background work of the steps and the handler.
    pub(crate) fn start(&self, start: &Start<'_>) -> io::Result<()> {
        let log = &start.log.of_route(&self.name);
        let start = &Start { log, ..*start };
        self.steps.iter().try_for_each(|step| step.start(start))?;
        self.handler.start(start)
    }
}
