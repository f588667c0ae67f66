//! The connections to an app, whichever core uses them, and the queue in front of them.
//!
//! All cores together hold as many connections as the app serves at once and no more, and any core may take one that
//! waits: otherwise a connection that one core keeps would starve a request of another, since a child of php-fpm serves one
//! connection until it is closed.

mod members;
mod probe;
mod spawned;

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use rudy_fastcgi::Limits;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

use self::members::{MemberId, Members, Place, STARVED, Seat};
use super::failure::Failure;
use super::link::Link;
use super::output::AppOutput;
use super::processes::{ProcessOptions, Processes};
use super::stream::{Home, Stream};
use super::upstream::Upstream;
use crate::error_log::ErrorLog;

/// How long a member that could not be connected to is asked last.
const SHUN: Duration = Duration::from_secs(1);

/// How long a request lets others go first that are served where a connection has become free: what is handed to another
/// core wakes that, which costs as much as the rest of a small request.
const PATIENCE: Duration = Duration::from_millis(20);

/// How many of those who wait are looked at for one of here.
const LOOKED_AT: usize = 32;

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
    /// Requests after which a process is replaced.
    pub(super) requests_per_process: Option<u64>,
}

/// Which connection a request wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Any: should it turn out dead the request is asked again.
    Any,
    /// One that the app has not closed, as far as that can be known: the request cannot be asked again.
    Alive,
    /// One that nobody has used.
    New,
}

#[derive(Debug)]
pub(super) struct Pool {
    options: PoolOptions,
    limits: Limits,
    state: Mutex<State>,
    /// What the app says, in whichever way.
    output: Arc<AppOutput>,
    /// Those of the app, where Rudy starts them.
    processes: OnceLock<Processes>,
    itself: Weak<Self>,
}

#[derive(Debug, Default)]
struct State {
    members: Members<Arc<Link>>,
    /// Requests that wait, the first at the front.
    waiting: VecDeque<Waiting>,
    /// Somebody looks after the connections that wait.
    has_keeper: bool,
    /// Somebody sees to it that they starve no others.
    has_helper: bool,
}

/// A seat on a connection. Dropped, the connection is closed to further requests.
#[derive(Debug)]
struct Held {
    pool: Arc<Pool>,
    seat: Seat,
    is_over: bool,
}

/// A connection for one request. What is not given back in order is closed.
#[derive(Debug)]
pub(super) struct Lease {
    held: Held,
    link: Arc<Link>,
    /// It was used before.
    pub(super) is_kept: bool,
    /// The app has answered on it.
    is_proven: bool,
}

/// A request that waits.
#[derive(Debug)]
struct Waiting {
    sender: oneshot::Sender<Box<Grant>>,
    /// Where it is served.
    home: Home,
    since: Instant,
}

/// What a request gets that has waited.
#[derive(Debug)]
enum Grant {
    Kept(Held, Arc<Link>),
    New(Held, Upstream),
}

impl Pool {
    /// A pool of connections to these addresses.
    pub(super) fn new(
        upstreams: &[Upstream],
        options: PoolOptions,
        limits: Limits,
        output: AppOutput,
    ) -> Arc<Self> {
        let mut members = Members::default();
        for (id, upstream) in (0..).zip(upstreams) {
            members.add(id, upstream.clone(), options.connections, Instant::now());
        }
        Self::of(members, options, limits, output)
    }

    /// A pool of connections to processes, which come and go.
    ///
    /// # Errors
    ///
    /// Those of [`Processes::start`].
    pub(super) fn start(
        processes: ProcessOptions,
        options: PoolOptions,
        limits: Limits,
        log: &ErrorLog,
    ) -> io::Result<Arc<Self>> {
        let output = AppOutput::new(processes.name.clone(), Some(log.clone()), Instant::now());
        let pool = Self::of(Members::of_one_program(options.requests_per_process), options, limits, output);
        let members: Weak<Self> = Arc::downgrade(&pool);
        let started = Processes::start(processes, log, pool.output(), members)?;
        pool.processes.get_or_init(|| started);
        Ok(pool)
    }

