//! What the steps of all limits by key have in common.

use std::convert::Infallible;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use rudy_admin::LimitStatus;
use rudy_pipeline::registry::Registry;
use rudy_pipeline::request_state::HasRequestState;
use rudy_pipeline::{Call, Flow, Kept, Passage, ResponseStep, Start, Step};
use rudy_service::{Reply, Request, Response};

use super::meter::Meter;
use super::rate::add_fields;
use super::{Effect, Settings};

/// A kind of limit by key.
pub(super) trait Limit: Debug + Send + Sync + Sized + 'static {
    fn new(settings: Settings) -> Self;

    fn meter(&self) -> &Meter;

    fn status(&self) -> LimitStatus;

    /// Counts a request with all limits of a list, or rejects it.
    fn count(limits: &[Applied<Self>], passage: &mut Passage<'_>, call: &Call<'_>) -> Flow;
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

    /// The address of the limit, by which [`Counted`](rudy_pipeline::request_state::Counted) knows it.
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
}

impl<L: Limit> Limited<L> {
    /// Returns the step, if there are limits.
    pub(super) fn step(limits: Vec<Applied<L>>) -> Option<Arc<dyn Step>> {
        (!limits.is_empty()).then(|| -> Arc<dyn Step> { Arc::new(Self { limits }) })
    }
}

impl<L: Limit> Step for Limited<L> {
    fn request(&self, passage: &mut Passage<'_>, call: &Call<'_>) -> Flow {
        let flow = L::count(&self.limits, passage, call);
        let Passage { request, kept, .. } = passage;
        for counted in [&mut kept.counted, &mut request.state_mut().counted] {
            counted.note(self.limits.iter().map(Applied::address));
        }
        flow
    }

    fn for_responses(&self) -> Option<&dyn ResponseStep> {
        let sends_fields = self.limits.iter().any(|applied| applied.effect.sends_fields);
        sends_fields.then_some(self)
    }

    fn acts_on(&self, _: &Request<'_>) -> Option<&'static str> {
        Some("limits: only a running server counts requests")
    }

    fn describe(&self) -> Vec<String> {
        self.limits.iter().map(Applied::describe).collect()
    }

    fn start(&self, start: &Start<'_>) -> io::Result<()> {
        self.limits.iter().for_each(|applied| applied.limit.meter().set_log(start.log));
        Ok(())
    }
}

impl<L: Limit> ResponseStep for Limited<L> {
    /// Adds the fields of all rate limits.
    fn response(&self, mut response: Response, kept: &mut Kept<'_>, _: &Call<'_>) -> Reply {
        add_fields(&std::mem::take(&mut kept.allowances), &mut response);
        response.into()
    }
}
