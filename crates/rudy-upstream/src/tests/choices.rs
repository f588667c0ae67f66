//! Which member gets a request, and which connection of it.

use shuttle::{check_random, thread};

use super::rules::once;
use super::*;
use crate::CheckoutOptions;
use crate::choice::mix;

/// Returns a pool of members that are chosen in this way.
fn pool_with(choice: Choice, workers: usize, limits: &[usize]) -> TestPool {
    let circuit = CircuitOptions { ejection_max: Duration::from_mins(1), ..CircuitOptions::default() };
    pool(Options { choice, circuit, ..options(workers) }, limits)
}

/// Serves a request, and returns its member and whether its connection was reused.
fn serve(pool: &TestPool, options: CheckoutOptions<'_>, ms: u64) -> (u64, bool) {
    let pooled = ready(pool.checkout(0, options, at(ms)).unwrap());
    let (id, is_reused) = (pooled.permit.member().id(), pooled.connection.is_some());
    let (connection, permit) = opened(pooled, 0);
    permit.record_success(at(ms));
    permit.release(connection, at(ms));
    (id, is_reused)
}

fn any() -> CheckoutOptions<'static> {
    Preference::Any.into()
}

#[test]
fn members_take_turns_and_each_uses_its_own_idle_connection() {
    once(|| {
        let pool = pool_with(Choice::RoundRobin, 2, &[9, 9, 9]);
        let turns = [(); 6].map(|()| serve(&pool, any(), 0));
        let expected = [(0, false), (1, false), (2, false), (0, true), (1, true), (2, true)];
        assert_eq!(turns, expected);
        let other_worker = ready(pool.checkout(1, Preference::Any, at(0)).unwrap());
        assert!(other_worker.connection.is_some(), "the idle one of another worker");
        assert_eq!(other_worker.permit.member().id(), 0);
    });
}

#[test]
fn workers_share_the_turns() {
    check_random(
        || {
            let pool = pool_with(Choice::RoundRobin, 2, &[9, 9]);
            let serve = |worker: usize| {
                let pool = pool.clone();
                thread::spawn(move || {
                    for _ in 0..3 {
                        let (connection, permit) = take(&pool, worker, Preference::Any, 0);
                        permit.release(connection, at(0));
                    }
                })
            };
            for worker in [0, 1].map(serve) {
                worker.join().unwrap();
            }
            let served: Vec<_> = pool.members().iter().map(|member| member.requests()).collect();
            assert_eq!(served, [3, 3]);
            assert_all_idle(&pool, &upstreams(&pool));
        },
        200,
    );
}

#[test]
fn a_key_leads_to_the_same_member_until_that_one_fails() {
    once(|| {
        let pool = pool_with(Choice::Hash { balance_percent: None }, 1, &[]);
        for id in 0..3 {
            let options = MemberOptions { hash: crate::hash(&[b'0' + id]), ..9.into() };
            pool.add(u64::from(id), Upstream::new(9), options, at(0));
        }
        let with = |key: u64| CheckoutOptions { key: Some(key), ..any() };
        let before: Vec<_> = (0..50).map(|key| serve(&pool, with(key), 0).0).collect();
        assert!((0..3).all(|id| before.contains(&id)), "{before:?}");
        pool.member(1).unwrap().record_failure(at(0));
        let after = (0..50).map(|key| serve(&pool, with(key), 0).0);
        assert!(before.iter().zip(after).all(|(before, after)| after != 1 && [after, 1].contains(before)));
        assert_eq!((0..50).map(|key| serve(&pool, with(key), 1000).0).collect::<Vec<_>>(), before);
        assert!((0..50).map(|_| serve(&pool, any(), 1000).0).any(|id| id == 1), "without a key");
    });
}

