//! The corners that the crate `h2` learnt, of both roles: its security advisories and the fixes in its changelog up to 0.4.20.
//! Each is a test of ours; those that no other module has are here. Fixes of its interface (wake-ups, locks, queues of frames) are
//! left out: this crate has none of these.
//!
//! | corner | test |
//! |---|---|
//! | RUSTSEC-2023-0034: requests that are reset before they are accepted | `server::tests::abuse::cancelled_requests_are_limited` |
//! | RUSTSEC-2024-0003: resets that the peer causes, and does not read | `server::tests::abuse::requests_that_the_client_makes_the_server_reset_are_limited` |
//! | RUSTSEC-2024-0332: CONTINUATION flood | `server::tests::abuse::a_header_block_is_limited_in_bytes_and_in_frames` |
//! | RUSTSEC-2026-0258: empty DATA | `server::tests::abuse::frames_without_purpose_are_limited` |
//! | 0.4.20: refused streams count as resets | `server::tests::abuse::refused_streams_are_limited` |
//! | 0.4.20: Content-Length twice, with different values | `server::tests::bodies::lengths_that_differ_or_are_no_number_are_rejected` |
//! | 0.4.20: a response without `:status` | `field_section::received_response::tests::malformed_heads_are_rejected` |
//! | 0.4.20: GOAWAY on a stream | `server::tests::frames::each_type_belongs_to_a_stream_or_to_the_connection` |
//! | 0.4.17: a huge table of the peer; its size in 0.2.4 and 0.3.4 | [`the_largest_header_table_of_the_server_is_not_used`] |
//! | 0.4.16: a reset after the end of a response | [`a_reset_after_the_end_of_a_response_is_ignored`] |
//! | 0.4.16: memory of a stream that is not read | `server::tests::flow_control::data_beyond_the_window_of_a_stream_resets_it` |
//! | 0.4.15: a header block far above the limit | `server::tests::heads::a_head_that_continues_beyond_the_limit_is_rejected` |
//! | 0.4.15: 255 bytes of padding | `server::tests::frames::padding_is_shorter_than_its_frame` |
//! | 0.4.15: very many fields | `server::tests::abuse::a_header_list_is_limited_after_it_is_decoded` |
//! | 0.4.15, 0.3.7: frames for a stream that is about to be opened | `client::tests::violations_end_the_connection` |
//! | 0.4.14, 0.1.14: windows of closed and reset streams | `server::tests::flow_control::data_of_closed_streams_counts_for_the_connection_and_is_returned` |
//! | 0.4.14: windows after GOAWAY | `server::tests::shutdown::the_windows_return_the_bytes_of_ignored_streams` |
//! | 0.4.14: HEADERS after a reset | `server::tests::responses::calls_for_a_stream_that_the_client_has_cancelled_do_nothing` |
//! | 0.4.14, 0.2.3: GOAWAY does not end the streams of its sender | `server::tests::shutdown::a_goaway_of_the_client_does_not_end_its_streams` |
//! | 0.4.13: windows of padding | `server::tests::flow_control::padding_uses_the_windows_and_is_returned_at_once` |
//! | 0.4.12: how many resets are remembered | `server::tests::streams::as_many_resets_are_remembered_as_there_are_concurrent_streams` |
//! | 0.4.8: windows of streams that are closed for sending | `server::tests::flow_control::windows_are_not_opened_after_the_end_of_a_body` |
//! | 0.4.7: END_STREAM with a Content-Length above zero | `server::tests::bodies::a_body_has_the_length_of_its_head` |
//! | 0.4.6: the status of a head above the limit | `server::tests::heads::a_head_larger_than_the_limit_is_rejected_and_the_connection_goes_on` |
//! | 0.4.5, 0.3.3, 0.2.3: CONNECT and OPTIONS | `server::head::tests::a_block_is_a_head_of_http_1` |
//! | 0.4.2: streams before SETTINGS | `client::tests::a_connection_begins_with_settings_that_disable_push_and_a_large_window` |
//! | 0.3.21, 0.1.8: streams above the limit of the server | `client::limit_tests::no_more_streams_are_open_than_the_server_allows` |
//! | 0.3.20, 0.3.7: `:status` in a request | `server::tests::heads::a_malformed_request_resets_its_stream` |
//! | 0.3.20, 0.1.12: a window below zero | `server::tests::flow_control::a_smaller_setting_makes_a_window_negative` |
//! | 0.3.14: RST_STREAM with NO_ERROR after an early response | `server::tests::responses::the_rest_of_a_request_is_discarded_after_its_response` |
//! | 0.3.12, 0.1.19: a block that is split within a name | `server::tests::frames::a_header_block_continues_in_frames_of_any_size` |
//! | 0.3.10, 0.3.8: PUSH_PROMISE and HEADERS on stream 0 | `server::tests::frames::each_type_belongs_to_a_stream_or_to_the_connection` |
//! | 0.3.5, 0.1.21: a head larger than a frame | `server::tests::responses::a_head_larger_than_a_frame_continues_and_has_no_fields_of_the_connection` |
//! | 0.3.2, 0.3.1: 1xx while the request is sent | [`an_interim_response_does_not_end_the_request`] |
//! | 0.3.1: pseudo-fields count for the limit | `server::head::tests::each_field_counts_with_32_bytes_more` |
//! | 0.2.7: empty DATA after the head of a response to HEAD | [`a_response_to_head_may_end_with_empty_data`] |
//! | 0.1.25: trailers without END_STREAM | `server::tests::trailers::trailers_that_do_not_end_the_stream_are_malformed` |
//! | 0.1.25: a frame for a closed stream | `server::tests::streams::data_for_a_closed_stream_is_an_error_of_the_stream` |
//! | 0.1.24: no `:authority` | `server::tests::heads::a_request_that_http_1_rejects_is_rejected` |
//! | 0.1.22: a reset of a stream that waits for a window | [`a_reset_ends_a_request_that_waits_for_a_window`] |
//! | 0.1.19: an evicted entry | `hpack::properties::decoded_fields_are_the_encoded_ones_and_both_tables_are_equal` |
//! | 0.1.5: the last stream of GOAWAY | `server::tests::shutdown::an_error_is_sent_with_the_last_stream` |
//! | 0.1.3: large literals | `hpack::properties::another_implementation_decodes_our_blocks` |

