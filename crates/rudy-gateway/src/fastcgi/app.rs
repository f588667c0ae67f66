//! An app: its connections, its name in the log, and the log.

use std::io;
use std::sync::{Arc, LazyLock, OnceLock};

use rudy_client::{
    Checkout, CheckoutError, Outgoing, RequestInfo, Selection, Start, Upload, UpstreamOptions, Wanted,
};
use rudy_fastcgi::{Limits, Role};
use rudy_log::{ErrorLog, Lines};
use rudy_message::LazyHead;
use rudy_pipeline::debug_request;
use rudy_pipeline::exchange::trace::{self, InTrace};
use rudy_runtime::clock;
use rudy_service::{Client, Observer, Peer};
use rudy_upstream::{Choice, CircuitOptions};

use super::AppTable;
use super::apps::Apps;
use super::connection::Connection;
use super::exchange::{Exchange, Records};
use super::failure::Failure;
use super::output::AppOutput;
use super::params::Params;
use super::pool::{Connections, Pool};
use super::processes::{ProcessOptions, Rules};
use super::response::AppResponse;
use super::stderr::Stderr;

/// Limits of what is buffered of an app's records.
static LIMITS: LazyLock<Limits> = LazyLock::new(Limits::default);

/// An app in the role of a responder or an authorizer.
#[derive(Debug)]
pub(super) struct App {
    table: AppTable,
    /// Opened when a server starts, but not when a configuration is only checked.
    pool: OnceLock<Arc<Pool>>,
    /// The name in the log.
    name: Arc<str>,
    log: OnceLock<ErrorLog>,
}

impl App {
    /// Creates an app. No connection is opened yet.
    pub(super) fn new(table: &AppTable, name: &str) -> Arc<Self> {
        let (pool, log) = (OnceLock::new(), OnceLock::new());
        Arc::new(Self { table: table.clone(), pool, name: name.into(), log })
    }

    /// Starts its processes if Rudy manages them, or begins to look up the names of its addresses. After a
    /// reload that did not change the table, existing processes and connections stay.
    ///
    /// # Errors
    ///
    /// The user of the processes does not exist or Rudy may not become it, or the system has no resources for
    /// the processes.
    pub(super) fn start(&self, start: &rudy_pipeline::Start<'_>) -> io::Result<()> {
        // Routes share an app.
        let (table, log) = (&self.table, &start.log.of_server());
        let apps = start.resources.of::<Apps>();
        let pool = apps.pool(table, || {
            let (upstream, connections) = (upstream_options(table, start.workers), connections(table));
            if let Some(processes) = process_options(table) {
                return Pool::start(processes, upstream, connections, log, apps.purges().cloned());
            }
            let output = AppOutput::new(table.name(), Some(log.clone()), clock::now());
            let pool = Pool::new(&table.addresses(), upstream, connections, output);
            pool.look_up_names(log)?;
            Ok(pool)
        });
        let cannot =
            |error: io::Error| io::Error::new(error.kind(), format!("start an app: {}: {error}", self.name));
        let pool = pool.map_err(cannot)?;
        self.pool.get_or_init(|| pool);
        Ok(())
    }

    /// Sets the log for the app's output and failures. The first log stays.
    pub(super) fn log_to(&self, log: ErrorLog) {
        self.log.get_or_init(|| log);
    }

    /// Sends a request and waits for the head of the response. The body is taken out of `upload`.
    ///
    /// If no response begins, the request may be sent again, on a new connection and maybe to another address: see
    /// [`Upstream::send`](rudy_client::Upstream::send). `is_safe` tells that it may be processed twice.
    ///
    /// # Errors
    ///
    /// There is no connection, or no response.
    pub(super) async fn send_request(
        self: &Arc<Self>,
        role: Role,
        params: &Params<'_>,
        upload: &mut Upload,
        is_safe: bool,
    ) -> Result<AppResponse, Failure> {
        // In a statement of its own: the future would have room for its error.
        let pool = self.pool()?;
        let wanted = match pool.processes() {
            _ if is_safe => Wanted::Any,
            // A process may exit after any response, and resets what it has not read: a request that cannot be repeated gets a
            // connection that the next process can accept.
            Some(_) => Wanted::New,
            None => Wanted::Alive,
        };
        let request = Attempts { app: self, pool, role, params, is_safe };
        let mut selection = wanted.into();
        let (head, exchange) = pool.upstream().send(&request, upload, &mut selection).await?;
        Ok(AppResponse::new(head, exchange))
    }

