//! The end of a connection.

use super::*;

const REJECTED: StreamEnd = StreamEnd::Reset(ErrorCode::REQUEST_REJECTED);

/// RFC 9114 §5.2.
#[test]
fn requests_in_transit_are_served_before_the_end() {
    let mut client = Client::new();
    client.end(0, &get());
    client.connection.shut_down();
    client.connection.shut_down();
    assert!(client.connection.is_shutting_down());
    assert_eq!(client.sent_control(), ["GOAWAY 4611686018427387900"]);
    assert_eq!(client.end(4, &get()), ["4 GET a /x?y Known(0)"]);
    client.connection.stop_accepting();
    client.connection.stop_accepting();
    assert_eq!(client.sent_control(), ["GOAWAY 8"]);
    assert_eq!(client.end(12, &get()), [""; 0]);
    assert_eq!(client.ends(), [(8, REJECTED), (12, REJECTED)]);
    assert_eq!(client.end(8, &get()), [""; 0]);
    assert_eq!(client.ends(), []);
    client.respond(4, b"a");
    assert!(!client.connection.is_over());
    client.respond(0, b"b");
    assert!(client.connection.is_over());
}

/// A stream may be open before its head has arrived.
#[test]
fn a_request_before_the_last_stream_is_served() {
    let mut client = Client::new();
    client.end(4, &get());
    client.connection.stop_accepting();
    assert_eq!(client.end(0, &get()), ["0 GET a /x?y Known(0)"]);
}

#[test]
fn an_idle_connection_has_a_deadline() {
    let mut client = Client::new();
    let start = client.now;
    let limits = client.limits.clone();
    assert_eq!(client.connection.deadline(&limits), Some(start + limits.first_request_timeout));
    client.end(0, &get());
    assert_eq!(client.connection.deadline(&limits), None);
    client.now += limits.idle_timeout;
    client.respond(0, b"");
    assert_eq!(client.connection.deadline(&limits), Some(client.now + limits.idle_timeout));
    assert!(!client.connection.is_over());
}
