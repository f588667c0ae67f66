//! A connection of the driver, and what must hold for each, whatever its client does.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use rudy_net::transport::Stream;
use rudy_net::{Worker, connection, http2_stored_bytes};
use rudy_service::{Limits, Peer};

use super::service::{Log, Source, Toy};
use super::wire::{ClientEnd, pair};

/// Polls in a row that may do nothing: a waker may be called for what another poll has done already, once from each direction.
const IDLE_POLLS_MAX: usize = 2;

/// Whether the connection was woken.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A connection, with the end of its client.
pub(super) struct Server {
    serving: Option<Pin<Box<dyn Future<Output = ()>>>>,
    woken: Arc<Woken>,
    pub(super) worker: Arc<Worker>,
    pub(super) client: ClientEnd,
    pub(super) log: Log,
    stored_before: u64,
}

impl Server {
    /// Opens a connection. Over a session, files are copied.
    pub(super) fn open(address: &str, is_session: bool, limits: &Limits) -> Self {
        let stored_before = http2_stored_bytes();
        let (client, server) = pair(is_session);
        let (worker, log) = (Arc::<Worker>::default(), Log::default());
        let toy = Toy { log: log.clone(), limits: Arc::new(limits.clone()) };
        let (io, address) = (Stream::Other(Box::new(server)), address.parse().expect("an address"));
        let source = Arc::new(Source(Arc::new(toy)));
        let serving = connection::serve(io, Peer::Unix, Arc::new(address), source, worker.clone());
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        Self { serving: Some(Box::pin(serving)), woken, worker, client, log, stored_before }
    }

    /// Whether the connection is closed.
    pub(super) fn is_over(&self) -> bool {
        self.serving.is_none()
    }

    /// Drops the connection, as a server that stops at once does.
    pub(super) fn abort(&mut self) {
        self.serving = None;
    }

    /// The number of steps so far: reads, writes, and those of handlers and bodies.
    pub(super) fn steps(&self) -> u64 {
        self.client.wire().calls + self.log.steps()
    }

    /// Polls the connection until it is not woken. At most [`IDLE_POLLS_MAX`] polls in a row do nothing, so that there are at most as many
    /// for each step. Then another poll does nothing.
    pub(super) fn settle(&mut self) {
        let mut idle = 0;
        while self.woken.0.swap(false, Ordering::Relaxed) {
            let before = self.steps();
            self.poll();
            idle = if self.steps() == before { idle + 1 } else { 0 };
            assert!(idle <= IDLE_POLLS_MAX, "the connection wakes itself without doing anything");
        }
    }

    /// Polls the connection without a wake-up, which must do nothing: a connection that could do something has slept.
    pub(super) fn check_sleep(&mut self) {
        self.settle();
        let before = self.steps();
        self.poll();
        assert_eq!(self.steps(), before, "the connection was not woken, but had something to do");
        self.settle();
    }

    /// Polls the connection as a timer would.
    pub(super) fn poll(&mut self) {
        let Some(serving) = &mut self.serving else { return };
        let waker = Waker::from(self.woken.clone());
        if serving.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Ready(()) {
            self.serving = None;
        }
    }

    /// Checks that nothing of the connection is left.
    pub(super) fn check_end(&self) {
        assert!(self.is_over(), "the client has closed the connection, but it is open");
        let counters = &self.worker.counters;
        assert_eq!((counters.accepted.get(), counters.closed.get(), counters.panics.get()), (1, 1, 0));
        let (active, is_complete) = self.worker.ask().answers(Instant::now());
        assert!(active.is_empty() && is_complete, "{active:?}");
        assert_eq!(http2_stored_bytes(), self.stored_before, "what is stored of request bodies is counted");
        self.log.each(|(number, seen)| {
            assert_eq!(seen.finished, seen.observers, "observers of request {number} that have finished");
        });
    }
}

/// Limits with which neither time nor the number of frames decides.
pub(super) fn patient_limits() -> Limits {
    const NEVER: Duration = Duration::from_hours(24);
    let mut limits = Limits { linger_timeout: NEVER, ..Limits::default() };
    let http = &mut limits.http;
    for timeout in [
        &mut http.head_timeout,
        &mut http.first_request_timeout,
        &mut http.idle_timeout,
        &mut http.rate_grace,
        &mut http.send_stall_timeout,
        &mut http.half_close_timeout,
    ] {
        *timeout = NEVER;
    }
    (http.http2.resets, http.http2.control_frames) = (1 << 24, 1 << 24);
    limits
}
