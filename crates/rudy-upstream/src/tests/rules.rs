//! The rules of the pool, each on a single thread.

use std::sync::Mutex;
use std::task::Wake;

use shuttle::check_random;

use super::*;
use crate::QueueFull;

/// Runs the test in Shuttle's scheduler, which its primitives need even for one thread.
pub(super) fn once(test: impl Fn() + Send + Sync + 'static) {
    check_random(test, 1);
}

/// Opens a connection with this name on a worker.
fn open(pool: &TestPool, worker: usize, name: u32) -> (Connection, Permit<Upstream, Connection>) {
    opened(ready(pool.checkout(worker, Preference::New, at(0)).unwrap()), name)
}

/// Takes a connection from the pool for good, and returns its name if it was an idle one.
fn take_for_good(pool: &TestPool, worker: usize) -> Option<u32> {
    let PooledConnection { connection, permit } =
        ready(pool.checkout(worker, Preference::Any, at(0)).unwrap());
    // Keep it out of the pool, so that the next call gets another one.
    std::mem::forget(permit);
    let connection = connection?;
    Some(connection.name)
}

#[test]
fn a_worker_takes_its_most_recent_connection_then_the_least_recent_of_another() {
    once(|| {
        let pool = pool(options(2), &[9]);
        let connections: Vec<_> = (0..4).map(|name| open(&pool, (name / 2) as usize, name)).collect();
        for (ms, (connection, permit)) in (0..).zip(connections) {
            permit.release(connection, at(ms));
        }
        assert_eq!([(); 5].map(|()| take_for_good(&pool, 1)), [Some(3), Some(2), Some(0), Some(1), None]);
    });
}

#[test]
fn an_idle_connection_of_the_less_busy_member_is_preferred() {
    once(|| {
        let pool = pool(options(1), &[9, 9]);
        let connections: Vec<_> = (0..6).map(|name| open(&pool, 0, name)).collect();
        let members: Vec<_> = connections.iter().map(|(_, permit)| permit.member().id()).collect();
        assert_eq!(members, [0, 1, 0, 1, 0, 1], "a new one goes to the less busy member");
        let mut connections = connections.into_iter();
        // Member 0 has one connection in flight, member 1 two.
        for ((connection, permit), ms) in connections.by_ref().take(3).zip(0..) {
            permit.release(connection, at(ms));
        }
        assert_eq!(take_for_good(&pool, 0), Some(2), "the most recent of member 0");
        assert_eq!(take_for_good(&pool, 0), Some(1), "equally busy and more recent");
        drop(connections);
    });
}

#[test]
fn waiters_are_served_in_order_and_the_queue_has_a_limit() {
    once(|| {
        let pool = pool(Options { queue: 2, ..options(1) }, &[1]);
        let (connection, permit) = open(&pool, 0, 7);
        let mut first = queued(pool.checkout(0, Preference::Any, at(1)).unwrap());
        let mut second = queued(pool.checkout(5, Preference::New, at(2)).unwrap());
        assert_eq!(pool.checkout(0, Preference::Any, at(3)).unwrap_err(), QueueFull);
        assert_eq!(pool.queued(), 2);
        permit.release(connection, at(4));
        assert!(poll(&mut second).is_pending());
        let Poll::Ready(Ok(pooled)) = poll(&mut first) else { panic!("a connection was assigned") };
        assert_eq!(pooled.connection.as_ref().map(|connection| connection.name), Some(7));
        assert!(matches!(poll(&mut first), Poll::Ready(Err(Rejected))), "ready only once");
        drop(pooled);
        let Poll::Ready(Ok(pooled)) = poll(&mut second) else { panic!("a connection was assigned") };
        assert!(pooled.connection.is_none());
        drop(pooled);
        assert_all_idle(&pool, &upstreams(&pool));
    });
}

