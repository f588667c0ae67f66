//! An app as requests are put to it: its connections, its name, its log.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use http::{Method, Uri};
use rudy_fastcgi::{Limits, Role};
use rudy_net::Client;

use super::answer::{self, Begun};
use super::apps::Apps;
use super::exchange::Exchange;
use super::failure::Failure;
use super::output::AppOutput;
use super::params::Params;
use super::pool::{Lease, Pool, PoolOptions, Wanted};
use super::processes::ProcessOptions;
use super::spill::Upload;
use super::stderr::Stderr;
use super::whose::Whose;
use crate::config::AppTable;
use crate::error_log::ErrorLog;

/// An app that is asked, in whichever role.
#[derive(Debug)]
pub(super) struct App {
    table: AppTable,
    /// Opened when a server starts, and not when a configuration is only looked at.
    pool: OnceLock<Arc<Pool>>,
    /// What it is called in the log.
    name: Arc<str>,
    limits: Limits,
    log: OnceLock<ErrorLog>,
}

impl App {
    /// Nothing is connected to yet.
    pub(super) fn new(table: &AppTable, name: &str) -> Self {
        let (pool, log) = (OnceLock::new(), OnceLock::new());
        Self { table: table.clone(), pool, name: name.into(), limits: Limits::default(), log }
    }

    /// Starts its processes, where it is Rudy that does, and goes on with those and with the connections that there are where
    /// the table has not changed.
    ///
    /// # Errors
    ///
    /// The user of the processes is not there or cannot be taken on, or the system has no room for them.
    pub(super) fn start(&self, apps: &Apps, log: &ErrorLog) -> io::Result<()> {
        let table = &self.table;
        let pool = apps.pool(table, || match process_options(table) {
            Some(processes) => Pool::start(processes, pool_options(table), self.limits.clone(), log),
            None => Ok(self.new_pool(Some(log.clone()))),
        });
        let pool = pool.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", self.name)))?;
        self.pool.get_or_init(|| pool);
        Ok(())
    }

    /// Says in `log` what it says, and why it gave no answer. The first log stays.
    pub(super) fn log_to(&self, log: ErrorLog) {
        self.log.get_or_init(|| log);
    }

    /// Puts a request to it, and waits for the head of its answer. A connection that was kept may turn out dead: what can be
    /// said twice without harm (`is_repeatable`, which no request with a body is) is then said on a new one; and so is what
    /// was never said, unless some of its body has been taken.
    pub(super) async fn ask(
        &self,
        role: Role,
        params: &Params<'_>,
        body: Upload,
        is_repeatable: bool,
    ) -> Result<Begun, Failure> {
        let wanted = if is_repeatable { Wanted::Any } else { Wanted::Alive };
        let lease = self.pool().lease(wanted).await?;
        let may_move = lease.is_kept && body.is_empty();
        match self.begin(lease, role, params, body).await {
            Err(failure) if may_move && failure.may_be_repeated(is_repeatable) => {
                let lease = self.pool().lease(Wanted::New).await?;
                self.begin(lease, role, params, Upload::empty()).await
            }
            begun => begun,
        }
    }

    async fn begin(
        &self,
        lease: Lease,
        role: Role,
        params: &Params<'_>,
        body: Upload,
    ) -> Result<Begun, Failure> {
        let whose = self.whose(&params.head.method, &params.head.uri, &params.client);
        let answer_time = self.table.answer_time.0;
        let stderr = Stderr::new(whose, self.pool().output());
        let exchange = Exchange::begin(lease, role, params, body, self.limits.clone(), answer_time, stderr)?;
        answer::begin(exchange, role, &self.limits).await
    }

    /// A request put to it, for the log.
    pub(super) fn whose(&self, method: &Method, uri: &Uri, client: &Client) -> Whose {
        Whose {
            app: self.name.clone(),
            method: method.clone(),
            uri: uri.clone(),
            client: *client,
            log: self.log.get().cloned(),
        }
    }

    fn pool(&self) -> &Arc<Pool> {
        self.pool.get_or_init(|| self.new_pool(self.log.get().cloned()))
    }

    fn new_pool(&self, log: Option<ErrorLog>) -> Arc<Pool> {
        let output = AppOutput::new(self.table.name(), log, Instant::now());
        Pool::new(&self.table.addresses(), pool_options(&self.table), self.limits.clone(), output)
    }
}

fn pool_options(table: &AppTable) -> PoolOptions {
    PoolOptions {
        connections: table.connections() as usize,
        queue: table.queue as usize,
        queue_time: table.queue_time.0,
        connect_time: table.connect_time.0,
        keep_time: table.keep_time.0,
        requests_per_process: table.processes.requests,
    }
}

fn process_options(table: &AppTable) -> Option<ProcessOptions> {
    let processes = &table.processes;
    Some(ProcessOptions {
        name: table.name(),
        command: table.command.clone()?,
        min: processes.min,
        max: processes.max,
        environment: processes.environment.clone(),
        user: processes.user.clone(),
        folder: processes.folder.clone(),
        idle_time: processes.idle_time.map(|time| time.0),
        retire_time: processes.retire_time.0,
        stop_time: processes.stop_time.0,
    })
}
