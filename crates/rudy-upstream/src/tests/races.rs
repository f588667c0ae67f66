//! Threads in random orders. A waiter that is never woken is a deadlock, which `shuttle` reports.

use shuttle::{check_random, thread};

use super::*;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// Number of schedules per test. Each takes 20 to 100 microseconds.
const SCHEDULES: usize = 5_000;

/// Runs a number of threads to their end and passes each its number.
fn run(threads: usize, thread: impl Fn(usize) + Send + Sync + 'static) {
    let thread = Arc::new(thread);
    let run = |number| {
        let thread = thread.clone();
        thread::spawn(move || thread(number))
    };
    let threads: Vec<_> = (0..threads).map(run).collect();
    join(threads);
}

fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn every_waiter_is_served_and_no_member_gets_more_connections_than_its_limit() {
    for limits in [&[1][..], &[2], &[1, 1]] {
        check_random(
            move || {
                let pool = pool(options(2), limits);
                let shared = pool.clone();
                run(3, move |number| {
                    for round in 0..2 {
                        let (connection, permit) = take(&shared, number, Preference::Any, round * 30);
                        thread::yield_now();
                        // One request in six cannot reuse its connection.
                        if number == 2 && round == 0 {
                            drop((connection, permit));
                        } else {
                            permit.release(connection, at(round * 30 + 10));
                        }
                    }
                });
                assert_all_idle(&pool, &upstreams(&pool));
            },
            SCHEDULES,
        );
    }
}

#[test]
fn new_connections_replace_idle_ones_while_other_threads_use_those() {
    check_random(
        || {
            let pool = pool(options(2), &[1, 1]);
            let shared = pool.clone();
            run(3, move |number| {
                let preference = if number == 0 { Preference::New } else { Preference::Any };
                for _ in 0..2 {
                    let (connection, permit) = take(&shared, number, preference, 0);
                    permit.release(connection, at(1));
                }
            });
            assert_all_idle(&pool, &upstreams(&pool));
        },
        SCHEDULES,
    );
}

#[test]
fn a_waiter_that_leaves_the_queue_loses_no_connection() {
    for can_reuse in [true, false] {
        check_random(
            move || {
                let pool = pool(options(2), &[1]);
                let shared = pool.clone();
                run(3, move |number| match number {
                    0 => {
                        let (connection, permit) = take(&shared, 0, Preference::Any, 0);
                        if can_reuse {
                            permit.release(connection, at(1));
                        } else {
                            drop((connection, permit));
                        }
                    }
                    1 => {
                        if let Checkout::Queued(mut queued) =
                            shared.checkout(1, Preference::Any, at(0)).unwrap()
                        {
                            let _ = poll(&mut queued);
                            thread::yield_now();
                        }
                    }
                    _ => {
                        let (connection, permit) = take(&shared, 1, Preference::Any, 0);
                        permit.release(connection, at(1));
                    }
                });
                assert_all_idle(&pool, &upstreams(&pool));
            },
            SCHEDULES,
        );
    }
}

#[test]
fn no_connection_is_idle_while_its_member_has_an_unaccepted_connection() {
    check_random(
        || {
            let pool = pool(options(2), &[3]);
            let (first, second) = (take(&pool, 0, Preference::New, 0), take(&pool, 1, Preference::New, 0));
            let (connection, mut unaccepted) = take(&pool, 0, Preference::New, 0);
            let releases = [(first, 0), (second, 1)].map(|((connection, permit), worker)| {
                let pool = pool.clone();
                thread::spawn(move || {
                    permit.release(connection, at(1));
                    let (connection, permit) = take(&pool, worker, Preference::Any, 2);
                    permit.release(connection, at(3));
                })
            });
            unaccepted.mark_unaccepted();
            for _ in 0..3 {
                assert_eq!(pool.idle(), 0);
            }
            join(releases);
            assert_eq!((pool.idle(), pool.open()), (0, 1));
            unaccepted.mark_accepted();
            unaccepted.release(connection, at(4));
            assert_eq!((pool.idle(), pool.open()), (1, 1));
            assert_all_idle(&pool, &upstreams(&pool));
        },
        SCHEDULES,
    );
}

#[test]
fn a_retired_member_retains_no_connection_and_is_drained_once() {
    check_random(
        || {
            let drained = Arc::new(AtomicBool::new(false));
            let seen = drained.clone();
            let on_end: crate::OnEnd<Upstream> = Box::new(move |member| {
                seen.fetch_or(member.is_drained(), SeqCst);
            });
            let pool = Pool::new(options(2), Some(on_end));
            pool.add(0, Upstream::new(2), 2, at(0));
            let members = upstreams(&pool);
            let held = [take(&pool, 0, Preference::New, 0), take(&pool, 1, Preference::New, 0)];
            let releases =
                held.map(|(connection, permit)| thread::spawn(move || permit.release(connection, at(1))));
            pool.retire(0);
            drained.fetch_or(pool.member(0).unwrap().is_drained(), SeqCst);
            join(releases);
            assert!(drained.load(SeqCst));
            assert_eq!(pool.open(), 0);
            assert_all_idle(&pool, &members);
        },
        SCHEDULES,
    );
}