#[test]
fn a_member_that_returns_gets_one_request_as_a_trial() {
    once(|| {
        let pool = pool_with(Choice::RoundRobin, 1, &[9, 9]);
        let failed = pool.member(0).unwrap();
        assert!(failed.record_failure(at(0)));
        assert_eq!([0, 0, 999].map(|ms| serve(&pool, any(), ms).0), [1, 1, 1]);
        // The trial fails: twice the time passes until the next one.
        let trial = ready(pool.checkout(0, any(), at(1000)).unwrap());
        assert_eq!((trial.permit.member().id(), serve(&pool, any(), 1000).0), (0, 1));
        assert!(!failed.record_failure(at(1000)));
        drop(trial);
        assert_eq!([1000, 2999].map(|ms| serve(&pool, any(), ms).0), [1, 1]);
        assert_eq!([3000; 5].map(|ms| serve(&pool, any(), ms).0), [0, 0, 1, 0, 1], "it is up again");
    });
}

#[test]
fn an_unhealthy_member_gets_no_requests_but_checks_beyond_its_limit() {
    once(|| {
        let pool = pool_with(Choice::RoundRobin, 1, &[9, 9]);
        let changes = Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = changes.clone();
        pool.on_change(Box::new(move |member, change| {
            let change = match change {
                Change::Unhealthy { why } => why.to_string(),
                Change::Healthy => "healthy".to_owned(),
                Change::Ejected { .. } | Change::Returned => panic!("no request has failed"),
            };
            seen.lock().unwrap().push((member.id(), change));
        }));
        pool.set_health(0, Some(&"down"), at(0));
        pool.set_health(0, Some(&"down"), at(0));
        pool.set_limit(0, 0);
        let check = pool.permit_for_check(5, 0).unwrap();
        check.record_failure(at(0), &"a check");
        assert_eq!((check.member().id(), pool.open()), (0, 1));
        drop(check);
        pool.set_limit(0, 9);
        assert!((0..4).all(|_| serve(&pool, any(), 0).0 == 1));
        pool.set_health(0, None, at(0));
        assert!((0..4).any(|_| serve(&pool, any(), 0).0 == 0));
        assert_eq!(*changes.lock().unwrap(), [(0, "down".to_owned()), (0, "healthy".to_owned())]);
        pool.retire(0);
        assert!(pool.permit_for_check(0, 0).is_none() && pool.permit_for_check(0, 7).is_none());
        assert_eq!(pool.open(), pool.idle());
    });
}

#[test]
fn if_all_members_are_ejected_all_get_requests() {
    once(|| {
        let pool = pool_with(Choice::RoundRobin, 1, &[9, 9]);
        pool.members().iter().for_each(|member| {
            member.record_failure(at(0));
        });
        let first = serve(&pool, any(), 0).0;
        assert_eq!([serve(&pool, any(), 0).0, serve(&pool, any(), 0).0], [first, first], "it is up again");
    });
}

#[test]
fn a_retired_member_can_be_restored() {
    once(|| {
        let pool = pool_with(Choice::RoundRobin, 1, &[9, 9]);
        let member = pool.member(0).unwrap();
        pool.retire(0);
        assert!((0..4).all(|_| serve(&pool, any(), 0).0 == 1));
        assert_eq!((member.availability(at(0)), pool.is_retired()), (Availability::Retired, false));
        pool.retire(1);
        assert!(pool.is_retired());
        let mut waits = queued(pool.checkout(0, any(), at(0)).unwrap());
        pool.restore(0, at(0));
        let Poll::Ready(Ok(pooled)) = poll(&mut waits) else { panic!("a waiter is served") };
        assert_eq!((pooled.permit.member().id(), member.availability(at(0))), (0, Availability::Up));
    });
}

#[test]
fn a_member_that_is_added_as_retired_gets_no_request_until_it_is_restored() {
    once(|| {
        let pool = pool_with(Choice::RoundRobin, 1, &[]);
        let mut waits = queued(pool.checkout(0, any(), at(0)).unwrap());
        pool.add(0, Upstream::new(9), MemberOptions { is_retired: true, ..9.into() }, at(0));
        assert!(poll(&mut waits).is_pending() && pool.is_retired());
        pool.restore(0, at(0));
        assert!(poll(&mut waits).is_ready());
    });
}

