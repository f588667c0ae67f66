//! The examples of RFC 7541 Appendix C. Those of integers (C.1) are in `integer.rs`.

use bytes::BytesMut;

use super::{Decoder, Encoder, Indexing};

type Fields<'a> = &'a [(&'a str, &'a str)];

/// C.3, without Huffman code.
const REQUESTS: [&str; 3] = [
    "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
    "8286 84be 5808 6e6f 2d63 6163 6865",
    "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
];

/// C.4, with Huffman code.
const REQUESTS_HUFFMAN: [&str; 3] = [
    "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
    "8286 84be 5886 a8eb 1064 9cbf",
    "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
];

const REQUEST_FIELDS: [Fields<'static>; 3] = [
    &[(":method", "GET"), (":scheme", "http"), (":path", "/"), AUTHORITY],
    &[(":method", "GET"), (":scheme", "http"), (":path", "/"), AUTHORITY, NO_CACHE],
    &[(":method", "GET"), (":scheme", "https"), (":path", "/index.html"), AUTHORITY, CUSTOM],
];

/// The dynamic table after each request, with its size.
const REQUEST_TABLES: [(Fields<'static>, usize); 3] =
    [(&[AUTHORITY], 57), (&[NO_CACHE, AUTHORITY], 110), (&[CUSTOM, NO_CACHE, AUTHORITY], 164)];

const AUTHORITY: (&str, &str) = (":authority", "www.example.com");
const NO_CACHE: (&str, &str) = ("cache-control", "no-cache");
const CUSTOM: (&str, &str) = ("custom-key", "custom-value");

/// C.5, without Huffman code.
const RESPONSES: [&str; 3] = [
    "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 \
         2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 \
         6c65 2e63 6f6d",
    "4803 3330 37c1 c0bf",
    "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d \
         54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 \
         5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e \
         3d31",
];

/// C.6, with Huffman code.
const RESPONSES_HUFFMAN: [&str; 3] = [
    "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 \
         2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
    "4883 640e ffc1 c0bf",
    "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab \
         77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f \
         9587 3160 65c0 03ed 4ee5 b106 3d50 07",
];

/// The size of the table in C.5 and C.6.
const RESPONSE_TABLE_BYTES: u32 = 256;

const RESPONSE_FIELDS: [Fields<'static>; 3] = [
    &[(":status", "302"), PRIVATE, DATE_21, LOCATION],
    &[(":status", "307"), PRIVATE, DATE_21, LOCATION],
    &[(":status", "200"), PRIVATE, DATE_22, LOCATION, GZIP, COOKIE],
];

/// The dynamic table after each response, with its size.
const RESPONSE_TABLES: [(Fields<'static>, usize); 3] = [
    (&[LOCATION, DATE_21, PRIVATE, (":status", "302")], 222),
    (&[(":status", "307"), LOCATION, DATE_21, PRIVATE], 222),
    (&[COOKIE, GZIP, DATE_22], 215),
];

const PRIVATE: (&str, &str) = ("cache-control", "private");
const DATE_21: (&str, &str) = ("date", "Mon, 21 Oct 2013 20:13:21 GMT");
const DATE_22: (&str, &str) = ("date", "Mon, 21 Oct 2013 20:13:22 GMT");
const LOCATION: (&str, &str) = ("location", "https://www.example.com");
const GZIP: (&str, &str) = ("content-encoding", "gzip");
const COOKIE: (&str, &str) = ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1");

#[test]
fn decodes_single_fields() {
    // C.2.1 to C.2.4.
    for (block, field, is_added) in [
        (
            "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
            ("custom-key", "custom-header"),
            true,
        ),
        ("040c 2f73 616d 706c 652f 7061 7468", (":path", "/sample/path"), false),
        ("1008 7061 7373 776f 7264 0673 6563 7265 74", ("password", "secret"), false),
        ("82", (":method", "GET"), false),
    ] {
        let table: &[_] = if is_added { &[field] } else { &[] };
        check_decoder(&mut Decoder::new(4096), block, &[field], (table, if is_added { 55 } else { 0 }));
    }
}

#[test]
fn decodes_requests() {
    for blocks in [REQUESTS, REQUESTS_HUFFMAN] {
        let mut decoder = Decoder::new(4096);
        for ((block, fields), table) in blocks.into_iter().zip(REQUEST_FIELDS).zip(REQUEST_TABLES) {
            check_decoder(&mut decoder, block, fields, table);
        }
    }
}

#[test]
fn decodes_responses() {
    for blocks in [RESPONSES, RESPONSES_HUFFMAN] {
        let mut decoder = Decoder::new(RESPONSE_TABLE_BYTES);
        for ((block, fields), table) in blocks.into_iter().zip(RESPONSE_FIELDS).zip(RESPONSE_TABLES) {
            check_decoder(&mut decoder, block, fields, table);
        }
    }
}

#[test]
fn encodes_requests() {
    let mut encoder = Encoder::default();
    for ((block, fields), table) in REQUESTS_HUFFMAN.into_iter().zip(REQUEST_FIELDS).zip(REQUEST_TABLES) {
        check_encoder(&mut encoder, fields, &from_hex(block), table.0);
    }
}

#[test]
fn encodes_responses() {
    let mut encoder = Encoder::default();
    encoder.set_peer_table_bytes(RESPONSE_TABLE_BYTES);
    encoder.begin_block(&mut BytesMut::new());
    for ((block, fields), table) in RESPONSES_HUFFMAN.into_iter().zip(RESPONSE_FIELDS).zip(RESPONSE_TABLES) {
        // The Huffman code of 307 has three bytes too, and the encoder prefers plain strings of the same length.
        let block = block.replace("4883 640e ff", "4803 3330 37");
        check_encoder(&mut encoder, fields, &from_hex(&block), table.0);
    }
}

fn check_decoder(decoder: &mut Decoder, block: &str, fields: Fields<'_>, (table, size): (Fields<'_>, usize)) {
    let mut decoded = Vec::new();
    let mut field = |name: &[u8], value: &[u8]| decoded.push((name.to_vec(), value.to_vec()));
    decoder.decode(&from_hex(block), &mut Vec::new(), &mut field).unwrap();
    assert_eq!(decoded, bytes(fields));
    assert_eq!((decoder.table().fields(), decoder.table().size()), (bytes(table), size));
}

fn check_encoder(encoder: &mut Encoder, fields: Fields<'_>, block: &[u8], table: Fields<'_>) {
    let mut out = BytesMut::new();
    encoder.begin_block(&mut out);
    for (name, value) in fields {
        encoder.encode(name.as_bytes(), value.as_bytes(), Indexing::Incremental, &mut out);
    }
    assert_eq!(out, block);
    assert_eq!(encoder.table().fields(), bytes(table));
}

fn bytes(fields: &[(&str, &str)]) -> Vec<(Vec<u8>, Vec<u8>)> {
    fields.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|digit| digit.to_digit(16)?.try_into().ok()).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
