//! The apps of a server. They outlive a reload that does not change their tables.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::pool::Pool;
use super::processes::Processes;
use crate::config::AppTable;

/// How long to wait for killed processes. The kernel ends them in milliseconds, unless one waits for a disk.
const KILL_TIME: Duration = Duration::from_secs(1);

/// All apps: their connections, and their processes if Rudy manages them.
#[derive(Debug, Default)]
pub struct Apps(Mutex<Vec<(AppTable, Weak<Pool>)>>);

impl Apps {
    /// Returns the pool of the app with this table. Opens one if there is none.
    pub(super) fn pool(
        &self,
        table: &AppTable,
        open: impl FnOnce() -> io::Result<Arc<Pool>>,
    ) -> io::Result<Arc<Pool>> {
        let mut apps = self.lock();
        apps.retain(|(_, pool)| pool.strong_count() > 0);
        let known = apps.iter().find(|(known, _)| known == table).and_then(|(_, pool)| pool.upgrade());
        if let Some(pool) = known {
            return Ok(pool);
        }
        let pool = open()?;
        apps.push((table.clone(), Arc::downgrade(&pool)));
        Ok(pool)
    }

    /// Terminates all processes, at the same time, and waits for their end.
    pub(crate) fn stop(&self) {
        let pools = self.pools();
        let processes = || pools.iter().filter_map(|pool| pool.processes());
        processes().for_each(Processes::begin_stop);
        processes().for_each(Processes::stop);
        for pool in &pools {
            pool.output().finish();
        }
    }

    /// Kills all processes and their descendants.
    pub(crate) fn kill(&self) {
        let pools = self.pools();
        let processes = || pools.iter().filter_map(|pool| pool.processes());
        processes().for_each(Processes::begin_kill);
        let until = Instant::now() + KILL_TIME;
        processes().for_each(|processes| processes.wait_until(until));
    }

    fn pools(&self) -> Vec<Arc<Pool>> {
        self.lock().iter().filter_map(|(_, pool)| pool.upgrade()).collect()
    }

    /// Ignores poisoning: after a panic the list is still valid.
    fn lock(&self) -> MutexGuard<'_, Vec<(AppTable, Weak<Pool>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
