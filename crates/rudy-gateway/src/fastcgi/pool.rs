//! The connections to an app, and its processes if Rudy manages them.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use rudy_client::{
    Checkout, CheckoutError, Endpoint, Resolver, Selection, Upstream, UpstreamAddress, UpstreamOptions,
};
use rudy_log::ErrorLog;
use rudy_runtime::clock;
use rudy_service::Observer;
use rudy_system::admin::Responder;
use rudy_upstream::Member;

use super::connection::Connection;
use super::failure::{AppCause, Cause, Failure};
use super::output::AppOutput;
use super::processes::{Event, MemberId, MemberPool, ProcessOptions, Processes};
use super::values;

/// The number of requests that an app serves at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Connections {
    /// Connections to each address or process.
    pub(super) each: usize,
    /// Whether the number may be raised, because the configuration does not set it.
    pub(super) can_grow: bool,
}

/// An app's connections and processes.
#[derive(Debug)]
pub(super) struct Pool {
    upstream: Arc<Upstream<Connection>>,
    /// Connections to a new member.
    connections: AtomicUsize,
    /// Whether to query the app's limits after the first connection.
    query_limits: AtomicBool,
    /// The output of the app.
    output: Arc<AppOutput>,
    /// The processes, if Rudy manages them.
    processes: OnceLock<Processes>,
}

impl Pool {
    /// Creates the pool of an app that listens at these addresses.
    pub(super) fn new(
        addresses: &[UpstreamAddress],
        options: UpstreamOptions,
        connections: Connections,
        output: AppOutput,
    ) -> Arc<Self> {
        let pool = Arc::new(Self::of(Upstream::new(options, None, ()), connections, output));
        for (id, address) in (0..).zip(addresses) {
            let endpoint = Endpoint::new(address, &Resolver::System);
            pool.upstream.pool().add(id, endpoint, connections.each, clock::now());
        }
        pool
    }

    /// Creates the pool of an app whose processes Rudy manages. `purges` responds to their purges of the cache.
    ///
    /// # Errors
    ///
    /// Those of [`Processes::start`].
    pub(super) fn start(
        processes: ProcessOptions,
        options: UpstreamOptions,
        connections: Connections,
        log: &ErrorLog,
        purges: Option<Responder>,
    ) -> io::Result<Arc<Self>> {
        let output = AppOutput::new(processes.name.clone(), Some(log.clone()), clock::now());
        let pool = Arc::new_cyclic(|pool: &Weak<Self>| {
            let pool = pool.clone();
            let on_end = move |member: &Member<Endpoint>| {
                if let Some(pool) = pool.upgrade() {
                    pool.request_ended(member);
                }
            };
            Self::of(Upstream::new(options, Some(Box::new(on_end)), ()), connections, output)
        });
        let members: Weak<Self> = Arc::downgrade(&pool);
        let started = Processes::start(processes, log, pool.output().clone(), members, purges)?;
        pool.processes.get_or_init(|| started);
        Ok(pool)
    }

    fn of(upstream: Upstream<Connection>, connections: Connections, output: AppOutput) -> Self {
        Self {
            upstream: Arc::new(upstream),
            connections: AtomicUsize::new(connections.each),
            query_limits: AtomicBool::new(connections.can_grow),
            output: Arc::new(output),
            processes: OnceLock::new(),
        }
    }

    /// Begins to look up the names among its addresses.
    ///
    /// # Errors
    ///
    /// Those of [`Upstream::look_up_names`].
    pub(super) fn look_up_names(&self, log: &ErrorLog) -> io::Result<()> {
        self.upstream.look_up_names(log)
    }

    /// Returns the processes, if Rudy manages them.
    pub(super) fn processes(&self) -> Option<&Processes> {
        self.processes.get()
    }

    /// Returns the connections.
    pub(super) fn upstream(&self) -> &Arc<Upstream<Connection>> {
        &self.upstream
    }

    /// Returns the log output of the app.
    pub(super) fn output(&self) -> &Arc<AppOutput> {
        &self.output
    }

    /// Waits for a connection, idle or new.
    pub(super) async fn checkout(
        self: &Arc<Self>,
        selection: &mut Selection,
        observer: Option<&Arc<dyn Observer>>,
    ) -> Result<Checkout<Connection>, Failure> {
        let on_wait = || {
            let Some(processes) = self.processes() else { return Ok(()) };
            self.not_running().map_or(Ok(()), Err)?;
            processes.grow();
            Ok(())
        };
        let checkout = self.upstream.checkout(selection, observer, on_wait).await;
        let mut checkout = checkout.map_err(|cause| match cause {
            Cause::Checkout(CheckoutError::Rejected) => self.not_running().unwrap_or(cause),
            cause => cause,
        })?;
        // Only connections that are not accepted count as failures, so this is a success.
        checkout.record_success();
        if !checkout.is_reused() && self.query_limits.swap(false, Ordering::Relaxed) {
            rudy_runtime::spawn(values::query_limits(Arc::downgrade(self), checkout.endpoint()));
        }
        Ok(checkout)
    }

    /// Returns why the app has no running process, if known.
    fn not_running(&self) -> Option<Cause> {
        self.processes().and_then(Processes::failure).map(|why| AppCause::NotRunning(why).into())
    }

    /// Raises the number of connections to each member. Never lowers it.
    pub(super) fn raise_connections(&self, each: usize) {
        let before = self.connections.fetch_max(each, Ordering::Relaxed);
        if each > before {
            self.upstream.pool().set_limits(each);
        }
    }

    /// Handles the end of a request: its member may have served enough requests.
    fn request_ended(&self, member: &Member<Endpoint>) {
        let Some(processes) = self.processes() else { return };
        if member.is_drained() {
            processes.drained(member.id());
        } else if member.reached_request_limit() {
            processes.replace(member.id());
        }
    }

    /// Requests one more process if requests wait. The set ignores a request while a process is being
    /// started, so this repeats it.
    fn grow_if_queued(&self) {
        if let Some(processes) = self.processes().filter(|_| self.upstream.pool().queued() > 0) {
            processes.grow();
        }
    }
}

impl MemberPool for Pool {
    fn handle(&self, event: Event) {
        let pool = self.upstream.pool();
        match event {
            Event::Up(id, socket) => {
                let connections = self.connections.load(Ordering::Relaxed);
                pool.add(id, Endpoint::Unix(Arc::new(socket.into())), connections, clock::now());
                self.grow_if_queued();
            }
            Event::Retire(id) => {
                pool.retire(id);
                if let Some(processes) = self.processes()
                    && pool.member(id).is_some_and(|member| member.is_drained())
                {
                    processes.drained(id);
                }
            }
            Event::Down(id, _) => {
                pool.remove(id);
                self.grow_if_queued();
            }
            Event::Unavailable(_) => pool.reject_all(),
        }
    }

    fn requests(&self, id: MemberId) -> u64 {
        self.upstream.pool().member(id).map_or(0, |member| member.requests())
    }

    fn idle_since(&self, id: MemberId) -> Option<Instant> {
        self.upstream.pool().member(id)?.idle_since(clock::now())
    }
}
