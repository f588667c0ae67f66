//! The unidirectional streams of a client.

use super::*;

fn control(frames: &[Vec<u8>]) -> Vec<u8> {
    [&[0][..], &frames.concat()].concat()
}

/// Runs input on the control stream of a client that has not opened it.
#[track_caller]
fn control_error(bytes: &[u8]) -> Option<ErrorCode> {
    let run = |chunk: usize| {
        let mut client = Client::connected(Limits::default());
        let error = bytes.chunks(chunk).find_map(|chunk| client.receive(CONTROL, chunk, false).err());
        error.map(|error| error.code)
    };
    let whole = run(usize::MAX);
    assert_eq!(run(1), whole, "byte by byte");
    whole
}

/// RFC 9114 §6.2.1 and §7.2, RFC 9218 §7.2.
#[test]
fn the_control_stream_has_its_frames_in_their_order() {
    let settings = frame(kind::SETTINGS, &[]);
    let id = |kind: u64, id: u64| frame(kind, &number(id));
    let priority = |kind: u64, id: u64| frame(kind, &[&number(id)[..], b"u=1"].concat());
    let (unexpected, missing) = (Some(ErrorCode::FRAME_UNEXPECTED), Some(ErrorCode::MISSING_SETTINGS));
    let (malformed, id_error) = (Some(ErrorCode::FRAME_ERROR), Some(ErrorCode::ID_ERROR));
    for first in [id(kind::GOAWAY, 0), frame(0x21, b""), data(b""), frame(0x2, b"")] {
        assert_eq!(control_error(&control(&[first])), missing);
    }
    for (frames, code) in [
        (vec![], None),
        (vec![frame(0x21, &[0; 500]), id(kind::MAX_PUSH_ID, 3), id(kind::MAX_PUSH_ID, 3)], None),
        (vec![id(kind::GOAWAY, 9), id(kind::GOAWAY, 4)], None),
        (vec![priority(kind::PRIORITY_UPDATE, 400)], None),
        (vec![settings.clone()], unexpected),
        (vec![data(b"")], unexpected),
        (vec![get()], unexpected),
        (vec![frame(kind::PUSH_PROMISE, b"")], unexpected),
        (vec![frame(0x2, b"")], unexpected),
        (vec![frame(0x6, b"")], unexpected),
        (vec![frame(0x8, b"")], unexpected),
        (vec![frame(0x9, b"")], unexpected),
        (vec![id(kind::MAX_PUSH_ID, 3), id(kind::MAX_PUSH_ID, 2)], id_error),
        (vec![id(kind::GOAWAY, 3), id(kind::GOAWAY, 4)], id_error),
        (vec![id(kind::CANCEL_PUSH, 0)], id_error),
        (vec![priority(kind::PRIORITY_UPDATE, 2)], id_error),
        (vec![priority(kind::PRIORITY_UPDATE_OF_PUSH, 0)], id_error),
        (vec![frame(kind::GOAWAY, b"")], malformed),
        (vec![frame(kind::GOAWAY, &[0, 0])], malformed),
        (vec![frame(kind::MAX_PUSH_ID, &[0x40])], malformed),
        (vec![frame(kind::PRIORITY_UPDATE, b"")], malformed),
        (vec![frame(kind::PRIORITY_UPDATE, &[b'a'; 2000])], Some(ErrorCode::EXCESSIVE_LOAD)),
    ] {
        let all = [vec![settings.clone()], frames].concat();
        assert_eq!(control_error(&control(&all)), code, "{all:?}");
    }
    assert_eq!(control_error(&control(&[frame(kind::SETTINGS, &[2, 0])])), Some(ErrorCode::SETTINGS_ERROR));
}

