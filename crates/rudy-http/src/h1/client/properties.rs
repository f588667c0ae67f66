//! Property tests: any bytes, in any pieces.

use proptest::prelude::*;
use rudy_message::client::RequestInfo;

use super::tests::{decode_events, small_limits};

/// Fragments that form responses in some orders, and a few that break them.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let words: Vec<&[u8]> = vec![
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.0 404\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 101 \r\n",
        b"HTTP/1.1 304 Not Modified\r\n",
        b"HTTP/2 200\r\n",
        b"Content-Length: 5\r\n",
        b"Content-Length: 70\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: close\r\n",
        b"X: y\r\n",
        b"\r\n",
        b"\r\n",
        b"\r",
        b"\n",
        b"5\r\nhello\r\n",
        b"0\r\n",
        b"0\r\n\r\n",
        b"2;a=b\r\nhi\r\n",
        b" ",
        b"\0",
        b"\xff",
        b"hello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
    ];
    let word = prop_oneof![
        20 => proptest::sample::select(words).prop_map(<[u8]>::to_vec),
        1 => proptest::collection::vec(any::<u8>(), 0..40),
    ];
    proptest::collection::vec(word, 0..8).prop_map(|words| words.concat())
}

fn request_info() -> impl Strategy<Value = RequestInfo> {
    let flag = || proptest::bool::weighted(0.2);
    (flag(), flag(), flag(), flag()).prop_map(|(is_head, is_connect, offers_upgrade, is_last)| RequestInfo {
        is_head,
        is_connect,
        offers_upgrade,
        is_last,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn splits_do_not_change_the_result(
        input in bytes(),
        request in request_info(),
        closes: bool,
        piece_bytes in 1..30_usize,
    ) {
        let whole = decode_events(request, [&input[..]], closes, &small_limits());
        prop_assert_eq!(&decode_events(request, input.chunks(1), closes, &small_limits()), &whole);
        prop_assert_eq!(&decode_events(request, input.chunks(piece_bytes), closes, &small_limits()), &whole);
    }
}