    fn of(members: Members<Arc<Link>>, options: PoolOptions, limits: Limits, output: AppOutput) -> Arc<Self> {
        Arc::new_cyclic(|itself| Self {
            options,
            limits,
            state: Mutex::new(State { members, ..State::default() }),
            output: Arc::new(output),
            processes: OnceLock::new(),
            itself: itself.clone(),
        })
    }

    /// The processes, where Rudy starts them.
    pub(super) fn processes(&self) -> Option<&Processes> {
        self.processes.get()
    }

    /// Where everything goes that the app says beside its answers.
    pub(super) fn output(&self) -> Arc<AppOutput> {
        self.output.clone()
    }

    /// A connection, kept or new, as soon as there is one.
    pub(super) async fn lease(self: &Arc<Self>, wanted: Wanted) -> Result<Lease, Failure> {
        // One address after the other, the one that fails being asked last.
        let mut attempts = self.lock().members.count();
        loop {
            match self.grant(wanted == Wanted::New).await? {
                Grant::Kept(held, link) if link.is_usable(&self.limits, wanted == Wanted::Alive) => {
                    return Ok(Lease { held, link, is_kept: true, is_proven: true });
                }
                // The app has closed it in the meantime; dropped, it makes room for another.
                Grant::Kept(..) => {}
                Grant::New(held, upstream) => match self.connect(&upstream).await {
                    Ok(stream) => return Ok(self.connected(held, stream)),
                    Err(error) => {
                        self.lock().members.shun(held.seat.member, Instant::now() + SHUN);
                        if attempts <= 1 {
                            return Err(Failure::Connect(upstream, error));
                        }
                        attempts -= 1;
                    }
                },
            }
        }
    }

    async fn connect(&self, upstream: &Upstream) -> io::Result<Stream> {
        let time = self.options.connect_time;
        timeout(time, Stream::connect(upstream)).await.unwrap_or_else(|_| {
            let why = format!("it accepts nobody within {time:?} (`connect_time`)");
            Err(io::Error::new(io::ErrorKind::TimedOut, why))
        })
    }

    fn connected(self: &Arc<Self>, held: Held, stream: Stream) -> Lease {
        let link = Link::new(stream);
        let mut state = self.lock();
        state.members.connected(held.seat, &link);
        let to_ask = state.members.begin_asking(held.seat.member);
        drop(state);
        if let Some(upstream) = to_ask {
            tokio::spawn(probe::ask(Arc::downgrade(self), held.seat.member, upstream));
        }
        Lease { held, link, is_kept: false, is_proven: false }
    }

    /// What there is at once, or after a wait in the queue.
    async fn grant(self: &Arc<Self>, fresh: bool) -> Result<Grant, Failure> {
        let waiting = match self.take_or_wait(fresh)? {
            Ok(grant) => return Ok(grant),
            Err(waiting) => waiting,
        };
        match timeout(self.options.queue_time, waiting).await {
            Ok(Ok(grant)) => Ok(*grant),
            // Those who wait are sent away when no process can be had.
            Ok(Err(_)) => Err(self.not_running().unwrap_or(Failure::QueueTime(self.options.queue_time))),
            Err(_) => Err(Failure::QueueTime(self.options.queue_time)),
        }
    }

    fn take_or_wait(
        self: &Arc<Self>,
        fresh: bool,
    ) -> Result<Result<Grant, oneshot::Receiver<Box<Grant>>>, Failure> {
        let mut state = self.lock();
        if state.waiting.is_empty()
            && let Some(place) = state.members.take(fresh, Instant::now())
        {
            return Ok(Ok(self.hold(place)));
        }
        if let Some(processes) = self.processes() {
            if let Some(failure) = self.not_running() {
                return Err(failure);
            }
            processes.grow();
        }
        if state.waiting.len() >= self.options.queue {
            state.waiting.retain(|waiting| !waiting.sender.is_closed());
        }
        if state.waiting.len() >= self.options.queue {
            return Err(Failure::QueueFull(self.options.queue));
        }
        let (sender, receiver) = oneshot::channel();
        let home = Home::here();
        state.waiting.push_back(Waiting { sender, home, since: Instant::now() });
        Ok(Err(receiver))
    }

    fn hold(self: &Arc<Self>, place: Place<Arc<Link>>) -> Grant {
        let held = |seat| Held { pool: self.clone(), seat, is_over: false };
        match place {
            Place::Kept(seat, link) => Grant::Kept(held(seat), link),
            Place::New(seat, upstream) => Grant::New(held(seat), upstream),
        }
    }