use rudy_message::BodyLength;

use super::tests::{Server, frame, headers, setting};
use crate::h2::ErrorCode;
use crate::h2::frame::{flag, kind};

const OK: (&str, &str) = (":status", "200");

#[test]
fn the_largest_header_table_of_the_server_is_not_used() {
    let mut server = Server::new();
    server.send(&[setting(1, u32::MAX), setting(1, 0), setting(1, u32::MAX)].concat());
    server.sent();
    server.get();
    // RFC 7541 §4.2: the smallest size, and then our own maximum of 4096.
    assert_eq!(server.sent()[0].3[..4], [0x20, 0x3f, 0xe1, 0x1f]);
}

#[test]
fn a_reset_after_the_end_of_a_response_is_ignored() {
    let mut server = Server::new();
    let stream = server.get();
    let response = [
        headers(stream, false, &[OK]),
        frame(kind::DATA, flag::END_STREAM, stream, b"abc"),
        frame(kind::RST_STREAM, 0, stream, &[0, 0, 0, 8]),
    ];
    assert_eq!(server.send(&response.concat()), ["1 200 Chunked", "1 \"abc\" end"]);
}

#[test]
fn an_interim_response_does_not_end_the_request() {
    let mut server = Server::new();
    let stream = server.request("POST", BodyLength::Known(6));
    server.connection.encode_piece(stream, b"abc", &mut server.out).unwrap();
    let interim =
        [headers(stream, false, &[(":status", "100")]), headers(stream, false, &[(":status", "103")])];
    assert_eq!(server.send(&interim.concat()), ["1 interim 100", "1 interim 103"]);
    assert!(server.connection.is_in_body(stream));
    server.connection.encode_piece(stream, b"def", &mut server.out).unwrap();
    assert_eq!(server.send(&headers(stream, true, &[OK])), ["1 200 Length(0) end"]);
}

#[test]
fn a_response_to_head_may_end_with_empty_data() {
    let mut server = Server::new();
    let stream = server.request("HEAD", BodyLength::Known(0));
    let head = headers(stream, false, &[OK, ("content-length", "5")]);
    let end = frame(kind::DATA, flag::END_STREAM, stream, b"");
    assert_eq!(server.send(&[head, end].concat()), ["1 200 None", "1 end 0"]);
    assert!(server.connection.is_idle());
}

#[test]
fn a_reset_ends_a_request_that_waits_for_a_window() {
    let mut server = Server::new();
    server.send(&setting(4, 0));
    let stream = server.request("POST", BodyLength::Known(6));
    assert_eq!(server.connection.window(stream), 0);
    let reset = frame(kind::RST_STREAM, 0, stream, &ErrorCode::CANCEL.0.to_be_bytes());
    assert_eq!(server.send(&reset), ["1 reset CANCEL false"]);
    // Windows for it may be in transit.
    assert_eq!(server.send(&frame(kind::WINDOW_UPDATE, 0, stream, &[0, 0, 0, 9])), [""; 0]);
    assert_eq!(server.connection.window(stream), 0);
    assert!(server.connection.encode_piece(stream, b"abcdef", &mut server.out).is_err());
}
