//! The decisions of the pool as pure functions, without locks or a clock.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

/// How much longer a waiter of another worker may wait than the own worker's oldest one. Moving a connection wakes the
/// other worker, which costs as much as the rest of a small request.
const MAX_EXTRA_WAIT: Duration = Duration::from_millis(20);

/// The input of a decision about a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkerQueue {
    /// When its oldest waiter joined the queue.
    pub(crate) oldest: Option<Instant>,
    /// Whether it has connections, idle or in use.
    pub(crate) has_connections: bool,
}

/// The input of a decision about a member.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemberState {
    pub(crate) accepts_requests: bool,
    pub(crate) open: usize,
    pub(crate) limit: usize,
    pub(crate) is_up: bool,
    pub(crate) in_flight: usize,
    /// Whether it has failed to serve the request.
    pub(crate) was_tried: bool,
}

/// Returns the worker whose oldest waiter gets a connection that worker `own` releases. Prefers `own`, because the
/// connection is registered there, unless another worker's oldest waiter has waited [`MAX_EXTRA_WAIT`] longer or that
/// worker has no connections.
pub(crate) fn next_worker(own: usize, queues: impl Iterator<Item = WorkerQueue> + Clone) -> Option<usize> {
    let Some(own_since) = queues.clone().nth(own).and_then(|queue| queue.oldest) else {
        return oldest(queues).map(|(worker, _)| worker);
    };
    let is_late = |since| own_since.saturating_duration_since(since) > MAX_EXTRA_WAIT;
    let late = queues.enumerate().map(|(worker, queue)| WorkerQueue {
        oldest: queue.oldest.filter(|since| worker != own && (!queue.has_connections || is_late(*since))),
        ..queue
    });
    oldest(late).map(|(worker, _)| worker).or(Some(own))
}

/// Returns the worker with the oldest waiter, and when that waiter joined the queue.
pub(crate) fn oldest(queues: impl Iterator<Item = WorkerQueue>) -> Option<(usize, Instant)> {
    let waiting = queues.enumerate().filter_map(|(worker, queue)| Some((worker, queue.oldest?)));
    waiting.min_by_key(|(_, since)| *since)
}

/// Returns the member that gets a new connection: the least busy one below its limit, and one that the request has tried only if
/// all others are full. A member that is not up gets one only if no other is: waiting for another member is better than failing.
pub(crate) fn least_busy(members: impl Iterator<Item = MemberState> + Clone) -> Option<usize> {
    let is_up = |load: &MemberState| load.accepts_requests && load.is_up;
    let any_is_up = members.clone().any(|load| is_up(&load));
    let is_candidate =
        |load: &MemberState| load.accepts_requests && load.open < load.limit && (is_up(load) || !any_is_up);
    let below_limit = members.enumerate().filter(|(_, load)| is_candidate(load));
    below_limit.min_by_key(|(_, load)| (load.was_tried, load.in_flight)).map(|(member, _)| member)
}

