//! The hosts of each listener.

use rudy_service::listen_address::Address;
use rudy_service::{Client, Peer, Request};

use super::{Hosts, is_own_host};

/// The hosts of the sites, by listener.
#[derive(Debug)]
pub enum Listeners {
    /// All listeners serve the same sites.
    Alike(Hosts),
    /// A listener serves the sites that are beside its address. One that is not listed, such as a listener that a reload closes, serves
    /// none.
    Separate(Vec<(Address, Hosts)>),
}

impl Listeners {
    /// Iterates over the hosts of all listeners.
    pub(super) fn all(&self) -> impl Iterator<Item = &Hosts> {
        let (alike, separate) = match self {
            Self::Alike(hosts) => (Some(hosts), &[][..]),
            Self::Separate(all) => (None, all.as_slice()),
        };
        alike.into_iter().chain(separate.iter().map(|(_, hosts)| hosts))
    }

    /// Returns the hosts that a listener serves.
    pub(crate) fn hosts_at(&self, listener: Option<&Address>) -> Option<&Hosts> {
        match self {
            Self::Alike(hosts) => Some(hosts),
            Self::Separate(all) => {
                all.iter().find(|(address, _)| Some(address) == listener).map(|(_, hosts)| hosts)
            }
        }
    }

    /// Returns the part of a request's host that a group of the regular expression of its site matches, as [`Hosts::group`].
    #[must_use]
    pub fn host_group(&self, request: &Request<'_>, client: &Client<'_>, name: &str) -> Option<String> {
        let hosts = self.hosts_at(client.listener.as_ref().map(|address| &***address))?;
        hosts.group(request.host(), name)
    }

    /// Whether a request is from this machine, for a host that neither a site nor this machine has. The owner of the name could let it
    /// resolve to this machine, so that a browser here sends requests of a web page (DNS rebinding). No browser connects to a Unix socket.
    pub fn is_foreign_host(&self, request: &Request<'_>, client: &Client<'_>) -> bool {
        let is_near = matches!(client.peer, Peer::Ip(_)) && client.peer.is_local();
        let is_known = |host| is_own_host(host) || self.all().any(|hosts| hosts.has_name(host));
        is_near && !is_known(request.host())
    }
}
