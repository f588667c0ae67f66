//! The handshakes of a worker: their share of its CPU time, and how many may be unfinished.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use rudy_runtime::clock;
use tokio::sync::Notify;

/// The CPU time that handshakes may use before the established connections get their turn: a signature with RSA 2048, or
/// several with ECDSA. A step that takes longer is a turn of its own; RSA 4096 takes three milliseconds. With 2 ms, requests
/// on a worker that is busy with handshakes waited three times as long, and no more handshakes were completed.
const TURN: Duration = Duration::from_micros(500);

/// The handshakes of a worker.
#[derive(Debug, Default)]
pub(crate) struct Handshakes {
    turn: Mutex<Turn>,
    /// Notified when a turn is used up.
    used_up: Notify,
    unfinished: AtomicUsize,
    /// The unfinished handshakes, the oldest first, and some that have ended.
    oldest: Mutex<VecDeque<Weak<Unfinished>>>,
}

/// The turn of the handshakes on a worker.
#[derive(Debug, Default)]
struct Turn {
    used: Duration,
    steps: usize,
    /// The handshakes that wait for a turn, by their places. Each is in it once, and only while it is unfinished: a client can
    /// send its part in any number of packets, and close the connection.
    waiting: BTreeMap<u64, Waker>,
    /// The last place that was given.
    last_place: u64,
}

/// The place of a handshake that does not wait.
const NO_PLACE: u64 = 0;

impl Handshakes {
    /// Runs a step of a handshake, or waits for the next turn. A step that has begun is completed.
    pub(crate) fn poll_step<R>(
        &self,
        handshake: &Unfinished,
        cx: &mut Context<'_>,
        step: impl FnOnce(&mut Context<'_>) -> Poll<R>,
    ) -> Poll<R> {
        if self.turn.lock().must_wait(handshake, cx) {
            self.used_up.notify_one();
            return Poll::Pending;
        }
        let begin = clock::now();
        let result = step(cx);
        let mut turn = self.turn.lock();
        turn.used += clock::since(begin);
        turn.steps += 1;
        if turn.used >= TURN {
            drop(turn);
            self.used_up.notify_one();
        }
        result
    }

    /// Begins the next turn whenever one is used up, after the established connections have had theirs.
    pub(crate) async fn run(&self) {
        loop {
            self.used_up.notified().await;
            // The runtime continues this task after it has polled the sockets and the connections that are ready.
            tokio::task::yield_now().await;
            let woken = {
                let mut turn = self.turn.lock();
                // Waking more than fit into a turn would only make them wait again.
                let count = turn.waiting.len().min(2 * turn.steps.max(1));
                (turn.used, turn.steps) = (Duration::ZERO, 0);
                (0..count).filter_map(|_| turn.waiting.pop_first()).collect::<Vec<_>>()
            };
            for (_, waker) in woken {
                waker.wake();
            }
            if !self.turn.lock().waiting.is_empty() {
                self.used_up.notify_one();
            }
        }
    }

    /// Registers a handshake. If more than `limit` are unfinished, the oldest one is evicted: a client that finishes
    /// within seconds is never among the oldest, unless thousands connect in that time.
    pub(crate) fn begin(self: &Arc<Self>, limit: usize) -> Arc<Unfinished> {
        let handshake = Arc::new(Unfinished {
            handshakes: self.clone(),
            place: AtomicU64::new(NO_PLACE),
            is_evicted: AtomicBool::new(false),
            waker: Mutex::new(Waker::noop().clone()),
        });
        let count = self.unfinished.fetch_add(1, Ordering::Relaxed) + 1;
        let mut oldest = self.oldest.lock();
        oldest.push_back(Arc::downgrade(&handshake));
        let mut evicted = None;
        if count > limit {
            evicted = std::iter::from_fn(|| oldest.pop_front()).find_map(|oldest| oldest.upgrade());
        } else if oldest.len() > 2 * limit {
            oldest.retain(|handshake| handshake.strong_count() > 0);
        }
        drop(oldest);
        if let Some(evicted) = evicted {
            evicted.evict();
        }
        handshake
    }

    /// Returns the number of unfinished handshakes.
    pub(crate) fn unfinished(&self) -> usize {
        self.unfinished.load(Ordering::Relaxed)
    }
}

impl Turn {
    /// Whether a handshake must wait: the turn is used up, or others wait before it. It keeps its place until it gets its turn,
    /// so that one whose packets arrive all the time gets no more turns than others.
    fn must_wait(&mut self, handshake: &Unfinished, cx: &Context<'_>) -> bool {
        let place = handshake.place.load(Ordering::Relaxed);
        let is_called = place != NO_PLACE && !self.waiting.contains_key(&place);
        if self.used < TURN && (is_called || self.waiting.is_empty()) {
            handshake.place.store(NO_PLACE, Ordering::Relaxed);
            return false;
        }
        let place = if place == NO_PLACE {
            self.last_place += 1;
            handshake.place.store(self.last_place, Ordering::Relaxed);
            self.last_place
        } else {
            place
        };
        self.waiting.entry(place).or_insert_with(|| cx.waker().clone()).clone_from(cx.waker());
        true
    }
}

/// An unfinished handshake. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Unfinished {
    handshakes: Arc<Handshakes>,
    /// Its place among those that wait for a turn. It changes only with the lock of the turn.
    place: AtomicU64,
    is_evicted: AtomicBool,
    waker: Mutex<Waker>,
}

impl Unfinished {
    /// Whether the handshake must end, because too many are unfinished. Otherwise wakes this task when it must.
    pub(crate) fn is_evicted(&self, cx: &Context<'_>) -> bool {
        let mut waker = self.waker.lock();
        waker.clone_from(cx.waker());
        self.is_evicted.load(Ordering::Acquire)
    }

