//! The step that limits requests at the same time.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use rudy_limit::{Key, Slot, Slots};
use rudy_net::{Body, BodyError, BodyPiece, BodyStream, Reply, Request, Response, Upgrade};

use super::key::KeySource;
use super::meter::Meter;
use super::pieces::Pieces;
use super::{Counted, Effect, LimitStatus, Max, Settings, is_counted};
use crate::handlers::{Call, Start};
use crate::pages;
use crate::steps::{HeadCall, Next, Step};

/// A body in memory of at most this size is complete when the connection has it.
const SMALL_BODY_BYTES: usize = 16 * 1024;

/// A limit of concurrent requests and its counts.
#[derive(Debug)]
pub(super) struct ConcurrencyLimit {
    slots: Arc<Slots>,
    meter: Meter,
}

impl ConcurrencyLimit {
    pub(super) fn new(settings: Settings) -> Self {
        let (Max::AtOnce(max) | Max::PerTime { burst: max, .. }) = settings.max;
        let what = format!("limit of concurrent requests of {} ({})", settings.label(), settings.max);
        Self { slots: Arc::new(Slots::new(max)), meter: Meter::new(settings, what) }
    }

    pub(super) fn status(&self) -> LimitStatus {
        let (rejected, dry_run) = self.meter.counts();
        LimitStatus {
            name: self.meter.settings.label(),
            max: self.meter.settings.max.to_string(),
            by: self.meter.key_settings().to_string(),
            rejected,
            dry_run,
            shared: None,
            memory_bytes: None,
            active_keys: Some(self.slots.keys()),
            top: self.meter.top(),
        }
    }
}

/// A limit of concurrent requests, and what happens over it.
#[derive(Debug, Clone)]
pub(super) struct Applied {
    pub(super) limit: Arc<ConcurrencyLimit>,
    pub(super) effect: Effect,
}

/// The limits of a site or route: a request needs a slot of each.
#[derive(Debug)]
pub(super) struct ConcurrencyLimits(pub(super) Vec<Applied>);

impl ConcurrencyLimits {
    /// Begins a request, or returns the limit that it exceeds.
    fn acquire(
        &self,
        request: &KeySource<'_>,
        counted: Option<&Counted>,
        now: Instant,
    ) -> Result<Vec<Slot>, (&Applied, Key)> {
        let mut slots = Vec::with_capacity(self.0.len());
        for applied in &self.0 {
            let Applied { limit, effect } = applied;
            if counted.is_some_and(|counted| counted.includes(limit)) {
                continue;
            }
            let key = limit.meter.key(request);
            slots.push(match limit.slots.acquire(key) {
                Some(slot) => slot,
                None if effect.dry_run => {
                    limit.meter.count(key, request, *effect, now);
                    limit.slots.acquire_over(key)
                }
                None => return Err((applied, key)),
            });
        }
        Ok(slots)
    }
}

impl Step for ConcurrencyLimits {
    fn call(&self, mut request: Request, call: Call<'_>, next: Next) -> Reply {
        if !is_counted(&request) {
            return next.call(request, call);
        }
        let (source, now) = (KeySource::of_request(&request, &call), Instant::now());
        let slots = match self.acquire(&source, request.extensions().get(), now) {
            Ok(slots) => slots,
            Err((Applied { limit, effect }, key)) => {
                limit.meter.count(key, &source, *effect, now);
                let explanation = "Too many requests at the same time. Try again when one of them has ended.";
                return pages::error(effect.status, request.headers(), explanation).into();
            }
        };
        Counted::add(&mut request, self.0.iter().map(|applied| &applied.limit));
        // Until then, the closure has the slots, and is dropped if the request is cancelled.
        next.call(request, call).map(move |response| hold(response, slots))
    }

    fn describe(&self) -> Vec<String> {
        let line = |Applied { limit, effect }: &Applied| {
            let Settings { max, key, .. } = &limit.meter.settings;
            format!("concurrent requests: {max} by {key}, {effect}")
        };
        self.0.iter().map(line).collect()
    }

    fn start(&self, start: &Start<'_>) -> io::Result<()> {
        self.0.iter().for_each(|applied| applied.limit.meter.set_log(start.log));
        Ok(())
    }

    fn finish(&self, response: Response, _call: HeadCall<'_>) -> Option<Response> {
        Some(response)
    }

    fn can_finish(&self) -> bool {
        true
    }

    fn admit(&self, response: Response, call: HeadCall<'_>) -> Option<Response> {
        let slots = self.acquire(&KeySource::of_head(call), None, Instant::now()).ok()?;
        Some(hold(response, slots))
    }
}

/// Keeps slots until the response was sent, or the connection in another protocol has ended.
fn hold(mut response: Response, slots: Vec<Slot>) -> Response {
    if slots.is_empty() {
        return response;
    }
    if let Some(upgrade) = response.upgrade.take() {
        response.upgrade = Some(hold_upgrade(upgrade, slots));
        return response;
    }
    response.body = match response.body {
        Body::Empty => Body::Empty,
        Body::Bytes(bytes) if bytes.len() <= SMALL_BODY_BYTES => Body::Bytes(bytes),
        body => Body::Stream(Box::new(HeldBody { body: Pieces(body), _slots: slots })),
    };
    response
}

fn hold_upgrade(upgrade: Upgrade, slots: Vec<Slot>) -> Upgrade {
    Box::new(move |upgraded| {
        let tunnel = upgrade(upgraded);
        Box::pin(async move {
            tunnel.await;
            drop(slots);
        })
    })
}

/// A body that keeps slots until it is dropped: after its end, or when the client is gone.
struct HeldBody {
    body: Pieces,
    _slots: Vec<Slot>,
}

impl BodyStream for HeldBody {
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        self.body.poll_piece(cx, now, max)
    }

    fn poll_blocked(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        self.body.poll_blocked(cx, now)
    }

    fn due(&self) -> Option<Instant> {
        self.body.due()
    }

    fn length(&self) -> Option<u64> {
        self.body.length()
    }

    fn is_live(&self) -> bool {
        self.body.is_live()
    }

    fn end(&mut self) -> bool {
        self.body.end()
    }
}
