//! Choosing a member for a request, with the state that the workers share.

use std::sync::Arc;
use std::time::Instant;

use crate::choice::{self, Candidate, Choice};
use crate::member::Member;
use crate::options::CheckoutOptions;
use crate::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The state of the choices of one worker.
#[derive(Debug)]
pub(crate) struct Chooser<A> {
    /// All members. A copy for each worker, because a list behind the lock of the queue would be contended.
    members: Arc<[Arc<Member<A>>]>,
    /// The candidates of the last choice; kept for its allocation.
    candidates: Vec<Candidate>,
    /// The number of choices, from which random numbers are derived.
    choices: u64,
}

impl<A> Chooser<A> {
    /// `worker` makes the random numbers of the workers different.
    pub(crate) fn new(worker: usize) -> Self {
        Self { members: Arc::new([]), candidates: Vec::new(), choices: choice::mix(worker as u64) }
    }

    pub(crate) fn set_members(&mut self, members: Arc<[Arc<Member<A>>]>) {
        self.members = members;
    }

    /// Chooses a member. `last_turn` is the time of the last turn in the round robin of all workers.
    pub(crate) fn choose(
        &mut self,
        choice: Choice,
        options: &CheckoutOptions<'_>,
        last_turn: &AtomicU64,
        now: Instant,
    ) -> Option<Arc<Member<A>>> {
        loop {
            self.candidates.clear();
            let candidate =
                |(index, member): (usize, &Arc<Member<A>>)| member.candidate(index, options.tried, now);
            self.candidates.extend(self.members.iter().enumerate().filter_map(candidate));
            choice::keep_best(&mut self.candidates);
            let chosen = match (self.preferred(options), choice, options.key) {
                (Some(preferred), ..) => preferred,
                (None, Choice::RoundRobin, _) => self.take_turn(last_turn)?,
                (None, Choice::Hash { balance_percent }, Some(key)) => {
                    choice::by_hash(&self.candidates, key, balance_percent)?
                }
                _ => {
                    let random = self.random();
                    choice::least_busy(&self.candidates, random)?
                }
            };
            let member = &self.members[chosen.member];
            // Once another request is the trial of a member, the member is not up any more.
            if !chosen.is_half_open || member.begin_trial(now) {
                return Some(member.clone());
            }
        }
    }

    /// The number of random choices so far, from a start that depends on the worker.
    #[cfg(test)]
    pub(crate) fn choices(&self) -> u64 {
        self.choices
    }

    /// Returns the member that the request prefers, if it is one of the best.
    fn preferred(&self, options: &CheckoutOptions<'_>) -> Option<Candidate> {
        let id = options.preferred?;
        self.candidates.iter().find(|candidate| self.members[candidate.member].id() == id).copied()
    }

    /// Returns all members.
    pub(crate) fn members(&self) -> Arc<[Arc<Member<A>>]> {
        self.members.clone()
    }

    /// Returns the member whose turn is next. If another worker takes its turn meanwhile, the loop sees the new one.
    fn take_turn(&mut self, last_turn: &AtomicU64) -> Option<Candidate> {
        loop {
            let (chosen, turn) = choice::round_robin(&self.candidates, last_turn.load(SeqCst))?;
            if self.members[chosen.member].take_turn(&chosen, choice::next_turn(turn, chosen.weight)) {
                last_turn.fetch_max(turn, SeqCst);
                return Some(chosen);
            }
            for candidate in &mut self.candidates {
                candidate.turn = self.members[candidate.member].turn();
            }
        }
    }

    fn random(&mut self) -> u64 {
        self.choices = self.choices.wrapping_add(1);
        choice::mix(self.choices)
    }
}
