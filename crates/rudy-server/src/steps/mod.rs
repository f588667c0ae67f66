//! What surrounds every handler. Each step is a file here, [`kind`] has their order, and [`plan`] makes those of a route.
//!
//! A step decides on a request and may change it; a step for responses also changes what comes back. [`pipeline`] calls them.

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
mod kind;
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

use rudy_net::{Reply, Request, Response};

pub use self::access::{AccessRuleTable, FieldPatterns, MethodName};
pub use self::admission::AdmissionTable;
use self::admission::Login;
pub use self::basic_auth::{BasicAuthTable, Realm};
pub use self::cors::CorsTable;
pub use self::error_pages::ErrorPagesTable;
pub use self::field_changes::FieldChanges;
pub(crate) use self::fields::CONNECTION_FIELDS;
pub use self::forward_auth::{AuthorizerUrl, ForwardAuthTable};
pub(crate) use self::kind::StepKind;
pub use self::limits::{BandwidthTable, ConcurrencyTable, Events, KeyPart, RateLimitTable, RequestRate};
pub(crate) use self::limits::{Limits, problems as limit_problems};
pub use self::maintenance::MaintenanceTable;
pub(crate) use self::pipeline::{
    Decided, Explained, Flow, Kept, Next, OwnedCall, Passage, Waiting, explain, respond,
};
pub(crate) use self::plan::SiteSteps;
pub use self::plan::StepsTable;
use crate::cache::Cache;
use crate::exchange::RouteName;
use crate::handlers::{Call, Handler, Start};
use crate::routes::Context;

/// A step around a handler.
pub(crate) trait Step: Debug + Send + Sync {
    /// Decides on a request, changes it, and keeps what its response needs.
    fn request(&self, passage: &mut Passage<'_>, call: &Call<'_>) -> Flow {
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

    /// Returns the cache, if the step is one.
    fn cache(&self) -> Option<&Cache> {
        None
    }

    /// Describes the step for `rudy check --explain`, in a line or several.
    fn describe(&self) -> Vec<String>;

    /// What the step would do with a request beside deciding on it: count, send or wait. `rudy check --explain` prints this instead of
    /// calling [`Self::request`]. `None` if the step only decides.
    fn acts_on(&self, request: &Request<'_>) -> Option<&'static str> {
        let _ = request;
        None
    }

    /// Why the step decides on a request as it does, for `rudy check --explain`. `None` if its response says it, or it has no rule.
    fn reason(&self, request: &Request<'_>, context: Context<'_>) -> Option<String> {
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
    fn response(&self, response: Response, kept: &mut Kept<'_>, call: &Call<'_>) -> Reply;
}

/// A step around the next ones.
pub(crate) trait Around {
    /// Responds to a request, with or without the next steps.
    fn call(&self, request: Request<'_>, call: Call<'_>, next: Next) -> Reply;
}

/// The target of a route: its handler, and the steps around it.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) steps: Vec<Arc<dyn Step>>,
    /// Whether TRACE requests reach the handler.
    pub(crate) allow_trace: bool,
    pub(crate) handler: Box<dyn Handler>,
    /// Its names in logs and metrics.
    pub(crate) name: Arc<RouteName>,
}

impl Target {
    pub(crate) fn new(steps: Vec<Arc<dyn Step>>, allow_trace: bool, handler: Box<dyn Handler>) -> Self {
        Self { steps, allow_trace, handler, name: Arc::default() }
    }

    /// Sets its names in logs and metrics.
    pub(crate) fn named(self, name: RouteName) -> Self {
        Self { name: Arc::new(name), ..self }
    }

    /// Starts the background work of the steps and the handler.
    pub(crate) fn start(&self, start: &Start<'_>) -> io::Result<()> {
        let log = &start.log.of_route(&self.name.site, self.name.path.as_deref());
        let start = &Start { log, ..*start };
        self.steps.iter().try_for_each(|step| step.start(start))?;
        self.handler.start(start)
    }
}
