//! `Cache-Status` (RFC 9211).

use std::fmt;

use http::header::InvalidHeaderValue;
use http::{HeaderValue, StatusCode};

use crate::lookup::{Decision, Forward};

/// How the cache handled a request.
///
/// It has no `key` and no `detail`: both would show clients what the configuration looks like. A response may already have a line
/// of a cache nearer to the origin; this one is appended after it (§2).
///
/// ```
/// # use rudy_cache::{CacheStatus, Decision, Forward};
/// # use http::StatusCode;
/// let mut status = CacheStatus::of(&Decision::Forward(Forward::UriMiss));
/// status.forward_status = Some(StatusCode::OK);
/// status.stored = true;
/// assert_eq!(status.to_string(), "Rudy; fwd=uri-miss; fwd-status=200; stored");
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheStatus {
    /// §2.1: the request was not forwarded.
    pub hit: bool,
    /// §2.2: why it was forwarded.
    pub forward: Option<Forward>,
    /// §2.3: the status that the next server sent.
    pub forward_status: Option<StatusCode>,
    /// §2.4: for how many seconds the response remains fresh. Negative if it is stale.
    pub ttl: Option<i64>,
    /// §2.5: whether the forwarded response was stored.
    pub stored: bool,
    /// §2.6: whether the request shared a forwarded one.
    pub collapsed: bool,
}

impl CacheStatus {
    /// Returns what is known before the request is forwarded.
    #[must_use]
    pub fn of(decision: &Decision) -> Self {
        let forwarded = |reason| Self { forward: Some(reason), ..Self::default() };
        match decision {
            Decision::Hit(selected) | Decision::StaleHit(selected) => {
                Self { hit: true, ttl: Some(selected.ttl), ..Self::default() }
            }
            Decision::Validate { reason, .. } | Decision::Forward(reason) => forwarded(*reason),
            Decision::Extend(_) => forwarded(Forward::Partial),
            Decision::OnlyIfCached => Self::default(),
        }
    }

    /// Returns a word for logs and metrics: `hit`, `collapsed`, the token of [`Forward`], or `only-if-cached`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self.forward {
            _ if self.hit => "hit",
            _ if self.collapsed => "collapsed",
            Some(reason) => reason.token(),
            None => "only-if-cached",
        }
    }

    /// Returns the field value, with the name of the cache: a token (§2).
    ///
    /// # Errors
    ///
    /// The name has control characters.
    pub fn to_value(&self, name: &str) -> Result<HeaderValue, InvalidHeaderValue> {
        let parameters = self.to_string();
        HeaderValue::try_from(parameters.replacen("Rudy", name, 1))
    }
}

impl fmt::Display for CacheStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rudy")?;
        if self.hit {
            f.write_str("; hit")?;
        }
        if let Some(reason) = self.forward {
            write!(f, "; fwd={}", reason.token())?;
        }
        if let Some(status) = self.forward_status {
            write!(f, "; fwd-status={}", status.as_u16())?;
        }
        if let Some(ttl) = self.ttl {
            write!(f, "; ttl={ttl}")?;
        }
        for (is_set, name) in [(self.stored, "stored"), (self.collapsed, "collapsed")] {
            if is_set {
                write!(f, "; {name}")?;
            }
        }
        Ok(())
    }
}
