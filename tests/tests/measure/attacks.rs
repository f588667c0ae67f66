//! Attacks on HTTP/2 and TLS, with few steps.

use rudy_http::Limits;
use rudy_tests::attacks::{ATTACKS, Target, measure};
use rudy_tests::prelude::*;

/// The part of the steps of each attack: enough to reach the limits.
const PART: u32 = 50;

#[test]
fn no_attack_stops_other_requests_or_takes_more_memory_than_the_limits_allow() {
    let Some(certificates) = Certificates::for_host("localhost", "localhost") else { return };
    let limits = Limits::default();
    // What a connection may store: the heads of all its streams.
    let connection_bytes = limits.head_bytes as u64 * u64::from(limits.http2.streams);
    for attack in &ATTACKS {
        let server = Target::rudy(attack.is_tls().then_some(&certificates));
        let cost = measure(attack, &server, attack.steps / PART);
        assert!(cost.serves_others, "{}: {cost:?}", attack.name);
        let connections = cost.open_connections.max(1) as u64;
        assert!(cost.memory_bytes <= connections * connection_bytes, "{}: {cost:?}", attack.name);
    }
}
