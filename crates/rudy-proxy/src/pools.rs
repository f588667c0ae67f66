//! The pools of all proxies of a server. They outlive a reload that does not change their tables.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, OnceLock};

use rudy_admin::UpstreamStatus;
use rudy_log::ErrorLog;
use rudy_pipeline::registry::Registry;
use rudy_system::state_dir::state_dir;

use super::Proxy;
use super::pool::ProxyPool;
use super::status::UpstreamChange;
use super::sticky::StickyKey;
use super::table::ProxyTable;

/// All pools, and the key of sticky cookies.
#[derive(Debug, Default)]
pub struct ProxyPools {
    pools: Registry<ProxyTable, ProxyPool>,
    sticky_key: OnceLock<StickyKey>,
}

impl ProxyPools {
    /// Returns the pool of the proxy with this table. Opens one if there is none.
    pub(super) fn get_or_open(
        &self,
        table: &ProxyTable,
        open: impl FnOnce() -> io::Result<Arc<ProxyPool>>,
    ) -> io::Result<Arc<ProxyPool>> {
        self.pools.get_or_create(table, open)
    }

    /// Returns the key of the cookies of sticky upstreams. The first call reads or creates it.
    pub fn sticky_key(&self, log: &ErrorLog) -> &StickyKey {
        self.sticky_key.get_or_init(|| {
            let (key, notice) = StickyKey::in_folder(state_dir().as_deref());
            if let Some(notice) = notice {
                log.notice(&notice);
            }
            key
        })
    }

    /// Returns all pools, in the order in which they were opened.
    pub fn all(&self) -> Vec<Arc<ProxyPool>> {
        self.pools.values()
    }

    /// Returns the state of all upstreams, with the routes of these proxies that use them.
    #[must_use]
    pub fn status<'p>(&self, proxies: impl Iterator<Item = &'p Proxy>) -> Vec<UpstreamStatus> {
        // Routes share pools, and there may be thousands of both.
        let mut routes: HashMap<_, Vec<String>> = HashMap::new();
        for proxy in proxies {
            if let Some(pool) = proxy.0.pool.get() {
                routes.entry(Arc::as_ptr(pool)).or_default().push(proxy.0.route.clone());
            }
        }
        let pools = self.all();
        let status =
            |pool: &Arc<ProxyPool>| pool.status(routes.get(&Arc::as_ptr(pool)).map_or(&[], Vec::as_slice));
        pools.iter().flat_map(status).collect()
    }

    /// Changes the upstreams with this name. Returns whether there is one.
    pub fn change_upstream(&self, name: &str, change: UpstreamChange) -> bool {
        // All pools, and not only the first one.
        self.all().iter().filter(|pool| pool.change(name, change)).count() > 0
    }

    /// Returns the URLs of the upstreams that the operator has drained.
    pub fn drained_upstreams(&self) -> Vec<String> {
        self.all().iter().flat_map(|pool| pool.drained()).collect()
    }
}