#[test]
fn the_latency_is_a_moving_average() {
    once(|| {
        let pool = pool_with(Choice::RoundRobin, 1, &[9]);
        let (_connection, permit) = take(&pool, 0, Preference::Any, 0);
        let average = |ms| {
            permit.record_latency(Duration::from_millis(ms), at(0));
            permit.member().latency().unwrap()
        };
        assert_eq!(average(8), Duration::from_millis(8));
        assert_eq!(average(16), Duration::from_millis(9));
        let later = (0..100).fold(Duration::ZERO, |_, _| average(1));
        assert!(later < Duration::from_micros(1100), "{later:?}");
        permit.record_failure(at(0), &"lost");
        assert_eq!(permit.member().failures(), 1);
    });
}

#[test]
fn a_request_is_not_sent_twice_to_a_member_if_there_is_another() {
    once(|| {
        let pool = pool_with(Choice::LeastBusy, 1, &[9, 9, 9]);
        let tried = |tried| CheckoutOptions { tried, ..any() };
        assert!((0..20).all(|_| serve(&pool, tried(&[0, 2]), 0).0 == 1));
        pool.retire(1);
        assert!((0..20).all(|_| serve(&pool, tried(&[0]), 0).0 == 2));
        pool.retire(2);
        assert_eq!(serve(&pool, tried(&[0]), 0).0, 0);
    });
}

#[test]
fn a_request_waits_for_a_member_that_is_up() {
    once(|| {
        let pool = pool_with(Choice::LeastBusy, 1, &[1, 1]);
        pool.member(1).unwrap().record_failure(at(0));
        let (connection, permit) = take(&pool, 0, Preference::Any, 0);
        let mut waits = queued(pool.checkout(0, any(), at(0)).unwrap());
        permit.release(connection, at(0));
        let Poll::Ready(Ok(pooled)) = poll(&mut waits) else { panic!("a connection was assigned") };
        assert_eq!((pooled.permit.member().id(), pooled.connection.is_some()), (0, true));
    });
}

#[test]
fn a_preferred_member_gets_the_request_while_it_is_up() {
    once(|| {
        for choice in [Choice::RoundRobin, Choice::LeastBusy, Choice::Hash { balance_percent: None }] {
            let pool = pool_with(choice, 1, &[9, 9, 9]);
            let with = |preferred: u64| CheckoutOptions { preferred: Some(preferred), ..any() };
            assert_eq!([2, 2, 0, 2].map(|id| serve(&pool, with(id), 0).0), [2, 2, 0, 2]);
            pool.member(2).unwrap().record_failure(at(0));
            assert!((0..9).all(|_| serve(&pool, with(2), 0).0 != 2), "it is ejected");
            pool.retire(0);
            assert_eq!(serve(&pool, with(0), 0).0, 1, "it is drained");
            assert_ne!(serve(&pool, with(7), 0).0, 0, "it is unknown");
        }
    });
}

#[test]
fn a_member_that_is_much_slower_than_the_others_is_ejected_but_never_the_last() {
    once(|| {
        let circuit = CircuitOptions { latency_ratio: Some(3), ..CircuitOptions::default() };
        let pool = pool(Options { choice: Choice::RoundRobin, circuit, ..options(1) }, &[9, 9, 9]);
        let ejected = || -> Vec<_> { pool.members().iter().map(|member| member.is_ejected()).collect() };
        let serve = |latencies: [u64; 3]| {
            let (id, now) = (pool.checkout(0, any(), at(0)), at(0));
            let (connection, permit) = opened(ready(id.unwrap()), 0);
            let latency = latencies[usize::try_from(permit.member().id()).unwrap()];
            permit.record_latency(Duration::from_millis(latency), now);
            permit.record_success(now);
            permit.release(connection, now);
        };
        (0..90).for_each(|_| serve([10, 11, 30]));
        assert_eq!(ejected(), [false, false, false]);
        (0..120).for_each(|_| serve([10, 11, 300]));
        assert_eq!(ejected(), [false, false, true]);
        (0..120).for_each(|_| serve([200, 11, 300]));
        assert_eq!(ejected(), [true, false, true]);
        (0..120).for_each(|_| serve([200, 5000, 300]));
        assert_eq!(ejected(), [true, false, true], "the last one stays");
    });
}