    /// Gives those who wait what there is for them.
    fn serve(self: &Arc<Self>) {
        loop {
            let mut state = self.lock();
            while state.waiting.front().is_some_and(|waiting| waiting.sender.is_closed()) {
                state.waiting.pop_front();
            }
            if state.waiting.is_empty() {
                return;
            }
            let Some(place) = state.members.take(false, Instant::now()) else { return };
            let next = state.next();
            drop(state);
            // Whoever has just gone away drops it, and that serves the next.
            let _ = next.map(|next| next.sender.send(Box::new(self.hold(place))));
        }
    }

    /// A member has said how many requests may share a connection.
    fn share(self: &Arc<Self>, member: MemberId, shared_by: usize) {
        self.lock().members.share(member, shared_by);
        self.serve();
    }

    /// Closes connections that wait for a request as long as others wait to be accepted, which they may keep from that.
    fn help(self: &Arc<Self>) {
        // Without a runtime nothing waits any more.
        let Ok(runtime) = Handle::try_current() else { return };
        let pool = Arc::downgrade(self);
        runtime.spawn(async move {
            loop {
                tokio::time::sleep(STARVED).await;
                let Some(pool) = pool.upgrade() else { return };
                let mut state = pool.lock();
                state.members.help(Instant::now());
                state.has_helper = state.members.may_starve();
                let goes_on = state.has_helper;
                drop(state);
                pool.serve();
                if !goes_on {
                    return;
                }
            }
        });
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
                next = state.members.expire(time, Instant::now());
                state.has_keeper = next.is_some();
            }
        });
    }

    /// A panic while it was held has left counts that are right: each change is one step.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether somebody has to see to it from now on that connections which wait starve no others.
    fn begins_to_help(&mut self) -> bool {
        self.members.may_starve() && !std::mem::replace(&mut self.has_helper, true)
    }

    /// The request that is served next: one of here, where the connection that has become free is watched,
    /// unless another one has waited too long for that.
    fn next(&mut self) -> Option<Waiting> {
        let here = Home::here();
        let first = self.waiting.front()?;
        let is_patient = first.since.elapsed() < PATIENCE;
        let of_here = || self.waiting.iter().take(LOOKED_AT).position(|waiting| waiting.home == here);
        let place = if is_patient { of_here().unwrap_or(0) } else { 0 };
        self.waiting.remove(place)
    }
}

impl Lease {
    /// The connection.
    pub(super) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// The app has answered on it.
    pub(super) fn prove(&mut self) {
        if !self.is_proven {
            self.is_proven = true;
            let pool = &self.held.pool;
            let mut state = pool.lock();
            state.members.prove(self.held.seat);
            let starts_helper = state.begins_to_help();
            drop(state);
            if starts_helper {
                pool.help();
            }
        }
    }

    /// The request is over. The connection is kept if it `is_in_order`, or if others go on with it and it is not `spoilt`:
    /// where the app has ended a request whose body it has not had, it may still wait for that under its number.
    pub(super) fn end(mut self, is_in_order: bool, is_spoilt: bool) {
        let pool = self.held.pool.clone();
        let mut state = pool.lock();
        let is_shared = state.members.is_shared(self.held.seat.member);
        if !is_in_order && (!is_shared || is_spoilt || self.link.is_broken()) {
            // Dropped, it is closed.
            return drop(state);
        }
        self.held.is_over = true;
        let is_kept = state.members.give_back(self.held.seat, Instant::now());
        let starts_keeper = is_kept && !std::mem::replace(&mut state.has_keeper, true);
        let starts_helper = state.begins_to_help();
        drop(state);
        // A connection that is not kept has to be closed before others are opened in its place.
        let member = self.held.seat.member;
        drop(self);
        if starts_keeper {
            pool.look_after();
        }
        if starts_helper {
            pool.help();
        }
        pool.has_ended(member);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.is_over {
            let mut state = self.pool.lock();
            state.members.lose(self.seat, Instant::now());
            let starts_helper = state.begins_to_help();
            drop(state);
            if starts_helper {
                self.pool.help();
            }
            self.pool.has_ended(self.seat.member);
        }
    }
}
