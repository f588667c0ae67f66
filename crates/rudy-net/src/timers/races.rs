//! Connections, the timer task, and threads that evict, in random orders. A connection that is never woken is a deadlock, which
//! `shuttle` reports.

use std::future::poll_fn;
use std::task::Poll;

use rudy_test_sync::{block_on, check, join, thread};

use super::*;

/// Number of orders per test. Each takes 20 to 100 microseconds.
const ORDERS: usize = 5_000;

fn group() -> AddressKey {
    std::net::IpAddr::from([192, 0, 2, 1]).into()
}

/// The tick up to which the clock of the model runs.
const HORIZON: u64 = 1_000;

/// Does what [`Timers::run`] does, without a clock: what is due before the horizon is due at once, and what is due later never is.
fn run_timers(timers: &Timers, is_over: &AtomicUsize) {
    while is_over.load(Ordering::Relaxed) < 2 {
        let next = timers.wheel.lock().sleep();
        // The task sets the timer of the system.
        thread::yield_now();
        match next {
            Some(tick) if tick < HORIZON => timers.advance(timers.time_of(tick)),
            _ => block_on(timers.sooner.notified()),
        }
    }
}

/// Found in the model: `set` that does not notify the timer task, or only one that waits already; `sleep` that does not note that there is
/// no deadline, so that the next one is not the first.
#[test]
fn a_deadline_that_becomes_the_first_one_is_noticed() {
    for has_another in [false, true] {
        check(
            move || {
                let (timers, is_over) = (Arc::<Timers>::default(), Arc::new(AtomicUsize::new(0)));
                let far = timers.timer(None);
                far.set(has_another.then(|| timers.time_of(2 * HORIZON)), Waker::noop());
                let connections = [500, 100].map(|tick| {
                    let (timers, is_over) = (timers.clone(), is_over.clone());
                    thread::spawn(move || {
                        sleep_until(&timers, tick);
                        is_over.fetch_add(1, Ordering::Relaxed);
                        timers.sooner.notify_one();
                    })
                });
                run_timers(&timers, &is_over);
                join(connections);
                drop(far);
                assert_eq!(timers.wheel.lock().sleep(), None);
            },
            ORDERS,
        );
    }
}

fn sleep_until(timers: &Arc<Timers>, tick: u64) {
    let timer = timers.timer(None);
    let mut is_set = false;
    block_on(poll_fn(|cx| {
        if std::mem::replace(&mut is_set, true) {
            return Poll::Ready(());
        }
        timer.set(Some(timers.time_of(tick)), cx.waker());
        Poll::Pending
    }));
}

/// Serves requests, and then waits until it is evicted. Ends at the first eviction that it notices.
fn serve(timers: &Arc<Timers>, requests: usize) {
    let mut timer = timers.timer(Some(group()));
    for _ in 0..requests {
        if timer.set_idle(None, Waker::noop()) || timer.begin_request() {
            return;
        }
        timer.set(None, Waker::noop());
        assert!(!timers.wheel.lock().is_evicted(timer.slot), "it is busy");
    }
    block_on(poll_fn(|cx| if timer.set_idle(None, cx.waker()) { Poll::Ready(()) } else { Poll::Pending }));
}

fn evict(timers: &Timers, victims: &Mutex<VictimQueue>) {
    if let Some(victim) = victims.lock().next(0, || timers.candidates(0)) {
        timers.evict(&victim);
    }
}

/// A connection counts as evicted until it has noticed.
///
/// Found in the model: an eviction that wakes no connection, that is counted after the lock is released, or whose connection has become
/// busy since; a connection that closes and still counts as evicted, or that ends its eviction twice.
#[test]
fn evicted_connections_notice_and_are_counted_until_then() {
    check(
        || {
            let timers = Arc::<Timers>::default();
            let (victims, closed) =
                (Arc::new(Mutex::new(VictimQueue::default())), Arc::new(AtomicUsize::new(0)));
            let connections = [0, 2].map(|requests| {
                let (timers, closed) = (timers.clone(), closed.clone());
                thread::spawn(move || {
                    serve(&timers, requests);
                    assert!(timers.evicted() <= 1, "the other one");
                    closed.fetch_add(1, Ordering::Relaxed);
                })
            });
            let evictions = [(); 2].map(|()| {
                let (timers, victims, closed) = (timers.clone(), victims.clone(), closed.clone());
                thread::spawn(move || {
                    // A connection that has a request at the same time is not evicted.
                    while closed.load(Ordering::Relaxed) < 2 {
                        evict(&timers, &victims);
                        thread::yield_now();
                    }
                })
            });
            join(connections.into_iter().chain(evictions));
            assert_eq!((timers.evicted(), timers.idle()), (0, 0));
        },
        ORDERS,
    );
}