/// Requests and members that a number determines.
struct Case {
    pool: TestPool,
    /// A connection of each member, which has no capacity for another one.
    permits: Vec<Permit<Upstream, Connection>>,
    key: Option<u64>,
    preferred: Option<u64>,
    tried: Vec<u64>,
}

/// The number of members of a case.
const MEMBERS: u64 = 4;

impl Case {
    fn new(number: u64) -> Self {
        let mut count = number << 8;
        let mut below = |end: u64| {
            count += 1;
            mix(count) % end
        };
        let choices = [Choice::LeastBusy, Choice::RoundRobin, Choice::Hash { balance_percent: Some(125) }];
        let pool = pool_with(choices[usize::try_from(number % 3).unwrap()], 2, &[]);
        for id in 0..MEMBERS {
            let (weight, priority) = (1 + below(3), below(2));
            let (weight, priority) = (u32::try_from(weight).unwrap(), u32::try_from(priority).unwrap());
            let options = MemberOptions { weight, priority, hash: mix(id), ..1.into() };
            pool.add(id, Upstream::new(2), options, at(0));
        }
        let permits = (0..MEMBERS).map(|id| pool.permit_for_check(0, id).unwrap()).collect();
        let members = pool.members();
        let failed = members.iter().filter(|_| below(4) == 0);
        failed.for_each(|member| assert!(member.record_failure(at(0))));
        let (key, preferred) = ((below(2) == 0).then(|| below(99)), (below(2) == 0).then(|| below(MEMBERS)));
        let tried = (0..MEMBERS).filter(|_| below(4) == 0).collect();
        Self { pool, permits, key, preferred, tried }
    }

    fn checkout(&self) -> Checkout<Upstream, Connection> {
        let Self { key, preferred, tried, .. } = self;
        let options = CheckoutOptions { key: *key, preferred: *preferred, tried, ..any() };
        self.pool.checkout(1, options, at(1)).unwrap()
    }

    /// Frees the connection of one member, with or without the connection, or raises the limits of all.
    fn free(&mut self, number: u64) {
        let freed = usize::try_from(mix(number) % (MEMBERS + 1)).unwrap();
        if !number.is_multiple_of(3) && freed == self.permits.len() {
            return self.pool.set_limits(2);
        }
        let permit = self.permits.swap_remove(freed.min(self.permits.len() - 1));
        if mix(number) & 32 == 0 {
            let connection = permit.member().address().connect(0);
            permit.release(connection, at(1));
        }
    }
}

#[test]
fn a_queued_request_gets_a_member_that_it_would_have_been_given() {
    once(|| {
        let id = |pooled: &PooledConnection<Upstream, Connection>| pooled.permit.member().id();
        let mut served = 0;
        for number in 0..600 {
            let (mut waiting, mut later) = (Case::new(number), Case::new(number));
            let mut queued = queued(waiting.checkout());
            waiting.free(number);
            let of_queue = match poll(&mut queued) {
                Poll::Ready(pooled) => Some(id(&pooled.unwrap())),
                Poll::Pending => None,
            };
            later.free(number);
            let without_waiting = match later.checkout() {
                Checkout::Ready(pooled) => Some(id(&pooled)),
                Checkout::Queued(_) => None,
            };
            assert_eq!(of_queue, without_waiting, "{number}");
            served += u32::from(of_queue.is_some());
        }
        assert!((150..450).contains(&served), "{served} of 600 were served");
    });
}

