//! The step that limits requests at the same time.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use rudy_limit::{Key, Slot, Slots};
use rudy_net::{Body, BodyError, BodyPiece, BodyStream, Reply, Request, Response, Upgrade};

use super::applied::{Applied, Limit};
use super::key::KeySource;
use super::meter::Meter;
use super::pieces::Pieces;
use super::{Counted, LimitStatus, Max, Settings};
use crate::handlers::Call;
use crate::pages;
use crate::steps::{HeadCall, Next};

/// A body in memory of at most this size is complete when the connection has it.
const SMALL_BODY_BYTES: usize = 16 * 1024;

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
    fn call(limits: &[Applied<Self>], mut request: Request, call: Call<'_>, next: Next) -> Reply {
        let (source, now) = (KeySource::of_request(&request, &call), Instant::now());
        let slots = match acquire(limits, &source, request.extensions().get(), now) {
            Ok(slots) => slots,
            Err((Applied { limit, effect }, key)) => {
                limit.meter.count(key, &source, *effect, now);
                let explanation = "Too many requests at the same time. Try again when one of them has ended.";
                return pages::error(effect.status, request.headers(), explanation).into();
            }
        };
        Counted::note(limits.iter().map(Applied::address), request.extensions_mut());
        // Until then, the closure has the slots, and is dropped if the request is cancelled.
        next.call(request, call).map(move |response| hold(response, slots))
    }

    fn admit(limits: &[Applied<Self>], response: Response, call: HeadCall<'_>) -> Option<Response> {
        let slots = acquire(limits, &KeySource::of_head(call), None, Instant::now()).ok()?;
        Some(hold(response, slots))
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
