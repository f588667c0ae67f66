//! Properties of connections with arbitrary input.

use proptest::prelude::*;

use super::*;

/// Frames of all types, mostly valid, and other bytes.
fn part() -> impl Strategy<Value = Vec<u8>> {
    let payload = || proptest::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        6 => Just(get()),
        6 => Just(post(&[])),
        3 => (0..8_u8).prop_map(|length| post(&[("content-length", &length.to_string())])),
        8 => payload().prop_map(|payload| data(&payload)),
        2 => Just(headers(&[("t", "1")])),
        2 => (0..40_u64, payload()).prop_map(|(kind, payload)| frame(0x21 + 0x1f * kind, &payload)),
        1 => (0..16_u64, payload()).prop_map(|(kind, payload)| frame(kind, &payload)),
        1 => (0..16_u64).prop_map(|stream| frame(kind::PRIORITY_UPDATE, &[&number(stream)[..], b"u=5"].concat())),
        1 => (0..16_u64).prop_map(|id| frame(kind::MAX_PUSH_ID, &number(id))),
        1 => payload(),
    ]
}

/// What is sent on a few streams.
fn sent() -> impl Strategy<Value = Vec<(u64, Vec<u8>, bool)>> {
    let stream = prop_oneof![8 => (0..5_u64).prop_map(|number| 4 * number), 1 => 0..20_u64];
    let piece = (stream, proptest::collection::vec(part(), 0..4), any::<bool>());
    let piece = piece.prop_map(|(stream, parts, ends)| (stream, parts.concat(), ends));
    proptest::collection::vec(piece, 1..8)
}

proptest! {
    #[test]
    fn any_split_leads_to_the_same_events(
        sent in sent(),
        positions in proptest::collection::btree_set(1..200_usize, 0..8),
    ) {
        let pieces: Vec<Piece<'_>> = sent.iter().map(|(stream, bytes, ends)| (*stream, &bytes[..], *ends)).collect();
        let positions: Vec<usize> = positions.into_iter().collect();
        let split = run(pieces.iter().flat_map(|piece| cut(*piece, &positions)));
        prop_assert_eq!(split, run(pieces.iter().copied()));
    }

    /// Whatever a client sends and a server does, each stream that is known to the server ends once, and none is left.
    #[test]
    fn each_request_ends_once(sent in sent(), actions in proptest::collection::vec(0..6_u8, 8)) {
        let mut client = Client::new();
        for ((stream, bytes, ends), action) in sent.iter().zip(actions) {
            if client.receive(*stream, bytes, *ends).is_err() {
                return Ok(());
            }
            client.connection.core.streams.check();
            let (now, limits) = (client.now, client.limits.clone());
            match action {
                0 => client.respond(*stream, b"hello"),
                1 => client.connection.reset(*stream, ErrorCode::INTERNAL_ERROR, now),
                2 if stream % 4 == 0 => {
                    let code = ErrorCode::REQUEST_CANCELLED;
                    prop_assert!(client.connection.receive_stop(*stream, code, now, &limits).is_ok());
                }
                3 => client.begin(*stream, 200, None),
                _ => {}
            }
        }
        for stream in (0..20).step_by(4) {
            client.connection.reset(stream, ErrorCode::INTERNAL_ERROR, client.now);
        }
        prop_assert!(client.connection.is_idle());
        client.connection.core.streams.check();
        let is_last = |end: &StreamEnd| !matches!(end, StreamEnd::Stop(_));
        let ends: Vec<u64> =
            client.ends().iter().filter(|(_, end)| is_last(end)).map(|(stream, _)| *stream).collect();
        let mut once = ends.clone();
        once.sort_unstable();
        once.dedup();
        prop_assert_eq!(once.len(), ends.len());
    }
}