#[test]
fn a_member_gets_requests_up_to_its_limit_and_waiters_go_to_the_next_one() {
    check_random(
        || {
            let ended = Arc::new(AtomicUsize::new(0));
            let (counter, second) = (ended.clone(), Upstream::new(2));
            let on_end: crate::OnEnd<Upstream> = Box::new(move |_| {
                counter.fetch_add(1, SeqCst);
            });
            let pool = Pool::new(Options { requests_per_member: Some(2), ..options(2) }, Some(on_end));
            pool.add(0, Upstream::new(2), 2, at(0));
            let (shared, later) = (pool.clone(), second.clone());
            run(4, move |number| {
                if number == 3 {
                    return shared.add(1, later.clone(), 2, at(0));
                }
                let (connection, permit) = take(&shared, number, Preference::Any, 0);
                permit.release(connection, at(1));
            });
            let requests = [0, 1].map(|id| pool.member(id).unwrap().requests());
            assert!(requests[0] <= 2 && requests.iter().sum::<u64>() == 3, "{requests:?}");
            assert_eq!(ended.load(SeqCst), 3);
            // Retiring a member at its request limit closes its idle connections.
            pool.retire(0);
            pool.expire(Duration::ZERO, at(2));
            assert_eq!((pool.open(), pool.queued(), second.live()), (0, 0, 0));
        },
        SCHEDULES,
    );
}

#[test]
fn two_workers_race_for_the_last_request_of_a_member() {
    check_random(
        || {
            let pool = pool(Options { requests_per_member: Some(3), ..options(2) }, &[2]);
            let both = [take(&pool, 0, Preference::New, 0), take(&pool, 1, Preference::New, 0)];
            for (connection, permit) in both {
                permit.release(connection, at(0));
            }
            let ready = Arc::new(AtomicUsize::new(0));
            let (shared, counter) = (pool.clone(), ready.clone());
            run(2, move |number| {
                let checkout = shared.checkout(number, Preference::Any, at(0)).unwrap();
                counter.fetch_add(usize::from(matches!(checkout, Checkout::Ready(_))), SeqCst);
            });
            assert_eq!((ready.load(SeqCst), pool.member(0).unwrap().requests()), (1, 3));
        },
        SCHEDULES,
    );
}

#[test]
fn the_capacity_of_an_expired_connection_goes_to_a_waiter() {
    check_random(
        || {
            let pool = pool(options(2), &[1]);
            let (connection, permit) = take(&pool, 0, Preference::New, 0);
            permit.release(connection, at(0));
            let shared = pool.clone();
            run(3, move |number| {
                if number == 2 {
                    shared.expire(Duration::ZERO, at(1));
                    return;
                }
                let (connection, permit) = take(&shared, number, Preference::Any, 0);
                permit.release(connection, at(1));
            });
            assert_all_idle(&pool, &upstreams(&pool));
        },
        SCHEDULES,
    );
}

#[test]
fn waiters_are_rejected_while_others_are_served() {
    check_random(
        || {
            let pool = pool(options(2), &[1]);
            let shared = pool.clone();
            run(3, move |number| {
                if number == 2 {
                    return shared.reject_all();
                }
                let pooled = match shared.checkout(number, Preference::Any, at(0)).unwrap() {
                    Checkout::Ready(pooled) => Ok(pooled),
                    Checkout::Queued(mut queued) => block_on(poll_fn(|cx| queued.poll(cx))),
                };
                if let Ok(pooled) = pooled {
                    let (connection, permit) = opened(pooled, 0);
                    permit.release(connection, at(1));
                }
            });
            assert_all_idle(&pool, &upstreams(&pool));
        },
        SCHEDULES,
    );
}

#[test]
fn raising_a_limit_serves_waiters() {
    check_random(
        || {
            let pool = Pool::new(options(2), None);
            pool.add(0, Upstream::new(2), 0, at(0));
            let shared = pool.clone();
            run(3, move |number| {
                if number == 2 {
                    return shared.set_limits(2);
                }
                let (connection, permit) = take(&shared, number, Preference::Any, 0);
                permit.release(connection, at(1));
            });
            assert_all_idle(&pool, &upstreams(&pool));
        },
        SCHEDULES,
    );
}

#[test]
fn no_connection_from_before_a_renewal_becomes_idle() {
    check_random(
        || {
            let pool = pool(options(1), &[1]);
            let (connection, permit) = take(&pool, 0, Preference::New, 0);
            let shared = pool.clone();
            join([
                thread::spawn(move || shared.renew()),
                thread::spawn(move || permit.release(connection, at(1))),
            ]);
            assert_eq!((pool.open(), pool.idle()), (0, 0));
        },
        SCHEDULES,
    );
}
