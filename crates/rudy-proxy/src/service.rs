//! The upstreams of a name with SRV records (RFC 2782): a member of the pool for each target.
//!
//! The records are looked up when their TTL ends. A target that they no longer state finishes its requests, as after a drain. After a failed
//! lookup, the targets stay.

use std::sync::{Arc, Weak};
use std::time::Duration;

use rudy_client::{Answer, Endpoint, Name, Resolver, Target, entry_of, member_id, unresolved_line};
use rudy_log::ErrorLog;
use rudy_runtime::clock;
use rudy_upstream::MemberOptions;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::health;
use super::pool::{ProxyPool, priority_of};
use super::table::ProxyTable;

/// The pause after a failed lookup.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// A name with SRV records.
pub(super) struct Service {
    pool: Weak<ProxyPool>,
    /// The index of its URL.
    entry: u64,
    name: String,
    table: ProxyTable,
    log: ErrorLog,
    /// The targets of the last answer.
    followed: Vec<FollowedTarget>,
    /// How many targets were added.
    added: u64,
    has_failed: bool,
}

/// A target that is a member of the pool.
struct FollowedTarget {
    target: Target,
    id: u64,
    /// The lookups of its host, and its health checks. They end with it.
    _tasks: JoinSet<()>,
}

impl Service {
    pub(super) fn new(
        pool: &Arc<ProxyPool>,
        entry: u64,
        name: &str,
        table: &ProxyTable,
        log: &ErrorLog,
    ) -> Self {
        let (pool, name, table, log) = (Arc::downgrade(pool), name.to_owned(), table.clone(), log.clone());
        Self { pool, entry, name, table, log, followed: Vec::new(), added: 0, has_failed: false }
    }

    /// Keeps the members of the pool in line with the records, as long as the pool exists.
    pub(super) async fn follow(mut self, resolver: Resolver) {
        loop {
            let answer = resolver.targets(&self.name).await;
            let Some(pool) = self.pool.upgrade() else { return };
            let ttl = match answer {
                Ok(Answer { records, ttl }) => {
                    self.update(&pool, &resolver, &records);
                    ttl
                }
                Err(why) => {
                    self.report_failure(&pool, &why);
                    None
                }
            };
            drop(pool);
            sleep(ttl.unwrap_or(RETRY_PAUSE)).await;
        }
    }

    fn update(&mut self, pool: &Arc<ProxyPool>, resolver: &Resolver, targets: &[Target]) {
        let before = self.shown();
        let new: Vec<_> =
            targets.iter().filter(|target| !self.followed.iter().any(|one| one.target == **target)).collect();
        // Added first: requests must find a member at any time.
        let new: Vec<_> = new.into_iter().map(|target| self.add(pool, resolver, target)).collect();
        for gone in self.followed.extract_if(.., |one| !targets.contains(&one.target)) {
            pool.upstream.pool().remove(gone.id);
            pool.upstream.shared().forget(gone.id);
        }
        self.followed.extend(new);
        if std::mem::take(&mut self.has_failed) || !before.is_empty() && before != self.shown() {
            self.log.notice(&format!("{} resolves to {}", self.name, self.shown()));
        }
    }

    fn add(&mut self, pool: &Arc<ProxyPool>, resolver: &Resolver, target: &Target) -> FollowedTarget {
        self.added += 1;
        let id = member_id(self.entry, self.added);
        let name = Arc::new(Name::new(&target.host, target.port, resolver.clone()));
        let is_backup = self.table.upstreams().get(entry_of(id)).is_some_and(|upstream| upstream.backup);
        let mut options = MemberOptions {
            limit: self.table.connections.as_usize(),
            weight: target.weight,
            hash: rudy_upstream::hash(target.to_string().as_bytes()),
            priority: priority_of(is_backup) + u32::from(target.priority),
            is_retired: false,
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(pool.upstream.follow(&name, &self.log));
        let endpoint = Endpoint::Name(name);
        if let Some(url) = pool.url_of(id) {
            options.is_retired = pool.drained.lock().contains(&url.of_member(&endpoint));
            pool.upstream.pool().add(id, endpoint, options, clock::now());
            if let Some(check) = &self.table.health_check {
                let header = self.table.send_proxy_protocol;
                tasks.spawn(health::checks(&pool.upstream, id, url, check, header));
            }
        }
        FollowedTarget { target: target.clone(), id, _tasks: tasks }
    }

    fn report_failure(&mut self, pool: &ProxyPool, why: &str) {
        self.has_failed = true;
        let line = if self.followed.is_empty() {
            unresolved_line(&self.name, why)
        } else {
            format!("{} no longer resolves: {why}; requests still go to {}", self.name, self.shown())
        };
        self.log.recurring_error(("a name does not resolve", &*self.name), &line);
        pool.unresolved.store(Some(line.into()));
    }

    /// Returns the targets for a log line.
    fn shown(&self) -> String {
        self.followed.iter().map(|one| one.target.to_string()).collect::<Vec<_>>().join(", ")
    }
}
