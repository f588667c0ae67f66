//! Which connection a request gets: the arithmetic of the pool, without a clock or a socket.

use std::time::{Duration, Instant};

use crate::fastcgi::stream::Home;
use crate::fastcgi::upstream::Upstream;

/// A new connection on which nothing has been answered for so long may be one that nobody has accepted. Apps that take longer
/// to answer lose a kept connection by it, once for each new one.
pub(super) const STARVED: Duration = Duration::from_millis(20);

/// Names a member for as long as the pool lives.
pub(in crate::fastcgi) type MemberId = u64;

/// Names a connection for as long as the pool lives, whether it stands or is being opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seat {
    pub(super) member: MemberId,
    number: u64,
}

/// One address of the app, and what is known of the connections to it. `L` is a connection.
#[derive(Debug)]
struct Member<L> {
    id: MemberId,
    upstream: Upstream,
    /// Connections that there may be.
    most: usize,
    /// Requests that may share a connection: 1, unless the app has said that it multiplexes.
    shared_by: usize,
    /// Somebody has asked it whether it does.
    is_asked: bool,
    slots: Vec<Slot<L>>,
    /// Requests that it was given.
    requests: u64,
    /// It takes no more requests.
    is_retired: bool,
    /// Nothing has been under way since.
    idle_since: Instant,
    /// It could not be connected to; others are tried before it until then.
    shunned_until: Option<Instant>,
    /// Connections that were closed so that one which waits may be accepted, and none has been since.
    helped: usize,
}

/// A connection, or the room that is kept for it while it is being opened.
#[derive(Debug)]
struct Slot<L> {
    number: u64,
    link: Option<L>,
    under_way: usize,
    /// The app has answered on it: somebody has accepted it.
    is_proven: bool,
    /// Nothing has been under way since; of a new one, when it was begun.
    since: Instant,
    /// Where it is watched.
    home: Home,
}

/// What a request gets.
#[derive(Debug)]
pub(super) enum Place<L> {
    /// A connection that stands.
    Kept(Seat, L),
    /// Room for one that is to be opened.
    New(Seat, Upstream),
}

#[derive(Debug)]
pub(super) struct Members<L> {
    all: Vec<Member<L>>,
    /// Connections that there were so far.
    count: u64,
    /// All members are processes of one program: what one says of itself holds for all, also for those to come.
    is_one_program: bool,
    /// Requests that a member is given at most: one that ends itself after so many must not be given another.
    requests_most: Option<u64>,
    /// What is known of a new member before it is asked.
    shared_by: usize,
    is_asked: bool,
}

impl<L> Default for Members<L> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            count: 0,
            is_one_program: false,
            requests_most: None,
            shared_by: 1,
            is_asked: false,
        }
    }
}

impl<L> Member<L> {
    fn takes_requests(&self, most: Option<u64>) -> bool {
        !self.is_retired && most.is_none_or(|most| self.requests < most)
    }

    fn under_way(&self) -> usize {
        self.slots.iter().map(|slot| slot.under_way).sum()
    }

    /// The best of the connections that stand and have room: one that is watched here; of these
    /// the one used last, so that those that are not needed can go.
    fn best(&self, here: Home) -> Option<usize> {
        let with_room = |slot: &Slot<L>| slot.link.is_some() && slot.under_way < self.shared_by;
        let slots = self.slots.iter().enumerate().filter(|(_, slot)| with_room(slot));
        slots.max_by_key(|(_, slot)| (slot.home == here, slot.since)).map(|(index, _)| index)
    }

    /// Whether a connection is to be closed so that one which has long waited may be accepted. Which of them that is the app
    /// decides, so they are counted and not told apart: one that was accepted in another's place must not leave that behind.
    fn is_starved(&mut self, now: Instant) -> bool {
        let waits = |slot: &&Slot<L>| !slot.is_proven && now.saturating_duration_since(slot.since) >= STARVED;
        let is_starved = self.slots.iter().filter(waits).count() > self.helped;
        self.helped += usize::from(is_starved);
        is_starved
    }

    /// One that waited to be accepted has been, or waits no more.
    fn has_one_less_to_help(&mut self) {
        self.helped = self.helped.saturating_sub(1);
    }
}

