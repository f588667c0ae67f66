//! What the upstreams of a proxy do in the background: lookups of names, health checks, and log lines about those that get no requests.

use std::io;
use std::sync::Arc;

use rudy_client::{Endpoint, background_runtime, entry_of};
use rudy_log::ErrorLog;
use rudy_runtime::inside;
use rudy_upstream::{Change, Member};
use tokio::task::JoinSet;

use super::health;
use super::pool::ProxyPool;
use super::service::Service;
use super::table::ProxyTable;

impl ProxyPool {
    /// Begins to look up the names among its addresses, to check its upstreams, and to log which of them get no requests.
    ///
    /// # Errors
    ///
    /// The system cannot create the threads.
    pub(super) fn start(self: &Arc<Self>, table: &ProxyTable, log: &ErrorLog) -> io::Result<()> {
        let (urls, changes) = (self.urls.clone(), log.clone());
        let on_change = move |member: &Member<Endpoint>, change: Change<'_>| {
            if let Some(url) = urls.get(entry_of(member.id())) {
                log_change(&changes, &url.of_member(member.address()), change);
            }
        };
        self.upstream.pool().on_change(Box::new(on_change));
        let mut tasks = JoinSet::new();
        for (entry, url) in (0..).zip(&*self.urls) {
            if let Some(name) = url.service() {
                let service = Service::new(self, entry, name, table, log);
                tasks.spawn_on(inside(service.follow(self.resolver.clone())), &background_runtime()?);
            } else if let Some(check) = &table.health_check {
                let checks = health::checks(&self.upstream, entry, url, check, table.send_proxy_protocol);
                tasks.spawn_on(inside(checks), &background_runtime()?);
            }
        }
        self.tasks.get_or_init(|| tasks);
        self.upstream.look_up_names(log)
    }
}

/// Logs that an upstream gets no requests, or gets them again.
fn log_change(log: &ErrorLog, url: &str, change: Change<'_>) {
    match change {
        Change::Ejected { why } => {
            let message = format!("{url} is ejected and gets no requests: {why}");
            log.recurring_error(("an upstream is ejected", &*url.to_string()), &message);
        }
        Change::Returned => log.notice(&format!("{url} gets requests again")),
        Change::Unhealthy { why } => {
            log.error(&format!("{url} is unhealthy and gets no requests: the health check failed: {why}"));
        }
        Change::Healthy => log.notice(&format!("{url} is healthy")),
    }
}
