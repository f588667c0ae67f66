//! Keeps the certificate for one name valid.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rudy_acme::{
    Authority, Challenge, ChallengeKind, Failure, Order, Publish, Published, RenewalWindow, renewal_time,
};
use rudy_log::utc;
use rudy_runtime::clock;
use rudy_runtime::is_planted;
use rudy_runtime::random;
use rudy_tls::Certificate;
use tokio::sync::futures::Notified;
use tokio::time::{sleep, timeout};

use super::Outlook;
use super::attempts::{Attempt, Attempts};
use super::challenges::VISIBLE_AFTER;
use super::lock::Lock;
use super::renewals::Shared;

/// The longest pause before the time of renewal is computed again: the clock may be set, and the certificate replaced.
const LOOK_AGAIN: Duration = Duration::from_hours(1);

/// The shortest time between two renewals of a certificate that is valid for longer than three times that, or that has expired: an
/// authority that always says "now" must not get an order after the other.
const RENEWAL_PAUSE: Duration = Duration::from_hours(1);

/// The maximum time of an attempt: an authority that accepts connections and says nothing must not stop renewal.
const ATTEMPT_TIMEOUT: Duration = Duration::from_mins(20);

/// Keeps the certificate for a name valid until the task is aborted.
pub(super) async fn keep(name: String, kinds: Vec<ChallengeKind>, shared: Arc<Shared>) {
    let (attempts, share, earliest) = (Attempts::default(), random::share(), clock::now());
    Keeper { name, kinds, shared, attempts, window: None, share, earliest }.run().await;
}

struct Keeper {
    name: String,
    kinds: Vec<ChallengeKind>,
    shared: Arc<Shared>,
    attempts: Attempts,
    /// When the authority wants the certificate to be renewed.
    window: Option<Advice>,
    /// The point in the time of renewal, from 0 to 1.
    share: f64,
    /// When the next renewal may be, whatever the authority says, and however the wall clock is set.
    earliest: Instant,
}

/// What an authority has said about a certificate.
struct Advice {
    window: RenewalWindow,
    at: SystemTime,
    /// The end of the certificate. Another process may have renewed it since, and the window is not that of the new one.
    not_after: SystemTime,
}

impl Keeper {
    async fn run(mut self) {
        let shared = self.shared.clone();
        loop {
            let stored = self.stored();
            let due = match &stored {
                Some(certificate) => self.due(certificate).await,
                None => clock::utc(),
            };
            if let Ok(left) = due.duration_since(clock::utc()).map(|left| left.min(LOOK_AGAIN))
                && !left.is_zero()
            {
                self.shared.acme.set_outlook(&self.name, Outlook { last_error: None, next: Some(due) });
                sleep(left).await;
                continue;
            }
            // From here on, so that a reload counts that comes during the attempt.
            let reload = shared.retry.notified();
            if let Err(failure) = self.renew(stored).await {
                self.pause_after(&failure, reload).await;
            }
        }
    }

    /// Returns the stored certificate. Without descriptors, for which reading fails, nothing can be ordered either.
    fn stored(&self) -> Option<Certificate> {
        self.shared.acme.stored(self.shared.directory(), &self.name).ok().flatten()
    }

    /// Returns when to renew a certificate.
    async fn due(&mut self, certificate: &Certificate) -> SystemTime {
        let now = clock::utc();
        let not_after = certificate.not_after;
        // Another process may have renewed it.
        self.window = self.window.take().filter(|advice| advice.not_after == not_after);
        let is_current =
            |advice: &Advice| now.duration_since(advice.at).is_ok_and(|age| age < advice.window.valid_for);
        if !self.window.as_ref().is_some_and(is_current) {
            match self.ask_for_window(certificate).await {
                Ok(window) => self.window = window.map(|window| Advice { window, at: now, not_after }),
                // Two thirds of the validity, or the last window, are good enough.
                Err(failure) => self.shared.errors.recurring_error(
                    ("cannot ask when to renew a certificate", &*self.name),
                    &format!("cannot ask when to renew the certificate for {}: {failure}", self.name),
                ),
            }
        }
        let window = self.window.as_ref().map(|advice| &advice.window);
        if is_planted("a certificate that expires before it is renewed") {
            return not_after;
        }
        let pause = self.earliest.saturating_duration_since(clock::now());
        renewal_time(certificate.not_before, not_after, window, self.share).max(clock::utc() + pause)
    }

    async fn ask_for_window(&self, certificate: &Certificate) -> Result<Option<RenewalWindow>, Failure> {
        let account = self.shared.account(&self.shared.settings.authority).await?;
        account.renewal_window(certificate).await
    }

    /// Gets a certificate, unless another process does.
    async fn renew(&mut self, before: Option<Certificate>) -> Result<(), Failure> {
        let path = self.shared.folder()?.lock(&self.name);
        let locked = Lock::acquire(&path).await;
        let _lock =
            locked.map_err(|error| Failure::local(format!("cannot lock {}: {error}", path.display())))?;
        let end =
            |certificate: &Option<Certificate>| certificate.as_ref().map(|certificate| certificate.not_after);
        if end(&self.stored()) != end(&before) {
            self.forget();
            return Ok(());
        }
        let attempt = self.attempts.next(&self.kinds, self.shared.settings.test.is_some());
        let settings = &self.shared.settings;
        let authority =
            settings.test.as_ref().filter(|_| attempt.is_test).unwrap_or(&settings.authority).clone();
        self.remove_left_behind().await;
        let issued = timeout(ATTEMPT_TIMEOUT, self.order(&authority, attempt, before)).await;
        issued.unwrap_or_else(|_| Err(Failure::local("the authority did not decide in time")))
    }