/// Returns the index of the idle connection to take from a stack: of the member with the fewest requests in flight, the
/// most recently used one, so that unneeded connections expire. `None` marks a connection that cannot be used.
pub(crate) fn best_idle(in_flight: impl ExactSizeIterator<Item = Option<usize>>) -> Option<usize> {
    let usable = in_flight.enumerate().filter_map(|(index, in_flight)| Some((index, in_flight?)));
    usable.min_by_key(|(index, in_flight)| (*in_flight, Reverse(*index))).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker as `(wait of its oldest request in ms, has connections)`.
    type Worker = (Option<u64>, bool);

    fn queues(workers: &[Worker]) -> Vec<WorkerQueue> {
        let start = Instant::now();
        let since = |ms| start + Duration::from_millis(100 - ms);
        workers.iter().map(|(ms, has)| WorkerQueue { oldest: ms.map(since), has_connections: *has }).collect()
    }

    #[test]
    fn a_connection_goes_to_its_own_worker_unless_another_waits_much_longer_or_has_none() {
        let table: &[(&str, &[Worker], Option<usize>)] = &[
            ("none waits", &[(None, true), (None, true), (None, false)], None),
            ("own alone", &[(Some(1), true), (None, true), (None, false)], Some(0)),
            ("another waits 20 ms longer", &[(Some(5), true), (Some(25), true)], Some(0)),
            ("another waits 21 ms longer", &[(Some(5), true), (Some(26), true)], Some(1)),
            ("another is younger and has one", &[(Some(5), true), (Some(1), true)], Some(0)),
            ("another has none", &[(Some(5), true), (Some(1), false)], Some(1)),
            (
                "another has none, a third waits longer",
                &[(Some(5), true), (Some(1), false), (Some(40), true)],
                Some(2),
            ),
            ("two have none", &[(Some(5), true), (Some(1), false), (Some(2), false)], Some(2)),
            ("two wait longer", &[(Some(0), true), (Some(50), true), (Some(40), true)], Some(1)),
            ("own waits for nothing", &[(None, true), (Some(1), true), (Some(2), true)], Some(2)),
        ];
        for (case, workers, expected) in table {
            assert_eq!(next_worker(0, queues(workers).into_iter()), *expected, "{case}");
        }
        assert_eq!(next_worker(1, queues(&[(Some(50), true), (Some(40), true)]).into_iter()), Some(1));
    }

    #[test]
    fn the_oldest_waiter_of_all_is_found() {
        let table: &[(&[Worker], Option<usize>)] = &[
            (&[], None),
            (&[(None, true), (None, false)], None),
            (&[(Some(1), true), (Some(3), true), (Some(2), false)], Some(1)),
            (&[(Some(2), true), (Some(2), true)], Some(0)),
        ];
        for (workers, expected) in table {
            assert_eq!(
                oldest(queues(workers).into_iter()).map(|(worker, _)| worker),
                *expected,
                "{workers:?}"
            );
        }
    }

    #[test]
    fn a_new_connection_goes_to_the_least_busy_member_below_its_limit() {
        let free = MemberState {
            accepts_requests: true,
            open: 0,
            limit: 4,
            is_up: true,
            in_flight: 0,
            was_tried: false,
        };
        let busy = MemberState { open: 2, in_flight: 2, ..free };
        let full = MemberState { open: 4, ..free };
        let shrunk = MemberState { open: 4, limit: 2, ..free };
        let retired = MemberState { accepts_requests: false, ..free };
        let tried = MemberState { was_tried: true, ..free };
        let ejected = MemberState { is_up: false, ..free };
        let table: &[(&str, &[MemberState], Option<usize>)] = &[
            ("no member", &[], None),
            ("none below its limit", &[full, shrunk, retired], None),
            ("the first of equals", &[free, free], Some(0)),
            ("the less busy", &[busy, free], Some(1)),
            ("a busy one before one that was tried", &[tried, busy], Some(1)),
            ("one that was tried before one that is full", &[full, tried], Some(1)),
            ("a busy one before one that is ejected", &[ejected, busy], Some(1)),
            ("none before one that is ejected", &[full, ejected], None),
            ("one that is ejected, where all are", &[ejected, ejected], Some(0)),
        ];
        for (case, members, expected) in table {
            assert_eq!(least_busy(members.iter().copied()), *expected, "{case}");
        }
    }

    #[test]
    fn the_most_recent_connection_of_the_least_busy_member_is_taken() {
        let table: &[(&[Option<usize>], Option<usize>)] = &[
            (&[], None),
            (&[None], None),
            (&[Some(3), Some(3)], Some(1)),
            (&[Some(1), Some(3)], Some(0)),
            (&[Some(1), Some(1), Some(3), None], Some(1)),
        ];
        for (stack, expected) in table {
            assert_eq!(best_idle(stack.iter().copied()), *expected, "{stack:?}");
        }
    }
}
