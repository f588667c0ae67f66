//! Which failed requests are sent again, and how many of all.

use std::sync::atomic::{AtomicU32, Ordering};

use super::failure::{Cause, HttpCause};

/// The maximum number of attempts for one request on connections that were not idle before: a request that kills an upstream must not
/// kill all of them.
const ATTEMPTS_MAX: u32 = 3;

/// What one retry costs: each request pays 1, so a fifth of the requests may be sent again.
const COST: u32 = 5;

/// The most that can be saved: 20 retries at once, so that the few requests of a small site can be sent again too.
const SAVED_MAX: u32 = 20 * COST;

/// Limits the retries of all requests to an upstream, so that they cannot multiply the load of one that is failing.
#[derive(Debug)]
pub(super) struct RetryBudget(AtomicU32);

/// An attempt that has failed.
#[derive(Debug, Clone, Copy)]
pub(super) struct FailedAttempt<'a> {
    pub(super) cause: &'a Cause,
    /// Its number, from 1.
    pub(super) number: u32,
    /// Whether its connection had been idle, and may have been closed before the request.
    pub(super) may_have_been_dead: bool,
    /// Whether the request can be sent twice.
    pub(super) is_repeatable: bool,
    /// Whether another upstream can receive the request.
    pub(super) has_others: bool,
}

impl RetryBudget {
    pub(super) fn new() -> Self {
        Self(AtomicU32::new(SAVED_MAX))
    }

    /// Counts a request.
    pub(super) fn add_request(&self) {
        // Usually the budget is full, which costs no write to the shared cache line.
        if self.0.load(Ordering::Relaxed) < SAVED_MAX {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns whether to send a request again after this attempt, and pays for it.
    ///
    /// A connection that was closed while it was idle tells nothing about the upstream, and a restart closes many at once: the next attempt
    /// is free. Otherwise another upstream gets the request.
    pub(super) fn allows(&self, failed: FailedAttempt<'_>) -> bool {
        let FailedAttempt { cause, number, may_have_been_dead, is_repeatable, has_others } = failed;
        if !cause.is_retryable(is_repeatable) {
            return false;
        }
        // A restart ends many connections at once as well.
        let is_free = may_have_been_dead || cause.is_about_connection() && number < ATTEMPTS_MAX;
        // An upstream that refuses a stream may have room for it a moment later.
        let may_help = has_others || matches!(cause, Cause::Protocol(HttpCause::Refused));
        is_free || may_help && number < ATTEMPTS_MAX && self.pay()
    }

    fn pay(&self) -> bool {
        let pay = |saved: u32| saved.checked_sub(COST);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, pay).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use rudy_http::h1::client::Fault;
    use rudy_http::h2::ErrorCode;

    use super::*;

    #[test]
    fn a_request_is_sent_again_only_if_that_is_safe_and_may_help() {
        let (closed, nothing_sent) = (
            HttpCause::Fault(Fault::ClosedBeforeResponse).into(),
            Cause::NothingSent(io::ErrorKind::BrokenPipe.into()),
        );
        let begun = HttpCause::Fault(Fault::ClosedInHead { received: 5 }).into();
        let timeout = Cause::ResponseTimeout(std::time::Duration::from_mins(1));
        for (cause, may_have_been_dead, is_repeatable, has_others, is_sent_again) in [
            (&closed, true, true, false, true),
            (&closed, true, false, true, false),
            (&closed, false, true, true, true),
            (&closed, false, true, false, false),
            (&nothing_sent, true, false, false, true),
            (&nothing_sent, false, false, true, true),
            (&begun, true, true, true, false),
            (&timeout, true, true, true, false),
            // RFC 9113 §8.7: whatever the method is.
            (&HttpCause::GoneAway.into(), false, false, false, true),
            (&HttpCause::Refused.into(), false, false, false, true),
            (&HttpCause::Http11Required.into(), false, false, false, true),
            (&HttpCause::Reset(ErrorCode::CANCEL).into(), false, false, true, false),
            (&HttpCause::Reset(ErrorCode::CANCEL).into(), false, true, true, true),
        ] {
            let failed = FailedAttempt { cause, number: 1, may_have_been_dead, is_repeatable, has_others };
            assert_eq!(RetryBudget::new().allows(failed), is_sent_again, "{failed:?}");
            let third = FailedAttempt { number: 3, ..failed };
            assert_eq!(RetryBudget::new().allows(third), is_sent_again && may_have_been_dead, "{third:?}");
        }
    }

    #[test]
    fn a_fifth_of_the_requests_can_be_sent_again() {
        let budget = RetryBudget::new();
        while budget.pay() {}
        for _ in 0..100 {
            budget.add_request();
        }
        assert_eq!((0..1000).take_while(|_| budget.pay()).count(), 20);
    }
}
