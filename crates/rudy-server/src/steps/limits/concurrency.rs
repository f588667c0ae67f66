//! The step that limits requests at the same time, and the one that keeps them in progress until their responses were sent.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use rudy_admin::LimitStatus;
use rudy_limit::{Key, Slot, Slots};
use rudy_net::{Body, BodyError, BodyPiece, BodyStream, Piped, Response, Upgrade};

use super::applied::{Applied, Limit};
use super::key::KeySource;
use super::meter::Meter;
use super::pieces::Pieces;
use super::{Max, Settings};
use crate::handlers::Call;
use crate::pages;
use crate::request_state::Counted;
use crate::request_state::HasRequestState;
use crate::steps::{Flow, Passage};

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
        let (source, now) = (KeySource::of_request(request, call), Instant::now());
        match acquire(limits, &source, Some(&request.state().counted), now) {
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

/// Keeps a request in progress until its response was sent, or until the connection in another protocol has ended. All steps come
/// before, because they may replace the body, and because a body that is held does not show that it is stored.
pub(in crate::steps) fn hold(mut response: Response, slots: Vec<Slot>) -> Response {
    if slots.is_empty() || !response.takes_time() {
        return response;
    }
    if let Some(upgrade) = response.upgrade.take() {
        response.upgrade = Some(hold_upgrade(upgrade, slots));
    } else {
        let body = Pieces(std::mem::replace(&mut response.body, Body::Empty));
        response.body = Body::Stream(Box::new(HeldBody { body, _slots: slots }));
    }
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

    fn take_piped(&mut self, max: u64) -> Option<Piped> {
        self.body.take_piped(max)
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    use http::StatusCode;
    use rudy_limit::KeyHasher;

    use super::*;

    /// A body that the kernel moves from a socket.
    struct FromSocket(UnixStream);

    impl BodyStream for FromSocket {
        fn poll_piece(
            &mut self,
            _cx: &mut Context<'_>,
            _now: Instant,
            _max: u64,
        ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
            Poll::Pending
        }

        fn take_piped(&mut self, max: u64) -> Option<Piped> {
            Piped::receive(&self.0, max).ok()
        }
    }

    #[test]
    fn a_body_with_slots_is_still_moved_by_the_kernel() {
        let slots = Arc::new(Slots::new(1));
        let slot = slots.acquire(KeyHasher::default().start().finish()).unwrap();
        let (socket, mut upstream) = UnixStream::pair().unwrap();
        upstream.write_all(b"bytes").unwrap();
        let mut response = Response::new(StatusCode::OK);
        response.body = Body::Stream(Box::new(FromSocket(socket)));
        let Body::Stream(mut body) = hold(response, vec![slot]).body else { panic!("it is a stream") };
        assert_eq!(body.take_piped(100).map(|piped| piped.length()), Some(5));
        assert_eq!(slots.keys(), 1);
        drop(body);
        assert_eq!(slots.keys(), 0);
    }
}
