//! Clients that cause work without purpose.

use super::*;

/// Repeats what a client sends until the connection ends, at most 5000 times.
#[track_caller]
fn repeat(name: &str, mut act: impl FnMut(&mut Client, u64) -> Result<(), ConnectionError>) -> u64 {
    let mut client = Client::new();
    for count in 0..5000 {
        if let Err(error) = act(&mut client, count) {
            assert_eq!(error.code, ErrorCode::EXCESSIVE_LOAD, "{name}");
            return count;
        }
        client.events.clear();
        client.ends();
        let limit = 128 * size_of::<crate::h3::stream::Stream>() + 4096;
        assert!(
            client.connection.core.heap_bytes() <= limit,
            "{name}: {}",
            client.connection.core.heap_bytes()
        );
    }
    panic!("{name} is not limited");
}

#[test]
fn frames_without_purpose_are_limited() {
    let priority = frame(kind::PRIORITY_UPDATE, &[0, b'u', b'=', b'1']);
    let head = post(&[]);
    for (name, stream, bytes) in [
        ("PRIORITY_UPDATE", CONTROL, &priority[..]),
        ("MAX_PUSH_ID", CONTROL, &frame(kind::MAX_PUSH_ID, &[0])),
        ("GOAWAY", CONTROL, &frame(kind::GOAWAY, &[0])),
        ("unknown frames on the control stream", CONTROL, &frame(0x21, b"")),
        ("unknown frames on a request", 0, &frame(0x21, b"x")),
        ("empty DATA", 0, &data(b"")),
        ("instructions of the encoder", ENCODER, &[0x20]),
        ("instructions of the decoder", DECODER, &[0x40]),
    ] {
        let count = repeat(name, |client, count| {
            if count == 0 {
                client.receive(0, &head, false)?;
            }
            client.receive(stream, bytes, false)
        });
        assert!((990..1010).contains(&count), "{name}: {count}");
    }
}

#[test]
fn streams_without_purpose_are_limited() {
    let unknown = number(0x21);
    repeat("unknown streams", |client, count| client.receive(14 + 4 * count, &unknown, true));
    let count = repeat("cancelled requests", |client, count| {
        client.receive(4 * count, &get(), false)?;
        let (now, limits) = (client.now, client.limits.clone());
        client.connection.receive_reset(4 * count, ErrorCode::REQUEST_CANCELLED, now, &limits).map(|_| ())
    });
    assert_eq!(count, 500);
    let count = repeat("responses that are not wanted", |client, count| {
        client.receive(4 * count, &get(), true)?;
        let (now, limits) = (client.now, client.limits.clone());
        client.connection.receive_stop(4 * count, ErrorCode::NO_ERROR, now, &limits).map(|_| ())
    });
    assert_eq!(count, 500);
    let malformed = headers(&GET[1..]);
    repeat("malformed requests", |client, count| client.receive(4 * count, &malformed, true));
    repeat("streams without a request", |client, count| client.receive(4 * count, b"", true));
    repeat("more streams than the limit", |client, count| client.receive(4 * count, b"", false));
    repeat("one stream after many", |client, count| client.receive((1 << 62) - 4 * (count + 1), b"", false));
    repeat("requests after the end", |client, count| {
        client.connection.stop_accepting();
        client.receive(4 * count, &get(), true)
    });
}

#[test]
fn packets_of_a_few_bytes_are_limited() {
    let endless = [number(0x21), number(1 << 40)].concat();
    let body = [post(&[]), number(kind::DATA), number(1 << 20)].concat();
    for (name, stream, start) in
        [("a frame", 0, &endless), ("a body", 0, &body), ("a frame of the control stream", CONTROL, &endless)]
    {
        repeat(name, |client, count| {
            let bytes = if count == 0 { start } else { &b"x"[..] };
            client.receive(stream, bytes, false)
        });
    }
}

#[test]
fn incomplete_heads_are_limited_together() {
    let start = [number(kind::HEADERS), number(32_000), vec![0; 31_000]].concat();
    let mut client = Client::new();
    let error =
        (0..100).find_map(|count| client.receive(4 * count, &start, false).err().map(|error| (count, error)));
    let (count, error) = error.unwrap();
    assert_eq!((count, error.code), (4, ErrorCode::EXCESSIVE_LOAD));
}

/// A tenth of the limits recovers each second, and all of it with real work.
#[test]
fn requests_that_end_properly_are_not_limited() {
    let mut client = Client::new();
    for count in 0..5000 {
        let bytes = [frame(0x21, b"x"), get()].concat();
        client.end(4 * count, &bytes);
        if count % 3 == 0 {
            client.cancel(4 * count);
        } else {
            client.respond(4 * count, b"hello");
        }
        client.ends();
    }
}
