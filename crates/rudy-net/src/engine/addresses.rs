//! Counts the open connections of each address, for the limit by address.

use std::collections::HashMap;
use std::hash::BuildHasher;

use parking_lot::{Mutex, MutexGuard};
use rudy_runtime::random::RandomState;

use crate::address_key::AddressKey;

/// Number of locks, so that cores seldom contend.
const SHARDS: usize = 64;

/// Counts open connections by address. An address without connections has no entry, so the limit of
/// connections also limits the entries.
#[derive(Debug)]
pub(super) struct AddressCounts {
    shards: [Mutex<HashMap<AddressKey, usize>>; SHARDS],
    hasher: RandomState,
}

impl AddressCounts {
    pub(super) fn new() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()), hasher: RandomState::new() }
    }

    /// Counts a new connection. Returns `false` if the address has `limit` already.
    pub(super) fn add(&self, key: AddressKey, limit: usize) -> bool {
        let mut shard = self.shard(key);
        let open = shard.get(&key).copied().unwrap_or(0);
        if open >= limit {
            return false;
        }
        shard.insert(key, open + 1);
        true
    }

    /// Removes a closed connection from the count.
    pub(super) fn remove(&self, key: AddressKey) {
        let mut shard = self.shard(key);
        match shard.get_mut(&key) {
            Some(open) if *open > 1 => *open -= 1,
            _ => {
                shard.remove(&key);
            }
        }
    }

    fn shard(&self, key: AddressKey) -> MutexGuard<'_, HashMap<AddressKey, usize>> {
        // The remainder is below SHARDS, regardless of the width of usize.
        #[expect(clippy::cast_possible_truncation, reason = "any bits of the hash are good")]
        let index = self.hasher.hash_one(key) as usize % SHARDS;
        self.shards[index].lock()
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn key(address: &str) -> AddressKey {
        AddressKey::from(address.parse::<IpAddr>().unwrap())
    }

    #[test]
    fn an_address_is_counted_up_to_its_limit_and_its_entry_is_removed_with_its_last_connection() {
        let counts = AddressCounts::new();
        let (a, b) = (key("192.0.2.1"), key("192.0.2.2"));
        assert!(counts.add(a, 2) && counts.add(a, 2) && counts.add(b, 2));
        assert!(!counts.add(a, 2));
        counts.remove(a);
        assert!(counts.add(a, 2));
        for left in [a, a, b] {
            counts.remove(left);
        }
        assert!(counts.shards.iter().all(|shard| shard.lock().is_empty()));
    }
}
