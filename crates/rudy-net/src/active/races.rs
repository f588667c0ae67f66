//! Exchanges that begin, end and are listed in threads of their own, in random orders.

use rudy_service::ExchangeOutcome;
use rudy_test_sync::{check, run};

use super::*;

/// Number of orders per test. Each takes about 50 microseconds.
const ORDERS: usize = 5_000;

#[derive(Debug)]
struct Anyone;

impl Observer for Anyone {
    fn finished(&self, _: &ExchangeOutcome) {}
}

fn enter(table: &Arc<ActiveExchanges>) -> ActiveEntry {
    ActiveEntry::new(table, Arc::new(Anyone), Instant::now(), 0)
}

/// Found in the model: a reader that begins at the start of the table, one that lists what it meets twice, and a removal that
/// forgets the new place of the last exchange.
#[test]
fn a_reader_misses_no_exchange_that_remains_while_others_come_and_go() {
    check(
        || {
            let table = Arc::<ActiveExchanges>::default();
            let gone = [(); 2].map(|()| enter(&table));
            let remain = [(); 2].map(|()| enter(&table));
            let gone = Mutex::new(gone.into_iter());
            let (shared, expected) = (table.clone(), remain.each_ref().map(|entry| entry.exchange.clone()));
            run(3, move |number| match number {
                0 => {
                    // So few in a batch that others come in between.
                    let all = shared.in_batches(1);
                    for exchange in &expected {
                        assert_eq!(all.iter().filter(|one| Arc::ptr_eq(one, exchange)).count(), 1);
                    }
                }
                1 => {
                    let first = gone.lock().next();
                    drop(first);
                    drop(gone.lock().next());
                }
                _ => drop(enter(&shared)),
            });
            assert_eq!(table.all().len(), 2);
            drop(remain);
            assert!(table.all().is_empty());
        },
        ORDERS,
    );
}

/// Found in the model: a kill that does not compare the exchange with the one in its place.
#[test]
fn a_kill_concerns_no_exchange_that_took_the_place_of_another() {
    check(
        || {
            let table = Arc::<ActiveExchanges>::default();
            let entries = Mutex::new([(); 3].map(|()| Some(enter(&table))));
            let shared = table.clone();
            run(3, move |number| {
                let entry = entries.lock()[number].take().expect("each thread takes its own");
                let exchange = entry.exchange.clone();
                if number == 0 {
                    assert!(shared.kill(&exchange).is_some() && entry.is_killed());
                    return;
                }
                drop(entry);
                assert!(shared.kill(&exchange).is_none());
            });
            assert_eq!(table.kills(), 1);
            assert!(table.all().is_empty());
        },
        ORDERS,
    );
}
