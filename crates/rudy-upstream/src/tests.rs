//! The pool under `shuttle`, with connections that are counted.

mod choices;
mod races;
mod rules;

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use shuttle::future::block_on;

use crate::{
    Availability, Change, Checkout, Choice, CircuitOptions, MemberOptions, Options, Permit, Pool,
    PooledConnection, Preference, QueuedCheckout, Rejected,
};

/// A pool whose members have the ids 0, 1, ...
type TestPool = Arc<Pool<Upstream, Connection>>;

/// An address that counts its connections. It uses the atomics of `std`, at which `shuttle` does not switch threads.
#[derive(Debug, Clone)]
struct Upstream {
    limit: usize,
    live: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Connection {
    live: Arc<AtomicUsize>,
    name: u32,
}

impl Upstream {
    fn new(limit: usize) -> Self {
        Self { limit, live: Arc::default() }
    }

    fn connect(&self, name: u32) -> Connection {
        let others = self.live.fetch_add(1, Ordering::SeqCst);
        assert!(others < self.limit, "a connection beyond the limit of {}", self.limit);
        Connection { live: self.live.clone(), name }
    }

    fn live(&self) -> usize {
        self.live.load(Ordering::SeqCst)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.live.fetch_sub(1, Ordering::SeqCst);
    }
}

fn options(workers: usize) -> Options {
    Options {
        workers,
        queue: 8,
        requests_per_member: None,
        choice: Choice::IdleFirst,
        circuit: CircuitOptions::default(),
    }
}

/// Returns a pool of members 0, 1, ... with these limits.
fn pool(options: Options, limits: &[usize]) -> TestPool {
    let pool = Pool::new(options, None);
    for (id, limit) in (0..).zip(limits) {
        pool.add(id, Upstream::new(*limit), *limit, at(0));
    }
    pool
}

/// Milliseconds after a start that is the same for all schedules of a test.
fn at(ms: u64) -> Instant {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    *START + Duration::from_millis(ms)
}

/// Checks a connection out, waiting if necessary. Opens a new one if none is idle.
fn take(
    pool: &TestPool,
    worker: usize,
    preference: Preference,
    ms: u64,
) -> (Connection, Permit<Upstream, Connection>) {
    let pooled = match pool.checkout(worker, preference, at(ms)).unwrap() {
        Checkout::Ready(pooled) => pooled,
        Checkout::Queued(mut queued) => block_on(poll_fn(|cx| queued.poll(cx))).unwrap(),
    };
    opened(pooled, 0)
}

fn opened(
    pooled: PooledConnection<Upstream, Connection>,
    name: u32,
) -> (Connection, Permit<Upstream, Connection>) {
    let connection = pooled.connection.unwrap_or_else(|| pooled.permit.member().address().connect(name));
    (connection, pooled.permit)
}

fn ready(checkout: Checkout<Upstream, Connection>) -> PooledConnection<Upstream, Connection> {
    match checkout {
        Checkout::Ready(pooled) => pooled,
        Checkout::Queued(queued) => panic!("{queued:?}"),
    }
}

fn queued(checkout: Checkout<Upstream, Connection>) -> QueuedCheckout<Upstream, Connection> {
    match checkout {
        Checkout::Queued(queued) => queued,
        Checkout::Ready(pooled) => panic!("{pooled:?}"),
    }
}

type Polled = Poll<Result<PooledConnection<Upstream, Connection>, Rejected>>;

fn poll(queued: &mut QueuedCheckout<Upstream, Connection>) -> Polled {
    queued.poll(&mut Context::from_waker(Waker::noop()))
}

/// Asserts that no connection is in use, no request waits, and every live connection is idle.
fn assert_all_idle(pool: &TestPool, upstreams: &[Upstream]) {
    let live: usize = upstreams.iter().map(Upstream::live).sum();
    assert_eq!((pool.open(), pool.idle(), pool.queued()), (live, live, 0));
    for member in (0..).map_while(|id| pool.member(id)) {
        assert_eq!(member.in_flight(), 0);
        assert_eq!(member.state(&[], at(0)).open, member.address().live());
    }
}

fn upstreams(pool: &TestPool) -> Vec<Upstream> {
    (0..).map_while(|id| pool.member(id)).map(|member| member.address().clone()).collect()
}
