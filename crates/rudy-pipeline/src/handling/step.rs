//! What surrounds every handler.

use std::any::Any;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use rudy_service::{Reply, Request, Response};

use super::handler::{Call, Handler, Start};
use super::passage::{Flow, Kept, Next, Passage};
use crate::exchange::RouteName;

/// A step around a handler.
pub trait Step: Any + Debug + Send + Sync {
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

    /// Describes the step for `rudy check --explain`, in a line or several.
    fn describe(&self) -> Vec<String>;

    /// What the step would do with a request beside deciding on it: count, send or wait. `rudy check --explain` prints this instead of
    /// calling [`Self::request`]. `None` if the step only decides.
    fn acts_on(&self, request: &Request<'_>) -> Option<&'static str> {
        let _ = request;
        None
    }

    /// Why the step decides on a request as it does, for `rudy check --explain`. `None` if its response says it, or it has no rule.
    fn reason(&self, request: &Request<'_>, call: &Call<'_>) -> Option<String> {
        let _ = (request, call);
        None
    }

    /// Starts background work, as [`Handler::start`] does.
    fn start(&self, start: &Start<'_>) -> io::Result<()> {
        let _ = start;
        Ok(())
    }
}

/// A step that changes responses.
pub trait ResponseStep {
    /// Changes the response to a request that the step has passed on, or its own, now or later.
    fn response(&self, response: Response, kept: &mut Kept<'_>, call: &Call<'_>) -> Reply;
}

/// A step around the next ones.
pub trait Around {
    /// Responds to a request, with or without the next steps.
    fn call(&self, request: Request<'_>, call: Call<'_>, next: Next) -> Reply;
}

/// The target of a route: its handler, and the steps around it.
#[derive(Debug)]
pub struct Target {
    /// The steps, the outermost first.
    pub steps: Vec<Arc<dyn Step>>,
    /// Whether TRACE requests reach the handler.
    pub allow_trace: bool,
    /// What responds to requests that all steps pass on.
    pub handler: Box<dyn Handler>,
    /// Its names in logs and metrics.
    pub name: Arc<RouteName>,
}

impl Target {
    /// A target without names.
    #[must_use]
    pub fn new(steps: Vec<Arc<dyn Step>>, allow_trace: bool, handler: Box<dyn Handler>) -> Self {
        Self { steps, allow_trace, handler, name: Arc::default() }
    }

    /// Sets its names in logs and metrics.
    #[must_use]
    pub fn named(self, name: RouteName) -> Self {
        Self { name: Arc::new(name), ..self }
    }

    /// Starts the background work of the steps and the handler.
    pub fn start(&self, start: &Start<'_>) -> io::Result<()> {
        let log = &start.log.of_route(&self.name.site, self.name.path.as_deref());
        let start = &Start { log, ..*start };
        self.steps.iter().try_for_each(|step| step.start(start))?;
        self.handler.start(start)
    }

    /// Returns the handler if it is of type `T`, for what lists the handlers of one kind.
    #[must_use]
    pub fn handler_of<T: Handler>(&self) -> Option<&T> {
        let handler: &dyn Any = &*self.handler;
        handler.downcast_ref()
    }

    /// Returns the steps of type `T`.
    pub fn steps_of<T: Step>(&self) -> impl Iterator<Item = &T> {
        self.steps.iter().filter_map(|step| {
            let step: &dyn Any = &**step;
            step.downcast_ref()
        })
    }
}