    fn evict(&self) {
        let waker = self.waker.lock();
        self.is_evicted.store(true, Ordering::Release);
        waker.wake_by_ref();
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if *self.place.get_mut() != NO_PLACE {
            self.handshakes.turn.lock().waiting.remove(self.place.get_mut());
        }
        self.handshakes.unfinished.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Wake;

    use super::*;

    #[test]
    fn the_oldest_handshake_over_the_limit_is_evicted() {
        let handshakes = Arc::<Handshakes>::default();
        let cx = Context::from_waker(Waker::noop());
        let mut open: Vec<_> = (0..3).map(|_| handshakes.begin(3)).collect();
        drop(open.remove(1));
        open.push(handshakes.begin(3));
        assert!(open.iter().all(|handshake| !handshake.is_evicted(&cx)));
        open.push(handshakes.begin(3));
        let evicted: Vec<_> = open.iter().map(|handshake| handshake.is_evicted(&cx)).collect();
        assert_eq!(evicted, [true, false, false, false]);
        // The evicted one has not closed yet.
        open.push(handshakes.begin(3));
        let evicted: Vec<_> = open.iter().map(|handshake| handshake.is_evicted(&cx)).collect();
        assert_eq!(evicted, [true, true, false, false, false]);
        drop(open);
        for _ in 0..10 {
            drop(handshakes.begin(3));
        }
        assert!(handshakes.oldest.lock().len() <= 7);
    }

    /// Polls a handshake whose packet has arrived. Returns whether it got a turn, all of which it uses.
    fn receives_packet(handshakes: &Handshakes, handshake: &Unfinished, waker: &Waker) -> bool {
        let step = |_: &mut Context<'_>| {
            std::thread::sleep(TURN);
            Poll::Ready(())
        };
        handshakes.poll_step(handshake, &mut Context::from_waker(waker), step).is_ready()
    }

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_waiting_handshakes_are_at_most_the_unfinished_ones() {
        let handshakes = Arc::<Handshakes>::default();
        let waiting = || handshakes.turn.lock().waiting.len();
        let mut open: Vec<_> = (0..5).map(|_| handshakes.begin(100)).collect();
        assert!(receives_packet(&handshakes, &open[0], Waker::noop()));
        for _ in 0..1000 {
            assert!(open.iter().all(|handshake| !receives_packet(&handshakes, handshake, Waker::noop())));
            assert_eq!(waiting(), 5);
        }
        while open.pop().is_some() {
            assert_eq!(waiting(), open.len());
        }
        for _ in 0..100 {
            let handshake = handshakes.begin(100);
            assert!(!receives_packet(&handshakes, &handshake, Waker::noop()));
        }
        assert_eq!((waiting(), handshakes.unfinished()), (0, 0));
    }

    /// The first one sends packets all the time. The others get their turns before its second one.
    #[tokio::test]
    async fn a_handshake_in_many_packets_gets_no_more_turns_than_others() {
        let handshakes = Arc::<Handshakes>::default();
        let turns = handshakes.clone();
        let runner = tokio::spawn(async move { turns.run().await });
        let open: Vec<_> = (0..6).map(|_| (handshakes.begin(100), Arc::<Wakes>::default())).collect();
        let wakers: Vec<_> = open.iter().map(|(_, wakes)| Waker::from(wakes.clone())).collect();
        let mut order = Vec::new();
        assert!(receives_packet(&handshakes, &open[0].0, &wakers[0]));
        let mut seen = vec![0; open.len()];
        for number in 1..open.len() {
            assert!(!receives_packet(&handshakes, &open[number].0, &wakers[number]));
        }
        while order.len() < open.len() {
            for number in (1..open.len()).chain([0]) {
                let (handshake, wakes) = &open[number];
                let woken = wakes.0.load(Ordering::Relaxed);
                if (number == 0 || woken > std::mem::replace(&mut seen[number], woken))
                    && receives_packet(&handshakes, handshake, &wakers[number])
                {
                    order.push(number);
                }
            }
            tokio::task::yield_now().await;
        }
        runner.abort();
        assert_eq!(order, [1, 2, 3, 4, 5, 0]);
    }

    /// Each step blocks the thread for as long as a signature with RSA 2048, and established connections are ready all the
    /// time.
    #[tokio::test]
    async fn established_connections_run_between_the_turns_of_handshakes() {
        let handshakes = Arc::<Handshakes>::default();
        let events = Arc::<Mutex<Vec<&str>>>::default();
        let turns = handshakes.clone();
        let runner = tokio::spawn(async move { turns.run().await });
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..5 {
            let (handshakes, events) = (handshakes.clone(), events.clone());
            let handshake = handshakes.begin(5);
            tasks.spawn(async move {
                std::future::poll_fn(|cx| {
                    handshakes.poll_step(&handshake, cx, |_| {
                        std::thread::sleep(Duration::from_micros(500));
                        events.lock().push("handshake");
                        Poll::Ready(())
                    })
                })
                .await;
            });
        }
        let events_of_established = events.clone();
        let established = tokio::spawn(async move {
            loop {
                events_of_established.lock().push("established");
                tokio::task::yield_now().await;
            }
        });
        while tasks.join_next().await.is_some() {}
        established.abort();
        runner.abort();
        let events = events.lock();
        assert_eq!(events.iter().filter(|event| **event == "handshake").count(), 5);
        assert!(!events.windows(2).any(|pair| pair == ["handshake", "handshake"]), "{events:?}");
    }
}
