//! The part of a `[[tcp]]` table about clients and upstreams.

use std::time::Duration;

use rudy_client::{NameServer, UpstreamAddress};
use rudy_config::{Int, Location, OneOrMany, Problem, Table, missing};
use rudy_pipeline::AllowedClient;
use rudy_units::{Time, Timeout};

use super::super::choice::UpstreamChoice;
use super::super::ejection::EjectionTable;
use super::super::health::HealthCheckTable;
use super::super::table::{ProxyTable, UpstreamTable};
use super::super::url::UpstreamUrl;
use crate::HashKey;

/// Where the connections go, and who may connect.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(default)]
pub struct TcpProxyTable {
    /// Address of the upstream: `10.0.0.1:5432`, `db.example:5432` or `unix:/run/postgresql/.s.PGSQL.5432`. Of several, `choice` determines
    /// which one gets a connection; if it does not accept the connection, another one gets it. Host names are resolved again every 30 s.
    #[setting(example = ["10.0.0.1:5432", "10.0.0.2:5432"])]
    pub upstreams: Option<OneOrMany<TcpUpstreamTable>>,
    /// Name servers for the names of the upstreams, as in `proxy`. Only builds with the feature `resolver` have it.
    #[setting(example = "10.0.0.2", example = "system")]
    pub resolver: Option<OneOrMany<NameServer>>,
    /// How one of several upstreams is chosen. `least-busy`: the one with fewer connections, of two that are chosen at random.
    /// `round-robin`: one after the other. `hash:address`: always the same one for the same client address, as long as it is up.
    pub choice: UpstreamChoice,
    /// When one of several upstreams gets no connections for a while, because it has accepted none.
    #[setting(example = { failures = 3 })]
    pub ejection: EjectionTable,
    /// Time in which the share of an upstream that returns grows from a tenth to its weight. The default is none.
    #[setting(example = "30s")]
    pub slow_start: Option<Timeout>,
    /// Connections of Rudy that decide whether an upstream gets connections: the time between two, or a table. The default is none.
    #[setting(example = "10s")]
    pub health_check: Option<TcpHealthCheckTable>,
    /// Sends the addresses of the client to the upstream at the start of each connection: a header of the PROXY protocol, version 2.
    pub send_proxy_protocol: bool,
    /// Clients that may connect: addresses, networks, `loopback` (this machine) or `anyone`. The connections of all others are reset.
    #[setting(example = ["10.0.0.0/8", "loopback"])]
    pub allow: Option<OneOrMany<AllowedClient>>,
    /// Clients that may not connect, also if `allow` includes them. Without `allow`, all others may.
    #[setting(example = "192.0.2.0/24")]
    pub deny: Option<OneOrMany<AllowedClient>>,
    /// Maximum number of connections to each upstream. Further clients wait in the queue.
    #[setting(default = Int(10_000), reason = "Well below the ports of one address. A database that accepts fewer gets a lower number.")]
    pub connections: Int<1, 65535>,
    /// Maximum number of clients that wait for a connection. Further ones are reset.
    #[setting(default = Int(1024), reason = "Each uses some kilobytes of memory.")]
    pub queue: Int<0, 1_000_000>,
    /// Maximum time that a client waits for a connection. After it, the client is reset.
    #[setting(default = Time(Duration::from_secs(10)))]
    pub queue_timeout: Timeout,
    /// Time for establishing a connection to an upstream.
    #[setting(default = Time(Duration::from_secs(5)))]
    pub connect_timeout: Timeout,
    /// Maximum time without data in both directions. After it, both connections are closed.
    #[setting(default = Time(Duration::from_hours(1)), reason = "Clients of databases and brokers are silent for minutes, and lost connections cost little.")]
    pub idle_timeout: Timeout,
    /// Maximum time that a connection stays open. The default is no limit.
    #[setting(example = "12h")]
    pub lifetime: Option<Timeout>,
}

/// An upstream: a table, or its address alone.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(short(address), what = "an address (\"10.0.0.1:5432\") or a table")]
pub struct TcpUpstreamTable {
    /// Address of the upstream.
    #[setting(example = "10.0.0.1:5432")]
    pub address: UpstreamAddress,
    /// Its share of the connections in relation to the other upstreams.
    #[setting(default = Int(1))]
    pub weight: Int<1, 1000>,
    /// Sends it connections only while all upstreams that are no backups are ejected, unhealthy, drained, or do not accept the connection.
    #[setting(default = false)]
    pub backup: bool,
}

/// Connections of Rudy that decide whether an upstream gets connections: a table, or the interval alone. An upstream is healthy if it
/// accepts them.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(short(interval), what = "an interval (\"10s\") or a table", default)]
pub struct TcpHealthCheckTable {
    /// Time between two checks of an upstream, which varies by a tenth.
    #[setting(default = Time(Duration::from_secs(10)))]
    pub interval: Timeout,
    /// Maximum time of a check.
    #[setting(default = Time(Duration::from_secs(2)))]
    pub timeout: Timeout,
    /// Number of successful checks in a row after which an upstream gets connections again.
    #[setting(default = Int(2))]
    pub healthy: Int<1, 100>,
    /// Number of failed checks in a row after which an upstream gets no more connections.
    #[setting(default = Int(3))]
    pub unhealthy: Int<1, 100>,
}

impl TcpProxyTable {
    /// Returns the table of a proxy with the same upstreams, whose pool has the connections.
    #[must_use]
    pub fn proxy(&self) -> ProxyTable {
        let upstream = |TcpUpstreamTable { address, weight, backup }: &TcpUpstreamTable| UpstreamTable {
            url: UpstreamUrl::of_connections(address.clone()),
            weight: *weight,
            backup: *backup,
        };
        let upstreams = self.upstreams.as_ref().map(|all| all.as_slice().iter().map(upstream).collect());
        let health_check = self.health_check.as_ref().map(|check| HealthCheckTable {
            interval: check.interval,
            timeout: check.timeout,
            healthy: check.healthy,
            unhealthy: check.unhealthy,
            connects_only: true,
            ..HealthCheckTable::default()
        });
        ProxyTable {
            upstreams,
            health_check,
            resolver: self.resolver.clone(),
            choice: self.choice.clone(),
            ejection: self.ejection.clone(),
            slow_start: self.slow_start,
            send_proxy_protocol: self.send_proxy_protocol,
            connections: self.connections,
            queue: self.queue,
            queue_timeout: self.queue_timeout,
            connect_timeout: self.connect_timeout,
            tunnel_idle_timeout: self.idle_timeout,
            tunnel_lifetime: self.lifetime,
            ..ProxyTable::default()
        }
    }

    /// Returns the problems that the types of the table cannot express, besides those of the [proxy](Self::proxy).
    pub(super) fn problems(&self, location: &Location) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.upstreams.is_none() {
            problems.push(missing(&(), location, "upstreams").unless_invalid(&location.key("upstreams")));
        }
        if let UpstreamChoice::Hash(key) = &self.choice
            && *key != HashKey::Address
        {
            let title = format!("a connection has no part for the choice \"{}\"", self.choice);
            let problem = Problem::value(&location.key("choice"), title);
            problems.push(problem.label("expected \"least-busy\", \"round-robin\" or \"hash:address\""));
        }
        if self.ejection.statuses.is_some() || self.ejection.latency_ratio.is_some() {
            let title = "`statuses` and `latency_ratio` have no effect on connections";
            let problem = Problem::key(&location.key("ejection"), title.to_owned());
            problems
                .push(problem.label("remove them: an upstream is ejected when it accepts no connections"));
        }
        problems
    }
}
