//! The decisions of the pool, as functions of values: they take no lock and read no clock.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

/// How much longer than the own worker's oldest waiter another worker's may wait: a connection that moves to another worker
/// wakes that worker, which costs as much as the rest of a small request.
const PATIENCE: Duration = Duration::from_millis(20);

/// What a decision knows of a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Front {
    /// Since when its oldest waiter waits, if it has one.
    pub(crate) oldest: Option<Instant>,
    /// It has connections, idle or in use.
    pub(crate) has_connections: bool,
}

/// What a decision knows of a member.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) takes_requests: bool,
    pub(crate) open: usize,
    pub(crate) limit: usize,
    pub(crate) is_backed_off: bool,
    pub(crate) in_flight: usize,
}

/// The worker whose oldest waiter gets a connection that worker `own` releases. It is `own`, because the connection is
/// registered there, unless another worker's oldest has waited [`PATIENCE`] longer, or has no connection to wait for.
pub(crate) fn next_worker(own: usize, fronts: impl Iterator<Item = Front> + Clone) -> Option<usize> {
    let Some(own_since) = fronts.clone().nth(own).and_then(|front| front.oldest) else {
        return oldest(fronts).map(|(worker, _)| worker);
    };
    let is_late = |since| own_since.saturating_duration_since(since) > PATIENCE;
    let late = fronts.enumerate().map(|(worker, front)| Front {
        oldest: front.oldest.filter(|since| worker != own && (!front.has_connections || is_late(*since))),
        ..front
    });
    oldest(late).map(|(worker, _)| worker).or(Some(own))
}

/// The worker whose oldest waiter has waited longest, and since when.
pub(crate) fn oldest(fronts: impl Iterator<Item = Front>) -> Option<(usize, Instant)> {
    let waiting = fronts.enumerate().filter_map(|(worker, front)| Some((worker, front.oldest?)));
    waiting.min_by_key(|(_, since)| *since)
}

/// The member that gets a new connection, of those that have room for one. One that could not be connected to gets none while
/// another one takes requests: to wait for that one is better than to fail.
pub(crate) fn least_busy(members: impl Iterator<Item = Load> + Clone) -> Option<usize> {
    let is_up = |load: &Load| load.takes_requests && !load.is_backed_off;
    let any_is_up = members.clone().any(|load| is_up(&load));
    let has_room = |load: &Load| load.takes_requests && load.open < load.limit && (is_up(load) || !any_is_up);
    let with_room = members.enumerate().filter(|(_, load)| has_room(load));
    with_room.min_by_key(|(_, load)| load.in_flight).map(|(member, _)| member)
}

/// The idle connection to take from a stack: one whose member has the fewest requests in flight, and of these the most
/// recently used, so that connections that are not needed expire. `None` in the stack cannot be taken.
pub(crate) fn best_idle(in_flight: impl ExactSizeIterator<Item = Option<usize>>) -> Option<usize> {
    let usable = in_flight.enumerate().filter_map(|(index, in_flight)| Some((index, in_flight?)));
    usable.min_by_key(|(index, in_flight)| (*in_flight, Reverse(*index))).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is known of a worker, as `(waits for ms, has connections)`.
    type Worker = (Option<u64>, bool);

    fn fronts(workers: &[Worker]) -> Vec<Front> {
        let start = Instant::now();
        let since = |ms| start + Duration::from_millis(100 - ms);
        workers.iter().map(|(ms, has)| Front { oldest: ms.map(since), has_connections: *has }).collect()
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
            assert_eq!(next_worker(0, fronts(workers).into_iter()), *expected, "{case}");
        }
        assert_eq!(next_worker(1, fronts(&[(Some(50), true), (Some(40), true)]).into_iter()), Some(1));
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
                oldest(fronts(workers).into_iter()).map(|(worker, _)| worker),
                *expected,
                "{workers:?}"
            );
        }
    }

    #[test]
    fn a_new_connection_goes_to_the_least_busy_member_with_room() {
        let free = Load { takes_requests: true, open: 0, limit: 4, is_backed_off: false, in_flight: 0 };
        let busy = Load { open: 2, in_flight: 2, ..free };
        let full = Load { open: 4, ..free };
        let shrunk = Load { open: 4, limit: 2, ..free };
        let retired = Load { takes_requests: false, ..free };
        let backed_off = Load { is_backed_off: true, ..free };
        let table: &[(&str, &[Load], Option<usize>)] = &[
            ("no member", &[], None),
            ("none with room", &[full, shrunk, retired], None),
            ("the first of equals", &[free, free], Some(0)),
            ("the less busy", &[busy, free], Some(1)),
            ("a busy one before one that is backed off", &[backed_off, busy], Some(1)),
            ("none before one that is backed off", &[full, backed_off], None),
            ("one that is backed off, where all are", &[backed_off, backed_off], Some(0)),
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