#[test]
fn a_backup_gets_no_request_that_waits_for_a_member_of_the_first_priority() {
    once(|| {
        let pool = pool_with(Choice::LeastBusy, 1, &[1]);
        pool.add(1, Upstream::new(1), MemberOptions { priority: 1, ..1.into() }, at(0));
        let main = ready(pool.checkout(0, any(), at(0)).unwrap());
        let backup = pool.permit_for_check(0, 1).unwrap();
        let mut waits = queued(pool.checkout(0, any(), at(0)).unwrap());
        drop(backup);
        assert!(poll(&mut waits).is_pending());
        drop(main);
        let Poll::Ready(Ok(pooled)) = poll(&mut waits) else { panic!("there is capacity") };
        assert_eq!(pooled.permit.member().id(), 0);
    });
}

#[test]
fn a_retry_gets_no_member_that_it_has_tried_after_it_has_waited() {
    once(|| {
        let pool = pool_with(Choice::LeastBusy, 1, &[1, 1]);
        let [first, second] = [0, 1].map(|id| pool.permit_for_check(0, id).unwrap());
        let options = CheckoutOptions { tried: &[0], ..any() };
        let mut retry = queued(pool.checkout(0, options, at(0)).unwrap());
        let mut other = queued(pool.checkout(0, any(), at(0)).unwrap());
        let connection = first.member().address().connect(7);
        first.release(connection, at(1));
        assert!(poll(&mut retry).is_pending(), "it has failed there");
        let Poll::Ready(Ok(pooled)) = poll(&mut other) else { panic!("it suits the next one") };
        assert_eq!(pooled.connection.map(|connection| connection.name), Some(7));
        drop(second);
        assert!(poll(&mut retry).is_ready());
    });
}

#[test]
fn a_request_does_not_wait_for_those_that_wait_for_another_member() {
    once(|| {
        let pool = pool_with(Choice::LeastBusy, 1, &[1]);
        pool.add(1, Upstream::new(1), MemberOptions { priority: 1, ..1.into() }, at(0));
        let _main = ready(pool.checkout(0, any(), at(0)).unwrap());
        let mut waits = queued(pool.checkout(0, any(), at(0)).unwrap());
        let mut retry = queued(pool.checkout(0, CheckoutOptions { tried: &[0], ..any() }, at(0)).unwrap());
        let Poll::Ready(Ok(pooled)) = poll(&mut retry) else { panic!("the backup has capacity") };
        assert_eq!(pooled.permit.member().id(), 1);
        assert!(poll(&mut waits).is_pending());
    });
}

/// A search among 1,000 waiters under the lock would take longer than a request.
#[test]
fn a_release_and_a_new_waiter_look_at_one_waiter_of_each_group() {
    once(|| {
        let pool = pool(Options { choice: Choice::LeastBusy, queue: 1_000, ..options(1) }, &[1, 1]);
        pool.add(2, Upstream::new(1), MemberOptions { priority: 1, ..1.into() }, at(0));
        let [first, _second] = [0, 1].map(|id| pool.permit_for_check(0, id).unwrap());
        // Those that have tried one of the members wait for the other one, and not for the backup.
        let tried: [&[u64]; 3] = [&[], &[0], &[1]];
        let checkout = |number: usize| {
            let options = CheckoutOptions { tried: tried[number % 3], ..any() };
            queued(pool.checkout(0, options, at(0)).unwrap())
        };
        let mut waiters: Vec<_> = (0..999).map(checkout).collect();
        let choices = || pool.workers[0].chooser().choices();
        let before = choices();
        waiters.push(checkout(999));
        // One for itself, and two of each group, because `find` chooses again.
        assert_eq!(choices() - before, 1 + 3 * 2);
        drop(first);
        assert!(waiters.iter_mut().skip(1).all(|waiter| poll(waiter).is_pending()));
        let served = poll(&mut waiters[0]);
        assert!(served.is_ready());
        // The first one gets the capacity, and nothing is left for the others.
        assert_eq!(choices() - before, 7 + 1 + 3 * 2);
    });
}
