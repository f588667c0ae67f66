//! HPACK: blocks of any bytes are decoded within bounded memory. Encoded again, the fields are the same, and both tables
//! stay in step. The input has a byte with the size of the table and the way of indexing, and then blocks, each after a byte
//! with its length.

use bytes::BytesMut;
use rudy_http::h2::hpack::{Decoder, Encoder, Indexing, encode_stateless};

type Field = (Vec<u8>, Vec<u8>);

/// The memory of a table in addition to its size: text buffers of at least 128 bytes, and queues that grow by doubling.
const SPARE_BYTES: usize = 2048;

pub(crate) fn run(input: &[u8]) {
    let Some((&settings, mut rest)) = input.split_first() else { return };
    let table_bytes = u32::from(settings >> 2) * 65;
    let indexing = [Indexing::Incremental, Indexing::Incremental, Indexing::Without, Indexing::Never];
    let indexing = indexing[usize::from(settings & 3)];
    let mut decoder = Decoder::new(table_bytes);
    let (mut encoder, mut second_decoder) = (Encoder::default(), Decoder::new(4096));
    encoder.set_peer_table_bytes(table_bytes);
    while let Some((&length, after)) = rest.split_first() {
        let (block, after) = after.split_at(usize::from(length).min(after.len()));
        rest = after;
        let (fields, is_ok) = decode(&mut decoder, block);
        assert!(decoder.table_bytes() <= table_bytes as usize + SPARE_BYTES);

        let mut encoded = BytesMut::new();
        encoder.begin_block(&mut encoded);
        // Names in HTTP/2 are lower case.
        let fields: Vec<_> =
            fields.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        for (index, (name, value)) in fields.iter().enumerate() {
            if index % 5 == 4 {
                encode_stateless(name, value, &mut encoded);
            } else {
                encoder.encode(name, value, indexing, &mut encoded);
            }
        }
        assert_eq!(decode(&mut second_decoder, &encoded), (fields, true));
        assert!(encoder.table_bytes() <= table_bytes as usize + SPARE_BYTES);
        // An error closes the connection.
        if !is_ok {
            return;
        }
    }
}

/// Returns the fields of a block up to the first error, and whether there is none.
fn decode(decoder: &mut Decoder, block: &[u8]) -> (Vec<Field>, bool) {
    let mut fields = Vec::new();
    let result = decoder
        .decode(block, &mut Vec::new(), &mut |name, value| fields.push((name.to_vec(), value.to_vec())));
    (fields, result.is_ok())
}
