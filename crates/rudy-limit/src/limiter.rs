//! Requests per time, by key.
//!
//! Keys are in a table of sets. A key can be in one set only, which its hash selects, and each set has a lock of its own. A set
//! is two cache lines: a lock, and seven keys with the time at which the allowance of each is full again.
//!
//! A key whose allowance is full says nothing: it is replaced first. If a set has no such key, the memory is too small for the keys
//! of the time that a burst takes to refill, as in an attack from many addresses. A new key then also needs the allowance of
//! its network (/16, or /48 for IPv6), which is larger and which all its new keys share. So an attacker who has many
//! addresses is not without a limit. If the network is within its limit, the new key replaces the one nearest to a full
//! allowance, but no key that has used more of its own than the new one, and none over its limit: that is never forgotten.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};

use crate::allowance::nanoseconds;
use crate::{Allowance, Decision, Key};

/// The number of keys in a set. With the lock, they fill two cache lines.
const WAYS: usize = 7;

/// The number of sets that are allocated together, when one of them is used first.
const CHUNK_SETS: usize = 64;

/// The bytes of a chunk.
const CHUNK_BYTES: usize = CHUNK_SETS * size_of::<Set>();

/// The number of allowances for networks.
const GROUPS: usize = 4096;

/// The allowance of a network, as a multiple of that of a key. Many people may share it, but only when the table is full.
const GROUP_FACTOR: u64 = 16;

/// A key in a set.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    hash: u64,
    /// When the allowance is full again, in nanoseconds since the start of the limiter.
    full_at: u64,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Set(Mutex<[Cell; WAYS]>);

/// A limit for requests per time by key, with bounded memory. All workers share it.
#[derive(Debug)]
pub struct RateLimiter {
    allowance: Allowance,
    of_groups: Allowance,
    start: Instant,
    /// The number of chunks is a power of two.
    chunks: Box<[OnceLock<Box<[Set]>>]>,
    /// When the allowance of each network is full again.
    groups: Box<[AtomicU64]>,
    shared: AtomicU64,
}

impl RateLimiter {
    /// Creates a limiter that uses up to `memory_bytes` for keys, rounded down to a power of two: 57,000 keys per MiB. A table is
    /// never smaller than 8 KiB. `start` is not later than any other time.
    #[must_use]
    pub fn new(allowance: Allowance, memory_bytes: usize, start: Instant) -> Self {
        let chunks = (memory_bytes / CHUNK_BYTES).max(1);
        let chunks = 1_usize << chunks.ilog2();
        Self {
            allowance,
            of_groups: allowance.times(GROUP_FACTOR),
            start,
            chunks: (0..chunks).map(|_| OnceLock::new()).collect(),
            groups: (0..GROUPS).map(|_| AtomicU64::new(0)).collect(),
            shared: AtomicU64::new(0),
        }
    }

    /// Counts a request, unless its key is over the limit.
    pub fn take(&self, key: Key, now: Instant) -> Decision {
        let now = self.nanoseconds(now);
        let mut set = self.set(key);
        if let Some(cell) = set.iter_mut().find(|cell| cell.hash == key.hash) {
            return self.allowance.decide(&mut cell.full_at, now);
        }
        let mut full_at = 0;
        let decision = self.allowance.decide(&mut full_at, now);
        let Some(victim) = set.iter_mut().min_by_key(|cell| cell.full_at) else { return decision };
        if victim.full_at > now {
            let of_group = self.take_of_group(key, now);
            if !of_group.is_allowed() {
                return of_group;
            }
            self.shared.fetch_add(1, Ordering::Relaxed);
            if !self.allowance.may_forget(victim.full_at, now) {
                return decision;
            }
        }
        *victim = Cell { hash: key.hash, full_at };
        decision
    }

    /// Returns what [`Self::take`] would, but counts no request.
    pub fn preview(&self, key: Key, now: Instant) -> Decision {
        let now = self.nanoseconds(now);
        let set = self.set(key);
        if let Some(cell) = set.iter().find(|cell| cell.hash == key.hash) {
            return self.allowance.preview(cell.full_at, now);
        }
        let of_group = self.of_groups.preview(self.group(key).load(Ordering::Relaxed), now);
        let is_full = set.iter().all(|cell| cell.full_at > now);
        if is_full && !of_group.is_allowed() { of_group } else { self.allowance.preview(0, now) }
    }

