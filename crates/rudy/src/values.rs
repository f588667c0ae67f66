//! Values of flags that several commands have.

use std::num::NonZeroU32;
use std::time::Duration;

use rudy_stats::rate::{Count, ParseError, Time};

pub(crate) fn count(text: &str) -> Result<u64, ParseError> {
    text.parse().map(|Count(count)| count)
}

pub(crate) fn time(text: &str) -> Result<Duration, ParseError> {
    text.parse().map(|Time(time)| time)
}

pub(crate) fn number(text: &str) -> Result<NonZeroU32, String> {
    let count = count(text).map_err(|error| error.to_string())?;
    let number = u32::try_from(count).ok().and_then(NonZeroU32::new);
    number.ok_or_else(|| "expected a whole number from 1 to 4294967295".to_owned())
}
