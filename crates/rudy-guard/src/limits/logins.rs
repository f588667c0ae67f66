//! Rate limits for failed logins, which the step that verifies passwords applies.
//!
//! A guess is counted before anything depends on whether it is correct, and a correct password is given back afterwards. So guesses
//! that are sent at the same time are not more than the limit, those over the limit cost no time, and over it a correct password gets
//! the same response as any other, however much the server knows about it already.

use std::sync::Arc;

use rudy_limit::{Key, Slot};
use rudy_log::ErrorLog;
use rudy_message::semantics::path::RequestPath;
use rudy_pipeline::Call;
use rudy_runtime::clock;
use rudy_service::{Client, Request, Response};

use super::applied::Applied;
use super::key::KeySource;
use super::rate::{Over, RateLimit};

/// The limits for failed logins of a site or route.
#[derive(Debug, Clone, Default)]
pub struct LoginLimits(Vec<Arc<[Applied<RateLimit>]>>);

impl LoginLimits {
    pub(super) fn new(limits: Vec<Applied<RateLimit>>) -> Self {
        Self(vec![limits.into()])
    }

    /// Returns these limits after others.
    #[must_use]
    pub fn after(&self, others: &Self) -> Self {
        Self(others.0.iter().chain(&self.0).cloned().collect())
    }

    fn iter(&self) -> impl Iterator<Item = &Applied<RateLimit>> {
        self.0.iter().flat_map(|limits| limits.iter())
    }

    /// Begins a login that may fail.
    ///
    /// # Errors
    ///
    /// It is over a limit.
    pub fn begin(&self, request: &Request<'_>, call: &Call<'_>) -> Result<Attempt, TooManyLogins> {
        let (source, now) = (KeySource::of_request(request, call), clock::now());
        let mut attempt = Attempt { limits: Vec::new(), may_recall: true, taken: None };
        for applied in self.iter() {
            let Applied { limit, effect } = applied;
            for key in limit.meter.keys(&source).iter().copied() {
                let decision = limit.limiter.preview(key, now);
                if !decision.is_allowed() && effect.dry_run {
                    limit.meter.count(key, &source, *effect, now);
                } else if !decision.is_allowed() && limit.pending.active(key) > 0 {
                    // Browsers send several requests at once: those that are pending may have the correct password.
                    attempt.may_recall = false;
                } else if !decision.is_allowed() {
                    return Err(TooManyLogins(Over { applied: applied.clone(), key, decision }));
                }
                attempt.limits.push((applied.clone(), key));
            }
        }
        Ok(attempt)
    }

    /// Describes the limits for `rudy check --explain`.
    pub fn describe(&self) -> impl Iterator<Item = String> {
        self.iter().map(Applied::describe)
    }

    /// Sets the log for rejected attempts.
    pub fn set_log(&self, log: &ErrorLog) {
        self.iter().for_each(|applied| applied.limit.meter.set_log(log));
    }
}

/// A login, with the keys by which its limits count it. Dropped before its password was verified, it is counted as failed: the client
/// could have seen that its password is not a remembered one.
#[derive(Debug)]
pub struct Attempt {
    limits: Vec<(Applied<RateLimit>, Key)>,
    may_recall: bool,
    /// The limits that have counted it, by their positions, once they have.
    taken: Option<Vec<(usize, Slot)>>,
}

/// A login over a limit.
#[derive(Debug)]
pub struct TooManyLogins(Over);

impl Attempt {
    /// Whether the request may be passed on at once if its password is remembered: another one is counted.
    pub fn may_recall(&self) -> bool {
        self.may_recall
    }

    /// Counts the login as failed, until it is verified.
    ///
    /// # Errors
    ///
    /// Others have used the allowance meanwhile.
    pub fn count(&mut self) -> Result<(), TooManyLogins> {
        if self.taken.is_some() {
            return Ok(());
        }
        let now = clock::now();
        let mut taken = Vec::with_capacity(self.limits.len());
        for (position, (applied, key)) in self.limits.iter().enumerate() {
            let Applied { limit, effect } = applied;
            // Others that do not get an allowance find this one.
            let slot = limit.pending.acquire_over(*key);
            let decision = limit.limiter.take(*key, now);
            if decision.is_allowed() {
                taken.push((position, slot));
            } else if !effect.dry_run {
                self.give_back(&taken);
                return Err(TooManyLogins(Over { applied: applied.clone(), key: *key, decision }));
            }
        }
        self.taken = Some(taken);
        Ok(())
    }

    /// Verifies a password, and counts it unless it is correct.
    ///
    /// # Errors
    ///
    /// Others have used the allowance meanwhile; the password was not verified.
    pub fn verify(mut self, is_correct: impl FnOnce() -> bool) -> Result<bool, TooManyLogins> {
        self.count()?;
        let is_correct = is_correct();
        if is_correct {
            self.give_back(self.taken.as_deref().unwrap_or_default());
        }
        Ok(is_correct)
    }

    /// Takes back what limits have counted.
    fn give_back(&self, taken: &[(usize, Slot)]) {
        for (applied, key) in taken.iter().filter_map(|(position, _)| self.limits.get(*position)) {
            applied.limit.limiter.give_back(*key);
        }
    }
}

impl TooManyLogins {
    /// Returns the response, and counts the request.
    pub fn reject(&self, request: &Request<'_>, path: &RequestPath<'_>, client: &Client<'_>) -> Response {
        self.0.reject(request, &KeySource::new(request, path, client))
    }
}
