//! What the steps of all limits by key have in common.

use std::convert::Infallible;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use rudy_net::{Reply, Request, Response};

use super::meter::Meter;
use super::{Effect, LimitStatus, Settings};
use crate::handlers::{Call, Start};
use crate::registry::Registry;
use crate::request_state::HasResponseState;
use crate::steps::error_pages::is_error;
use crate::steps::{HeadCall, Next, Step};

/// A kind of limit by key.
pub(super) trait Limit: Debug + Send + Sync + Sized + 'static {
    fn new(settings: Settings) -> Self;

    fn meter(&self) -> &Meter;

    fn status(&self) -> LimitStatus;

    /// Counts a request with all limits of a list and passes it on, or rejects it.
    fn call(limits: &[Applied<Self>], request: Request, call: Call<'_>, next: Next) -> Reply;

    /// Does the same for a request of which only the head was needed, as [`Step::admit`].
    fn admit(limits: &[Applied<Self>], response: Response, call: HeadCall<'_>) -> Option<Response>;
}

/// A limit, and what happens over it.
#[derive(Debug)]
pub(super) struct Applied<L> {
    pub(super) limit: Arc<L>,
    pub(super) effect: Effect,
}

impl<L: Limit> Applied<L> {
    /// Uses the limit with these settings, which others may use already.
    pub(super) fn new(limits: &Registry<Settings, L>, settings: &Settings, effect: Effect) -> Self {
        let create = || Ok::<_, Infallible>(Arc::new(L::new(settings.clone())));
        let Ok(limit) = limits.get_or_create(settings, create);
        Self { limit, effect }
    }

    /// The address of the limit, by which [`Counted`](super::Counted) knows it.
    pub(super) fn address(&self) -> usize {
        Arc::as_ptr(&self.limit).addr()
    }

    /// Describes the limit for `rudy check --explain`.
    pub(super) fn describe(&self) -> String {
        let Meter { name, settings, .. } = self.limit.meter();
        format!("{name}: {} by {}, {}", settings.max, settings.key, self.effect)
    }
}

impl<L> Clone for Applied<L> {
    fn clone(&self) -> Self {
        Self { limit: self.limit.clone(), effect: self.effect }
    }
}

/// The step for the limits of a site or route. A request needs to be within all of them.
#[derive(Debug)]
pub(super) struct Limited<L> {
    limits: Vec<Applied<L>>,
    addresses: Arc<[usize]>,
}

impl<L: Limit> Limited<L> {
    /// Returns the step, if there are limits.
    pub(super) fn step(limits: Vec<Applied<L>>) -> Option<Arc<dyn Step>> {
        let addresses = limits.iter().map(Applied::address).collect();
        (!limits.is_empty()).then(|| -> Arc<dyn Step> { Arc::new(Self { limits, addresses }) })
    }
}

impl<L: Limit> Step for Limited<L> {
    fn call(&self, request: Request, call: Call<'_>, next: Next) -> Reply {
        let addresses = self.addresses.clone();
        L::call(&self.limits, request, call, next).map(move |mut response| {
            if is_error(response.status()) {
                response.state_mut().counted.note(addresses.iter().copied());
            }
            response
        })
    }

    fn describe(&self) -> Vec<String> {
        self.limits.iter().map(Applied::describe).collect()
    }

    fn start(&self, start: &Start<'_>) -> io::Result<()> {
        self.limits.iter().for_each(|applied| applied.limit.meter().set_log(start.log));
        Ok(())
    }

    fn finish(&self, response: Response, _call: HeadCall<'_>) -> Option<Response> {
        Some(response)
    }

    /// Fields with the allowance are not those of a prepared head.
    fn can_finish(&self) -> bool {
        self.limits.iter().all(|applied| !applied.effect.sends_fields)
    }

    fn admit(&self, response: Response, call: HeadCall<'_>) -> Option<Response> {
        L::admit(&self.limits, response, call)
    }
}
