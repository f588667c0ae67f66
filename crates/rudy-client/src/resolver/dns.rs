//! A client for DNS, with the feature `resolver`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;
use hickory_resolver::system_conf::read_system_conf;
use tokio::time::timeout;

use super::{Answer, NameServer, Target};

/// How long to wait for a name server before the query is sent again, or to another one.
const SERVER_TIMEOUT: Duration = Duration::from_secs(2);

/// How often a query is sent again.
const RETRIES: usize = 1;

/// The maximum time of a lookup, with all its queries.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// Name servers, and the connections to them.
#[derive(Debug, Clone)]
pub struct Dns(Arc<TokioResolver>);

impl Dns {
    /// No query is sent yet.
    pub(super) fn new(servers: &[NameServer]) -> Result<Self, String> {
        let (mut config, mut options) = if servers.contains(&NameServer::System) {
            read_system_conf().map_err(|error| format!("cannot read /etc/resolv.conf: {error}"))?
        } else {
            // No search domains, and no names from /etc/hosts: a name has the same meaning on every machine.
            let mut options = ResolverOpts::default();
            options.use_hosts_file = ResolveHosts::Never;
            (ResolverConfig::from_name_servers(Vec::new()), options)
        };
        for server in servers {
            if let NameServer::Address(address) = server {
                config.add_name_server(name_server(*address));
            }
        }
        (options.timeout, options.attempts) = (SERVER_TIMEOUT, RETRIES);
        // Each name is looked up again when its answer is out of date, and the last answer is stored with it.
        options.cache_size = 0;
        let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        *builder.options_mut() = options;
        builder.build().map(|resolver| Self(Arc::new(resolver))).map_err(|error| error.to_string())
    }

    /// Returns the addresses of a host: its A and AAAA records.
    pub(super) async fn addresses(&self, host: String, port: u16) -> Result<Answer<SocketAddr>, String> {
        let found = within_timeout(self.0.lookup_ip(host), "no address").await?;
        let records = found.iter().map(|address| SocketAddr::new(address, port)).collect();
        Ok(Answer { records, ttl: ttl(found.as_lookup()) })
    }

    /// Returns what the SRV records of a name state.
    pub(super) async fn targets(&self, service: String) -> Result<Answer<Target>, String> {
        let found = within_timeout(self.0.srv_lookup(service), "no SRV record").await?;
        let records = found.answers().iter().filter_map(|record| match &record.data {
            RData::SRV(srv) => Some(Target {
                host: srv.target.to_ascii(),
                port: srv.port,
                priority: srv.priority,
                weight: srv.weight.into(),
            }),
            _ => None,
        });
        Ok(Answer { records: records.collect(), ttl: ttl(&found) })
    }
}

/// UDP, and TCP for long answers.
fn name_server(address: SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = address.port();
        connection
    });
    NameServerConfig::new(address.ip(), true, connections.into())
}

async fn within_timeout<T>(
    lookup: impl Future<Output = Result<T, NetError>>,
    absent: &str,
) -> Result<T, String> {
    let timed_out = || format!("no answer of a name server within {LOOKUP_TIMEOUT:?}");
    let found = timeout(LOOKUP_TIMEOUT, lookup).await.map_err(|_| timed_out())?;
    found.map_err(|error| match error {
        NetError::Timeout => timed_out(),
        error if error.is_nx_domain() => "there is no such name (NXDOMAIN)".to_owned(),
        error if error.is_no_records_found() => format!("it has {absent}"),
        error => error.to_string(),
    })
}

/// Returns the time after which the first of the records is out of date.
fn ttl(lookup: &Lookup) -> Option<Duration> {
    let ttl = lookup.answers().iter().map(|record| record.ttl).min()?;
    Some(Duration::from_secs(ttl.into()))
}
