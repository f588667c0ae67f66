//! What resolves the names of upstreams: the system, or the name servers of a proxy (`resolver`).
//!
//! Name servers need the build feature `resolver`. Without it, [`Dns`] has no values.

#[cfg_attr(not(feature = "resolver"), path = "no_dns.rs")]
mod dns;
mod name_server;
mod public;
mod target;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
#[cfg(test)]
use std::sync::Arc;
use std::time::Duration;

use rudy_net::network;
use rudy_runtime::blocking;

use self::dns::Dns;
pub use self::name_server::NameServer;
pub use self::target::Target;

/// The shortest time after which an answer of a name server is out of date. A TTL of 0 would cause a query per round trip.
const TTL_MIN: Duration = Duration::from_secs(1);

/// The longest time. A wrong TTL of weeks would keep a wrong address as long.
const TTL_MAX: Duration = Duration::from_hours(1);

/// What a name resolves to.
#[derive(Debug)]
pub struct Answer<T> {
    /// The records.
    pub records: Vec<T>,
    /// How long it is valid, from [`TTL_MIN`] to [`TTL_MAX`]; `None` if unknown, as with the system.
    pub ttl: Option<Duration>,
}

/// Resolves names. Clones share connections to name servers.
#[derive(Debug, Clone)]
pub enum Resolver {
    /// The system: `/etc/hosts`, DNS, and the other sources in nsswitch.conf(5).
    System,
    /// The system, without addresses that are not public. The addresses themselves are checked, so that a name cannot have others for the
    /// connection than for the check (DNS rebinding).
    Public,
    /// Name servers.
    Dns(Dns),
    /// Answers of a test.
    #[cfg(test)]
    Scripted(ScriptedLookup),
}

#[cfg(test)]
type LookUp = dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// A function that resolves names in tests.
#[cfg(test)]
#[derive(Clone)]
pub struct ScriptedLookup(pub Arc<LookUp>);

impl Resolver {
    /// Returns a resolver with these name servers.
    ///
    /// # Errors
    ///
    /// This build has no client for DNS, or the system's name servers are unknown.
    pub fn new(servers: &[NameServer]) -> Result<Self, String> {
        Dns::new(servers).map(Self::Dns)
    }

    /// Returns the addresses of a host.
    ///
    /// # Errors
    ///
    /// It has none, or cannot be resolved.
    pub async fn addresses(&self, host: &str, port: u16) -> Result<Answer<SocketAddr>, String> {
        let host = host.to_owned();
        let looked_up = match self {
            Self::Dns(dns) => return dns.addresses(host, port).await.map(Answer::bounded),
            Self::System | Self::Public => blocking(move || ask_system(&host, port)),
            #[cfg(test)]
            Self::Scripted(script) => {
                let script = script.clone();
                blocking(move || (script.0)(&host, port))
            }
        };
        match looked_up.await {
            Ok(Ok(records)) if matches!(self, Self::Public) => {
                public::only_public(records).map(Answer::without_ttl)
            }
            Ok(Ok(records)) => Ok(Answer::without_ttl(records)),
            Ok(Err(error)) => Err(error.to_string()),
            Err(panic) => Err(panic.to_string()),
        }
    }

    /// Returns the hosts that the SRV records of a name state.
    ///
    /// # Errors
    ///
    /// There are none, or the name cannot be resolved.
    pub async fn targets(&self, service: &str) -> Result<Answer<Target>, String> {
        let Self::Dns(dns) = self else { return Err("SRV records need `resolver`".to_owned()) };
        let answer = Answer::bounded(dns.targets(service.to_owned()).await?);
        Ok(Answer { records: target::usable(answer.records)?, ..answer })
    }
}

fn ask_system(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    match network::current() {
        None => (host, port).to_socket_addrs().map(Iterator::collect),
        Some(network) => network.look_up(host, port),
    }
}

impl<T> Answer<T> {
    fn without_ttl(records: Vec<T>) -> Self {
        Self { records, ttl: None }
    }

    fn bounded(self) -> Self {
        Self { ttl: self.ttl.map(|ttl| ttl.clamp(TTL_MIN, TTL_MAX)), ..self }
    }
}

#[cfg(test)]
impl std::fmt::Debug for ScriptedLookup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ScriptedLookup(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_valid_for_at_least_a_second_and_at_most_an_hour() {
        let day = Duration::from_hours(24);
        for (ttl, expected) in [(Duration::ZERO, TTL_MIN), (TTL_MIN * 7, TTL_MIN * 7), (day, TTL_MAX)] {
            let answer = Answer::<Target> { records: Vec::new(), ttl: Some(ttl) };
            assert_eq!(answer.bounded().ttl, Some(expected));
        }
    }
}
