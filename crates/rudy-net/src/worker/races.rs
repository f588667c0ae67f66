//! Connections of a worker, and threads that ask, kill and stop them, in random orders. A connection or a question that is never woken is
//! a deadlock, which `shuttle` reports.

use std::future::poll_fn;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll};
use std::time::Duration;

use rudy_service::{ExchangeOutcome, Observer};
use rudy_test_sync::{block_on, check, join, thread};

use super::*;
use crate::active::ActiveEntry;
use crate::timers::Timer;

/// Number of orders per test. Each takes 50 to 100 microseconds.
const ORDERS: usize = 5_000;

#[derive(Debug)]
struct Anyone;

impl Observer for Anyone {
    fn finished(&self, _: &ExchangeOutcome) {}
}

/// A connection with an exchange that waits, as the driver has it.
struct Waiting {
    worker: Arc<Worker>,
    timer: Timer,
    entry: Option<ActiveEntry>,
}

impl Waiting {
    fn new(worker: &Arc<Worker>) -> Self {
        Self { worker: worker.clone(), timer: worker.timers.timer(None), entry: None }
    }

    /// Describes the exchange, as for a question.
    fn observe(&mut self) {
        let Self { worker, timer, entry } = self;
        entry.get_or_insert_with(|| {
            ActiveEntry::new(&worker.active, Arc::new(Anyone), Instant::now(), timer.slot())
        });
    }

    /// Ready when the connection has to end. Checks everything before it sets its timer.
    fn poll(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.worker.is_stopping() || self.entry.as_ref().is_some_and(ActiveEntry::is_killed) {
            return Poll::Ready(());
        }
        if self.worker.timers.has_question() {
            self.observe();
        }
        self.timer.is_unobserved = self.entry.is_none();
        self.timer.set(None, cx.waker());
        Poll::Pending
    }

    /// Polls it with the waker of its task.
    fn poll_once(&mut self) {
        let _ = block_on(poll_fn(|cx| Poll::Ready(self.poll(cx))));
    }
}

fn assert_unused(worker: &Worker) {
    assert!(worker.active.all().is_empty() && !worker.timers.has_question());
    assert_eq!((worker.timers.idle(), worker.evicted()), (0, 0));
    // It would wait forever.
    assert!(worker.timers.wait_for_answers(Instant::now()));
}

/// Found in the model: a question that wakes connections before it begins, or ends before it was answered; an answer that does not wake
/// the threads that wait for it; a poll before the question that counts as an answer; exchanges that are listed before the answers.
#[test]
fn questions_are_answered_by_all_connections_that_wait() {
    check(
        || {
            let worker = Arc::new(Worker::default());
            let waiting = Arc::new(AtomicUsize::new(0));
            let connections = [(); 2].map(|()| {
                let (connection, waiting) = (Waiting::new(&worker), waiting.clone());
                thread::spawn(move || wait_until_stopped(connection, &waiting))
            });
            let questions = [(); 2].map(|()| {
                let (worker, waiting) = (worker.clone(), waiting.clone());
                thread::spawn(move || ask(&worker, &waiting))
            });
            join(questions);
            worker.stop();
            join(connections);
            assert_unused(&worker);
        },
        ORDERS,
    );
}

/// Found in the model: an end of a connection, or of its exchange, that is no answer, or does not wake the thread that waits for it.
#[test]
fn a_question_does_not_wait_for_exchanges_that_end() {
    check(
        || {
            let worker = Arc::new(Worker::default());
            let [mut ending, idle] = [(); 2].map(|()| Waiting::new(&worker));
            let ending = thread::spawn(move || ending.poll_once());
            let idle = thread::spawn(move || become_idle(idle));
            ask(&worker, &AtomicUsize::new(0));
            worker.stop();
            join([ending, idle]);
            assert_unused(&worker);
        },
        ORDERS,
    );
}

/// Runs a connection until the worker stops, and counts it as soon as it waits.
fn wait_until_stopped(mut connection: Waiting, waiting: &AtomicUsize) {
    let mut is_first = true;
    block_on(poll_fn(|cx| {
        let polled = connection.poll(cx);
        waiting.fetch_add(usize::from(std::mem::take(&mut is_first)), Ordering::Relaxed);
        polled
    }));
}

