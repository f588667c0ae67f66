//! The addresses of a name, and the order in which a new connection tries them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

/// How long an address that did not accept a connection is tried last. It is nginx's `fail_timeout`. A
/// shorter time makes new connections wait for an address that is gone; a longer one leaves a recovered app
/// without work.
const AVOID_TIME: Duration = Duration::from_secs(10);

/// The addresses of the last successful lookup.
#[derive(Debug, Default)]
pub(super) struct Alternatives {
    /// Not behind the lock, because all workers read them at the end of each request.
    addresses: ArcSwap<Vec<SocketAddr>>,
    /// The index at which the next connection starts.
    next: AtomicUsize,
    /// Addresses to try last, and until when.
    avoided: Mutex<Vec<(SocketAddr, Instant)>>,
}

impl Alternatives {
    /// Returns the addresses in the order of the lookup.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.addresses.load().to_vec()
    }

    pub(super) fn has(&self, address: SocketAddr) -> bool {
        self.addresses.load().contains(&address)
    }

    /// Replaces the addresses.
    pub(super) fn set(&self, addresses: Vec<SocketAddr>) {
        self.addresses.store(addresses.into());
    }

    /// Returns the addresses for a new connection, in the order to try them. Each connection starts at the
    /// next address, so that the instances of an app share the load: `docker compose up --scale` gives a name
    /// one address for each. Always starting at the last good address would leave the others idle. Addresses
    /// that did not accept a connection lately come last.
    pub(super) fn order(&self, now: Instant) -> Vec<SocketAddr> {
        let mut avoided = self.avoided.lock();
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

    /// Records that an address did not accept a connection.
    pub(super) fn avoid(&self, address: SocketAddr, now: Instant) {
        let mut avoided = self.avoided.lock();
        avoided.retain(|(other, _)| *other != address && self.has(*other));
        avoided.push((address, now + AVOID_TIME));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(ports: &[u16]) -> Vec<SocketAddr> {
        ports.iter().map(|port| ([127, 0, 0, 1], *port).into()).collect()
    }

    #[test]
    fn connections_rotate_over_the_addresses_and_try_failed_ones_last() {
        let now = Instant::now();
        let alternatives = Alternatives::default();
        assert!(alternatives.order(now).is_empty());
        alternatives.set(addresses(&[1, 2, 3]));
        let orders = [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 2, 3]];
        for order in orders {
            assert_eq!(alternatives.order(now), addresses(&order));
        }
        alternatives.avoid(addresses(&[3])[0], now);
        let later = now + AVOID_TIME;
        for (order, now) in [([1, 2, 3], now), ([2, 1, 3], now), ([1, 2, 3], now), ([2, 3, 1], later)] {
            assert_eq!(alternatives.order(now), addresses(&order));
        }
    }

    #[test]
    fn removed_addresses_are_forgotten() {
        let now = Instant::now();
        let alternatives = Alternatives::default();
        for port in 1..=100 {
            let address = addresses(&[port]);
            alternatives.set(address.clone());
            assert!(alternatives.has(address[0]));
            alternatives.avoid(address[0], now);
        }
        assert!(!alternatives.has(addresses(&[99])[0]));
        assert_eq!(alternatives.avoided.lock().len(), 1);
    }
}
