//! Properties of the encoder and the decoder together, and with another implementation.

use bytes::BytesMut;
use proptest::prelude::*;

use super::{Decoder, Encoder, Indexing, encode_stateless, static_table};

type Field = (Vec<u8>, Vec<u8>);

#[derive(Debug, Clone)]
enum Operation {
    /// Encodes a block. `None` encodes a field without state.
    Block(Vec<(Field, Option<Indexing>)>),
    /// Changes the maximum size of the table of the encoder.
    SetTableBytes(u32),
}

/// Names and values that are often equal, and often not text.
fn field() -> impl Strategy<Value = Field> {
    let bytes = |most| proptest::collection::vec(any::<u8>(), 0..most);
    let lower_case = |name: Vec<u8>| name.to_ascii_lowercase();
    let small = || "[a-c]{0,3}".prop_map(String::into_bytes);
    let name = prop_oneof![3 => small(), 1 => bytes(40).prop_map(lower_case)];
    let value = prop_oneof![3 => small(), 2 => "[ -~]{0,60}".prop_map(String::into_bytes), 1 => bytes(300)];
    let known = (1..=static_table::LENGTH, small()).prop_map(|(index, value)| {
        let (name, own_value) = static_table::field(index).unwrap_or_default();
        (name.to_vec(), if value.len() == 3 { own_value.to_vec() } else { value })
    });
    prop_oneof![2 => (name, value), 1 => known]
}

fn operation() -> impl Strategy<Value = Operation> {
    let indexing = prop_oneof![
        4 => Just(Some(Indexing::Incremental)),
        1 => Just(Some(Indexing::Without)),
        1 => Just(Some(Indexing::Never)),
        1 => Just(None),
    ];
    let table_bytes = prop_oneof![Just(0), Just(4096), Just(65_536), 0..400_u32];
    prop_oneof![
        5 => proptest::collection::vec((field(), indexing), 0..12).prop_map(Operation::Block),
        1 => table_bytes.prop_map(Operation::SetTableBytes),
    ]
}

fn encode(encoder: &mut Encoder, fields: &[(Field, Option<Indexing>)]) -> BytesMut {
    let mut block = BytesMut::new();
    encoder.begin_block(&mut block);
    for ((name, value), indexing) in fields {
        match indexing {
            Some(indexing) => encoder.encode(name, value, *indexing, &mut block),
            None => encode_stateless(name, value, &mut block),
        }
    }
    block
}

/// Decodes a block. Returns the fields before the first error, and whether there is none.
fn decode(decoder: &mut Decoder, block: &[u8]) -> (Vec<Field>, bool) {
    let (mut fields, mut scratch) = (Vec::new(), b"left from another block".to_vec());
    let result =
        decoder.decode(block, &mut scratch, &mut |name, value| fields.push((name.to_vec(), value.to_vec())));
    (fields, result.is_ok())
}

proptest! {
    #[test]
    fn decoded_fields_are_the_encoded_ones_and_both_tables_are_equal(
        operations in proptest::collection::vec(operation(), 1..20),
    ) {
        let (mut encoder, mut decoder) = (Encoder::default(), Decoder::new(4096));
        for operation in operations {
            match operation {
                Operation::SetTableBytes(bytes) => encoder.set_peer_table_bytes(bytes),
                Operation::Block(fields) => {
                    let block = encode(&mut encoder, &fields);
                    let fields: Vec<_> = fields.into_iter().map(|(field, _)| field).collect();
                    prop_assert_eq!(decode(&mut decoder, &block), (fields, true));
                    if !block.is_empty() {
                        prop_assert_eq!(encoder.table().fields(), decoder.table().fields());
                    }
                }
            }
        }
    }

    #[test]
    fn a_truncated_block_has_the_first_fields_or_is_rejected(
        fields in proptest::collection::vec((field(), Just(Some(Indexing::Incremental))), 1..6),
        table_bytes in prop_oneof![Just(4096), 0..200_u32],
    ) {
        let mut encoder = Encoder::default();
        encoder.set_peer_table_bytes(table_bytes);
        let block = encode(&mut encoder, &fields);
        let fields: Vec<_> = fields.into_iter().map(|(field, _)| field).collect();
        let mut complete = 0;
        for length in 0..=block.len() {
            let (decoded, is_ok) = decode(&mut Decoder::new(table_bytes.max(4096)), &block[..length]);
            prop_assert!(fields.starts_with(&decoded));
            complete += usize::from(is_ok && !decoded.is_empty());
        }
        prop_assert_eq!(complete, fields.len());
    }

    #[test]
    fn arbitrary_blocks_use_bounded_memory(
        blocks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..20),
        table_bytes in 0..500_u32,
    ) {
        let mut decoder = Decoder::new(table_bytes);
        for block in blocks {
            decode(&mut decoder, &block);
            prop_assert!(decoder.table().size() <= table_bytes as usize);
            prop_assert!(decoder.table_bytes() <= 1024);
        }
    }
    #[test]
    fn another_implementation_decodes_our_blocks(
        operations in proptest::collection::vec(operation(), 1..10),
    ) {
        let (mut encoder, mut decoder) = (Encoder::default(), httlib_hpack::Decoder::with_dynamic_size(4096));
        for operation in operations {
            match operation {
                Operation::SetTableBytes(bytes) => encoder.set_peer_table_bytes(bytes),
                Operation::Block(fields) => {
                    let (mut block, mut decoded) = (encode(&mut encoder, &fields).to_vec(), Vec::new());
                    prop_assert!(decoder.decode(&mut block, &mut decoded).is_ok());
                    let decoded: Vec<_> = decoded.into_iter().map(|(name, value, _)| (name, value)).collect();
                    let fields: Vec<_> = fields.into_iter().map(|(field, _)| field).collect();
                    prop_assert_eq!(decoded, fields);
                }
            }
        }
    }

    #[test]
    fn blocks_of_another_implementation_are_decoded(
        blocks in proptest::collection::vec(proptest::collection::vec((field(), 0..32_u8), 0..12), 1..10),
        table_bytes in prop_oneof![Just(4096), 0..400_u32],
    ) {
        let mut encoder = httlib_hpack::Encoder::with_dynamic_size(table_bytes);
        let mut decoder = Decoder::new(table_bytes);
        for fields in blocks {
            let mut block = Vec::new();
            for ((name, value), flags) in &fields {
                encoder.encode((name.clone(), value.clone(), *flags), &mut block).unwrap();
            }
            let fields: Vec<_> = fields.into_iter().map(|(field, _)| field).collect();
            prop_assert_eq!(decode(&mut decoder, &block), (fields, true));
        }
    }
}
