//! Connects a gateway and an application, and splits the byte stream between them at any point.

use bytes::{Buf, BytesMut};
use proptest::prelude::*;

use crate::application::{self, ApplicationConnection};
use crate::gateway::{self, GatewayConnection};
use crate::pairs::ParamsEncoder;
use crate::record::{Kind, encode_stream, encode_stream_end};
use crate::{Limits, ProtocolStatus, Role};

/// One request and its response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Exchange {
    params: Vec<(Vec<u8>, Vec<u8>)>,
    body: Vec<u8>,
    response: Vec<u8>,
    errors: Vec<u8>,
    app_status: u32,
}

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => proptest::collection::vec(any::<u8>(), 0..max),
        // Around 128 bytes, where the long form of a length begins.
        1 => (100..200_usize).prop_map(|length| vec![b'l'; length]),
    ]
}

fn long_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![4 => bytes(100), 1 => (65_500..140_000_usize).prop_map(|length| vec![b'r'; length])]
}

fn exchange() -> impl Strategy<Value = Exchange> {
    let params = proptest::collection::vec((bytes(20), bytes(20)), 0..6);
    (params, long_bytes(), long_bytes(), bytes(100), any::<u32>()).prop_map(
        |(params, body, response, errors, app_status)| Exchange {
            params,
            body,
            response,
            errors,
            app_status,
        },
    )
}

/// Passes all pending input to a state machine, as a driver does.
macro_rules! drain {
    ($machine:expr, $pending:expr, $limits:expr, $event:ident => $handle:expr) => {
        loop {
            let (used, $event) =
                $machine.decode(&$pending, $limits).expect("the other end follows the protocol");
            $handle;
            let is_done = used == 0;
            $pending.advance(used);
            if is_done {
                break;
            }
        }
    };
}

/// Sends one request after another on a connection, in pieces of `piece_bytes`, and responds to each request when it is
/// complete.
fn exchange_all(exchanges: &[Exchange], piece_bytes: usize) -> Vec<Exchange> {
    let mut gateway = GatewayConnection::new();
    let mut application = ApplicationConnection::new();
    let one = |exchange| exchange_one(&mut gateway, &mut application, exchange, piece_bytes);
    let received = exchanges.iter().map(one).collect();
    assert!(gateway.end_of_input() == Ok(()) && application.end_of_input() == Ok(()));
    received
}

fn exchange_one(
    gateway: &mut GatewayConnection,
    application: &mut ApplicationConnection,
    exchange: &Exchange,
    piece_bytes: usize,
) -> Exchange {
    let limits = Limits { params_bytes: 1024 * 1024, ..Limits::default() };
    let mut sent = BytesMut::new();
    let id = gateway.begin(Role::Responder, true, &mut sent);
    let mut params = ParamsEncoder::new(id, &mut sent);
    exchange.params.iter().for_each(|(name, value)| params.push(name, value));
    params.finish();
    let (first, second) = exchange.body.split_at(exchange.body.len() / 2);
    encode_stream(Kind::Stdin, id, first, &mut sent);
    encode_stream(Kind::Stdin, id, second, &mut sent);
    encode_stream_end(Kind::Stdin, id, &mut sent);

    let (mut received, mut pending) = (Exchange::default(), BytesMut::new());
    let mut is_complete = false;
    for piece in sent.chunks(piece_bytes) {
        pending.extend_from_slice(piece);
        drain!(application, pending, &limits, event => match event {
            application::Event::Params { params, .. } => {
                assert_eq!(params.len(), params.iter().count());
                received.params = params.iter().map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
            }
            application::Event::Stdin { data, .. } => {
                assert!(!data.is_empty(), "a piece is never empty");
                received.body.extend_from_slice(data);
            }
            application::Event::StdinEnd { .. } => is_complete = true,
            application::Event::Begin { role, keep_connection, .. } => assert!(role == Role::Responder && keep_connection),
            application::Event::More => {}
            other => panic!("the gateway did not send {other:?}"),
        });
    }
    assert!(pending.is_empty() && is_complete);

    let mut response = BytesMut::new();
    encode_stream(Kind::Stderr, id, &exchange.errors, &mut response);
    encode_stream(Kind::Stdout, id, &exchange.response, &mut response);
    encode_stream_end(Kind::Stdout, id, &mut response);
    application.end(id, exchange.app_status, ProtocolStatus::RequestComplete, &mut response);
    for piece in response.chunks(piece_bytes) {
        pending.extend_from_slice(piece);
        drain!(gateway, pending, &limits, event => match event {
            gateway::Event::Stdout(data) => received.response.extend_from_slice(data),
            gateway::Event::Stderr(data) => received.errors.extend_from_slice(data),
            gateway::Event::End { app_status, .. } => received.app_status = app_status,
            gateway::Event::StdoutEnd | gateway::Event::More => {}
            other => panic!("the application did not send {other:?}"),
        });
    }
    assert!(pending.is_empty() && gateway.is_idle());
    received
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn each_end_decodes_the_bytes_that_the_other_encodes(
        exchanges in proptest::collection::vec(exchange(), 0..5),
        piece_bytes in prop_oneof![1..100_usize, 1..100_000_usize],
    ) {
        prop_assert_eq!(exchange_all(&exchanges, piece_bytes), exchanges);
    }
}

#[test]
fn a_short_exchange_works_at_every_split() {
    let exchange = Exchange {
        params: vec![(b"N".to_vec(), b"v".to_vec()), (vec![b'n'; 128], Vec::new())],
        body: b"body".to_vec(),
        response: b"response".to_vec(),
        errors: b"!".to_vec(),
        app_status: 7,
    };
    for piece_bytes in 1..300 {
        let exchange = std::slice::from_ref(&exchange);
        assert_eq!(exchange_all(exchange, piece_bytes), exchange);
    }
}

#[test]
fn parameters_larger_than_a_record_are_transferred() {
    // The first record ends within a length, a name or a value, or at the end of a pair.
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
