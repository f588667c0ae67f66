//! The hosts of each listener.

use rudy_service::listen_address::Address;

use super::Hosts;

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
    pub(super) fn hosts_at(&self, listener: Option<&Address>) -> Option<&Hosts> {
        match self {
            Self::Alike(hosts) => Some(hosts),
            Self::Separate(all) => {
                all.iter().find(|(address, _)| Some(address) == listener).map(|(_, hosts)| hosts)
            }
        }
    }
}
