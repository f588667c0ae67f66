//! The step that limits requests at the same time.

use std::sync::Arc;
use std::time::Instant;

use rudy_admin::LimitStatus;
use rudy_limit::{Key, Slot, Slots};
use rudy_pipeline::request_state::{Counted, HasRequestState};
use rudy_pipeline::{Call, Flow, Passage, pages};
use rudy_runtime::clock;

use super::applied::{Applied, Limit};
use super::key::KeySource;
use super::meter::Meter;
use super::{Max, Settings};

/// A limit of concurrent requests and its counts.
#[derive(Debug)]
pub(super) struct ConcurrencyLimit {
    slots: Arc<Slots>,
    meter: Meter,
}

impl Limit for ConcurrencyLimit {
    fn new(settings: Settings) -> Self {
        let (Max::AtOnce(max) | Max::PerTime { burst: max, .. }) = settings.max;
        Self { slots: Arc::new(Slots::new(max)), meter: Meter::new(settings, "limit of concurrent requests") }
    }

    fn meter(&self) -> &Meter {
        &self.meter
    }

    fn status(&self) -> LimitStatus {
        LimitStatus { active_keys: Some(self.slots.keys()), ..self.meter.status() }
    }

    /// A request needs a slot of each limit.
    fn count(limits: &[Applied<Self>], passage: &mut Passage<'_>, call: &Call<'_>) -> Flow {
        let request = &passage.request;
        let (source, now) = (KeySource::of_request(request, call), clock::now());
        match acquire(limits, &source, Some(&request.state().counted), now) {
            // Nearly always, for which no second list is made.
            Ok(slots) if passage.kept.slots.is_empty() => passage.kept.slots = slots,
            Ok(slots) => passage.kept.slots.extend(slots),
            Err((Applied { limit, effect }, key)) => {
                limit.meter.count(key, &source, *effect, now);
                let explanation = "Too many requests at the same time. Try again when one of them has ended.";
                return pages::error(effect.status, request.headers(), explanation).into();
            }
        }
        Flow::Continue
    }
}

/// Begins a request, or returns the limit that it exceeds.
fn acquire<'l>(
    limits: &'l [Applied<ConcurrencyLimit>],
    request: &KeySource<'_>,
    counted: Option<&Counted>,
    now: Instant,
) -> Result<Vec<Slot>, (&'l Applied<ConcurrencyLimit>, Key)> {
    let mut slots = Vec::with_capacity(limits.len());
    for applied in limits {
        let Applied { limit, effect } = applied;
        if counted.is_some_and(|counted| counted.includes(limit)) {
            continue;
        }
        for key in limit.meter.keys(request).iter().copied() {
            slots.push(match limit.slots.acquire(key) {
                Some(slot) => slot,
                None if effect.dry_run => {
                    limit.meter.count(key, request, *effect, now);
                    limit.slots.acquire_over(key)
                }
                None => return Err((applied, key)),
            });
        }
    }
    Ok(slots)
}
