//! Which new connections may come in: the limits that span connections.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Trouble;
use super::addresses::{AddressCounts, AddressKey};
use super::descriptors::connections_within_descriptors;
use crate::{Limits, Peer};

/// Counts the open connections of all cores.
#[derive(Debug)]
pub(super) struct Admission {
    open: AtomicUsize,
    /// How many the descriptor limit leaves room for.
    within_descriptors: usize,
    addresses: AddressCounts,
}

/// The place of a connection that was let in; to be given back by [`Admission::leave`].
#[derive(Debug)]
pub(super) struct Place {
    /// `None` where the limit by address was off when it came.
    address: Option<AddressKey>,
}

/// The limit that a connection met.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Connections { limit: usize },
    Address { from: IpAddr, limit: usize },
}

impl Refusal {
    pub(super) fn trouble(&self) -> Trouble {
        match self {
            Self::Connections { .. } => Trouble::Connections,
            Self::Address { .. } => Trouble::Address,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connections { limit } => write!(f, "the limit is {limit}"),
            Self::Address { from, limit } => write!(f, "{from} has {limit} open, which is the limit"),
        }
    }
}

impl Admission {
    pub(super) fn new() -> Self {
        Self {
            open: AtomicUsize::new(0),
            within_descriptors: connections_within_descriptors(),
            addresses: AddressCounts::new(),
        }
    }

    /// Lets a connection in, or says which limit it meets.
    pub(super) fn enter(&self, limits: &Limits, peer: &Peer) -> Result<Place, Refusal> {
        let limit = limits.connections.unwrap_or(self.within_descriptors);
        // One number for all cores: it is touched once in a connection's life, and an exact limit is worth that.
        if self.open.fetch_add(1, Ordering::Relaxed) >= limit {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return Err(Refusal::Connections { limit });
        }
        let address = match (limits.connections_per_address, peer) {
            (Some(limit), Peer::Ip(from)) => {
                let key = AddressKey::from(from.ip());
                if !self.addresses.enter(key, limit) {
                    self.open.fetch_sub(1, Ordering::Relaxed);
                    return Err(Refusal::Address { from: from.ip(), limit });
                }
                Some(key)
            }
            // Whoever comes over a Unix socket has no address, and is let in by the file's permissions.
            (_, Peer::Unix) | (None, _) => None,
        };
        Ok(Place { address })
    }

    /// A connection has ended.
    pub(super) fn leave(&self, place: &Place) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        if let Some(key) = place.address {
            self.addresses.leave(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str) -> Peer {
        Peer::Ip(address.parse().unwrap())
    }

    #[test]
    fn a_connection_that_is_refused_takes_no_place() {
        let admission = Admission::new();
        let limits = Limits { connections: Some(2), connections_per_address: Some(1), ..Limits::default() };
        let place = admission.enter(&limits, &peer("192.0.2.1:1")).unwrap();
        for _ in 0..3 {
            let refusal = admission.enter(&limits, &peer("192.0.2.1:2")).unwrap_err();
            assert_eq!(refusal, Refusal::Address { from: "192.0.2.1".parse().unwrap(), limit: 1 });
        }
        admission.enter(&limits, &Peer::Unix).unwrap();
        for _ in 0..3 {
            let refusal = admission.enter(&limits, &peer("192.0.2.2:1")).unwrap_err();
            assert_eq!(refusal, Refusal::Connections { limit: 2 });
        }
        admission.leave(&place);
        admission.enter(&limits, &peer("192.0.2.1:3")).unwrap();
    }
}
