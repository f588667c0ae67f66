//! Answers as a table: what the bytes amount to, whatever the pieces they come in.

use super::{Answer, Asked, ClientConnection, Fault};
use crate::Limits;

#[test]
fn a_connection_takes_a_cache_line() {
    assert!(size_of::<ClientConnection>() <= 64, "{}", size_of::<ClientConnection>());
}

#[test]
fn an_early_close_says_how_much_had_come() {
    let mut connection = ClientConnection::new();
    connection.ask(Asked::default());
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfour";
    let (used, _) = connection.decode(bytes, &Limits::of_answers()).unwrap();
    let (_, answer) = connection.decode(&bytes[used..], &Limits::of_answers()).unwrap();
    assert!(matches!(answer, Answer::Data(b"four")));
    let fault = Fault::ClosedInBody { received: 4, expected: Some(10) };
    assert_eq!(connection.end_of_input(), Err(fault));
}
