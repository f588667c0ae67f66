//! The apps of a server. They outlive a reload that does not change their tables.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::pool::Pool;
use super::processes::Processes;
use crate::App;
use crate::admin::Responder;
use crate::config::AppTable;
use crate::proxy::{ProxyPool, ProxyTable, StickyKey, UpstreamChange};
use crate::registry::Registry;
use crate::state_dir::state_dir;
use rudy_admin::UpstreamStatus;
use rudy_log::ErrorLog;

/// How long to wait for killed processes. The kernel ends them in milliseconds, unless one waits for a disk.
const KILL_TIME: Duration = Duration::from_secs(1);

/// All apps: their connections, and their processes if Rudy manages them.
#[derive(Debug)]
pub struct Apps {
    /// The number of workers of the engine.
    workers: usize,
    fastcgi: Registry<AppTable, Pool>,
    proxies: Registry<ProxyTable, ProxyPool>,
    sticky_key: OnceLock<StickyKey>,
    purges: OnceLock<Responder>,
}

impl Apps {
    /// Creates the list of apps of an engine with this number of workers.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        let (fastcgi, proxies, sticky_key, purges) = Default::default();
        Self { workers, fastcgi, proxies, sticky_key, purges }
    }

    /// Returns the number of workers of the engine.
    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// Sets what responds to the purges of apps that are started later. The first one stays.
    pub(crate) fn respond_to_purges(&self, responder: Responder) {
        self.purges.get_or_init(|| responder);
    }

    /// Returns what responds to the purges of apps.
    pub(super) fn purges(&self) -> Option<&Responder> {
        self.purges.get()
    }

    /// Returns the pool of the FastCGI app with this table. Opens one if there is none.
    pub(super) fn pool(
        &self,
        table: &AppTable,
        open: impl FnOnce() -> io::Result<Arc<Pool>>,
    ) -> io::Result<Arc<Pool>> {
        self.fastcgi.get_or_create(table, open)
    }

    /// Returns the pool of the proxy with this table. Opens one if there is none.
    pub(crate) fn proxy(
        &self,
        table: &ProxyTable,
        open: impl FnOnce() -> io::Result<Arc<ProxyPool>>,
    ) -> io::Result<Arc<ProxyPool>> {
        self.proxies.get_or_create(table, open)
    }

    /// Returns the key of the cookies of sticky upstreams. The first call reads or creates it.
    pub(crate) fn sticky_key(&self, log: &ErrorLog) -> &StickyKey {
        self.sticky_key.get_or_init(|| {
            let (key, notice) = StickyKey::in_folder(state_dir().as_deref());
            if let Some(notice) = notice {
                log.notice(&notice);
            }
            key
        })
    }

    /// Returns the state of all upstreams; `app` is the current configuration.
    pub(crate) fn upstreams(&self, app: &App) -> Vec<UpstreamStatus> {
        let status = |pool: &Arc<ProxyPool>| {
            let proxies = app.proxies().filter(|proxy| proxy.uses(pool));
            pool.status(&proxies.map(|proxy| proxy.route().to_owned()).collect::<Vec<_>>())
        };
        self.proxies.values().iter().flat_map(status).collect()
    }

    /// Changes the upstreams with this name. Returns whether there is one.
    pub(crate) fn change_upstream(&self, name: &str, change: UpstreamChange) -> bool {
        // All pools, and not only the first one.
        self.proxies.values().iter().filter(|pool| pool.change(name, change)).count() > 0
    }

    /// Returns whether an upstream uses TLS.
    pub(crate) fn uses_tls(&self) -> bool {
        self.proxies.values().iter().any(|pool| pool.uses_tls())
    }

    /// Replaces what upstreams need for TLS if its files have changed. Returns a line for the log about each proxy, an error if the old
    /// settings stay in use.
    pub(crate) fn replace_changed_tls(&self) -> Vec<Result<String, String>> {
        self.proxies.values().iter().filter_map(|pool| pool.replace_changed_tls()).collect()
    }

    /// Returns the URLs of the upstreams that the operator has drained.
    pub(crate) fn drained_upstreams(&self) -> Vec<String> {
        self.proxies.values().iter().flat_map(|pool| pool.drained()).collect()
    }

    /// Terminates all processes, at the same time, and waits for their end.
    pub(crate) fn stop(&self) {
        let pools = self.fastcgi.values();
        let processes = || pools.iter().filter_map(|pool| pool.processes());
        processes().for_each(Processes::begin_stop);
        processes().for_each(Processes::stop);
        for pool in &pools {
            pool.output().finish();
        }
    }

    /// Kills all processes and their descendants.
    pub(crate) fn kill(&self) {
        let pools = self.fastcgi.values();
        let processes = || pools.iter().filter_map(|pool| pool.processes());
        processes().for_each(Processes::begin_kill);
        let until = Instant::now() + KILL_TIME;
        processes().for_each(|processes| processes.wait_until(until));
    }
}
