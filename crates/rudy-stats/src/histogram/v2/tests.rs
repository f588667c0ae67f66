use std::time::Duration;

use proptest::prelude::*;

use super::*;

/// From the tests of the implementations in Go and JavaScript: one value, 42.
const FORTY_TWO: &str = "HISTFAAAAB542pNpmSzMwMDAxAABzFCaEUoz2X+AMIKZAEARAtM=";

/// From the tests of the implementation in Vala, which follows the one in Java: 100, 200 and 250, from 1 to 300.
const THREE: &str = "HISTFAAAACV4nJNpmSzMwMDAwQABzFCaEUrp2H+AsI4zMh1lZEpkAgBdIQSk";

#[test]
fn blobs_of_other_implementations_are_read() {
    let histogram = Histogram::from_base64(FORTY_TWO).unwrap();
    assert_eq!((histogram.len(), histogram.mean().as_nanos()), (1, 42));
    let cells: Vec<_> = Histogram::from_base64(THREE).unwrap().cells().collect();
    assert_eq!(cells, [100, 200, 250].map(|value| (Duration::from_nanos(value), 1)));
}

#[test]
fn the_encoded_counts_match_those_of_hdrhistogram() {
    let mut histogram = Histogram::new();
    for value in [100, 200, 250] {
        histogram.record(Duration::from_nanos(value));
    }
    let theirs = STANDARD.decode(THREE).unwrap();
    let mut payload = Vec::new();
    ZlibDecoder::new(&theirs[8..]).read_to_end(&mut payload).unwrap();
    assert_eq!(histogram.encoded_counts(), payload[HEADER_BYTES..]);
}

#[test]
fn an_invalid_blob_is_rejected_with_its_reason() {
    let not_ours = [
        ("*", "the histogram is not base64: Invalid symbol 42, offset 0."),
        ("", "not a deflated HdrHistogram V2, which begins with `HISTFAAA`"),
        ("AAAAAAAA", "not a deflated HdrHistogram V2, which begins with `HISTFAAA`"),
        ("HISTFAAAAAA=", "the histogram is damaged: it cannot be inflated"),
        (&FORTY_TWO[..40], "the histogram is damaged: its length is wrong"),
        (
            // From the README of hdr-decode: two digits.
            "HISTFAAAACh4nJNpmSzMwMDAwQABTFCaEURcm7yEwf4DROArF1M1230WJgCDWQb1",
            "the histogram has 2 significant digits from 1 upward, where 3 from 1 are expected: it cannot be \
             joined without loss",
        ),
    ];
    for (text, reason) in not_ours {
        assert_eq!(Histogram::from_base64(text).unwrap_err().to_string(), reason, "{text}");
    }
}

#[test]
fn a_blob_that_inflates_to_gigabytes_is_cut_off() {
    let bomb = deflated(&vec![0; PAYLOAD_BYTES_MAX + 1]);
    let error = Histogram::from_base64(&bomb).unwrap_err();
    assert_eq!(error, BlobError::Damaged("it has more cells than an hour needs"));
}

#[test]
fn impossible_counts_are_rejected() {
    for (entries, reason) in [
        (&[i64::MAX, i64::MAX][..], "its counts are too large"),
        (&[i64::MIN, 1][..], "it counts beyond the last cell"),
    ] {
        let mut payload = Histogram::new().payload();
        payload.truncate(HEADER_BYTES);
        for entry in entries {
            push(&mut payload, *entry);
        }
        let encoded_counts = u32::try_from(payload.len() - HEADER_BYTES).unwrap();
        payload[4..8].copy_from_slice(&encoded_counts.to_be_bytes());
        assert_eq!(Histogram::from_base64(&deflated(&payload)), Err(BlobError::Damaged(reason)));
    }
}

#[test]
fn the_cells_match_those_of_hdrhistogram() {
    let library = Histogram::new().counts;
    for value in (0..62).flat_map(|bits| [(1_u64 << bits) - 1, 1 << bits, (1 << bits) + (1 << bits) / 3]) {
        if value <= MAX_NS {
            let lowest = value_of(cell_of(value).unsigned_abs());
            assert_eq!(lowest, Some(library.lowest_equivalent(value)), "{value}");
        }
    }
    assert_eq!(value_of(CELLS_MAX as u64), None);
}

fn deflated(payload: &[u8]) -> String {
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
    zlib.write_all(payload).unwrap();
    let zlib = zlib.finish().unwrap();
    let outside = [&COOKIE_DEFLATED.to_be_bytes()[..], &length(&zlib), &zlib].concat();
    STANDARD.encode(outside)
}

proptest! {
    #[test]
    fn a_written_histogram_can_be_read(
        values in prop::collection::vec((0..2 * MAX_NS, 0..1_u64 << 40), 0..100),
    ) {
        let mut histogram = Histogram::new();
        for (value, count) in &values {
            histogram.record_n(Duration::from_nanos(*value), *count);
        }
        prop_assert_eq!(Histogram::from_base64(&histogram.to_base64()), Ok(histogram));
    }

    #[test]
    fn numbers_keep_their_sign_in_at_most_nine_bytes(number: i64) {
        let mut encoded_counts = Vec::new();
        push(&mut encoded_counts, number);
        prop_assert!(encoded_counts.len() <= 9);
        prop_assert_eq!(Bytes(&encoded_counts).zigzag(), Ok(number));
    }

    #[test]
    fn any_payload_is_read_without_a_panic(tail in prop::collection::vec(any::<u8>(), 0..60), keep in 0..=HEADER_BYTES) {
        let mut payload = Histogram::new().payload();
        payload.truncate(keep);
        payload.extend(tail);
        let _ = Histogram::from_base64(&deflated(&payload));
    }
}