#[test]
fn a_new_member_serves_waiters_up_to_its_limit() {
    once(|| {
        let pool = pool(options(2), &[]);
        let mut waiters =
            [0, 1, 0].map(|worker| queued(pool.checkout(worker, Preference::Any, at(0)).unwrap()));
        pool.add(0, Upstream::new(2), 2, at(1));
        let served = waiters.each_mut().map(poll);
        assert_eq!(served.each_ref().map(Poll::is_ready), [true, false, true], "worker 0 comes first");
    });
}

#[test]
fn a_checkout_does_not_overtake_waiters() {
    once(|| {
        let pool = pool(options(1), &[1]);
        let (connection, permit) = open(&pool, 0, 0);
        let mut first = queued(pool.checkout(0, Preference::Any, at(0)).unwrap());
        // There is capacity now, which the pool has not assigned yet.
        pool.member(0).unwrap().set_limit(2);
        let mut second = queued(pool.checkout(0, Preference::Any, at(0)).unwrap());
        permit.release(connection, at(0));
        let polled = [poll(&mut first), poll(&mut second)];
        assert_eq!(polled.each_ref().map(Poll::is_ready), [true, false]);
    });
}

#[test]
fn a_connection_is_closed_before_a_waiter_gets_its_capacity() {
    /// Counts the live connections when it is woken.
    struct CountsWhenWoken(Upstream, AtomicUsize);
    impl Wake for CountsWhenWoken {
        fn wake(self: Arc<Self>) {
            self.1.store(self.0.live(), Ordering::SeqCst);
        }
    }
    once(|| {
        let pool = pool(options(1), &[1]);
        let waker = Arc::new(CountsWhenWoken(upstreams(&pool).remove(0), AtomicUsize::new(9)));
        let (connection, permit) = open(&pool, 0, 0);
        let mut waits = queued(pool.checkout(0, Preference::Any, at(0)).unwrap());
        assert!(waits.poll(&mut Context::from_waker(&waker.clone().into())).is_pending());
        permit.member().add_unaccepted();
        permit.release(connection, at(0));
        assert_eq!(waker.1.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn a_connection_moves_to_a_worker_that_has_none() {
    once(|| {
        let pool = pool(options(2), &[1]);
        let (connection, permit) = open(&pool, 0, 0);
        let mut own = queued(pool.checkout(0, Preference::Any, at(1)).unwrap());
        let mut others = queued(pool.checkout(1, Preference::Any, at(2)).unwrap());
        permit.release(connection, at(3));
        let Poll::Ready(Ok(pooled)) = poll(&mut others) else { panic!("worker 1 has none") };
        assert!(poll(&mut own).is_pending());
        let (connection, permit) = opened(pooled, 0);
        permit.release(connection, at(4));
        assert!(poll(&mut own).is_ready());
    });
}

#[test]
fn a_new_connection_replaces_the_least_recently_used_idle_one() {
    once(|| {
        let pool = pool(options(2), &[2]);
        let both = [open(&pool, 0, 0), open(&pool, 1, 1)];
        for (ms, (connection, permit)) in (0..).zip(both) {
            permit.release(connection, at(ms));
        }
        let (connection, permit) = open(&pool, 1, 2);
        assert_eq!((upstreams(&pool)[0].live(), pool.idle()), (2, 1));
        assert_eq!(take_for_good(&pool, 0), Some(1));
        let mut waits = queued(pool.checkout(1, Preference::New, at(0)).unwrap());
        permit.release(connection, at(2));
        assert!(poll(&mut waits).is_ready());
    });
}

#[test]
fn an_ejected_member_gets_no_new_connections_while_another_accepts_requests() {
    once(|| {
        let pool = pool(options(1), &[2, 1]);
        let member = |ms| ready(pool.checkout(0, Preference::New, at(ms)).unwrap()).permit.member().id();
        assert_eq!(member(0), 0);
        assert!(pool.member(0).unwrap().record_failure(at(0)));
        assert_eq!((member(0), member(999), member(1000)), (1, 1, 0));
        assert!(!pool.member(0).unwrap().record_failure(at(1000)), "it was ejected already");
        let other = open(&pool, 0, 0);
        assert_eq!(other.1.member().id(), 1);
        let waits = pool.checkout(0, Preference::New, at(0)).unwrap();
        assert!(matches!(waits, Checkout::Queued(_)), "waiting is better than failing");
        drop((waits, other));
        pool.retire(1);
        let (_, permit) = open(&pool, 0, 0);
        assert_eq!(permit.member().id(), 0, "an ejected member is better than none");
        permit.record_success(at(0));
        drop(permit);
        assert_eq!(member(0), 0);
    });
}

#[test]
fn a_lower_limit_closes_connections_as_they_are_released() {
    once(|| {
        let pool = pool(options(1), &[2]);
        let [first, second] = [0, 1].map(|name| open(&pool, 0, name));
        pool.set_limit(0, 1);
        first.1.release(first.0, at(0));
        assert_eq!((pool.open(), pool.idle()), (1, 0));
        second.1.release(second.0, at(0));
        assert_eq!((pool.open(), pool.idle()), (1, 1));
        pool.set_limit(0, 2);
        assert_eq!([take_for_good(&pool, 0), take_for_good(&pool, 0)], [Some(1), None]);
    });
}

#[test]
fn idle_connections_expire() {
    once(|| {
        let pool = pool(options(2), &[9]);
        let connections = [open(&pool, 0, 0), open(&pool, 1, 1), open(&pool, 1, 2)];
        let [first, second, used] = connections;
        first.1.release(first.0, at(0));
        second.1.release(second.0, at(5));
        let keep = Duration::from_millis(10);
        assert_eq!((pool.expire(keep, at(9)), pool.idle()), (Some(at(10)), 2));
        assert_eq!((pool.expire(keep, at(10)), pool.idle()), (Some(at(15)), 1));
        assert_eq!((pool.expire(keep, at(15)), pool.idle()), (None, 0));
        used.1.release(used.0, at(20));
        assert_all_idle(&pool, &upstreams(&pool));
    });
}

#[test]
fn closing_idle_connections_by_a_predicate_frees_capacity() {
    once(|| {
        let pool = pool(options(2), &[3]);
        let [first, second, used] = [(0, 0), (1, 1), (1, 2)].map(|(worker, name)| open(&pool, worker, name));
        first.1.release(first.0, at(0));
        second.1.release(second.0, at(0));
        pool.close_idle_where(|member, connection| member.id() == 0 && connection.name != 1);
        assert_eq!((pool.open(), pool.idle()), (2, 1), "the connection in use stays");
        assert_eq!(take_for_good(&pool, 0), Some(1));
        assert_eq!(pool.members().len(), 1);
        drop(used);
    });
}

#[test]
fn a_member_is_idle_since_its_last_request_ended() {
    once(|| {
        let pool = pool(options(1), &[9]);
        let member = pool.member(0).unwrap();
        assert_eq!(member.idle_since(at(3)), Some(at(0)), "since it was added");
        let (connection, permit) = open(&pool, 0, 0);
        assert_eq!(member.idle_since(at(3)), None);
        permit.release(connection, at(4));
        assert_eq!(member.idle_since(at(5)), Some(at(4)));
        drop(open(&pool, 0, 0));
        assert_eq!(member.idle_since(at(7)), Some(at(7)), "dropping records no time, so since this call");
        assert_eq!(member.idle_since(at(9)), Some(at(7)));
    });
}

#[test]
fn a_retired_member_drains_and_a_removed_one_is_forgotten() {
    once(|| {
        let pool = pool(options(1), &[2, 1]);
        let members = upstreams(&pool);
        let (connection, permit) = open(&pool, 0, 0);
        let removed = open(&pool, 0, 1);
        let member = pool.member(0).unwrap();
        pool.retire(0);
        assert!(!member.is_drained());
        permit.release(connection, at(0));
        assert!(member.is_drained());
        pool.remove(1);
        assert_eq!((pool.member_count(), pool.member(1).is_none()), (1, true));
        removed.1.release(removed.0, at(0));
        let _waits = queued(pool.checkout(0, Preference::Any, at(0)).unwrap());
        assert_eq!((pool.open(), members[0].live(), members[1].live()), (0, 0, 0));
    });
}

#[test]
fn a_renewal_closes_idle_connections_and_others_when_they_are_released() {
    once(|| {
        let pool = pool(options(1), &[3]);
        let (idle, used) = (open(&pool, 0, 0), open(&pool, 0, 1));
        idle.1.release(idle.0, at(0));
        pool.renew();
        assert_eq!((pool.open(), pool.idle()), (1, 0));
        let new = open(&pool, 0, 2);
        used.1.release(used.0, at(0));
        new.1.release(new.0, at(0));
        assert_eq!((pool.open(), take_for_good(&pool, 0)), (1, Some(2)));
    });
}

#[test]
fn a_waiter_gets_no_connection_from_before_a_renewal() {
    once(|| {
        let pool = pool(options(1), &[1]);
        let (connection, permit) = open(&pool, 0, 0);
        let mut waits = queued(pool.checkout(0, Preference::Any, at(0)).unwrap());
        pool.renew();
        permit.release(connection, at(0));
        let Poll::Ready(Ok(pooled)) = poll(&mut waits) else { panic!("there is capacity") };
        assert!(pooled.connection.is_none());
    });
}

#[test]
fn a_member_at_its_request_limit_gets_no_request_on_an_idle_connection() {
    once(|| {
        let pool = pool(Options { requests_per_member: Some(3), ..options(2) }, &[2]);
        let both = [open(&pool, 0, 0), open(&pool, 1, 1)];
        for (connection, permit) in both {
            permit.release(connection, at(0));
        }
        let member = pool.member(0).unwrap();
        assert!(!member.reached_request_limit());
        assert_eq!(
            (take_for_good(&pool, 0), member.reached_request_limit(), member.requests()),
            (Some(0), true, 3)
        );
        let mut waits = queued(pool.checkout(1, Preference::Any, at(0)).unwrap());
        pool.add(1, Upstream::new(1), 1, at(0));
        assert!(poll(&mut waits).is_ready());
    });
}

#[test]
fn a_permit_counts_as_unaccepted_once_until_it_is_dropped() {
    once(|| {
        let pool = pool(options(1), &[3]);
        let (idle, used) = (open(&pool, 0, 0), open(&pool, 0, 1));
        let (connection, mut unaccepted) = open(&pool, 0, 2);
        idle.1.release(idle.0, at(0));
        unaccepted.mark_unaccepted();
        unaccepted.mark_unaccepted();
        assert_eq!((pool.open(), pool.idle()), (2, 0));
        drop((connection, unaccepted));
        used.1.release(used.0, at(0));
        assert_eq!((pool.open(), pool.idle()), (1, 1));
    });
}

#[test]
fn all_waiters_are_rejected_and_woken() {
    /// Locks the pool when it is woken: a deadlock if the pool held its lock.
    struct Locks(Mutex<Option<TestPool>>);
    impl Wake for Locks {
        fn wake(self: Arc<Self>) {
            let pool = self.0.lock().unwrap().take().expect("the waker is called once");
            assert!(pool.members().is_empty());
        }
    }
    once(|| {
        let pool = pool(options(1), &[]);
        let wakers = [(); 2].map(|()| Arc::new(Locks(Mutex::new(Some(pool.clone())))));
        let mut waiters = [(); 2].map(|()| queued(pool.checkout(0, Preference::Any, at(0)).unwrap()));
        for (waiter, waker) in waiters.iter_mut().zip(&wakers) {
            assert!(waiter.poll(&mut Context::from_waker(&waker.clone().into())).is_pending());
        }
        pool.reject_all();
        assert!(wakers.iter().all(|waker| waker.0.lock().unwrap().is_none()));
        assert!(waiters.iter_mut().all(|waiter| matches!(poll(waiter), Poll::Ready(Err(Rejected)))));
        assert_eq!(pool.queued(), 0);
    });
}
