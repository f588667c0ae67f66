//! Admits or rejects new connections, by the limits that span connections.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use rudy_service::Limits;

use super::Problem;
use super::addresses::AddressCounts;
use super::descriptors::{HOW_TO_RAISE_DESCRIPTORS, connections_within_descriptors};
use crate::address_key::AddressKey;

/// Counts the open connections of all cores.
#[derive(Debug)]
pub(super) struct Admission {
    open: AtomicUsize,
    /// How many connections fit within the descriptor limit.
    within_descriptors: usize,
    addresses: AddressCounts,
}

/// The permit of an admitted connection. Return it with [`Admission::release`].
#[derive(Debug)]
pub(super) struct Permit {
    /// `None` if the limit by address was off at the accept, or does not apply.
    address: Option<AddressKey>,
}

/// The limit that rejects a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LimitReached {
    Connections { limit: usize, is_configured: bool },
    Address { from: IpAddr, limit: usize },
}

impl LimitReached {
    pub(super) fn problem(&self) -> Problem {
        match self {
            Self::Connections { .. } => Problem::ConnectionLimit,
            Self::Address { .. } => Problem::AddressLimit,
        }
    }
}

impl fmt::Display for LimitReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connections { limit, is_configured: true } => {
                write!(f, "the limit is {limit} (raise `limits.connections`)")
            }
            Self::Connections { limit, is_configured: false } => {
                write!(f, "the descriptor limit allows {limit} connections ({HOW_TO_RAISE_DESCRIPTORS})")
            }
            Self::Address { from, limit } => write!(f, "{from} has reached the limit of {limit} connections"),
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

    /// Admits a connection, or returns the limit that rejects it. `counted` is the client's address if the
    /// limit by address applies to it. `make_room(n)` closes `n` other connections, or returns `false`.
    pub(super) fn admit(
        &self,
        limits: &Limits,
        counted: Option<IpAddr>,
        make_room: impl FnOnce(usize, &LimitReached) -> bool,
    ) -> Result<Permit, LimitReached> {
        // Checked first, so that no idle connection is closed for one that is then rejected.
        let permit = self.admit_address(limits, counted)?;
        let limit = limits.connections.unwrap_or(self.within_descriptors);
        // One counter for all cores: it changes twice in a connection's life, and makes the limit exact.
        let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
        let reached = LimitReached::Connections { limit, is_configured: limits.connections.is_some() };
        if open > limit && !make_room(open - limit, &reached) {
            self.release(&permit);
            return Err(reached);
        }
        Ok(permit)
    }

    /// Counts a connection for its address, or returns the limit that rejects it.
    pub(super) fn admit_address(
        &self,
        limits: &Limits,
        counted: Option<IpAddr>,
    ) -> Result<Permit, LimitReached> {
        let (Some(limit), Some(from)) = (limits.connections_per_address, counted) else {
            return Ok(Permit { address: None });
        };
        let key = AddressKey::from(from);
        if !self.addresses.add(key, limit) {
            return Err(LimitReached::Address { from, limit });
        }
        Ok(Permit { address: Some(key) })
    }

    /// Removes a closed connection from the counts.
    pub(super) fn release(&self, permit: &Permit) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        if let Some(key) = permit.address {
            self.addresses.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(address: &str) -> IpAddr {
        address.parse().unwrap()
    }

    #[test]
    fn a_rejected_connection_is_not_counted() {
        let admission = Admission::new();
        let enter = |limits: &Limits, from| admission.admit(limits, from, |_, _| false);
        let limits = Limits { connections: Some(2), connections_per_address: Some(1), ..Limits::default() };
        let permit = enter(&limits, Some(ip("192.0.2.1"))).unwrap();
        for _ in 0..3 {
            let reached = enter(&limits, Some(ip("192.0.2.1"))).unwrap_err();
            assert_eq!(reached, LimitReached::Address { from: "192.0.2.1".parse().unwrap(), limit: 1 });
        }
        enter(&limits, None).unwrap();
        for _ in 0..3 {
            let reached = enter(&limits, Some(ip("192.0.2.2"))).unwrap_err();
            assert_eq!(reached, LimitReached::Connections { limit: 2, is_configured: true });
        }
        admission.release(&permit);
        enter(&limits, Some(ip("192.0.2.1"))).unwrap();
    }

    #[test]
    fn over_the_limit_the_excess_number_of_connections_is_closed() {
        let admission = Admission::new();
        let two = Limits { connections: Some(2), ..Limits::default() };
        for _ in 0..2 {
            admission.admit(&two, None, |_, _| unreachable!("there is room")).unwrap();
        }
        let mut excesses = Vec::new();
        let mut enter = |makes_room| {
            let make_room = |excess, _: &LimitReached| {
                excesses.push(excess);
                makes_room
            };
            admission.admit(&two, None, make_room).is_ok()
        };
        // The first two evicted connections have not closed yet, and the third was not admitted.
        assert!(enter(true) && enter(true) && !enter(false) && enter(true));
        assert_eq!(excesses, [1, 2, 3, 3]);
    }

    #[test]
    fn no_connection_is_closed_for_one_that_the_limit_by_address_rejects() {
        let admission = Admission::new();
        let limits = Limits { connections: Some(1), connections_per_address: Some(1), ..Limits::default() };
        let enter =
            || admission.admit(&limits, Some(ip("192.0.2.1")), |_, _| unreachable!("it may not come in"));
        enter().unwrap();
        assert!(matches!(enter(), Err(LimitReached::Address { .. })));
    }
}
