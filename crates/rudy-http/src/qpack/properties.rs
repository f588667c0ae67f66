//! Properties of sections.

use bytes::BytesMut;
use proptest::prelude::*;

use super::{Decoder, encode_stateless, put_prefix};

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
        Decoder::default().decode(&section, &mut Vec::new(), &mut field).unwrap();
        prop_assert_eq!(decoded, fields);
    }

    #[test]
    fn any_bytes_are_decoded_or_rejected(section in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Decoder::default().decode(&section, &mut Vec::new(), &mut |_, _| {});
    }
}