impl<L: Clone> Members<L> {
    pub(super) fn add(&mut self, id: MemberId, upstream: Upstream, most: usize, now: Instant) {
        self.all.push(Member {
            id,
            upstream,
            most,
            shared_by: self.shared_by,
            is_asked: self.is_asked,
            slots: Vec::new(),
            requests: 0,
            is_retired: false,
            idle_since: now,
            shunned_until: None,
            helped: 0,
        });
    }

    /// For members that are processes of one program, and are each given so many requests at most.
    pub(super) fn of_one_program(requests_most: Option<u64>) -> Self {
        Self { is_one_program: true, requests_most, ..Self::default() }
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// A place for a request: a connection that stands and has room; else room for a new one, where least is under way.
    /// `fresh` wants a new one, in place of one that waits if there may be no more.
    pub(super) fn take(&mut self, fresh: bool, now: Instant) -> Option<Place<L>> {
        if !fresh && let Some(kept) = self.take_kept() {
            return Some(kept);
        }
        let requests_most = self.requests_most;
        let may_open = |member: &&mut Member<L>| {
            let has_spare = member.slots.iter().any(|slot| slot.under_way == 0);
            member.takes_requests(requests_most) && (member.slots.len() < member.most || fresh && has_spare)
        };
        let rank = |member: &&mut Member<L>| {
            (member.shunned_until.is_some_and(|until| now < until), member.under_way())
        };
        let member = self.all.iter_mut().filter(may_open).min_by_key(rank)?;
        if member.slots.len() >= member.most {
            let index = member.slots.iter().position(|slot| slot.under_way == 0)?;
            member.slots.remove(index);
        }
        self.count += 1;
        member.requests += 1;
        let home = Home::here();
        member.slots.push(Slot {
            number: self.count,
            link: None,
            under_way: 1,
            is_proven: false,
            since: now,
            home,
        });
        Some(Place::New(Seat { member: member.id, number: self.count }, member.upstream.clone()))
    }

    fn take_kept(&mut self) -> Option<Place<L>> {
        let here = Home::here();
        let rank = |member: &Member<L>, slot: usize| (member.slots[slot].home != here, member.under_way());
        let live = self.all.iter_mut().filter(|member| member.takes_requests(self.requests_most));
        let with_room = live.filter_map(|member| member.best(here).map(|slot| (member, slot)));
        let (member, slot) = with_room.min_by_key(|(member, slot)| rank(member, *slot))?;
        member.requests += 1;
        let slot = &mut member.slots[slot];
        if slot.under_way == 0 {
            // Whoever asks on it alone has it watched where it is itself.
            slot.home = here;
        }
        slot.under_way += 1;
        let seat = Seat { member: member.id, number: slot.number };
        slot.link.clone().map(|link| Place::Kept(seat, link))
    }

    /// A connection stands. Whether others may join those who use it is known by its member.
    pub(super) fn connected(&mut self, seat: Seat, link: &L) {
        if let Some(slot) = self.slot(seat) {
            slot.link = Some(link.clone());
        }
    }

    /// The app has answered on a connection: somebody has accepted it.
    pub(super) fn prove(&mut self, seat: Seat) {
        let Some(member) = self.find(seat.member) else { return };
        member.shunned_until = None;
        let slot = member.slots.iter_mut().find(|slot| slot.number == seat.number);
        if slot.is_some_and(|slot| !std::mem::replace(&mut slot.is_proven, true)) {
            member.has_one_less_to_help();
        }
    }

    /// A request is over whose connection can be used again. `false` if it is to be closed: where another one has long waited
    /// to be accepted, an app that serves one connection after the other will accept that only when this is closed.
    pub(super) fn give_back(&mut self, seat: Seat, now: Instant) -> bool {
        let Some(member) = self.find(seat.member) else { return false };
        let must_go = member.is_retired || member.shared_by == 1 && member.is_starved(now);
        member.idle_since = now;
        let Some(index) = member.slots.iter().position(|slot| slot.number == seat.number) else {
            return false;
        };
        if must_go {
            member.slots.remove(index);
            return false;
        }
        let slot = &mut member.slots[index];
        slot.under_way -= 1;
        slot.since = now;
        true
    }

    /// A connection is not to be used any more. Those who share it find that out by themselves.
    pub(super) fn lose(&mut self, seat: Seat, now: Instant) {
        if let Some(member) = self.find(seat.member) {
            member.idle_since = now;
            let Some(index) = member.slots.iter().position(|slot| slot.number == seat.number) else { return };
            if !member.slots.remove(index).is_proven {
                member.has_one_less_to_help();
            }
        }
    }

    /// A member takes no more requests; connections that wait are closed.
    pub(super) fn retire(&mut self, id: MemberId) {
        if let Some(member) = self.find(id) {
            member.is_retired = true;
            member.slots.retain(|slot| slot.under_way > 0);
        }
    }

    /// A member is no more.
    pub(super) fn remove(&mut self, id: MemberId) {
        self.all.retain(|member| member.id != id);
    }

    /// Whether a member that was retired has nothing under way any more.
    pub(super) fn is_drained(&mut self, id: MemberId) -> bool {
        self.find(id).is_some_and(|member| member.is_retired && member.under_way() == 0)
    }

    /// Requests that a member was given.
    pub(super) fn requests(&mut self, id: MemberId) -> u64 {
        self.find(id).map_or(0, |member| member.requests)
    }

    /// Whether a member that is not retired yet takes no more requests, having had as many as it may.
    pub(super) fn is_worn_out(&mut self, id: MemberId) -> bool {
        let most = self.requests_most;
        self.find(id).is_some_and(|member| !member.is_retired && !member.takes_requests(most))
    }

    /// Since when nothing has been under way at a member.
    pub(super) fn idle_since(&mut self, id: MemberId) -> Option<Instant> {
        self.find(id).filter(|member| member.under_way() == 0).map(|member| member.idle_since)
    }

    /// A member could not be connected to.
    pub(super) fn shun(&mut self, id: MemberId, until: Instant) {
        if let Some(member) = self.find(id) {
            member.shunned_until = Some(until);
        }
    }

    /// Whether a member is to be asked now if it multiplexes: where it is, the first time.
    pub(super) fn begin_asking(&mut self, id: MemberId) -> Option<Upstream> {
        let member = self.find(id).filter(|member| !member.is_asked)?;
        member.is_asked = true;
        let upstream = member.upstream.clone();
        if self.is_one_program {
            self.is_asked = true;
            self.all.iter_mut().for_each(|member| member.is_asked = true);
        }
        Some(upstream)
    }

    /// A member has said how many requests may share a connection.
    pub(super) fn share(&mut self, id: MemberId, shared_by: usize) {
        if self.is_one_program {
            self.shared_by = shared_by;
        }
        let is_one_program = self.is_one_program;
        let whose = self.all.iter_mut().filter(|member| is_one_program || member.id == id);
        whose.for_each(|member| member.shared_by = shared_by);
    }

    pub(super) fn is_shared(&mut self, id: MemberId) -> bool {
        self.find(id).is_some_and(|member| member.shared_by > 1)
    }

    /// Whether more connections wait to be accepted than others were closed for, while there are some that wait for a request.
    pub(super) fn may_starve(&self) -> bool {
        self.all.iter().any(|member| {
            let waits = member.slots.iter().filter(|slot| !slot.is_proven).count() > member.helped;
            waits && member.shared_by == 1 && member.slots.iter().any(|slot| slot.under_way == 0)
        })
    }

    /// Closes connections that wait for a request, one for each that has long waited to be accepted.
    pub(super) fn help(&mut self, now: Instant) {
        for member in self.all.iter_mut().filter(|member| member.shared_by == 1) {
            while let Some(idle) = member.slots.iter().position(|slot| slot.under_way == 0)
                && member.is_starved(now)
            {
                member.slots.remove(idle);
            }
        }
    }

    /// Takes out the connections that have waited for `time`, and says when the next will have.
    pub(super) fn expire(&mut self, time: Duration, now: Instant) -> Option<Instant> {
        let waits = |slot: &Slot<L>| slot.under_way == 0;
        for member in &mut self.all {
            member.slots.retain(|slot| !waits(slot) || now < slot.since + time);
        }
        let slots = self.all.iter().flat_map(|member| &member.slots);
        slots.filter(|slot| waits(slot)).map(|slot| slot.since + time).min()
    }

    fn find(&mut self, id: MemberId) -> Option<&mut Member<L>> {
        self.all.iter_mut().find(|member| member.id == id)
    }

    fn slot(&mut self, seat: Seat) -> Option<&mut Slot<L>> {
        self.find(seat.member)?.slots.iter_mut().find(|slot| slot.number == seat.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(most: &[usize]) -> Members<&'static str> {
        let mut members = Members::default();
        for (id, most) in most.iter().enumerate() {
            members.add(id as u64, Upstream::Unix(format!("/{id}").into()), *most, Instant::now());
        }
        members
    }

    /// The member whose new connection this is.
    fn new(place: Option<Place<&'static str>>) -> Option<Seat> {
        place.map(|place| match place {
            Place::New(seat, _) => seat,
            Place::Kept(..) => panic!("a kept connection"),
        })
    }

    fn kept(place: Option<Place<&'static str>>) -> (Seat, &'static str) {
        match place {
            Some(Place::Kept(seat, link)) => (seat, link),
            other => panic!("{other:?}"),
        }
    }

    /// A connection that stands and has been answered on.
    fn proven(members: &mut Members<&'static str>, link: &'static str, now: Instant) -> Seat {
        let seat = new(members.take(true, now)).unwrap();
        members.connected(seat, &link);
        members.prove(seat);
        seat
    }

    #[test]
    fn the_least_busy_member_gets_the_request_and_none_more_than_it_may() {
        let now = Instant::now();
        let mut members = members(&[2, 1]);
        let seats: Vec<_> = (0..4).map(|_| new(members.take(false, now))).collect();
        let taken: Vec<_> = seats.iter().map(|seat| seat.map(|seat| seat.member)).collect();
        assert_eq!(taken, [Some(0), Some(1), Some(0), None]);
        members.lose(seats[1].unwrap(), now);
        assert_eq!(new(members.take(false, now)).unwrap().member, 1);
    }

    #[test]
    fn a_kept_connection_is_used_before_a_new_one_and_the_last_first() {
        let now = Instant::now();
        let mut members = members(&[4]);
        let (a, b) = (proven(&mut members, "a", now), proven(&mut members, "b", now));
        assert!(members.give_back(a, now) && members.give_back(b, now + Duration::from_millis(1)));
        assert_eq!(kept(members.take(false, now)), (b, "b"));
        let fresh = proven(&mut members, "fresh", now);
        assert_ne!(fresh, a, "a fresh one was wanted");
        assert_eq!(kept(members.take(false, now)), (a, "a"));
    }

    #[test]
    fn a_process_is_given_no_more_requests_than_it_may_have_even_before_it_is_retired() {
        let now = Instant::now();
        let mut members = Members::of_one_program(Some(2));
        members.add(1, Upstream::Unix("/1".into()), 4, now);
        let seat = proven(&mut members, "a", now);
        assert!(members.give_back(seat, now) && !members.is_worn_out(1));
        assert_eq!(kept(members.take(false, now)), (seat, "a"));
        assert!(members.is_worn_out(1));
        assert!(members.take(false, now).is_none() && members.take(true, now).is_none());
        assert!(members.give_back(seat, now));
        assert!(members.take(false, now).is_none(), "it has a connection that waits, and takes no request");
        members.retire(1);
        assert!(!members.is_worn_out(1), "that is known");
    }

    #[test]
    fn a_connection_is_not_kept_while_another_waits_to_be_accepted() {
        let now = Instant::now();
        let mut members = members(&[4]);
        let first = proven(&mut members, "first", now);
        // The app serves one connection at a time, so nobody accepts this one before the first is closed.
        let second = new(members.take(false, now)).unwrap();
        assert!(members.give_back(first, now), "it may just take its time");
        assert_eq!(kept(members.take(false, now)), (first, "first"));
        let later = now + STARVED;
        assert!(!members.give_back(first, later));
        let third = proven(&mut members, "third", later);
        assert!(!members.give_back(third, later), "it was accepted in the second's place");
        members.prove(second);
        assert!(members.give_back(second, later));
    }

    #[test]
    fn whoever_is_accepted_first_nobody_is_left_waiting() {
        let (now, later) = (Instant::now(), Instant::now() + STARVED);
        // One child, and the last to connect is accepted first: connections are begun on several cores.
        let mut members = members(&[4]);
        let first = proven(&mut members, "first", now);
        let waiting: Vec<_> = (0..3).map(|_| new(members.take(true, now)).unwrap()).collect();
        assert!(!members.give_back(first, later));
        for (left, seat) in waiting.iter().rev().enumerate() {
            members.prove(*seat);
            assert_eq!(
                members.give_back(*seat, later),
                left == 2,
                "{left}: the last has nobody to make way for"
            );
        }
    }

    #[test]
    fn one_that_waits_no_more_needs_no_help() {
        let (now, later) = (Instant::now(), Instant::now() + STARVED);
        let mut members = members(&[4]);
        let first = proven(&mut members, "first", now);
        let [given_up, waiting] = [(); 2].map(|()| new(members.take(true, now)).unwrap());
        assert!(!members.give_back(first, later));
        // Its place in the queue of the app's socket is still the first, and the app finds it closed.
        members.lose(given_up, later);
        let second = proven(&mut members, "second", later);
        assert!(!members.give_back(second, later), "the other one still waits");
        members.prove(waiting);
        assert!(members.give_back(waiting, later));
    }

    #[test]
    fn what_waits_for_a_request_makes_way_for_what_has_long_waited_to_be_accepted() {
        let now = Instant::now();
        let mut members = members(&[4]);
        let seats = ["a", "b"].map(|link| proven(&mut members, link, now));
        let unaccepted = new(members.take(true, now)).unwrap();
        assert!(!members.may_starve(), "nothing waits for a request");
        assert!(seats.iter().all(|seat| members.give_back(*seat, now)));
        assert!(members.may_starve());
        members.help(now);
        assert!(members.may_starve(), "not yet");
        members.help(now + STARVED);
        assert!(!members.may_starve(), "one was closed, and one is enough");
        members.prove(unaccepted);
    }

    #[test]
    fn a_fresh_connection_takes_the_place_of_one_that_waits() {
        let now = Instant::now();
        let mut members = members(&[1]);
        let old = proven(&mut members, "old", now);
        assert!(members.give_back(old, now));
        assert!(new(members.take(true, now)).is_some());
        assert!(new(members.take(true, now)).is_none());
        assert!(!members.give_back(old, now), "it is gone");
    }

    #[test]
    fn where_the_app_multiplexes_requests_share_a_connection_up_to_its_bound() {
        let now = Instant::now();
        let mut members = members(&[2]);
        let first = proven(&mut members, "first", now);
        members.share(0, 3);
        for _ in 0..2 {
            assert_eq!(kept(members.take(false, now)), (first, "first"));
        }
        let second = new(members.take(false, now)).unwrap();
        assert!(members.take(false, now).is_none(), "it does not stand yet");
        assert!(members.give_back(first, now), "whoever waits to be accepted takes nobody's turn");
        assert_eq!(kept(members.take(false, now)), (first, "first"));
        members.connected(second, &"second");
        assert_eq!(kept(members.take(false, now)), (second, "second"));
        members.lose(first, now);
        assert!(!members.give_back(first, now));
    }

    #[test]
    fn a_member_is_asked_once() {
        let mut members = members(&[1, 1]);
        assert_eq!(members.begin_asking(1), Some(Upstream::Unix("/1".into())));
        assert_eq!((members.begin_asking(1), members.begin_asking(2)), (None, None));
    }

    #[test]
    fn a_member_that_cannot_be_reached_is_the_last_to_be_asked() {
        let now = Instant::now();
        let mut members = members(&[9, 9]);
        members.shun(0, now + Duration::from_secs(1));
        for _ in 0..2 {
            assert_eq!(new(members.take(false, now)).unwrap().member, 1);
        }
        assert_eq!(new(members.take(false, now + Duration::from_secs(1))).unwrap().member, 0);
    }

    #[test]
    fn what_has_waited_too_long_is_taken_out() {
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let mut members = members(&[4]);
        let seats = ["a", "b", "c"].map(|link| proven(&mut members, link, start));
        assert!(members.give_back(seats[0], start) && members.give_back(seats[1], at(5)));
        let time = Duration::from_secs(10);
        assert_eq!(members.expire(time, at(9)), Some(at(10)));
        assert_eq!(members.expire(time, at(10)), Some(at(15)));
        assert_eq!(members.expire(time, at(15)), None, "the third is under way");
        assert!(members.give_back(seats[2], at(15)));
    }
}
