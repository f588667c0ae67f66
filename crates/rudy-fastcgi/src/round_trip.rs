//! Both ends connected back to back, over a link that cuts what is sent at any byte.

use bytes::{Buf, BytesMut};
use proptest::prelude::*;

use crate::application::{self, ApplicationConnection};
use crate::gateway::{self, GatewayConnection};
use crate::pairs::ParamsEncoder;
use crate::record::{Kind, encode_stream, encode_stream_end};
use crate::{Limits, ProtocolStatus, RequestId, Role};

/// One request, and what is answered to it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Exchange {
    params: Vec<(Vec<u8>, Vec<u8>)>,
    body: Vec<u8>,
    answer: Vec<u8>,
    errors: Vec<u8>,
    app_status: u32,
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => proptest::collection::vec(any::<u8>(), 0..most),
        // Beyond the short form of a length, and beyond one record.
        1 => (100..200_usize).prop_map(|length| vec![b'l'; length]),
    ]
}

fn long() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![4 => bytes(100), 1 => (65_500..140_000_usize).prop_map(|length| vec![b'r'; length])]
}

fn exchange() -> impl Strategy<Value = Exchange> {
    let params = proptest::collection::vec((bytes(20), bytes(20)), 0..6);
    (params, long(), long(), bytes(100), any::<u32>()).prop_map(
        |(params, body, answer, errors, app_status)| Exchange { params, body, answer, errors, app_status },
    )
}

/// Gives a machine everything that has come so far, as a driver does.
macro_rules! drain {
    ($machine:expr, $pending:expr, $limits:expr, $event:ident => $handle:expr) => {
        loop {
            let (used, $event) = $machine.decode(&$pending, $limits).expect("the other end keeps the rules");
            $handle;
            let is_over = used == 0;
            $pending.advance(used);
            if is_over {
                break;
            }
        }
    };
}

/// Sends all requests at once, interleaved, in pieces of `piece_bytes`, and answers each when all of it has come.
fn exchange_all(exchanges: &[Exchange], piece_bytes: usize) -> Vec<Exchange> {
    let limits = Limits { params_bytes: 1024 * 1024, ..Limits::default() };
    let mut gateway = GatewayConnection::new();
    let mut sent = BytesMut::new();
    let ids: Vec<RequestId> = exchanges
        .iter()
        .map(|_| gateway.begin(Role::Responder, true, &limits, &mut sent).expect("the limit is higher"))
        .collect();
    for (exchange, id) in exchanges.iter().zip(&ids) {
        let mut params = ParamsEncoder::new(*id, &mut sent);
        exchange.params.iter().for_each(|(name, value)| params.push(name, value));
        params.finish();
    }
    // The bodies in turns.
    for (exchange, id) in exchanges.iter().zip(&ids) {
        encode_stream(Kind::Stdin, *id, &exchange.body[..exchange.body.len() / 2], &mut sent);
    }
    for (exchange, id) in exchanges.iter().zip(&ids) {
        encode_stream(Kind::Stdin, *id, &exchange.body[exchange.body.len() / 2..], &mut sent);
        encode_stream_end(Kind::Stdin, *id, &mut sent);
    }

    let mut seen = vec![Exchange::default(); exchanges.len()];
    let index = |id: RequestId| usize::from(id.get()) - 1;
    let mut answered = BytesMut::new();
    let mut application = ApplicationConnection::new();
    let mut pending = BytesMut::new();
    for piece in sent.chunks(piece_bytes) {
        pending.extend_from_slice(piece);
        let mut ended = Vec::new();
        drain!(application, pending, &limits, event => match event {
            application::Event::Params { id, params } => {
                assert_eq!(params.len(), params.iter().count());
                seen[index(id)].params = params.iter().map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
            }
            application::Event::Stdin { id, data } => {
                assert!(!data.is_empty(), "an empty piece says nothing");
                seen[index(id)].body.extend_from_slice(data);
            }
            application::Event::StdinEnd { id } => ended.push(id),
            application::Event::Begin { role, keep_connection, .. } => assert!(role == Role::Responder && keep_connection),
            application::Event::More => {}
            other => panic!("nobody sent {other:?}"),
        });
        for id in ended {
            let exchange = &exchanges[index(id)];
            encode_stream(Kind::Stderr, id, &exchange.errors, &mut answered);
            encode_stream(Kind::Stdout, id, &exchange.answer, &mut answered);
            encode_stream_end(Kind::Stdout, id, &mut answered);
            application.end(id, exchange.app_status, ProtocolStatus::RequestComplete, &mut answered);
        }
    }
    assert!(pending.is_empty() && application.end_of_input() == Ok(()));

    for piece in answered.chunks(piece_bytes) {
        pending.extend_from_slice(piece);
        drain!(gateway, pending, &limits, event => match event {
            gateway::Event::Stdout { id, data } => seen[index(id)].answer.extend_from_slice(data),
            gateway::Event::Stderr { id, data } => seen[index(id)].errors.extend_from_slice(data),
            gateway::Event::End { id, app_status, .. } => seen[index(id)].app_status = app_status,
            gateway::Event::StdoutEnd { .. } | gateway::Event::More => {}
            other => panic!("nobody sent {other:?}"),
        });
    }
    assert!(pending.is_empty() && gateway.end_of_input() == Ok(()));
    seen
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_one_end_sends_the_other_reads(
        exchanges in proptest::collection::vec(exchange(), 0..5),
        piece_bytes in prop_oneof![1..100_usize, 1..100_000_usize],
    ) {
        prop_assert_eq!(exchange_all(&exchanges, piece_bytes), exchanges);
    }
}

#[test]
fn a_short_exchange_survives_every_split() {
    let exchange = Exchange {
        params: vec![(b"N".to_vec(), b"v".to_vec()), (vec![b'n'; 128], Vec::new())],
        body: b"body".to_vec(),
        answer: b"answer".to_vec(),
        errors: b"!".to_vec(),
        app_status: 7,
    };
    for piece_bytes in 1..300 {
        let exchange = std::slice::from_ref(&exchange);
        assert_eq!(exchange_all(exchange, piece_bytes), exchange);
    }
}

#[test]
fn parameters_larger_than_a_record_go_through() {
    // Ends of records within a length, a name and a value, and at the end of a pair.
    for first in [65_528 - 6, 65_528 - 5, 65_528 - 8, 65_528 - 10, 65_528, 200_000] {
        let params = vec![
            (b"F".to_vec(), vec![b'f'; first]),
            (b"NAME".to_vec(), b"value".to_vec()),
            (vec![b'n'; 150_000], vec![b'v'; 127]),
            (Vec::new(), Vec::new()),
        ];
        let exchange = [Exchange { params, ..Exchange::default() }];
        for piece_bytes in [1000, 65_536, 1_000_000] {
            assert!(exchange_all(&exchange, piece_bytes) == exchange, "with {first} bytes first");
        }
    }
}
