//! The spans that wait for the collector.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Size of a batch that is sent without further delay: a collector accepts a few MiB, and rejects a batch as a whole.
pub(super) const BATCH_BYTES: usize = 256 * 1024;

/// How long a smaller batch waits for more spans: a user looks for a trace later than that.
const BATCH_DELAY: Duration = Duration::from_secs(1);

/// How many spans of the process were exported and lost.
#[derive(Debug, Default)]
pub struct Counts {
    /// Accepted by the collector.
    pub exported: AtomicU64,
    /// Dropped because the queue was full.
    pub dropped: AtomicU64,
    /// Rejected by the collector.
    pub rejected: AtomicU64,
    /// Given up because the collector has not accepted them in time.
    pub failed: AtomicU64,
}

impl Counts {
    pub(super) fn has_any(&self) -> bool {
        let Self { exported, dropped, rejected, failed } = self;
        [exported, dropped, rejected, failed].iter().any(|count| count.load(Ordering::Relaxed) > 0)
    }
}

/// Spans that are sent together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The encoded spans, one behind the other.
    pub(super) bytes: Vec<u8>,
    /// Their number.
    pub(super) spans: u64,
    /// When the first one came.
    begun: Option<Instant>,
}

/// A bounded queue of batches.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// Wakes the thread that sends.
    wake: Condvar,
    /// Notified by this thread when it ends.
    ended: Condvar,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct State {
    batches: VecDeque<Batch>,
    bytes: usize,
    /// Spans that were dropped since the last batch was taken.
    dropped: u64,
    /// Spans of the batch that is being sent.
    sending: u64,
    is_closing: bool,
    has_ended: bool,
}

impl State {
    fn is_first_full(&self) -> bool {
        self.batches.len() > 1 || self.batches.front().is_some_and(|batch| batch.bytes.len() >= BATCH_BYTES)
    }
}

impl Queue {
    /// A queue for this number of bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { state: Mutex::default(), wake: Condvar::new(), ended: Condvar::new(), bytes_max }
    }

    /// Appends spans. Returns `false` if the queue is full, and counts them. Never waits.
    pub(super) fn push(&self, bytes: &[u8], spans: u64, now: Instant) -> bool {
        let mut state = self.state.lock();
        if state.bytes + bytes.len() > self.bytes_max || state.has_ended {
            state.dropped += spans;
            return false;
        }
        state.bytes += bytes.len();
        if state.batches.back().is_none_or(|batch| batch.bytes.len() >= BATCH_BYTES) {
            state.batches.push_back(Batch { begun: Some(now), ..Batch::default() });
        }
        let was_empty = state.batches.len() == 1 && state.batches[0].spans == 0;
        if let Some(batch) = state.batches.back_mut() {
            batch.bytes.extend_from_slice(bytes);
            batch.spans += spans;
        }
        if was_empty || state.is_first_full() {
            self.wake.notify_one();
        }
        true
    }

    /// Waits for a batch: a full one, or what there is after a delay. Also returns the number of spans that were dropped meanwhile.
    /// `None` when the queue is closed and empty.
    pub(super) fn take(&self) -> Option<(Batch, u64)> {
        let mut state = self.state.lock();
        state.sending = 0;
        self.wake.wait_while(&mut state, |state| state.batches.is_empty() && !state.is_closing);
        if let Some(begun) = state.batches.front().and_then(|batch| batch.begun) {
            let is_early = |state: &mut State| !state.is_first_full() && !state.is_closing;
            self.wake.wait_while_until(&mut state, is_early, begun + BATCH_DELAY);
        }
        let batch = state.batches.pop_front()?;
        state.bytes -= batch.bytes.len();
        state.sending = batch.spans;
        Some((batch, std::mem::take(&mut state.dropped)))
    }

    /// Waits before another attempt. Returns `false` if the queue is being closed.
    pub(super) fn rest(&self, delay: Duration) -> bool {
        let mut state = self.state.lock();
        self.wake.wait_while_for(&mut state, |state| !state.is_closing, delay);
        !state.is_closing
    }

    /// Whether the queue is being closed.
    pub(super) fn is_closing(&self) -> bool {
        self.state.lock().is_closing
    }

    /// Lets the thread send what there is, and end.
    pub(super) fn close(&self) {
        self.state.lock().is_closing = true;
        self.wake.notify_one();
    }

    /// Notes that the thread ends. Returns the number of spans that it leaves.
    pub(super) fn end(&self) -> u64 {
        let mut state = self.state.lock();
        let left = std::mem::take(&mut state.sending)
            + state.batches.drain(..).map(|batch| batch.spans).sum::<u64>();
        (state.has_ended, state.bytes) = (true, 0);
        self.ended.notify_all();
        left
    }

    /// Waits until the thread has ended. Returns whether it has.
    pub(super) fn wait_ended(&self, until: Instant) -> bool {
        let mut state = self.state.lock();
        self.ended.wait_while_until(&mut state, |state| !state.has_ended, until);
        state.has_ended
    }
}

#[cfg(test)]
mod tests {
    use rudy_runtime::clock;

    use super::*;

    #[test]
    fn spans_above_the_limit_are_dropped_and_counted() {
        let queue = Queue::new(10);
        assert!(queue.push(b"12345", 1, clock::now()));
        assert!(queue.push(b"67890", 2, clock::now()));
        assert!(!queue.push(b"1", 3, clock::now()));
        queue.close();
        let (batch, dropped) = queue.take().unwrap();
        assert_eq!((&batch.bytes[..], batch.spans, dropped), (&b"1234567890"[..], 3, 3));
        assert!(queue.push(b"1", 4, clock::now()), "there is room again");
        assert_eq!(queue.end(), 3 + 4, "one batch was taken, and not sent");
        assert!(!queue.push(b"1", 5, clock::now()), "nothing sends it");
        assert!(queue.take().is_none());
    }

    #[test]
    fn a_full_batch_does_not_wait_for_more() {
        let queue = Queue::new(4 * BATCH_BYTES);
        let bytes = vec![0; BATCH_BYTES];
        for _ in 0..3 {
            assert!(queue.push(&bytes, 1, clock::now() + Duration::from_hours(1)));
        }
        for _ in 0..3 {
            assert_eq!(queue.take().unwrap().0.bytes.len(), BATCH_BYTES);
        }
        assert!(queue.push(&bytes[1..], 1, clock::now()));
        assert!(queue.push(b"ab", 1, clock::now()));
        assert_eq!(queue.take().unwrap().0.spans, 2, "spans of one exchange stay together");
    }
}