#[test]
fn a_priority_may_change_before_and_after_the_head() {
    let mut client = Client::new();
    let update = |stream: u64, value: &str| {
        frame(kind::PRIORITY_UPDATE, &[&number(stream)[..], value.as_bytes()].concat())
    };
    client.send(0, &get()[..5]);
    assert_eq!(client.send(CONTROL, &update(0, "u=6")), [""; 0]);
    let (now, limits, rest) = (client.now, client.limits.clone(), &get()[5..]);
    let event = client.connection.receive(0, &mut &rest[..], true, &mut client.buffers, now, &limits);
    let Ok(Some(Event::Request { priority, .. })) = event else { panic!("{event:?}") };
    assert_eq!(priority.urgency, 6);
    let updates = [update(0, "u=1"), update(4, "u=2"), update(0, "i")].concat();
    assert_eq!(client.send(CONTROL, &updates), ["0 urgency 1", "0 urgency 3"]);
    client.respond(0, b"");
    assert_eq!(client.send(CONTROL, &update(0, "u=1")), [""; 0]);
}

/// RFC 9114 §6.2, RFC 9204 §4.2.
#[test]
fn a_stream_that_the_connection_needs_is_there_once_and_does_not_end() {
    let closed = ErrorCode::CLOSED_CRITICAL_STREAM;
    for stream in [CONTROL, ENCODER, DECODER] {
        assert_eq!(Client::new().try_send(stream, b"", true).unwrap_err().code, closed);
        let (mut client, code) = (Client::new(), ErrorCode::NO_ERROR);
        let result = client.connection.receive_reset(stream, code, client.now, &client.limits);
        assert_eq!(result.unwrap_err().code, closed);
    }
    for stream in [3, 7, 11] {
        let (mut client, code) = (Client::new(), ErrorCode::NO_ERROR);
        let result = client.connection.receive_stop(stream, code, client.now, &client.limits);
        assert_eq!(result.unwrap_err().code, closed);
    }
    for kind in [&[0][..], &[1], &[2], &[3], &[0x40, 0], &[0xc0, 0, 0, 0, 0, 0, 0, 2]] {
        end_connection(&[(14, kind, false)], ErrorCode::STREAM_CREATION_ERROR);
    }
}

/// RFC 9114 §6.2 and §6.2.3.
#[test]
fn streams_of_unknown_types_are_stopped() {
    for kind in [0x21, 0x54, 0x1f * 100 + 0x21, varint::MAX] {
        let bytes = [&number(kind)[..], b"anything"].concat();
        let (events, ends, error) = outcome(&[(14, &bytes, true), (0, &get(), true)]);
        assert_eq!((events.len(), error), (1, None));
        assert_eq!(ends, [(14, StreamEnd::Stop(ErrorCode::STREAM_CREATION_ERROR))]);
    }
    // The type need not be complete.
    for bytes in [&b""[..], &[0xc0, 0, 0]] {
        lead_to(&[(14, bytes, true)], &[]);
    }
    let mut client = Client::new();
    client.send(14, &[0x80]);
    assert_eq!(client.cancel(14), [""; 0]);
    assert_eq!(client.send(14, &[0, 0, 0]), [""; 0]);
}

#[test]
fn streams_without_a_type_are_limited() {
    let mut client = Client::new();
    let most = 14 + 4 * (u64::from(crate::h3::UNIDIRECTIONAL_STREAMS) - 1);
    client.send(most, &[0x40]);
    assert_eq!(client.error(most + 4, &[0x40]), ErrorCode::EXCESSIVE_LOAD);
}

#[test]
fn invalid_instructions_of_qpack_end_the_connection() {
    for (stream, bytes, code) in [
        (ENCODER, &b"\x20\x20"[..], None),
        (ENCODER, b"\x3f\xe1\x1f", None),
        (ENCODER, b"\x3f\xe2\x1f", Some(ErrorCode::QPACK_ENCODER_STREAM_ERROR)),
        (ENCODER, b"\x41a\x01b", Some(ErrorCode::QPACK_ENCODER_STREAM_ERROR)),
        (DECODER, b"\x40\x7f\x80\x01", None),
        (DECODER, b"\x80", Some(ErrorCode::QPACK_DECODER_STREAM_ERROR)),
        (DECODER, b"\x01", Some(ErrorCode::QPACK_DECODER_STREAM_ERROR)),
    ] {
        assert_eq!(outcome(&[(stream, bytes, false)]).2, code, "{}", bytes.escape_ascii());
    }
}
