//! Cache directives: `Cache-Control` of requests and responses (RFC 9111 §5.2), and fields that target one kind of cache
//! (RFC 9213).
//!
//! Origins contradict themselves, and proxies merge fields. §4.2.1 recommends caution: a directive with an invalid value, or with
//! several different ones, counts as the most restrictive value.

mod dictionary;
mod member;
mod request;
mod response;

pub(crate) use request::RequestDirectives;
pub(crate) use response::{ResponseDirectives, Scope};

use crate::Seconds;
use member::Argument;

/// Records the argument of a directive with a duration. An invalid value is zero, and so are different values together: the
/// response is stale, which §4.2.1 encourages, and may not be used when it is stale.
fn record(seconds: &mut Option<Seconds>, argument: &Argument<'_>) {
    let new = seconds_of(argument).unwrap_or(Seconds::ZERO);
    *seconds = Some(if seconds.is_none_or(|known| known == new) { new } else { Seconds::ZERO });
}

fn seconds_of(argument: &Argument<'_>) -> Option<Seconds> {
    match argument {
        Argument::Text(digits) => Seconds::parse(digits),
        Argument::None | Argument::Invalid => None,
    }
}
