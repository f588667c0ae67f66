//! The exchanges of a worker that wait: for the request body, the service or the client, or as a tunnel.
//!
//! A connection adds an exchange when it has to wait for the first time, so a request with an immediate response costs
//! nothing. Afterwards, the worker stores two numbers for each poll, without a lock. Other threads read them.

#[cfg(test)]
mod races;

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use rudy_service::Observer;

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// Maximum number of exchanges that are copied under the lock, for which the worker may have to wait: a tenth of a
/// millisecond.
const BATCH: usize = 1024;

/// What an exchange waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ExchangePhase {
    /// The client sends the request body.
    Receiving,
    /// The service has not responded.
    Waiting,
    /// The response is sent, as fast as the service produces it and the client reads it.
    Sending,
    /// The connection has changed to another protocol.
    Tunnel,
}

impl ExchangePhase {
    const ALL: [Self; 4] = [Self::Receiving, Self::Waiting, Self::Sending, Self::Tunnel];
}

/// An exchange in progress that has had to wait.
pub struct ActiveExchange {
    observer: Arc<dyn Observer>,
    /// When the request head was complete.
    since: Instant,
    /// The timer of its connection, through which the connection is woken.
    timer: u32,
    phase: AtomicU8,
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    is_killed: AtomicBool,
    /// Its index in the table. Changed only under the lock.
    index: AtomicUsize,
}

impl ActiveExchange {
    /// The observer that the service has created for it.
    #[must_use]
    pub fn observer(&self) -> &Arc<dyn Observer> {
        &self.observer
    }

    /// When the request head was complete.
    #[must_use]
    pub fn since(&self) -> Instant {
        self.since
    }

    /// What it waits for.
    #[must_use]
    pub fn phase(&self) -> ExchangePhase {
        ExchangePhase::ALL[usize::from(self.phase.load(Ordering::Relaxed)) % ExchangePhase::ALL.len()]
    }

    /// Bytes that a tunnel has received so far. The observer counts those of a request body.
    #[must_use]
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the response body, or of a tunnel, that were sent so far.
    #[must_use]
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for ActiveExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActiveExchange").field("phase", &self.phase()).finish_non_exhaustive()
    }
}

/// The table of a worker. Its lock is held for a few instructions by the worker, and for a batch by a reader.
#[derive(Debug, Default)]
pub(crate) struct ActiveExchanges {
    all: Mutex<Vec<Arc<ActiveExchange>>>,
    /// The number of exchanges that an operator has ended.
    kills: AtomicU64,
}

impl ActiveExchanges {
    /// Returns all exchanges. Those that begin or end meanwhile may be missing.
    pub(crate) fn all(&self) -> Vec<Arc<ActiveExchange>> {
        self.in_batches(BATCH)
    }

    fn in_batches(&self, batch: usize) -> Vec<Arc<ActiveExchange>> {
        let mut all = Vec::new();
        let mut end = usize::MAX;
        // From the end: a removal moves the last one to the front, so none that remains is missed, but one may be met twice.
        while end > 0 {
            let exchanges = self.all.lock();
            let last = end.min(exchanges.len());
            end = last.saturating_sub(batch);
            all.extend(exchanges[end..last].iter().cloned());
        }
        all.sort_unstable_by_key(Arc::as_ptr);
        all.dedup_by(|a, b| Arc::ptr_eq(a, b));
        all
    }

    /// Ends an exchange if it is in this table. Returns the timer of its connection, which must be woken.
    pub(crate) fn kill(&self, exchange: &Arc<ActiveExchange>) -> Option<u32> {
        let exchanges = self.all.lock();
        let known = exchanges.get(exchange.index.load(Ordering::Relaxed))?;
        if !Arc::ptr_eq(known, exchange) || exchange.is_killed.swap(true, Ordering::Release) {
            return None;
        }
        self.kills.fetch_add(1, Ordering::Release);
        Some(exchange.timer)
    }

    /// Returns the number of exchanges that an operator has ended so far.
    pub(crate) fn kills(&self) -> u64 {
        self.kills.load(Ordering::Acquire)
    }
}

/// The place of an exchange in the table. Dropping it removes the exchange.
pub(crate) struct ActiveEntry {
    exchange: Arc<ActiveExchange>,
    table: Arc<ActiveExchanges>,
}

