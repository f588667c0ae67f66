//! Which authority to ask next, with which challenge, and when.

use std::time::Duration;

use rudy_acme::ChallengeKind;

/// The number of failed validations after which the test authority is asked: Let's Encrypt rejects orders for a name after
/// five in an hour.
const VALIDATIONS_MAX: u32 = 2;

/// The first pause after a failure. It doubles.
const PAUSE: Duration = Duration::from_mins(1);

/// The longest pause, unless the authority wants more.
const PAUSE_MAX: Duration = Duration::from_hours(6);

/// The attempts to get a certificate since the last one.
#[derive(Debug, Clone, Default)]
pub(super) struct Attempts {
    failures: u32,
    failed_validations: u32,
    /// The challenge that the test authority has verified since the last failure.
    tested: Option<ChallengeKind>,
}

/// An attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) kind: ChallengeKind,
    /// Whether to ask the test authority.
    pub(super) is_test: bool,
}

impl Attempts {
    /// Returns the next attempt: with each kind of challenge in turn.
    pub(super) fn next(&self, kinds: &[ChallengeKind], has_test: bool) -> Attempt {
        let turn = usize::try_from(self.failed_validations).unwrap_or(0) % kinds.len().max(1);
        let kind = kinds.get(turn).copied().unwrap_or(ChallengeKind::Http01);
        let is_test = has_test && self.failed_validations >= VALIDATIONS_MAX && self.tested.is_none();
        Attempt { kind: self.tested.unwrap_or(kind), is_test }
    }

    /// The test authority has verified the name.
    pub(super) fn passed_test(&mut self, kind: ChallengeKind) {
        self.tested = Some(kind);
    }

    /// Returns the pause after a failure. `share` from 0 to 1 adds up to a tenth, so that not all names are tried at once.
    pub(super) fn failed(
        &mut self,
        is_validation: bool,
        retry_after: Option<Duration>,
        share: f64,
    ) -> Duration {
        self.tested = None;
        self.failures += 1;
        self.failed_validations += u32::from(is_validation);
        let doubled = PAUSE.saturating_mul(1 << (self.failures - 1).min(16)).min(PAUSE_MAX);
        let pause = doubled + (doubled / 10).mul_f64(share);
        retry_after.map_or(pause, |after| pause.max(after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_two_failed_validations_the_test_authority_decides() {
        use ChallengeKind::{Http01, TlsAlpn01};
        let kinds = [Http01, TlsAlpn01];
        let mut attempts = Attempts::default();
        let next = |attempts: &Attempts| {
            let Attempt { kind, is_test } = attempts.next(&kinds, true);
            (kind, is_test)
        };
        assert_eq!(next(&attempts), (Http01, false));
        attempts.failed(true, None, 0.0);
        assert_eq!(next(&attempts), (TlsAlpn01, false));
        // A failure of the network is no reason for another challenge.
        attempts.failed(false, None, 0.0);
        assert_eq!(next(&attempts), (TlsAlpn01, false));
        attempts.failed(true, None, 0.0);
        assert_eq!(next(&attempts), (Http01, true));
        assert_eq!(attempts.next(&kinds, false), Attempt { kind: Http01, is_test: false });
        attempts.failed(true, None, 0.0);
        assert_eq!(next(&attempts), (TlsAlpn01, true));
        attempts.passed_test(TlsAlpn01);
        assert_eq!(next(&attempts), (TlsAlpn01, false));
        attempts.failed(true, None, 0.0);
        assert_eq!(next(&attempts), (Http01, true));
    }

    #[test]
    fn pauses_double_up_to_six_hours_and_are_as_long_as_the_authority_wants() {
        let mut attempts = Attempts::default();
        let mut fail = |retry_after| attempts.failed(false, retry_after, 0.0).as_secs();
        assert_eq!([fail(None), fail(None), fail(Some(Duration::from_secs(7)))], [60, 120, 240]);
        assert_eq!(fail(Some(Duration::from_hours(48))), 48 * 3600);
        assert_eq!((0..100).map(|_| fail(None)).max(), Some(6 * 3600));
        assert_eq!(Attempts::default().failed(true, None, 1.0).as_secs(), 66);
    }
}
