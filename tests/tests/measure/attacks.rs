//! Attacks on HTTP/2, HTTP/3 and TLS, with few steps.

use rudy_http::Limits;
use rudy_tests::attacks::{ATTACKS, Target, measure};
use rudy_tests::prelude::*;

/// The part of the steps of each attack: enough to reach most limits.
const PART: u32 = 50;
const QUIC_PART: u32 = 150;

/// What a connection over QUIC may take when its client does not read, in bytes.
const QUIC_CONNECTION_BYTES: u64 = 64 * 1024;
/// What all of them may take together in any case, in bytes: buffers that they share.
const QUIC_SHARED_BYTES: u64 = 8 << 20;

#[test]
fn no_attack_stops_other_requests_or_takes_more_memory_than_the_limits_allow() {
    let limits = Limits::default();
    // What a connection may store: the heads of all its streams.
    let connection_bytes = limits.head_bytes as u64 * u64::from(limits.http2.streams);
    check(false, PART, |connections| connections.max(1) * connection_bytes);
}

#[test]
fn no_attack_over_quic_does() {
    check(true, QUIC_PART, |connections| (connections * QUIC_CONNECTION_BYTES).max(QUIC_SHARED_BYTES));
}

/// Runs this part of the attacks on QUIC, or of the others. `most` is the memory that this number of connections may take.
fn check(is_quic: bool, part: u32, most: impl Fn(u64) -> u64) {
    let Some(certificates) = Certificates::for_host("localhost", "localhost") else { return };
    for attack in ATTACKS.iter().filter(|attack| attack.is_quic() == is_quic) {
        let server = Target::rudy_for(attack, &certificates);
        let cost = measure(attack, &server, attack.steps / part);
        assert!(cost.serves_others, "{}: {cost:?}", attack.name);
        assert!(cost.memory_bytes <= most(cost.open_connections as u64), "{}: {cost:?}", attack.name);
    }
}