    /// Takes back a request that [`Self::take`] has counted.
    pub fn give_back(&self, key: Key) {
        let mut set = self.set(key);
        if let Some(cell) = set.iter_mut().find(|cell| cell.hash == key.hash) {
            cell.full_at = self.allowance.give_back(cell.full_at);
        }
    }

    /// Returns how many requests passed with the allowance of their network, because the table was full.
    #[must_use]
    pub fn shared(&self) -> u64 {
        self.shared.load(Ordering::Relaxed)
    }

    /// Returns the memory that is allocated for keys. It grows with their number, up to the limit.
    #[must_use]
    pub fn allocated_bytes(&self) -> usize {
        self.chunks.iter().filter(|chunk| chunk.get().is_some()).count() * CHUNK_BYTES
    }

    fn take_of_group(&self, key: Key, now: u64) -> Decision {
        let full_at = self.group(key);
        let mut known = full_at.load(Ordering::Relaxed);
        loop {
            let mut next = known;
            let decision = self.of_groups.decide(&mut next, now);
            // The number orders no other memory.
            match full_at.compare_exchange_weak(known, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return decision,
                Err(current) => known = current,
            }
        }
    }

    fn group(&self, key: Key) -> &AtomicU64 {
        &self.groups[index(key.group, GROUPS)]
    }

    fn set(&self, key: Key) -> MutexGuard<'_, [Cell; WAYS]> {
        let set = index(key.hash, self.chunks.len() * CHUNK_SETS);
        let chunk =
            self.chunks[set / CHUNK_SETS].get_or_init(|| (0..CHUNK_SETS).map(|_| Set::default()).collect());
        chunk[set % CHUNK_SETS].0.lock()
    }

    fn nanoseconds(&self, now: Instant) -> u64 {
        nanoseconds(now.saturating_duration_since(self.start))
    }
}

