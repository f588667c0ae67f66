//! The directives of a request (RFC 9111 §5.2.1).

use http::HeaderMap;
use http::header::CACHE_CONTROL;

use super::member::{Argument, Member, members};
use super::{record, seconds_of};
use crate::Seconds;

/// What a client requires of the cache.
///
/// `Pragma` is ignored: §5.4 deprecates it, and clients that send it today also send `Cache-Control`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RequestDirectives {
    /// §5.2.1.1: the maximum age.
    pub(crate) max_age: Option<Seconds>,
    /// §5.2.1.2: for how long a response may have been stale. Without an argument, any time.
    pub(crate) max_stale: Option<Seconds>,
    /// §5.2.1.3: for how long the response has to remain fresh.
    pub(crate) min_fresh: Option<Seconds>,
    /// §5.2.1.4: validate before use.
    pub(crate) no_cache: bool,
    /// §5.2.1.5.
    pub(crate) no_store: bool,
    /// §5.2.1.7: respond from the cache, or with 504.
    pub(crate) only_if_cached: bool,
    /// RFC 5861 §4: for how long a stale response may replace an error.
    pub(crate) stale_if_error: Option<Seconds>,
}

impl RequestDirectives {
    pub(crate) fn parse(fields: &HeaderMap) -> Self {
        let mut directives = Self::default();
        let lines = fields.get_all(CACHE_CONTROL).iter();
        for Member { name, argument } in lines.flat_map(|line| members(line.as_bytes())) {
            directives.apply(&name.to_ascii_lowercase(), &argument);
        }
        directives
    }

    /// §5.2: names are case-insensitive. Unknown directives MUST be ignored (§5.2.3).
    fn apply(&mut self, name: &[u8], argument: &Argument<'_>) {
        match name {
            b"max-age" => record(&mut self.max_age, argument),
            b"max-stale" if *argument == Argument::None => {
                self.max_stale.get_or_insert(Seconds::MAX);
            }
            b"max-stale" => record(&mut self.max_stale, argument),
            b"min-fresh" => self.min_fresh = self.min_fresh.max(seconds_of(argument)),
            b"no-cache" => self.no_cache = true,
            b"no-store" => self.no_store = true,
            b"only-if-cached" => self.only_if_cached = true,
            b"stale-if-error" => record(&mut self.stale_if_error, argument),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn parse(lines: &[&'static str]) -> RequestDirectives {
        let lines = lines.iter().map(|line| (CACHE_CONTROL, HeaderValue::from_static(line)));
        RequestDirectives::parse(&lines.collect())
    }

    #[test]
    fn section_5_2_1_directives_of_a_request() {
        let (five, nine) = (Some(Seconds::new(5)), Some(Seconds::new(9)));
        let default = RequestDirectives::default;
        for (lines, expected) in [
            (&["MAX-AGE=5, x=\"no-store\""][..], RequestDirectives { max_age: five, ..default() }),
            (&["max-age=5", "max-age=5"], RequestDirectives { max_age: five, ..default() }),
            (&["max-age=5", "max-age=9"], RequestDirectives { max_age: Some(Seconds::ZERO), ..default() }),
            (&["max-age=x"], RequestDirectives { max_age: Some(Seconds::ZERO), ..default() }),
            (&["max-stale"], RequestDirectives { max_stale: Some(Seconds::MAX), ..default() }),
            (&["max-stale=5, max-stale"], RequestDirectives { max_stale: five, ..default() }),
            (&["max-stale=x"], RequestDirectives { max_stale: Some(Seconds::ZERO), ..default() }),
            (&["min-fresh=5, min-fresh=9"], RequestDirectives { min_fresh: nine, ..default() }),
            (&["min-fresh=x"], default()),
            (&["no-cache, no-store"], RequestDirectives { no_cache: true, no_store: true, ..default() }),
            (
                &["only-if-cached, stale-if-error=9"],
                RequestDirectives { only_if_cached: true, stale_if_error: nine, ..default() },
            ),
        ] {
            assert_eq!(parse(lines), expected, "{lines:?}");
        }
    }
}
