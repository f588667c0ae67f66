//! Publish and subscribe. A topic formats each message once and stores it in a ring; a subscriber is a
//! position in the ring.

mod framing;
mod ring;
mod topics;
mod wakers;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, UNIX_EPOCH};

use bytes::Bytes;
use parking_lot::Mutex;
use ring::{Read, Ring};
use rudy_runtime::clock;
use rudy_service::{BodyError, BodyPiece, BodyStream};
use wakers::{WAKE_BATCH, Wakers};

pub use framing::{Framing, Id};
pub use ring::{Batch, History};
pub use topics::Topics;

/// Messages and their subscribers.
#[derive(Debug)]
pub struct Topic {
    framing: Framing,
    /// Distinguishes the ids of this topic from those of an earlier topic with the same name.
    epoch: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    ring: Ring,
    wakers: Wakers,
    /// When the last message was published.
    published_at: Instant,
    /// When the last subscriber left.
    left_at: Instant,
}

/// The message at which a subscription starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartAt {
    /// The last `n` stored messages.
    Last(u64),
    /// The message after this one.
    After(Id),
    /// After an id that this server has not issued.
    Unknown,
}

/// The settings of a subscription.
#[derive(Debug)]
pub struct SubscribeOptions {
    /// The first bytes that the subscriber receives.
    pub preamble: String,
    /// The longest time without a message before a heartbeat is sent; `None` for no heartbeat.
    pub heartbeat: Option<Duration>,
}

impl Topic {
    /// A topic without messages.
    #[must_use]
    pub fn new(framing: Framing) -> Self {
        let epoch = clock::utc().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let now = clock::now();
        let (ring, wakers) = (Ring::default(), Wakers::default());
        let state = State { ring, wakers, published_at: now, left_at: now };
        Self { framing, epoch: u64::try_from(epoch).unwrap_or(u64::MAX), state: Mutex::new(state) }
    }

    /// Publishes the lines of a batch to all subscribers. Returns the id of the last message, which is an
    /// earlier one if the batch is empty.
    pub fn publish(&self, batch: &Batch, history: History) -> Id {
        let mut state = self.state.lock();
        state.ring.push(batch, self.framing, self.epoch, history);
        state.published_at = clock::now();
        let number = state.ring.next() - 1;
        drop(state);
        if !batch.is_empty() {
            self.wake_all();
        }
        Id { epoch: self.epoch, number }
    }

    /// Adds a subscriber.
    pub fn subscribe(
        self: &Arc<Self>,
        start: StartAt,
        options: SubscribeOptions,
        now: Instant,
    ) -> Subscriber {
        let mut state = self.state.lock();
        let (next, is_known) = self.find(&state.ring, start);
        let slot = state.wakers.allocate();
        drop(state);
        let mut preamble = options.preamble;
        if !is_known {
            preamble.push_str(&self.framing.gap(None));
        }
        let heartbeat = options.heartbeat.filter(|_| self.framing.heartbeat().is_some());
        let period = heartbeat.map(|longest| heartbeat_interval(longest, slot));
        let preamble = (!preamble.is_empty()).then(|| preamble.into());
        Subscriber {
            topic: self.clone(),
            preamble,
            next,
            slot,
            period,
            due: period.map(|period| now + period),
        }
    }

    /// Returns whether the topic has had no subscriber for `time`.
    pub fn is_idle(&self, now: Instant, time: Duration) -> bool {
        let state = self.state.lock();
        state.wakers.in_use() == 0 && now.saturating_duration_since(state.left_at) >= time
    }

    /// Returns whether the topic can be deleted: it has no subscriber, and nothing was published, or nothing
    /// for `time`.
    pub fn is_expired(&self, now: Instant, time: Duration) -> bool {
        let state = self.state.lock();
        let is_old = now.saturating_duration_since(state.published_at.max(state.left_at)) >= time;
        state.wakers.in_use() == 0 && (is_old || state.ring.next() == 1)
    }

    /// Returns the number of the first message to send, and whether the messages before it are known.
    fn find(&self, ring: &Ring, start: StartAt) -> (u64, bool) {
        match start {
            StartAt::Last(count) => (ring.next().saturating_sub(count).max(ring.oldest()), true),
            // If the message is no longer stored, the first read reports how many are missing.
            StartAt::After(id) if id.epoch == self.epoch && id.number < ring.next() => (id.number + 1, true),
            StartAt::After(_) | StartAt::Unknown => (ring.oldest(), false),
        }
    }

    /// Wakers run outside the lock, because a woken task may read its message at once.
    fn wake_all(&self) {
        let mut batch = Vec::with_capacity(WAKE_BATCH);
        let mut from = 0;
        loop {
            let before = from;
            from = self.state.lock().wakers.take(from, &mut batch);
            if from == before {
                return;
            }
            batch.drain(..).for_each(std::task::Waker::wake);
        }
    }
}

/// Returns the heartbeat interval of one subscriber: between three quarters of `longest` and all of it. So
/// subscribers that received the same message do not all get their heartbeat at the same time. Multiples of
/// the golden ratio are spread evenly.
fn heartbeat_interval(longest: Duration, slot: u32) -> Duration {
    const GOLDEN_FRACTION: u32 = 0x9E37_79B9;
    let share = f64::from(slot.wrapping_mul(GOLDEN_FRACTION)) / f64::from(u32::MAX);
    longest.mul_f64(0.75 + 0.25 * share)
}

/// A subscriber: a position in the ring and a slot in the list of wakers.
#[derive(Debug)]
pub struct Subscriber {
    topic: Arc<Topic>,
    preamble: Option<Bytes>,
    /// The number of the next message to send.
    next: u64,
    slot: u32,
    period: Option<Duration>,
    due: Option<Instant>,
}

impl Subscriber {
    /// Returns the next message, or a heartbeat if there has been none for too long.
    fn poll_message(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<Bytes> {
        if let Some(preamble) = self.preamble.take() {
            return Poll::Ready(preamble);
        }
        let mut state = self.topic.state.lock();
        let piece = match state.ring.read(self.next) {
            Read::Piece(piece, next) => {
                self.next = next;
                piece
            }
            Read::Gone { missing, oldest } => {
                self.next = oldest;
                self.topic.framing.gap(Some(missing)).into()
            }
            Read::Nothing => {
                state.wakers.set(self.slot, cx.waker());
                let heartbeat = self.topic.framing.heartbeat();
                match heartbeat.filter(|_| self.due.is_some_and(|due| now >= due)) {
                    Some(heartbeat) => heartbeat,
                    None => return Poll::Pending,
                }
            }
        };
        drop(state);
        self.due = self.period.map(|period| now + period);
        Poll::Ready(piece)
    }
}

impl BodyStream for Subscriber {
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        _: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        self.poll_message(cx, now).map(|message| Some(Ok(BodyPiece::Data(message))))
    }

    fn poll_blocked(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        let mut state = self.topic.state.lock();
        if self.next < state.ring.oldest() {
            return Poll::Ready(());
        }
        state.wakers.set(self.slot, cx.waker());
        // A heartbeat is useless while the client does not read.
        if self.due.is_some_and(|due| now >= due) {
            self.due = self.period.map(|period| now + period);
        }
        Poll::Pending
    }

    fn due(&self) -> Option<Instant> {
        self.due
    }

    fn is_live(&self) -> bool {
        true
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let mut state = self.topic.state.lock();
        state.wakers.release(self.slot);
        state.left_at = clock::now();
    }
}

#[cfg(test)]
mod tests;