/// Returns an index below `length`.
fn index(hash: u64, length: usize) -> usize {
    usize::try_from(hash % length as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::KeyHasher;

    const MIB: usize = 1 << 20;

    fn limiter(requests: u32, period: Duration, burst: u32, memory_bytes: usize) -> (RateLimiter, Instant) {
        let start = Instant::now();
        (RateLimiter::new(Allowance::new(requests, period, burst), memory_bytes, start), start)
    }

    /// The number of requests that are allowed, of `count` at this time.
    fn allowed(limiter: &RateLimiter, key: Key, now: Instant, count: usize) -> usize {
        (0..count).filter(|_| limiter.take(key, now).is_allowed()).count()
    }

    #[test]
    fn a_set_fills_two_cache_lines() {
        assert_eq!((size_of::<Set>(), CHUNK_BYTES), (128, 8192));
    }

    #[test]
    fn keys_have_separate_allowances() {
        let (limiter, start) = limiter(1, Duration::from_secs(1), 5, MIB);
        let keys = KeyHasher::default();
        for name in ["/a", "/b"] {
            let key = keys.start().bytes(name.as_bytes()).finish();
            assert_eq!(allowed(&limiter, key, start, 10), 5, "{name}");
            assert_eq!(allowed(&limiter, key, start + Duration::from_secs(2), 10), 2, "{name}");
        }
        assert_eq!(limiter.allocated_bytes() % CHUNK_BYTES, 0);
        assert!(limiter.allocated_bytes() <= 2 * CHUNK_BYTES, "memory is allocated when it is used");
    }

    #[test]
    fn a_request_that_is_given_back_does_not_count() {
        let (limiter, start) = limiter(1, Duration::from_secs(1), 2, MIB);
        let key = KeyHasher::default().start().bytes(b"a").finish();
        for _ in 0..10 {
            assert!(limiter.take(key, start).is_allowed());
            limiter.give_back(key);
        }
        assert_eq!(limiter.preview(key, start).remaining, 2);
        assert_eq!(allowed(&limiter, key, start, 3), 2);
        assert_eq!(limiter.preview(key, start).retry_after, Some(Duration::from_secs(1)));
    }

    #[test]
    fn limited_addresses_stay_limited_among_ten_million_others() {
        let (limiter, start) = limiter(10, Duration::from_mins(1), 5, MIB);
        let keys = KeyHasher::default();
        let address = |bits: u32| keys.start().address(Ipv4Addr::from_bits(bits).into(), 64).finish();
        // Of a network that the flood does not contain, as it begins at 0.0.0.0.
        let limited: Vec<_> = (0..100).map(|number| address(0xcb00_0000 + number * 256)).collect();
        for key in &limited {
            assert_eq!(allowed(&limiter, *key, start, 6), 5);
        }
        let mut rejected = 0;
        // For 4 s, in which no limited address may send another request.
        for number in 0..10_000_000_u32 {
            let now = start + Duration::from_nanos(u64::from(number) * 400);
            rejected += u64::from(!limiter.take(address(number), now).is_allowed());
            if number % 100_000 == 0 {
                let key = limited[(number / 100_000) as usize % limited.len()];
                assert!(!limiter.take(key, now).is_allowed(), "after {number} others");
            }
        }
        let end = start + Duration::from_secs(4);
        assert!(limited.iter().all(|key| !limiter.take(*key, end).is_allowed()));
        assert_eq!(limiter.allocated_bytes(), MIB);
        // A request that needs the allowance of its network passes with it, or is rejected.
        let passed = limiter.shared();
        assert!(passed > 0 && passed + rejected > 1_000_000, "{passed} passed, {rejected} rejected");
        // An address of another network has its allowance, which the flood has not used up. Few networks share one by chance.
        let others =
            (0..20).filter(|number| allowed(&limiter, address(0xcc00_0001 + (number << 16)), end, 10) == 5);
        assert!(others.count() > 10);
    }

    #[test]
    fn an_attacker_with_a_network_gets_no_more_than_its_allowance() {
        let (limiter, start) = limiter(1, Duration::from_mins(1), 1, CHUNK_BYTES);
        let keys = KeyHasher::default();
        let network: u128 = 0x2001_0db8_0000_0000 << 64;
        let mut sent = 0;
        for subnet in 0..60_000_u128 {
            let address = Ipv6Addr::from_bits(network | subnet << 64);
            let key = keys.start().address(IpAddr::V6(address), 64).finish();
            sent += allowed(&limiter, key, start, 2);
        }
        let known = CHUNK_SETS * WAYS;
        let most = known + usize::try_from(GROUP_FACTOR).unwrap();
        assert!((known - 10..=most).contains(&sent), "{sent} of 120,000");
        assert_eq!(known as u64 + limiter.shared(), sent as u64, "rejected requests are not counted");
    }

    #[test]
    fn workers_share_a_limit() {
        let (limiter, start) = limiter(1, Duration::from_hours(1), 1000, CHUNK_BYTES);
        let key = KeyHasher::default().start().bytes(b"a").finish();
        let total: usize = std::thread::scope(|scope| {
            let workers: Vec<_> =
                (0..4).map(|_| scope.spawn(|| allowed(&limiter, key, start, 1000))).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        assert_eq!(total, 1000);
    }

    proptest! {
        /// The model has a cell for each key. With a set that overflows, a key gets no more than in the model, unless it was
        /// replaced: then it gains a request each time.
        #[test]
        fn a_table_that_is_large_enough_decides_as_separate_cells(
            requests in proptest::collection::vec((0_u8..40, 0_u64..300), 1..400),
            burst in 1_u32..5,
        ) {
            let (limiter, start) = limiter(10, Duration::from_secs(1), burst, MIB);
            let allowance = Allowance::new(10, Duration::from_secs(1), burst);
            let keys = KeyHasher::default();
            let mut model: HashMap<u8, u64> = HashMap::new();
            let mut now = 0;
            for (name, wait_ms) in requests {
                now += wait_ms * 1_000_000;
                let key = keys.start().bytes(&[name]).finish();
                let expected = allowance.decide(model.entry(name).or_default(), now);
                prop_assert_eq!(limiter.take(key, start + Duration::from_nanos(now)), expected);
            }
        }
    }
}
