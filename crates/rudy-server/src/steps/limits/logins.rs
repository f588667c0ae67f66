//! Rate limits for failed logins, which the step that verifies passwords applies.
//!
//! A guess is counted before the hash of its password is computed, and a correct password is given back afterwards. So guesses that
//! are sent at the same time are not more than the limit, and those over the limit cost no time.

use std::sync::Arc;
use std::time::Instant;

use rudy_http::semantics::path::RequestPath;
use rudy_limit::Key;
use rudy_net::{Client, Request, Response};

use super::applied::Applied;
use super::key::KeySource;
use super::rate::{Over, RateLimit};
use crate::error_log::ErrorLog;
use crate::handlers::Call;

/// The limits for failed logins of a site or route.
#[derive(Debug, Clone, Default)]
pub(in crate::steps) struct LoginLimits(Arc<[Applied<RateLimit>]>);

impl LoginLimits {
    pub(super) fn new(limits: Vec<Applied<RateLimit>>) -> Self {
        Self(limits.into())
    }

    /// Begins a login that may fail.
    ///
    /// # Errors
    ///
    /// It is over a limit.
    pub(in crate::steps) fn begin(
        &self,
        request: &Request,
        call: &Call<'_>,
    ) -> Result<Attempt, TooManyLogins> {
        let (source, now) = (KeySource::of_request(request, call), Instant::now());
        let mut keys = Vec::with_capacity(self.0.len());
        for applied in &*self.0 {
            let Applied { limit, effect } = applied;
            let key = limit.meter.key(&source);
            let decision = limit.limiter.preview(key, now);
            if !decision.is_allowed() && !effect.dry_run {
                return Err(TooManyLogins(Over { applied: applied.clone(), key, decision }));
            }
            if !decision.is_allowed() {
                limit.meter.count(key, &source, *effect, now);
            }
            keys.push((applied.clone(), key));
        }
        Ok(Attempt(keys))
    }

    /// Describes the limits for `rudy check --explain`.
    pub(in crate::steps) fn describe(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(Applied::describe)
    }

    pub(in crate::steps) fn set_log(&self, log: &ErrorLog) {
        self.0.iter().for_each(|applied| applied.limit.meter.set_log(log));
    }
}

/// A login, with the keys by which its limits count it.
#[derive(Debug)]
pub(in crate::steps) struct Attempt(Vec<(Applied<RateLimit>, Key)>);

/// A login over a limit.
#[derive(Debug)]
pub(in crate::steps) struct TooManyLogins(Over);

impl Attempt {
    /// Verifies a password, and counts it unless it is correct.
    ///
    /// # Errors
    ///
    /// Others have used the allowance meanwhile; the password was not verified.
    pub(in crate::steps) fn verify(self, is_correct: impl FnOnce() -> bool) -> Result<bool, TooManyLogins> {
        let (now, mut taken) = (Instant::now(), Vec::with_capacity(self.0.len()));
        for (applied, key) in &self.0 {
            let decision = applied.limit.limiter.take(*key, now);
            if decision.is_allowed() {
                taken.push((applied, *key));
            } else if !applied.effect.dry_run {
                give_back(&taken);
                return Err(TooManyLogins(Over { applied: applied.clone(), key: *key, decision }));
            }
        }
        let is_correct = is_correct();
        if is_correct {
            give_back(&taken);
        }
        Ok(is_correct)
    }
}

/// Takes back what limits have counted.
fn give_back(taken: &[(&Applied<RateLimit>, Key)]) {
    for (applied, key) in taken {
        applied.limit.limiter.give_back(*key);
    }
}

impl TooManyLogins {
    /// Returns the response, and counts the request.
    pub(in crate::steps) fn reject(
        &self,
        request: &Request,
        path: &RequestPath<'_>,
        client: &Client<'_>,
    ) -> Response {
        self.0.reject(request, &KeySource::new(request, path, client))
    }
}
