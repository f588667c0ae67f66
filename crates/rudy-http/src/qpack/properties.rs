//! Properties of sections.

use bytes::BytesMut;
use proptest::prelude::*;

use super::{Decoder, encode_stateless, put_prefix};
use crate::hpack::integer;
use crate::hpack::string::{self, LENGTH_PREFIX_BITS};

fn fields() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
    let name = prop_oneof![
        proptest::sample::select(vec![":status", ":method", "date", "content-type", "x-frame-options"])
            .prop_map(|name| name.as_bytes().to_vec()),
        proptest::collection::vec(
            any::<u8>().prop_filter("lower case", |byte| !byte.is_ascii_uppercase()),
            0..300
        ),
    ];
    let value = prop_oneof![
        proptest::sample::select(vec!["200", "304", "GET", "text/css", "deny", ""])
            .prop_map(|value| value.as_bytes().to_vec()),
        proptest::collection::vec(any::<u8>(), 0..300),
    ];
    proptest::collection::vec((name, value), 0..20)
}

proptest! {
    #[test]
    fn decoded_fields_are_the_encoded_ones(fields in fields()) {
        let mut section = BytesMut::new();
        put_prefix(&mut section);
        for (name, value) in &fields {
            encode_stateless(name, value, &mut section);
        }
        let mut decoded = Vec::new();
        let mut field = |name: &[u8], value: &[u8]| decoded.push((name.to_vec(), value.to_vec()));
        Decoder::new(0).section(&section).unwrap().decode(&mut Vec::new(), &mut field).unwrap();
        prop_assert_eq!(decoded, fields);
    }

    #[test]
    fn any_bytes_are_decoded_or_rejected(section in proptest::collection::vec(any::<u8>(), 0..200)) {
        let decoder = Decoder::new(4096);
        let _ = decoder.section(&section).map(|section| section.decode(&mut Vec::new(), &mut |_, _| {}));
    }
}

/// What an encoder with a dynamic table does.
#[derive(Debug, Clone)]
enum Step {
    /// Inserts a field: with this name or a reference to one (static, dynamic), or a duplicate.
    Insert(u8, usize, Vec<u8>),
    /// Encodes a section of references to these entries, with names only or not. The Base is at this place between them.
    Section(Vec<(usize, bool)>, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let value = proptest::collection::vec(any::<u8>(), 0..60);
    let references = proptest::collection::vec((any::<usize>(), any::<bool>()), 1..6);
    prop_oneof![
        (0..4_u8, any::<usize>(), value).prop_map(|(kind, of, value)| Step::Insert(kind, of, value)),
        (references, any::<usize>()).prop_map(|(references, base)| Step::Section(references, base)),
    ]
}

type Field = (Vec<u8>, Vec<u8>);

const CAPACITY: u32 = 300;

/// An encoder whose instructions arrive later than its sections.
struct Encoder {
    /// All entries, by their absolute indices, and the first that is not evicted.
    entries: Vec<Field>,
    first: usize,
    in_transit: BytesMut,
}

impl Encoder {
    fn new() -> Self {
        let mut in_transit = BytesMut::new();
        integer::encode(CAPACITY as usize, 5, 0x20, &mut in_transit);
        Self { entries: Vec::new(), first: 0, in_transit }
    }

    fn live(&self, of: usize) -> Option<usize> {
        Some(self.first + of.checked_rem(self.entries.len() - self.first)?)
    }

    /// Inserts a field. Calls `flush` if an entry must be evicted: it must have arrived.
    fn insert(&mut self, kind: u8, of: usize, value: &[u8], flush: &mut impl FnMut(&mut BytesMut)) {
        let newest = |index: usize| self.entries.len() - 1 - index;
        let mut instruction = BytesMut::new();
        let field = match (kind, self.live(of)) {
            (0, Some(entry)) => {
                integer::encode(newest(entry), 5, 0, &mut instruction);
                self.entries[entry].clone()
            }
            (1, Some(entry)) => {
                integer::encode(newest(entry), 6, 0x80, &mut instruction);
                string::encode::<LENGTH_PREFIX_BITS, 0>(value, &mut instruction);
                (self.entries[entry].0.clone(), value.to_vec())
            }
            (2, _) => {
                integer::encode(1, 6, 0xc0, &mut instruction);
                string::encode::<LENGTH_PREFIX_BITS, 0>(value, &mut instruction);
                (b":path".to_vec(), value.to_vec())
            }
            _ => {
                let name = format!("name{}", of % 100);
                string::encode::<5, 0x40>(name.as_bytes(), &mut instruction);
                string::encode::<LENGTH_PREFIX_BITS, 0>(value, &mut instruction);
                (name.into_bytes(), value.to_vec())
            }
        };
        self.entries.push(field);
        let size = |entries: &[Field]| {
            entries.iter().map(|(name, value)| name.len() + value.len() + 32).sum::<usize>()
        };
        while size(&self.entries[self.first..]) > CAPACITY as usize {
            flush(&mut self.in_transit);
            self.first += 1;
        }
        self.in_transit.extend(instruction);
    }

