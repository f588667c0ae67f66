//! Which failed requests are sent again, and how many of all.

use std::sync::atomic::{AtomicU32, Ordering};

use super::failure::{Cause, ProtocolCause};

/// The maximum number of attempts for one request on connections that were not idle before: a request that kills an upstream must not
/// kill all of them.
const ATTEMPTS_MAX: u32 = 3;

/// What one retry costs: each request pays 1, so a fifth of the requests may be sent again.
const COST: u32 = 5;

/// The most that can be saved: 20 retries at once, so that the few requests of a small site can be sent again too.
const SAVED_MAX: u32 = 20 * COST;

/// Limits the retries of all requests to an upstream, so that they cannot multiply the load of one that is failing.
#[derive(Debug)]
pub struct RetryBudget(AtomicU32);

/// An attempt that has failed.
#[derive(Debug)]
pub struct FailedAttempt<'a, P> {
    /// Why the last attempt has failed.
    pub cause: &'a Cause<P>,
    /// Its number, from 1.
    pub number: u32,
    /// Whether its connection had been idle, and may have been closed before the request.
    pub may_have_been_dead: bool,
    /// Whether the request can be sent twice.
    pub is_repeatable: bool,
    /// Whether another upstream can receive the request.
    pub has_others: bool,
}

impl Default for RetryBudget {
    /// The full budget.
    fn default() -> Self {
        Self(AtomicU32::new(SAVED_MAX))
    }
}

impl RetryBudget {
    /// Counts a request.
    pub fn add_request(&self) {
        // Usually the budget is full, which costs no write to the shared cache line.
        if self.0.load(Ordering::Relaxed) < SAVED_MAX {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns whether to send a request again after this attempt, and pays for it.
    ///
    /// A connection that was closed while it was idle tells nothing about the upstream, and a restart closes many at once: the next attempt
    /// is free. Otherwise another upstream gets the request.
    pub fn allows<P: ProtocolCause>(&self, failed: &FailedAttempt<'_, P>) -> bool {
        let FailedAttempt { cause, number, may_have_been_dead, is_repeatable, has_others } = *failed;
        if !cause.is_retryable(is_repeatable) {
            return false;
        }
        // A restart ends many connections at once as well.
        let is_free = may_have_been_dead || cause.is_about_connection() && number < ATTEMPTS_MAX;
        // An upstream that refuses a stream may have room for it a moment later.
        let may_help = has_others || cause.is_refusal();
        is_free || may_help && number < ATTEMPTS_MAX && self.pay()
    }

    fn pay(&self) -> bool {
        let pay = |saved: u32| saved.checked_sub(COST);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, pay).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_of_the_requests_can_be_sent_again() {
        let budget = RetryBudget::default();
        while budget.pay() {}
        for _ in 0..100 {
            budget.add_request();
        }
        assert_eq!((0..1000).take_while(|_| budget.pay()).count(), 20);
    }
}
