//! The connections to an app, whichever core uses them, and the queue in front of them.
//!
//! All cores together hold as many connections as the app serves at once and no more, and any core may take one that
//! waits: otherwise a connection that one core keeps would starve a request of another, since a child of php-fpm serves one
//! connection until it is closed.

mod members;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::timeout;

pub(super) use self::members::MemberId;
use self::members::{Members, Place};
use super::failure::Failure;
use super::link::Link;
use super::upstream::{Stream, Upstream};

/// How long a member that could not be connected to is asked last.
const SHUN: Duration = Duration::from_secs(1);

/// The bounds of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PoolOptions {
    /// Connections to each address at once.
    pub(super) connections: usize,
    /// Requests that wait for one.
    pub(super) queue: usize,
    /// How long a request waits for one.
    pub(super) queue_time: Duration,
    /// How long a connection may take to stand.
    pub(super) connect_time: Duration,
    /// How long a connection is kept that waits for a request.
    pub(super) keep_time: Duration,
}

#[derive(Debug)]
pub(super) struct Pool {
    options: PoolOptions,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    members: Members<Link>,
    /// Requests that wait, the first at the front.
    waiting: VecDeque<oneshot::Sender<Box<Grant>>>,
    /// Somebody looks after the connections that wait.
    has_keeper: bool,
}

/// A place in the pool, for one request. What is not given back in order is closed.
#[derive(Debug)]
pub(super) struct Lease {
    pool: Arc<Pool>,
    member: MemberId,
    link: Option<Link>,
    /// It was used before.
    pub(super) is_kept: bool,
    /// The app has answered on it.
    is_proven: bool,
    /// It was given back.
    is_over: bool,
}

/// What a request that waits is given: a lease, and where to connect to if it has no connection.
type Grant = (Lease, Option<Upstream>);

impl Pool {
    pub(super) fn new(upstreams: &[Upstream], options: PoolOptions) -> Arc<Self> {
        let mut members = Members::default();
        for (id, upstream) in (0..).zip(upstreams) {
            members.add(id, upstream.clone(), options.connections);
        }
        Arc::new(Self { options, state: Mutex::new(State { members, ..State::default() }) })
    }

    /// A connection, kept or new, as soon as there is one. `fresh` wants one that nobody has used.
    pub(super) async fn lease(self: &Arc<Self>, fresh: bool) -> Result<Lease, Failure> {
        // One address after the other, the one that fails being asked last.
        let mut attempts = self.lock().members.count();
        loop {
            let (mut lease, upstream) = match self.take_or_wait(fresh)? {
                Ok(grant) => grant,
                Err(waiting) => {
                    let granted = timeout(self.options.queue_time, waiting).await;
                    // The pool outlives those who wait in it, so there is always an answer.
                    *granted.ok().and_then(Result::ok).ok_or(Failure::QueueTime(self.options.queue_time))?
                }
            };
            let Some(upstream) = upstream else {
                if lease.link.as_mut().is_some_and(Link::is_usable) {
                    return Ok(lease);
                }
                // The app has closed it in the meantime; dropped, it makes room for another.
                continue;
            };
            let connected = timeout(self.options.connect_time, Stream::connect(&upstream)).await;
            match connected.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into())) {
                Ok(stream) => {
                    lease.link = Some(Link::new(stream));
                    return Ok(lease);
                }
                Err(error) => {
                    self.lock().members.shun(lease.member, Instant::now() + SHUN);
                    if attempts <= 1 {
                        return Err(Failure::Connect(upstream, error));
                    }
                    attempts -= 1;
                }
            }
        }
    }

    /// A grant at once, or a place in the queue.
    fn take_or_wait(
        self: &Arc<Self>,
        fresh: bool,
    ) -> Result<Result<Grant, oneshot::Receiver<Box<Grant>>>, Failure> {
        let mut state = self.lock();
        if state.waiting.is_empty()
            && let Some(place) = state.members.take(fresh, Instant::now())
        {
            return Ok(Ok(self.grant(place)));
        }
        state.waiting.retain(|waiting| !waiting.is_closed());
        if state.waiting.len() >= self.options.queue {
            return Err(Failure::QueueFull(self.options.queue));
        }
        let (sender, receiver) = oneshot::channel();
        state.waiting.push_back(sender);
        Ok(Err(receiver))
    }

    fn grant(self: &Arc<Self>, place: Place<Link>) -> Grant {
        let (member, link, upstream) = match place {
            Place::Kept(member, link) => (member, Some(link), None),
            Place::New(member, upstream) => (member, None, Some(upstream)),
        };
        let is_kept = link.is_some();
        (Lease { pool: self.clone(), member, link, is_kept, is_proven: is_kept, is_over: false }, upstream)
    }

    /// Gives those who wait what there is for them.
    fn serve(self: &Arc<Self>) {
        loop {
            let mut state = self.lock();
            while state.waiting.front().is_some_and(oneshot::Sender::is_closed) {
                state.waiting.pop_front();
            }
            if state.waiting.is_empty() {
                return;
            }
            let Some(place) = state.members.take(false, Instant::now()) else { return };
            let next = state.waiting.pop_front();
            drop(state);
            // Whoever has just gone away drops it, and that serves the next.
            let _ = next.map(|next| next.send(Box::new(self.grant(place))));
        }
    }

    /// Closes connections that have waited too long, for as long as there are any that wait.
    fn look_after(self: &Arc<Self>) {
        let pool = Arc::downgrade(self);
        let time = self.options.keep_time;
        tokio::spawn(async move {
            let mut next = Some(Instant::now() + time);
            while let Some(until) = next {
                tokio::time::sleep_until(until.into()).await;
                let Some(pool) = pool.upgrade() else { return };
                let mut state = pool.lock();
                let (over, soonest) = state.members.expire(time, Instant::now());
                state.has_keeper = soonest.is_some();
                drop(state);
                drop(over);
                next = soonest;
            }
        });
    }

    /// A panic while it was held has left counts that are right: each change is one step.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    /// The connection.
    pub(super) fn link(&mut self) -> &mut Link {
        // Put there before a lease leaves the pool, and taken out only by what consumes it.
        self.link.as_mut().expect("a lease has its connection until it is given back")
    }

    /// The app has answered on it.
    pub(super) fn prove(&mut self) {
        if !self.is_proven {
            self.is_proven = true;
            self.pool.lock().members.prove(self.member);
        }
    }

    /// Gives the connection back for the next request.
    pub(super) fn give_back(mut self) {
        self.prove();
        let Some(mut link) = self.link.take() else { return };
        if !link.is_usable() {
            self.link = Some(link);
            return;
        }
        let pool = self.pool.clone();
        let mut state = pool.lock();
        let not_kept = state.members.put_back(self.member, link, Instant::now());
        let starts_keeper = not_kept.is_none() && !std::mem::replace(&mut state.has_keeper, true);
        drop(state);
        self.is_over = true;
        drop(not_kept);
        if starts_keeper {
            pool.look_after();
        }
        pool.serve();
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        drop(self.link.take());
        self.pool.lock().members.lose(self.member, self.is_proven);
        self.pool.serve();
    }
}
