//! The state of the upstreams, and its change by the operator: `rudy upstreams`.

use std::sync::Arc;
use std::time::Instant;

use rudy_admin::{UpstreamState, UpstreamStatus};
use rudy_client::Endpoint;
use rudy_runtime::clock;
use rudy_upstream::{Availability, Member};

use super::pool::{BACKUP, ProxyPool};

/// What the operator does with an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamChange {
    /// It finishes its requests and gets no new ones.
    Drain,
    /// It gets requests again.
    Up,
}

impl ProxyPool {
    /// Returns the state of its upstreams, which these routes use. If a reload has removed the last route, only upstreams with requests in
    /// progress are returned.
    pub fn status(&self, routes: &[String]) -> Vec<UpstreamStatus> {
        let now = clock::now();
        let members = self.upstream.pool().members();
        let members = members.iter().filter(|member| !routes.is_empty() || member.in_flight() > 0);
        let of_member = |member: &Arc<Member<Endpoint>>| {
            let mut status = status(self.name_of(member)?, member, now);
            if routes.is_empty() {
                status.state = UpstreamState::Draining;
            }
            Some(UpstreamStatus { routes: routes.to_vec(), ..status })
        };
        members.filter_map(of_member).collect()
    }

    /// Changes the upstreams with this URL, or with this host and port; the URL of a service names all its targets. Returns whether there
    /// is one.
    pub fn change(&self, name: &str, change: UpstreamChange) -> bool {
        let mut is_known = false;
        for member in self.upstream.pool().members() {
            let (Some(url), Some(of_member)) = (self.url_of(member.id()), self.name_of(&member)) else {
                continue;
            };
            if !is_named(&of_member, name) && url.to_string() != name {
                continue;
            }
            is_known = true;
            match change {
                UpstreamChange::Drain => {
                    self.upstream.pool().retire(member.id());
                    self.drained.lock().insert(of_member);
                }
                UpstreamChange::Up => {
                    self.upstream.pool().restore(member.id(), clock::now());
                    self.drained.lock().remove(&of_member);
                }
            }
        }
        is_known
    }

    /// Drains what the operator has drained before a reload.
    pub fn drain(&self, names: &[String]) {
        for name in names {
            self.change(name, UpstreamChange::Drain);
        }
        // Its targets are not known yet.
        if self.has_service() {
            self.drained.lock().extend(names.iter().cloned());
        }
    }

    /// Returns the URLs of the upstreams that the operator has drained.
    pub fn drained(&self) -> Vec<String> {
        self.drained.lock().iter().cloned().collect()
    }

    /// Returns the URL of an upstream, or of a target of SRV records.
    fn name_of(&self, member: &Member<Endpoint>) -> Option<String> {
        self.url_of(member.id()).map(|url| url.of_member(member.address()))
    }
}

fn is_named(url: &str, name: &str) -> bool {
    url == name || url.split_once("://").is_some_and(|(_, authority)| authority == name)
}

fn status(url: String, member: &Member<Endpoint>, now: Instant) -> UpstreamStatus {
    let active = member.in_flight();
    let (state, ejected_ms) = match member.availability(now) {
        Availability::Up => (UpstreamState::Up, None),
        Availability::Ejected(left) => (UpstreamState::Ejected, Some(left.as_millis())),
        Availability::Unhealthy => (UpstreamState::Unhealthy, None),
        Availability::Retired if active > 0 => (UpstreamState::Draining, None),
        Availability::Retired => (UpstreamState::Drained, None),
    };
    UpstreamStatus {
        routes: Vec::new(),
        url,
        addresses: member.address().addresses(),
        state,
        backup: member.priority() >= BACKUP,
        ejected_ms: ejected_ms.map(|left| u64::try_from(left).unwrap_or(u64::MAX)),
        active,
        connections: member.open(),
        tunnels: member.tunnels(),
        requests: member.requests(),
        failures: member.failures(),
        latency_us: member.latency().map(|latency| u64::try_from(latency.as_micros()).unwrap_or(u64::MAX)),
    }
}
