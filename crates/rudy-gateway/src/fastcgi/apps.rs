//! The apps of a server. They outlive a reload that does not change their tables.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rudy_pipeline::registry::Registry;
use rudy_runtime::clock;
use rudy_system::admin::Responder;

use super::AppTable;
use super::pool::Pool;
use super::processes::Processes;

/// How long to wait for killed processes. The kernel ends them in milliseconds, unless one waits for a disk.
const KILL_TIME: Duration = Duration::from_secs(1);

/// All apps: their connections, and their processes if Rudy manages them.
#[derive(Debug, Default)]
pub struct Apps {
    fastcgi: Registry<AppTable, Pool>,
    purges: OnceLock<Responder>,
}

impl Apps {
    /// Sets what responds to the purges of apps that are started later. The first one stays.
    pub fn respond_to_purges(&self, responder: Responder) {
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

    /// Terminates all processes, at the same time, and waits for their end.
    pub fn stop(&self) {
        let pools = self.fastcgi.values();
        let processes = || pools.iter().filter_map(|pool| pool.processes());
        processes().for_each(Processes::begin_stop);
        processes().for_each(Processes::stop);
        for pool in &pools {
            pool.output().finish();
        }
    }

    /// Kills all processes and their descendants.
    pub fn kill(&self) {
        let pools = self.fastcgi.values();
        let processes = || pools.iter().filter_map(|pool| pool.processes());
        processes().for_each(Processes::begin_kill);
        let until = clock::now() + KILL_TIME;
        processes().for_each(|processes| processes.wait_until(until));
    }
}
