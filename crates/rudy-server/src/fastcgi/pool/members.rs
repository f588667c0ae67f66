//! Which connection a request gets: the arithmetic of the pool, without a clock or a socket.

use std::time::{Duration, Instant};

use crate::fastcgi::upstream::Upstream;

/// Names a member for as long as the pool lives.
pub(in crate::fastcgi) type MemberId = u64;

/// One address of the app, and what is known of the connections to it. `L` is a connection.
#[derive(Debug)]
struct Member<L> {
    id: MemberId,
    upstream: Upstream,
    /// Connections that there may be.
    most: usize,
    /// Connections that there are, those included that are being opened.
    open: usize,
    /// Of those, how many have not been answered on yet: nobody may have accepted them.
    unproven: usize,
    /// Those that wait for a request, the one used last at the end.
    idle: Vec<Idle<L>>,
    /// Requests that it was given.
    requests: u64,
    /// Takes no more requests.
    is_retired: bool,
    /// It could not be connected to; others are tried before it until then.
    shunned_until: Option<Instant>,
}

/// A connection that waits for a request.
#[derive(Debug)]
struct Idle<L> {
    link: L,
    since: Instant,
    /// The thread whose runtime watches it.
    home: std::thread::ThreadId,
}

/// What a request gets.
#[derive(Debug)]
pub(super) enum Place<L> {
    /// A connection that was kept.
    Kept(MemberId, L),
    /// Room for one that is to be opened.
    New(MemberId, Upstream),
}

#[derive(Debug)]
pub(super) struct Members<L>(Vec<Member<L>>);

