//! The result of a lookup.

use std::fmt;
use std::net::SocketAddr;

use crate::resolver::Answer;

/// The maximum number of addresses that are used. DNS returns some dozens at most in one packet.
const ADDRESSES_MAX: usize = 64;

/// The maximum number of addresses in a log line.
const SHOWN_MAX: usize = 8;

/// Returns the addresses without duplicates, or why there are none.
pub(super) fn usable(answer: Result<Answer<SocketAddr>, String>) -> Result<Answer<SocketAddr>, String> {
    let Answer { records, ttl } = answer?;
    let mut addresses = Vec::new();
    for address in records {
        if !addresses.contains(&address) && addresses.len() < ADDRESSES_MAX {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        Err("it has no address".to_owned())
    } else {
        Ok(Answer { records: addresses, ttl })
    }
}

/// Returns whether two lookups have the same addresses in any order: DNS servers rotate them.
pub(super) fn is_same(one: &[SocketAddr], other: &[SocketAddr]) -> bool {
    one.len() == other.len() && one.iter().all(|address| other.contains(address))
}

/// Formats addresses for a log line.
#[must_use]
pub fn list(addresses: &[SocketAddr]) -> String {
    let shown: Vec<_> = addresses.iter().take(SHOWN_MAX).map(|address| address.ip().to_string()).collect();
    let more = match addresses.len().saturating_sub(SHOWN_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    shown.join(", ") + &more
}

/// Returns the log line for a name that does not resolve.
pub fn unresolved_line(name: impl fmt::Display, why: &str) -> String {
    format!("{name} does not resolve: {why}; requests to it get 502 until it does")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_and_excess_addresses_are_dropped() {
        let addresses = |ports: std::ops::Range<u16>| {
            ports.map(|port| ([10, 0, 0, 1], port).into()).collect::<Vec<SocketAddr>>()
        };
        let of = |answer: Result<_, String>| {
            usable(answer.map(|records| Answer { records, ttl: None })).map(|answer| answer.records)
        };
        assert_eq!(of(Ok([addresses(1..3), addresses(1..4)].concat())), Ok(addresses(1..4)));
        assert_eq!(of(Ok(addresses(1..1000))), Ok(addresses(1..65)));
        assert_eq!(of(Ok(Vec::new())), Err("it has no address".to_owned()));
        assert_eq!(of(Err("no".to_owned())), Err("no".to_owned()));
        let mut reversed = addresses(1..4);
        reversed.reverse();
        assert!(is_same(&reversed, &addresses(1..4)));
        assert!(!is_same(&addresses(1..3), &addresses(1..4)) && !is_same(&addresses(0..3), &addresses(1..4)));
        let shown = ["10.0.0.1"; 8].join(", ");
        assert_eq!(list(&addresses(0..8)), shown);
        assert_eq!(list(&addresses(0..10)), format!("{shown} and 2 more"));
    }
}