impl ActiveEntry {
    /// Adds an exchange. `timer` is the slot of its connection.
    pub(crate) fn new(
        table: &Arc<ActiveExchanges>,
        observer: Arc<dyn Observer>,
        since: Instant,
        timer: u32,
    ) -> Self {
        let mut exchanges = table.all.lock();
        let exchange = Arc::new(ActiveExchange {
            observer,
            since,
            timer,
            phase: AtomicU8::new(ExchangePhase::Waiting as u8),
            received_bytes: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            is_killed: AtomicBool::new(false),
            index: AtomicUsize::new(exchanges.len()),
        });
        exchanges.push(exchange.clone());
        Self { exchange, table: table.clone() }
    }

    /// Stores the progress, for readers.
    pub(crate) fn set(&self, phase: ExchangePhase, sent_bytes: u64) {
        self.exchange.phase.store(phase as u8, Ordering::Relaxed);
        self.exchange.sent_bytes.store(sent_bytes, Ordering::Relaxed);
    }

    /// Counts bytes that a tunnel has received.
    pub(crate) fn add_received(&self, bytes: u64) {
        self.exchange.received_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that a tunnel has sent.
    pub(crate) fn add_sent(&self, bytes: u64) {
        self.exchange.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether an operator has ended the exchange.
    pub(crate) fn is_killed(&self) -> bool {
        self.exchange.is_killed.load(Ordering::Acquire)
    }
}

impl Drop for ActiveEntry {
    fn drop(&mut self) {
        let mut exchanges = self.table.all.lock();
        let index = self.exchange.index.load(Ordering::Relaxed);
        // An entry is in its table until it is dropped.
        if index < exchanges.len() {
            exchanges.swap_remove(index);
        }
        if let Some(moved) = exchanges.get(index) {
            moved.index.store(index, Ordering::Relaxed);
        }
        // A burst must not keep its memory.
        let room = exchanges.capacity();
        if room > BATCH && exchanges.len() < room / 4 {
            exchanges.shrink_to(room / 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use rudy_service::ExchangeOutcome;

    use super::*;

    #[derive(Debug)]
    struct Number(usize);

    impl Observer for Number {
        fn finished(&self, _: &ExchangeOutcome) {}
    }

    fn entry(table: &Arc<ActiveExchanges>, number: usize) -> ActiveEntry {
        let timer = u32::try_from(number).unwrap();
        ActiveEntry::new(table, Arc::new(Number(number)), Instant::now(), timer)
    }

    fn numbers(table: &ActiveExchanges) -> Vec<usize> {
        let number = |exchange: Arc<ActiveExchange>| {
            let observer: &dyn std::any::Any = &**exchange.observer();
            observer.downcast_ref::<Number>().unwrap().0
        };
        let mut numbers: Vec<_> = table.all().into_iter().map(number).collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn exchanges_are_listed_until_they_end_in_any_order() {
        let table = Arc::<ActiveExchanges>::default();
        let mut entries: Vec<_> = (0..5000).map(|number| entry(&table, number)).collect();
        assert_eq!(numbers(&table), (0..5000).collect::<Vec<_>>());
        // 7919 is prime, so this visits the entries in an irregular order.
        for step in 0..4997 {
            entries.swap_remove(step * 7919 % entries.len());
        }
        let mut expected: Vec<_> = entries.iter().map(|entry| entry.exchange.timer as usize).collect();
        expected.sort_unstable();
        assert_eq!(numbers(&table), expected);
        assert!(table.all.lock().capacity() <= 2 * BATCH, "{}", table.all.lock().capacity());
        drop(entries);
        assert!(numbers(&table).is_empty());
    }

    #[test]
    fn an_exchange_is_killed_once_and_only_in_its_table() {
        let [table, other] = [(); 2].map(|()| Arc::<ActiveExchanges>::default());
        let [first, second] = [0, 1].map(|number| entry(&table, number));
        let _others = [7, 8].map(|number| entry(&other, number));
        let exchange = second.exchange.clone();
        assert_eq!(other.kill(&exchange), None);
        assert_eq!(table.kill(&exchange), Some(1));
        assert!(second.is_killed() && !first.is_killed());
        assert_eq!(table.kill(&exchange), None);
        let ended = first.exchange.clone();
        drop(first);
        assert_eq!(table.kill(&ended), None);
    }

    #[test]
    fn readers_see_the_last_progress() {
        let table = Arc::<ActiveExchanges>::default();
        let entry = entry(&table, 1);
        let exchange = table.all().remove(0);
        assert_eq!(exchange.phase(), ExchangePhase::Waiting);
        for phase in ExchangePhase::ALL {
            entry.set(phase, 4);
            assert_eq!((exchange.phase(), exchange.sent_bytes()), (phase, 4));
        }
        entry.add_received(1);
        entry.add_sent(2);
        entry.add_sent(3);
        assert_eq!((exchange.received_bytes(), exchange.sent_bytes()), (1, 9));
    }
}