    /// Orders a certificate and stores it.
    async fn order(
        &mut self,
        authority: &Authority,
        attempt: Attempt,
        before: Option<Certificate>,
    ) -> Result<(), Failure> {
        let account = self.shared.account(authority).await?;
        let order = Order {
            name: self.name.clone(),
            kind: attempt.kind,
            profile: self.shared.settings.profile.clone().filter(|_| !attempt.is_test),
            replaces: before.filter(|_| !attempt.is_test),
        };
        let ordered = account.order(&order, &Publisher { shared: &self.shared, name: &self.name }).await;
        let issued = match ordered {
            Ok(issued) => issued,
            Err(failure) => {
                if failure.needs_account {
                    self.shared.forget_account(authority).await;
                }
                return Err(failure);
            }
        };
        if attempt.is_test {
            self.attempts.passed_test(attempt.kind);
            self.shared.errors.notice(&format!(
                "the test authority {} could verify {} ({}); asking {} again",
                authority.directory,
                self.name,
                attempt.kind,
                self.shared.directory()
            ));
            return Ok(());
        }
        self.shared.folder()?.write(&authority.directory, &self.name, &issued).map_err(Failure::local)?;
        self.forget();
        if let Some(certificate) = self.stored() {
            let now = clock::utc();
            let left = certificate.not_after.duration_since(now).unwrap_or_default();
            self.earliest = clock::now() + pause_after_order(left);
            self.shared.errors.notice(&format!(
                "got a certificate for {} from {}, valid until {}",
                self.name,
                authority.directory,
                utc(certificate.not_after)
            ));
        }
        Ok(())
    }

    /// Begins again, with a new certificate.
    fn forget(&mut self) {
        (self.attempts, self.window, self.share) = (Attempts::default(), None, random::share());
    }

    /// Removes the record of a process that was killed.
    async fn remove_left_behind(&self) {
        if let Some(challenge) = self.shared.acme.challenges.left_behind(&self.name) {
            Publisher { shared: &self.shared, name: &self.name }.remove(&challenge).await;
        }
    }

    /// Logs a failure, and waits until the next attempt.
    async fn pause_after(&mut self, failure: &Failure, reload: Notified<'_>) {
        let attempt = self.attempts.next(&self.kinds, self.shared.settings.test.is_some());
        let pause = self.attempts.failed(failure.is_validation, failure.retry_after, random::share());
        let (now, shared) = (clock::utc(), &self.shared);
        let test = if attempt.is_test { ", from the test authority" } else { "" };
        let next = now + pause;
        shared.errors.error(&format!(
            "cannot get a certificate for {} ({}{test}): {failure}; next attempt at {}",
            self.name,
            attempt.kind,
            utc(next)
        ));
        let outlook = Outlook { last_error: Some((now, failure.to_string())), next: Some(next) };
        shared.acme.set_outlook(&self.name, outlook);
        // A reload asks for another attempt, but not earlier than the authority wants.
        let earliest = failure.retry_after.unwrap_or_default();
        sleep(earliest).await;
        let _ = timeout(pause.saturating_sub(earliest), reload).await;
    }
}

/// Returns the time until the next renewal of a new certificate that is valid for `left`. One that has expired already means that
/// the clock of this machine is wrong.
fn pause_after_order(left: Duration) -> Duration {
    if left.is_zero() { RENEWAL_PAUSE } else { (left / 3).min(RENEWAL_PAUSE) }
}

/// Publishes the challenges for a name.
struct Publisher<'a> {
    shared: &'a Shared,
    name: &'a str,
}

impl Publish for Publisher<'_> {
    async fn publish(&self, challenge: &Challenge) -> Published {
        // A record is written, too, so that the next process can remove it if this one is killed.
        self.shared.acme.challenges.publish(self.name, challenge)?;
        match (challenge, &self.shared.settings.hook) {
            (Challenge::Dns01 { record, value }, Some(hook)) => hook.present(record, value).await,
            (Challenge::Dns01 { .. }, None) => Err("there is no `dns_hook`".to_owned()),
            _ => {
                sleep(VISIBLE_AFTER).await;
                Ok(())
            }
        }
    }

    async fn remove(&self, challenge: &Challenge) {
        if let (Challenge::Dns01 { record, value }, Some(hook)) = (challenge, &self.shared.settings.hook)
            && let Err(error) = hook.cleanup(record, value).await
        {
            self.shared.errors.error(&format!("cannot remove the record {record}: {error}"));
        }
        self.shared.acme.challenges.remove(self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_pause_after_each_order() {
        for (left, pause) in [(0, 3600), (60, 20), (7_776_000, 3600)] {
            assert_eq!(pause_after_order(Duration::from_secs(left)), Duration::from_secs(pause), "{left}");
        }
    }
}
