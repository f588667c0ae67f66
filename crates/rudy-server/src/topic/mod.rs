//! One source, many listeners: messages are framed once and kept in a ring, and a listener is a place in it.

mod framing;
mod ring;
mod topics;
mod wakers;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
pub(crate) use framing::{Framing, Id};
pub(crate) use ring::{Draft, History};
use ring::{Read, Ring};
use rudy_net::{BodyError, BodyPiece, BodyStream};
pub use topics::Topics;
use wakers::{BATCH, Wakers};

/// Messages, and those who listen to them.
#[derive(Debug)]
pub(crate) struct Topic {
    framing: Framing,
    /// Tells the ids of this topic from those of another with its name.
    epoch: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    ring: Ring,
    wakers: Wakers,
    /// When the last message came.
    published_at: Instant,
    /// When the last listener went.
    left_at: Instant,
}

/// From where on somebody listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// From the last so many messages that are kept.
    Last(u64),
    /// After this message.
    After(Id),
    /// After a message that no topic of ours has had.
    Unknown,
}

/// How somebody listens.
#[derive(Debug)]
pub(crate) struct Listening {
    /// What is said first.
    pub(crate) hello: String,
    /// How long nothing is said before a sign of life; `None` for no such sign.
    pub(crate) heartbeat: Option<Duration>,
}

impl Topic {
    pub(crate) fn new(framing: Framing) -> Self {
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let now = Instant::now();
        let (ring, wakers) = (Ring::default(), Wakers::default());
        let state = State { ring, wakers, published_at: now, left_at: now };
        Self { framing, epoch: u64::try_from(epoch).unwrap_or(u64::MAX), state: Mutex::new(state) }
    }

    /// Publishes the lines of a draft to everybody who listens. Returns the id of the last one; of the one before it
    /// where the draft is empty.
    pub(crate) fn publish(&self, draft: &Draft, history: History) -> Id {
        let mut state = self.lock();
        state.ring.push(draft, self.framing, self.epoch, history);
        state.published_at = Instant::now();
        let number = state.ring.next() - 1;
        drop(state);
        if !draft.is_empty() {
            self.wake_all();
        }
        Id { epoch: self.epoch, number }
    }

    /// Listens from now on.
    pub(crate) fn listen(self: &Arc<Self>, start: Start, listening: Listening, now: Instant) -> Listener {
        let mut state = self.lock();
        let (next, is_known) = self.find(&state.ring, start);
        let slot = state.wakers.take_slot();
        drop(state);
        let mut hello = listening.hello;
        if !is_known {
            hello.push_str(&self.framing.gap(None));
        }
        let heartbeat = listening.heartbeat.filter(|_| self.framing.heartbeat().is_some());
        let period = heartbeat.map(|longest| spread(longest, slot));
        let hello = (!hello.is_empty()).then(|| hello.into());
        Listener { topic: self.clone(), hello, next, slot, period, due: period.map(|period| now + period) }
    }

    /// Whether nobody has listened for `time`.
    pub(crate) fn is_deserted(&self, now: Instant, time: Duration) -> bool {
        let state = self.lock();
        state.wakers.in_use() == 0 && now.saturating_duration_since(state.left_at) >= time
    }

    /// Whether nobody listens, and there is nothing that anybody could still come for: nothing was published, or not
    /// for `time`.
    pub(crate) fn is_over(&self, now: Instant, time: Duration) -> bool {
        let state = self.lock();
        let is_old = now.saturating_duration_since(state.published_at.max(state.left_at)) >= time;
        state.wakers.in_use() == 0 && (is_old || state.ring.next() == 1)
    }

    /// The number of the first message to send, and whether what comes before it is known.
    fn find(&self, ring: &Ring, start: Start) -> (u64, bool) {
        match start {
            Start::Last(count) => (ring.next().saturating_sub(count).max(ring.oldest()), true),
            // One that is too old is told how many are missing when it reads.
            Start::After(id) if id.epoch == self.epoch && id.number < ring.next() => (id.number + 1, true),
            Start::After(_) | Start::Unknown => (ring.oldest(), false),
        }
    }

    /// Wakers run outside the lock: whoever is woken may ask for its message at once.
    fn wake_all(&self) {
        let mut batch = Vec::with_capacity(BATCH);
        let mut from = 0;
        loop {
            let before = from;
            from = self.lock().wakers.take(from, &mut batch);
            if from == before {
                return;
            }
            batch.drain(..).for_each(std::task::Waker::wake);
        }
    }

    /// A panic while the lock is held leaves nothing half done but a message that was not framed, and that is not kept.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A listener's own heartbeat: between three quarters of the longest and all of it, so that those who were all sent the
/// same message are not all sent the same silence. The golden ratio deals out even shares.
fn spread(longest: Duration, slot: u32) -> Duration {
    const GOLDEN_FRACTION: u32 = 0x9E37_79B9;
    let share = f64::from(slot.wrapping_mul(GOLDEN_FRACTION)) / f64::from(u32::MAX);
    longest.mul_f64(0.75 + 0.25 * share)
}

/// Somebody who listens: a place in the ring, and in the list of those to wake.
#[derive(Debug)]
pub(crate) struct Listener {
    topic: Arc<Topic>,
    hello: Option<Bytes>,
    /// The number of the next message to send.
    next: u64,
    slot: u32,
    period: Option<Duration>,
    due: Option<Instant>,
}

impl Listener {
    /// The next message, or a sign of life where there is none for long.
    fn poll_message(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<Bytes> {
        if let Some(hello) = self.hello.take() {
            return Poll::Ready(hello);
        }
        let mut state = self.topic.lock();
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

impl BodyStream for Listener {
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        _: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        self.poll_message(cx, now).map(|message| Some(Ok(BodyPiece::Data(message))))
    }

    fn poll_blocked(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        let mut state = self.topic.lock();
        if self.next < state.ring.oldest() {
            return Poll::Ready(());
        }
        state.wakers.set(self.slot, cx.waker());
        // There is no use in a sign of life behind what is not taken.
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

impl Drop for Listener {
    fn drop(&mut self) {
        let mut state = self.topic.lock();
        state.wakers.give_back(self.slot);
        state.left_at = Instant::now();
    }
}

#[cfg(test)]
mod tests;