    /// Returns the pool.
    ///
    /// # Errors
    ///
    /// The app was not started. A pool that a request opened would have no lookups and no log.
    fn pool(&self) -> Result<&Arc<Pool>, CheckoutError> {
        self.pool.get().ok_or(CheckoutError::NotStarted)
    }

    /// Returns the log output of the app, once it was started.
    pub(super) fn output(&self) -> Option<&AppOutput> {
        self.pool.get().map(|pool| &**pool.output())
    }

    fn begin(
        self: &Arc<Self>,
        checkout: Checkout<Connection>,
        role: Role,
        params: &Params<'_>,
        upload: Upload,
    ) -> Result<Box<Exchange>, Failure> {
        let head = LazyHead::clone(params.request).into_owned();
        let (client, trace) = (params.client.address(), trace::of_exchange(params.client.observer.get()));
        let stderr = Stderr { app: self.clone(), head, client, trace, lines: Lines::default() };
        let (role, timeout) = ((self.table.protocol, role), self.table.response_timeout.0);
        Records::begin(checkout, role, params, upload, &LIMITS, timeout, stderr).map_err(Failure::from)
    }

    /// Describes a request to this app for the log.
    pub(super) fn info(&self, head: &LazyHead<'_>, client: &Client<'_>) -> RequestInfo {
        self.info_of(head, client.address(), trace::of_exchange(client.observer.get()))
    }

    /// As [`Self::info`], of what a request has kept of its client.
    pub(super) fn info_of(&self, head: &LazyHead<'_>, client: Peer, trace: InTrace) -> RequestInfo {
        let (upstream, log) = (self.name.clone(), self.log.get().cloned());
        RequestInfo { upstream, method: head.method().clone(), uri: head.uri().clone(), client, trace, log }
    }
}

/// The attempts to send a request.
struct Attempts<'a> {
    app: &'a Arc<App>,
    pool: &'a Arc<Pool>,
    role: Role,
    params: &'a Params<'a>,
    is_safe: bool,
}

impl Outgoing for Attempts<'_> {
    type Protocol = Records;

    fn observer(&self) -> Option<&Arc<dyn Observer>> {
        self.params.client.observer.get().filter(|_| self.role == Role::Responder)
    }

    fn is_repeatable(&self) -> bool {
        self.is_safe
    }

    fn has_others(&self) -> bool {
        // A request that ends one of an app's processes would end the others too.
        self.pool.processes().is_none() && self.pool.upstream().pool().member_count() > 1
    }

    fn checkout<'a>(
        &'a self,
        selection: &'a mut Selection,
        _start: Start,
    ) -> impl Future<Output = Result<Checkout<Connection>, Failure>> {
        self.pool.checkout(selection, self.observer())
    }

    fn begin(
        &self,
        mut checkout: Checkout<Connection>,
        upload: Upload,
        _start: Start,
    ) -> Result<Box<Exchange>, Failure> {
        let name = &self.app.name;
        debug_request!(target: "fastcgi", self.observer(), "{name}: request to {}", checkout.endpoint());
        self.app.begin(checkout, self.role, self.params, upload)
    }

    fn log_attempt(&self, _start: Start, failure: &Failure) {
        debug_request!(target: "fastcgi", self.observer(), "{}: request: {failure}", self.app.name);
    }
}

fn connections(table: &AppTable) -> Connections {
    let can_grow = table.connections.is_none() && table.protocol.keeps_connections();
    Connections { each: table.connections() as usize, can_grow }
}

fn upstream_options(table: &AppTable, workers: usize) -> UpstreamOptions {
    UpstreamOptions {
        workers,
        queue: table.queue.as_usize(),
        queue_timeout: table.queue_timeout.0,
        connect_timeout: table.connect_timeout.0,
        idle_timeout: table.idle_timeout.0,
        requests_per_member: table.processes.requests.map(|most| most.0),
        choice: Choice::IdleFirst,
        circuit: CircuitOptions::default(),
    }
}

fn process_options(table: &AppTable) -> Option<ProcessOptions> {
    let processes = &table.processes;
    Some(ProcessOptions {
        name: table.name(),
        command: table.command.clone()?.0,
        rules: Rules {
            min: processes.min.as_usize(),
            max: processes.max.as_usize(),
            idle_timeout: processes.idle_timeout.map(|time| time.0),
            retire_timeout: processes.retire_timeout.0,
            stop_timeout: processes.stop_timeout.0,
        },
        environment: processes.environment.clone(),
        user: processes.user.clone(),
        folder: processes.folder.as_ref().map(|folder| folder.0.clone()),
    })
}
