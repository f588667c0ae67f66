//! A connection and a handler in threads of their own, in random orders. One that is never woken is a deadlock, which `shuttle` reports.

use std::future::poll_fn;

use rudy_test_sync::{block_on, check, join, thread};

use super::*;

/// Number of orders per test. Each takes about 20 microseconds.
const ORDERS: usize = 5_000;

/// The pieces of a body.
const PIECES: [&str; 3] = ["one", "two", "three"];

/// What a handler has read, and how the body ended.
type Received = (String, Result<Option<HeaderMap>, RequestBodyError>);

/// Sends pieces, each when the handler waits for it. Returns how many, and whether the handler waits for what follows.
fn send(sender: &BodySender, pieces: &[&'static str]) -> (usize, bool) {
    let is_ready = || block_on(poll_fn(|cx| sender.poll_ready(cx)));
    for (sent, piece) in pieces.iter().enumerate() {
        if !is_ready() {
            return (sent, false);
        }
        assert!(sender.is_awaited() || sender.is_closed());
        sender.send(Bytes::from_static(piece.as_bytes()));
    }
    (pieces.len(), is_ready())
}

/// Reads a body to its end.
fn receive(mut body: RequestBody) -> Received {
    let mut data = String::new();
    loop {
        let frame = block_on(poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)));
        match frame {
            None => return (data, Ok(None)),
            Some(Err(error)) => return (data, Err(error)),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(piece) => data.push_str(std::str::from_utf8(&piece).unwrap()),
                Err(frame) => return (data, Ok(frame.into_trailers().ok())),
            },
        }
    }
}

/// Runs a connection with a handler that reads the whole body, in all kinds of orders, and checks what it gets.
fn check_received(
    connection: impl Fn(BodySender) + Clone + Send + Sync + 'static,
    limit: u64,
    expect: impl Fn(Received) + Clone + Send + Sync + 'static,
) {
    let model = move || {
        let (body, sender) = RequestBody::pair(None);
        let (connection, expect) = (connection.clone(), expect.clone());
        join([
            thread::spawn(move || connection(sender)),
            thread::spawn(move || expect(receive(body.at_most(limit)))),
        ]);
    };
    check(model, ORDERS);
}

/// Found in the model: `send` or `finish` that wakes no reader, a poll for the first piece that wakes no sender, an end that overtakes
/// the last piece.
#[test]
fn every_piece_arrives_once_and_before_the_end() {
    let trailers = HeaderMap::from_iter([(http::header::ETAG, "x".parse().unwrap())]);
    for end in [Ok(None), Ok(Some(trailers)), Err(RequestBodyError::TooSlow)] {
        let last = end.clone();
        let connection = move |sender: BodySender| {
            assert_eq!(send(&sender, &PIECES), (3, true));
            sender.finish(last.clone());
        };
        let expected = ("onetwothree".to_owned(), end);
        check_received(connection, u64::MAX, move |received| assert_eq!(received, expected));
    }
}

/// The connection does not wait until the handler asks for more.
///
/// Found in the model: `finish` that replaces the last piece, or ends the body before the handler has taken it.
#[test]
fn a_body_that_ends_early_still_has_its_last_piece() {
    let connection = |sender: BodySender| {
        assert!(block_on(poll_fn(|cx| sender.poll_ready(cx))));
        sender.send(Bytes::from_static(b"one"));
        sender.finish(Err(RequestBodyError::PeerGone));
    };
    let expected = ("one".to_owned(), Err(RequestBodyError::PeerGone));
    check_received(connection, u64::MAX, move |received| assert_eq!(received, expected));
}

/// Found in the model: a drop of the sender that wakes no reader, or that replaces an end.
#[test]
fn a_handler_learns_that_the_connection_is_gone() {
    for ended in [false, true] {
        let connection = move |sender: BodySender| {
            send(&sender, &PIECES[..1]);
            if ended {
                sender.finish(Ok(None));
            }
        };
        let expected = ("one".into(), if ended { Ok(None) } else { Err(RequestBodyError::PeerGone) });
        check_received(connection, u64::MAX, move |received| assert_eq!(received, expected));
    }
}

/// Found in the model: a body that is too large and wakes no sender.
#[test]
fn a_body_over_its_limit_ends_for_both_sides() {
    let connection = |sender: BodySender| {
        let (sent, is_awaited) = send(&sender, &PIECES);
        assert!((2..=3).contains(&sent) && !is_awaited, "{sent}");
        sender.finish(Ok(None));
    };
    // The second piece is beyond it.
    let expected = ("one".into(), Err(RequestBodyError::TooLarge));
    check_received(connection, 5, move |received| assert_eq!(received, expected));
}

/// Found in the model: a drop of the body that wakes no sender.
#[test]
fn a_connection_learns_that_the_handler_reads_no_further() {
    check(
        || {
            let (mut body, sender) = RequestBody::pair(Some(11));
            let handler = thread::spawn(move || {
                assert!(block_on(body.next_piece()).unwrap().is_ok());
                thread::yield_now();
            });
            let connection = thread::spawn(move || {
                assert_eq!(send(&sender, &PIECES), (1, false));
                assert!(sender.is_closed());
            });
            join([handler, connection]);
        },
        ORDERS,
    );
}
