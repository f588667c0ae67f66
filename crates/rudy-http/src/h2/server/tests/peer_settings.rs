//! SETTINGS of the client (RFC 9113 §6.5).

use super::*;

/// §6.5.3.
#[test]
fn settings_are_acknowledged() {
    leads_to(&settings_frame(&[]), &[], &["SETTINGS ack"]);
    leads_to(
        &settings_frame(&[(1, 0), (2, 0), (3, 0), (4, 0), (5, 16_384), (6, 0), (0xfafa, u32::MAX)]),
        &[],
        &["SETTINGS ack"],
    );
    leads_to(&frame(kind::SETTINGS, flag::ACK, 0, &[]), &[], &[]);
}

/// §6.5.2.
#[test]
fn settings_out_of_range_end_the_connection() {
    for setting in [(2, 2), (5, 16_383), (5, 16_777_216), (8, 2)] {
        ends_connection(&settings_frame(&[(3, 1), setting]), ErrorCode::PROTOCOL_ERROR);
    }
}

/// A larger maximum is permitted to us, and of no use. With its head, a frame fits a TLS record.
#[test]
fn the_frames_of_a_body_have_at_most_the_default_maximum() {
    let mut client = Client::with(Limits::default(), &[(5, 16_777_215), (4, 1 << 20)]);
    client.send(&get(1));
    client.begin(1, 200, None);
    assert_eq!(client.send_body(1, 20_000), 20_000);
    assert_eq!(client.sent()[1..], ["1 DATA 16375", "1 DATA 3625"]);
}

/// RFC 7541 §4.2: the first block after a reduction begins with a change of the size. nghttp2 and others check this.
#[test]
fn a_smaller_header_table_is_confirmed_in_the_next_block() {
    let first_bytes = |client: &mut Client| {
        let out = client.out.split();
        frames(&out)
            .iter()
            .filter(|(head, _)| head.kind == kind::HEADERS)
            .map(|(_, block)| block[0])
            .collect::<Vec<_>>()
    };
    for (settings, expected) in [
        (&[(1, 0)][..], [0x20, 0x88, 0x88]),
        (&[(1, 4095)], [0x20, 0x88, 0x88]),
        (&[(1, 0), (1, 4096)], [0x20, 0x88, 0x88]),
        (&[(1, 4096)], [0x88; 3]),
        (&[(1, 65_536)], [0x88; 3]),
    ] {
        let mut client = Client::with(Limits::default(), settings);
        client.send(&[get(1), get(3), get(5)].concat());
        client.begin(1, 200, Some(0));
        client.send(&settings_frame(&[(1, 100)]));
        client.send(&settings_frame(&[(1, 4096)]));
        client.begin(3, 200, Some(0));
        client.begin(5, 200, Some(0));
        let expected = if expected[0] == 0x20 { expected } else { [0x88, 0x20, 0x88] };
        assert_eq!(first_bytes(&mut client), expected, "{settings:?}");
    }
    // Also if this block is interim.
    let mut client = Client::with(Limits::default(), &[(1, 0)]);
    client.send(&post(1, &[("expect", "100-continue")]));
    client.connection.encode_continue(1, &mut client.out);
    client.begin(1, 200, None);
    client.connection.finish(1, Some(&HeaderMap::new()), &mut client.out).unwrap();
    assert_eq!(first_bytes(&mut client), [0x20, 0x88]);
}