    /// Encodes a section. Returns it with its fields, and the number of entries that it needs.
    fn section(&self, references: &[(usize, bool)], base: usize) -> Option<(BytesMut, Vec<Field>, usize)> {
        let entries: Vec<_> = references.iter().filter_map(|(of, _)| self.live(*of)).collect();
        let required = *entries.iter().max()? + 1;
        // Before, at, and behind the entries.
        let base = base % (required + 5);
        let (mut section, mut fields) = (BytesMut::new(), Vec::new());
        integer::encode(required % (2 * CAPACITY as usize / 32) + 1, 8, 0, &mut section);
        match base.checked_sub(required) {
            Some(distance) => integer::encode(distance, 7, 0, &mut section),
            None => integer::encode(required - base - 1, 7, 0x80, &mut section),
        }
        for (entry, (_, is_whole)) in entries.into_iter().zip(references) {
            let (name, value) = self.entries[entry].clone();
            let before = base.checked_sub(entry + 1);
            match (before, is_whole) {
                (Some(index), true) => integer::encode(index, 6, 0x80, &mut section),
                (Some(index), false) => integer::encode(index, 4, 0x40, &mut section),
                (None, true) => integer::encode(entry - base, 4, 0x10, &mut section),
                (None, false) => integer::encode(entry - base, 3, 0, &mut section),
            }
            if *is_whole {
                fields.push((name, value));
            } else {
                string::encode::<LENGTH_PREFIX_BITS, 0>(b"literal", &mut section);
                fields.push((name, b"literal".to_vec()));
            }
        }
        Some((section, fields, required))
    }
}

proptest! {
    #[test]
    fn sections_with_references_are_decoded(
        steps in proptest::collection::vec(step(), 1..80),
        piece_bytes in 1..50_usize,
    ) {
        let (mut encoder, mut decoder, mut sent) = (Encoder::new(), Decoder::new(CAPACITY), 0);
        let mut deliver = |decoder: &mut Decoder, instructions: &mut BytesMut| {
            let mut out = BytesMut::new();
            for piece in instructions.split().chunks(piece_bytes) {
                decoder.receive_instructions(piece, &mut out).unwrap();
            }
            // Each increment has one byte.
            sent += out.iter().map(|byte| u64::from(*byte)).sum::<u64>();
            assert_eq!(sent, decoder.inserted());
        };
        for step in steps {
            match step {
                Step::Insert(kind, of, value) => {
                    encoder.insert(kind, of, &value, &mut |instructions| deliver(&mut decoder, instructions));
                }
                Step::Section(references, base) => {
                    let Some((bytes, fields, required)) = encoder.section(&references, base) else { continue };
                    let section = decoder.section(&bytes).unwrap();
                    prop_assert_eq!(section.required(), required as u64);
                    prop_assert_eq!(section.is_blocked(), required as u64 > decoder.inserted());
                    deliver(&mut decoder, &mut encoder.in_transit);
                    let section = decoder.section(&bytes).unwrap();
                    prop_assert!(!section.is_blocked());
                    let mut decoded = Vec::new();
                    let mut field = |name: &[u8], value: &[u8]| decoded.push((name.to_vec(), value.to_vec()));
                    section.decode(&mut Vec::new(), &mut field).unwrap();
                    prop_assert_eq!(decoded, fields);
                }
            }
            prop_assert!(decoder.heap_bytes() <= 3 * CAPACITY as usize + 300);
        }
    }

    #[test]
    fn any_instructions_are_applied_or_rejected_in_any_pieces(
        input in proptest::collection::vec(any::<u8>(), 0..200),
        piece_bytes in 1..50_usize,
    ) {
        let run = |piece_bytes: usize| {
            let mut decoder = Decoder::new(CAPACITY);
            let mut pieces = input.chunks(piece_bytes);
            let error = pieces.find_map(|piece| decoder.receive_instructions(piece, &mut BytesMut::new()).err());
            (error, decoder.table.fields())
        };
        prop_assert_eq!(run(piece_bytes), run(200));
    }
}
