//! The addresses of a name, and the order in which a new connection tries them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

/// How long an address that did not take a connection is tried last. As long as nginx takes a server of a group for
/// unavailable (`fail_timeout`): shorter, and new connections keep waiting for an address that is gone; longer, and an app
/// that is back stays without work.
const AVOIDED: Duration = Duration::from_secs(10);

/// The addresses of the last good answer.
#[derive(Debug, Default)]
pub(super) struct Alternatives {
    /// Read when a request ends, on all cores: not behind the lock.
    addresses: ArcSwap<Vec<SocketAddr>>,
    /// Where the next connection begins.
    next: AtomicUsize,
    /// Until when an address is tried last.
    avoided: Mutex<Vec<(SocketAddr, Instant)>>,
}

impl Alternatives {
    /// The addresses, in the order of the answer.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.addresses.load().to_vec()
    }

    pub(super) fn has(&self, address: SocketAddr) -> bool {
        self.addresses.load().contains(&address)
    }

    /// Takes the addresses of an answer in place of those before.
    pub(super) fn set(&self, addresses: Vec<SocketAddr>) {
        self.addresses.store(addresses.into());
    }

    /// The addresses for a new connection. Each connection begins at the next one, so that the instances of an app share the
    /// load: `docker compose up --scale` gives a name an address for each. The last good one first would leave the others
    /// idle. Those that did not take a connection lately come last.
    pub(super) fn order(&self, now: Instant) -> Vec<SocketAddr> {
        let mut avoided = self.avoided.lock().unwrap_or_else(PoisonError::into_inner);
        avoided.retain(|(_, until)| now < *until);
        let is_avoided = |address: &SocketAddr| avoided.iter().any(|(avoided, _)| avoided == address);
        let (last, mut first): (Vec<_>, Vec<_>) = self.addresses().into_iter().partition(is_avoided);
        if !first.is_empty() {
            let next = self.next.fetch_add(1, Ordering::Relaxed) % first.len();
            first.rotate_left(next);
        }
        first.extend(last);
        first
    }

    /// This address did not take a connection.
    pub(super) fn avoid(&self, address: SocketAddr, now: Instant) {
        let mut avoided = self.avoided.lock().unwrap_or_else(PoisonError::into_inner);
        avoided.retain(|(other, _)| *other != address && self.has(*other));
        avoided.push((address, now + AVOIDED));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(ports: &[u16]) -> Vec<SocketAddr> {
        ports.iter().map(|port| ([127, 0, 0, 1], *port).into()).collect()
    }

    #[test]
    fn connections_begin_at_one_address_after_the_other_and_try_those_that_failed_last() {
        let now = Instant::now();
        let alternatives = Alternatives::default();
        assert!(alternatives.order(now).is_empty());
        alternatives.set(addresses(&[1, 2, 3]));
        let orders = [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 2, 3]];
        for order in orders {
            assert_eq!(alternatives.order(now), addresses(&order));
        }
        alternatives.avoid(addresses(&[3])[0], now);
        let later = now + AVOIDED;
        for (order, now) in [([1, 2, 3], now), ([2, 1, 3], now), ([1, 2, 3], now), ([2, 3, 1], later)] {
            assert_eq!(alternatives.order(now), addresses(&order));
        }
    }

    #[test]
    fn addresses_that_are_gone_are_forgotten() {
        let now = Instant::now();
        let alternatives = Alternatives::default();
        for port in 1..=100 {
            let address = addresses(&[port]);
            alternatives.set(address.clone());
            assert!(alternatives.has(address[0]));
            alternatives.avoid(address[0], now);
        }
        assert!(!alternatives.has(addresses(&[99])[0]));
        assert_eq!(alternatives.avoided.lock().unwrap().len(), 1);
    }
}