/// Ends the exchange of a connection, which then waits for another until the worker stops.
fn become_idle(mut connection: Waiting) {
    connection.poll_once();
    connection.entry = None;
    block_on(poll_fn(|cx| {
        connection.timer.set_idle(None, cx.waker());
        if connection.worker.is_stopping() { Poll::Ready(()) } else { Poll::Pending }
    }));
}

/// Asks, and expects all connections that waited before.
fn ask(worker: &Worker, waiting: &AtomicUsize) {
    let expected = waiting.load(Ordering::Relaxed);
    let (exchanges, is_complete) = worker.ask().answers(Instant::now() + Duration::from_mins(1));
    assert!(is_complete && exchanges.len() >= expected, "{expected}: {exchanges:?}");
}

/// Found in the model: `stop` that wakes connections before it is set, or only those that have set their timers; a new connection that
/// counts as woken by what came later.
#[test]
fn connections_that_begin_while_a_worker_stops_end() {
    check(
        || {
            let worker = Arc::new(Worker::default());
            let connections = [(); 3].map(|()| {
                let worker = worker.clone();
                thread::spawn(move || {
                    let mut connection = Waiting::new(&worker);
                    block_on(poll_fn(|cx| connection.poll(cx)));
                })
            });
            worker.stop();
            join(connections);
            assert_unused(&worker);
        },
        ORDERS,
    );
}

/// Found in the model: a kill that wakes no connection, or only one that has set its timer; a kill that succeeds twice.
#[test]
fn an_exchange_is_killed_once_and_its_connection_ends() {
    check(
        || {
            let worker = Arc::new(Worker::default());
            let mut waiting = [(); 3].map(|()| Waiting::new(&worker));
            waiting.iter_mut().for_each(Waiting::observe);
            let exchanges = worker.active.all();
            let mut number = 0;
            let connections = waiting.map(|mut connection| {
                number += 1;
                let ends_at_once = number == 1;
                thread::spawn(move || {
                    block_on(poll_fn(|cx| {
                        let polled = connection.poll(cx);
                        if ends_at_once { Poll::Ready(()) } else { polled }
                    }));
                })
            });
            let killed = Arc::new(AtomicUsize::new(0));
            let kills = [(); 2].map(|()| {
                let (worker, exchanges, killed) = (worker.clone(), exchanges.clone(), killed.clone());
                thread::spawn(move || {
                    let successes = exchanges.iter().filter(|exchange| worker.kill(exchange)).count();
                    killed.fetch_add(successes, Ordering::Relaxed);
                })
            });
            join(connections.into_iter().chain(kills));
            let killed = killed.load(Ordering::Relaxed);
            assert!(killed == 2 || killed == 3, "{killed}");
            assert_eq!(worker.active.kills(), killed as u64);
            assert!(!exchanges.iter().any(|exchange| worker.kill(exchange)));
            assert_unused(&worker);
        },
        ORDERS,
    );
}

/// A connection with many exchanges looks at them only after a change of the number of kills.
///
/// Found in the model: a kill that is counted before the exchange is marked.
#[test]
fn a_connection_that_looks_at_the_number_of_kills_misses_none() {
    check(
        || {
            let worker = Arc::new(Worker::default());
            let mut waiting = [(); 2].map(|()| Waiting::new(&worker));
            waiting.iter_mut().for_each(Waiting::observe);
            let exchanges = worker.active.all();
            let connections = waiting.map(|connection| {
                thread::spawn(move || {
                    let Waiting { worker, timer, entry: Some(entry) } = connection else { return };
                    let mut seen = 0;
                    block_on(poll_fn(|cx| {
                        let kills = worker.active.kills();
                        if std::mem::replace(&mut seen, kills) != kills && entry.is_killed() {
                            return Poll::Ready(());
                        }
                        timer.set(None, cx.waker());
                        Poll::Pending
                    }));
                })
            });
            assert!(exchanges.iter().all(|exchange| worker.kill(exchange)));
            join(connections);
            assert_unused(&worker);
        },
        ORDERS,
    );
}
