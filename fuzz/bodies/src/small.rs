//! The targets that need few lines.

use rudy_http::Limits;
use rudy_message::client::RequestInfo;
use rudy_message::semantics::forwarded::{Node, elements_from_right};

use crate::client::read_at_splits;
use crate::fastcgi::{read_as_application, read_as_gateway, read_head};
use crate::h1::{decode_events_at_splits, small_limits};

/// Response heads of CGI applications. The first byte is the size of the pieces.
pub(crate) fn cgi(data: &[u8]) {
    let [piece_bytes, bytes @ ..] = data else { return };
    let whole = read_head([bytes]);
    assert_eq!(read_head(bytes.chunks(1)), whole, "byte by byte");
    let pieces = read_head(bytes.chunks(usize::from(*piece_bytes).max(1)));
    assert_eq!(pieces, whole, "in pieces of {piece_bytes}");
}

/// `rudy_fuzz` reads the bodies of requests with a path of odd length.
const HEAD: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Chunked bodies: accepted or rejected with the same result at every split, and within the limit.
pub(crate) fn chunked(body: &[u8]) {
    let bytes = [HEAD, body].concat();
    let transcript = decode_events_at_splits(&bytes, HEAD.len() + body.len() / 2, &small_limits());
    assert!(transcript.events[0].contains("POST"), "the head is valid");
}

/// Responses. The first byte selects the request, the rest is the output of the server before it closes the connection.
pub(crate) fn client(data: &[u8]) {
    let [flags, bytes @ ..] = data else { return };
    let request = RequestInfo {
        is_head: flags & 1 != 0,
        is_connect: flags & 2 != 0,
        offers_upgrade: flags & 4 != 0,
        is_last: flags & 8 != 0,
    };
    read_at_splits(request, bytes, usize::from(flags >> 4), &small_limits());
}

/// Complete connections. The first byte is the size of the pieces, the rest is the output of the client.
pub(crate) fn connection(data: &[u8]) {
    let [piece_bytes, bytes @ ..] = data else { return };
    let transcript = decode_events_at_splits(bytes, usize::from(*piece_bytes), &small_limits());
    let rejections = transcript.events.iter().filter(|event| event.starts_with("rejected")).count();
    assert!(rejections <= 1, "nothing is read after a rejection");
}

/// FastCGI records. The first byte selects the receiver and its state, the rest is the output of the other end.
pub(crate) fn fastcgi(data: &[u8]) {
    let [flags, bytes @ ..] = data else { return };
    let piece_bytes = usize::from(flags >> 4);
    if flags & 1 != 0 {
        read_as_application(bytes, piece_bytes);
    } else {
        read_as_gateway(usize::from(flags >> 1 & 3), flags & 8 != 0, bytes, piece_bytes);
    }
}

/// `Forwarded` and `X-Forwarded-For`: the element that a proxy appends is parsed, whatever the client has sent before it.
pub(crate) fn forwarded(forged: &[u8]) {
    let address = "2001:db8::7".parse().expect("an address");
    for added in [&b"for=\"[2001:db8::7]:80\";proto=https"[..], b"x=\"\\\",\";For=\"[2001:db8::7]:80\""] {
        let value = [forged, b",", added].concat();
        let mut elements = elements_from_right(&value);
        let last = elements.next().expect("the added element").expect("a valid element");
        assert_eq!(last.node, Some(Node::Address(address, Some(80))));
        // Each other element has at least one byte.
        assert!(elements.count() <= forged.len());
    }
    for member in forged.split(|byte| *byte == b',') {
        if let Some(Node::Address(address, _)) = Node::from_x_forwarded_for(member) {
            assert_eq!(address, address.to_canonical());
        }
    }
}

/// Request heads: accepted or rejected with the same result at every split.
pub(crate) fn head(head: &[u8]) {
    decode_events_at_splits(head, head.len() / 2, &Limits::default());
}