impl<L> Default for Members<L> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<L> Members<L> {
    pub(super) fn add(&mut self, id: MemberId, upstream: Upstream, most: usize) {
        self.0.push(Member {
            id,
            upstream,
            most,
            open: 0,
            unproven: 0,
            idle: Vec::new(),
            requests: 0,
            is_retired: false,
            shunned_until: None,
        });
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// A place for a request: a connection that waits, one of this thread's first; else room for a new one, where the
    /// fewest are. `fresh` wants a new one.
    pub(super) fn take(&mut self, fresh: bool, now: Instant) -> Option<Place<L>> {
        if !fresh && let Some(kept) = self.take_idle() {
            return Some(kept);
        }
        let rank = |member: &Member<L>| {
            (member.shunned_until.is_some_and(|until| now < until), member.open - member.idle.len())
        };
        let with_room = self.0.iter_mut().filter(|member| !member.is_retired);
        let member = with_room
            .filter(|member| member.open < member.most || fresh && !member.idle.is_empty())
            .min_by_key(|member| rank(member))?;
        if member.open == member.most {
            // The new one takes the place of an old one.
            member.idle.remove(0);
            member.open -= 1;
        }
        member.open += 1;
        member.unproven += 1;
        member.requests += 1;
        Some(Place::New(member.id, member.upstream.clone()))
    }

    fn take_idle(&mut self) -> Option<Place<L>> {
        let here = std::thread::current().id();
        let live = || self.0.iter().enumerate().filter(|(_, member)| !member.is_retired);
        // Of the least busy member that has one.
        let busy = |member: &Member<L>| member.open - member.idle.len();
        let of_this_thread = |member: &Member<L>| member.idle.iter().rposition(|idle| idle.home == here);
        let own = live()
            .filter(|(_, member)| of_this_thread(member).is_some())
            .min_by_key(|(_, member)| busy(member));
        let any =
            || live().filter(|(_, member)| !member.idle.is_empty()).min_by_key(|(_, member)| busy(member));
        let (index, _) = own.or_else(any)?;
        let member = &mut self.0[index];
        let place = of_this_thread(member).unwrap_or(member.idle.len() - 1);
        member.requests += 1;
        Some(Place::Kept(member.id, member.idle.remove(place).link))
    }

    /// Takes back a connection that can be used again. Not where another one has waited since it was opened: an app that
    /// serves one connection after the other will accept that only when this is closed.
    pub(super) fn put_back(&mut self, id: MemberId, link: L, now: Instant) -> Option<L> {
        let Some(member) = self.find(id) else { return Some(link) };
        if member.unproven > 0 || member.is_retired {
            member.open -= 1;
            return Some(link);
        }
        member.shunned_until = None;
        member.idle.push(Idle { link, since: now, home: std::thread::current().id() });
        None
    }

    /// A connection is no more, on which the app has answered or not.
    pub(super) fn lose(&mut self, id: MemberId, is_proven: bool) {
        if let Some(member) = self.find(id) {
            member.open -= 1;
            member.unproven -= usize::from(!is_proven);
        }
    }

    /// The app has answered on a new connection: somebody has accepted it.
    pub(super) fn prove(&mut self, id: MemberId) {
        if let Some(member) = self.find(id) {
            member.unproven -= 1;
        }
    }

    /// A member could not be connected to.
    pub(super) fn shun(&mut self, id: MemberId, until: Instant) {
        if let Some(member) = self.find(id) {
            member.shunned_until = Some(until);
        }
    }

    /// Takes out the connections that have waited for `time`, and says when the next will have.
    pub(super) fn expire(&mut self, time: Duration, now: Instant) -> (Vec<L>, Option<Instant>) {
        let mut over = Vec::new();
        for member in &mut self.0 {
            let old = member.idle.extract_if(.., |idle| now >= idle.since + time);
            let old: Vec<_> = old.map(|idle| idle.link).collect();
            member.open -= old.len();
            over.extend(old);
        }
        let next = self.0.iter().flat_map(|member| &member.idle).map(|idle| idle.since + time).min();
        (over, next)
    }

    fn find(&mut self, id: MemberId) -> Option<&mut Member<L>> {
        self.0.iter_mut().find(|member| member.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(most: &[usize]) -> Members<&'static str> {
        let mut members = Members::default();
        for (id, most) in most.iter().enumerate() {
            members.add(id as u64, Upstream::Unix(format!("/{id}").into()), *most);
        }
        members
    }

    /// The member of a new connection.
    fn new(place: Option<&Place<&'static str>>) -> Option<MemberId> {
        match place {
            Some(Place::New(id, _)) => Some(*id),
            Some(Place::Kept(..)) => panic!("a kept connection"),
            None => None,
        }
    }

    fn kept(place: Option<Place<&'static str>>) -> (MemberId, &'static str) {
        match place {
            Some(Place::Kept(id, link)) => (id, link),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_least_busy_member_gets_the_request_and_none_more_than_it_may() {
        let now = Instant::now();
        let mut members = members(&[2, 1]);
        let taken: Vec<_> = (0..4).map(|_| new(members.take(false, now).as_ref())).collect();
        assert_eq!(taken, [Some(0), Some(1), Some(0), None]);
        members.lose(1, false);
        assert_eq!(new(members.take(false, now).as_ref()), Some(1));
    }

    #[test]
    fn a_kept_connection_is_used_before_a_new_one_and_the_last_first() {
        let now = Instant::now();
        let mut members = members(&[4]);
        for _ in 0..2 {
            new(members.take(false, now).as_ref());
            members.prove(0);
        }
        assert_eq!(members.put_back(0, "a", now), None);
        assert_eq!(members.put_back(0, "b", now), None);
        assert_eq!(kept(members.take(false, now)), (0, "b"));
        assert_eq!(new(members.take(true, now).as_ref()), Some(0), "a fresh one was wanted");
        assert_eq!(kept(members.take(false, now)), (0, "a"));
    }

    #[test]
    fn a_connection_is_not_kept_while_another_waits_to_be_accepted() {
        let now = Instant::now();
        let mut members = members(&[4]);
        new(members.take(false, now).as_ref());
        members.prove(0);
        // The app serves one connection at a time, so nobody accepts this one before the first is closed.
        new(members.take(false, now).as_ref());
        assert_eq!(members.put_back(0, "first", now), Some("first"));
        members.prove(0);
        assert_eq!(members.put_back(0, "second", now), None);
    }

    #[test]
    fn a_fresh_connection_takes_the_place_of_one_that_waits() {
        let now = Instant::now();
        let mut members = members(&[1]);
        new(members.take(false, now).as_ref());
        members.prove(0);
        assert_eq!(members.put_back(0, "old", now), None);
        assert_eq!(new(members.take(true, now).as_ref()), Some(0));
        assert_eq!(new(members.take(true, now).as_ref()), None);
    }

    #[test]
    fn a_member_that_cannot_be_reached_is_the_last_to_be_asked() {
        let now = Instant::now();
        let mut members = members(&[9, 9]);
        members.shun(0, now + Duration::from_secs(1));
        assert_eq!(new(members.take(false, now).as_ref()), Some(1));
        assert_eq!(new(members.take(false, now).as_ref()), Some(1));
        assert_eq!(new(members.take(false, now + Duration::from_secs(1)).as_ref()), Some(0));
    }

    #[test]
    fn what_has_waited_too_long_is_taken_out() {
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let mut members = members(&[4]);
        for (link, s) in [("a", 0), ("b", 5)] {
            new(members.take(true, start).as_ref());
            members.prove(0);
            members.put_back(0, link, at(s));
        }
        let time = Duration::from_secs(10);
        assert_eq!(members.expire(time, at(9)), (vec![], Some(at(10))));
        assert_eq!(members.expire(time, at(10)), (vec!["a"], Some(at(15))));
        assert_eq!(members.expire(time, at(15)), (vec!["b"], None));
    }
}
