use proptest::prelude::*;

use super::*;
use crate::{Fields, MessageLimits};

const NAMES: [&str; 5] = ["cookie", "x-a", "x-b", "host", "via"];

#[derive(Debug, Clone)]
enum Change {
    Add(&'static str, u16),
    Set(&'static str, u16),
    Remove(&'static str),
    RemoveIf(&'static str),
    MakeMap,
    Own,
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let name = || prop::sample::select(&NAMES[..]);
    let change = prop_oneof![
        (name(), any::<u16>()).prop_map(|(name, value)| Change::Add(name, value)),
        (name(), any::<u16>()).prop_map(|(name, value)| Change::Set(name, value)),
        name().prop_map(Change::Remove),
        prop::sample::select(&["x-", "x-b"][..]).prop_map(Change::RemoveIf),
        Just(Change::MakeMap),
        Just(Change::Own),
    ];
    prop::collection::vec(change, 0..8)
}

fn make(change: &Change, mut head: LazyHead<'_>, model: &mut HeaderMap) -> LazyHead<'static> {
    let name = HeaderName::from_static;
    match change {
        Change::Add(of, value) => {
            head.add(name(of), (*value).into());
            model.append(*of, (*value).into());
        }
        Change::Set(of, value) => {
            head.set(name(of), (*value).into());
            model.insert(*of, (*value).into());
        }
        Change::Remove(of) => {
            head.remove(&name(of));
            model.remove(*of);
        }
        Change::RemoveIf(start) => {
            head.remove_if(|name| name.to_ascii_lowercase().starts_with(start.as_bytes()));
            for name in NAMES.iter().filter(|name| name.starts_with(start)) {
                model.remove(*name);
            }
        }
        Change::MakeMap => drop(head.headers().len()),
        Change::Own => {}
    }
    head.into_owned()
}

proptest! {
    #[test]
    fn a_changed_head_has_the_fields_of_a_map_that_was_changed_alike(
        lines in prop::collection::vec((prop::sample::select(&["Cookie", "X-A", "x-a", "X-b"][..]), any::<u16>()), 0..6),
        changes in changes(),
    ) {
        let lines = lines.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect::<Vec<_>>().concat();
        let text = format!("GET /a?b HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        let received = RequestHead::of_rejected(text.as_bytes(), &MessageLimits::default()).expect("a valid head");
        let mut model = received.to_map();
        let start = LazyHead::new(&received);
        prop_assert!(start.unchanged().is_some());
        let head = changes.iter().fold(start.into_owned(), |head, change| make(change, head, &mut model));
        for name in NAMES.map(HeaderName::from_static) {
            let expected: Vec<_> = model.get_all(&name).iter().map(HeaderValue::as_bytes).collect();
            prop_assert_eq!(head.get_all(&name).collect::<Vec<_>>(), &expected[..], "{}", name);
            if let Some(field) = KnownField::of(name.as_str().as_bytes()) {
                prop_assert_eq!(FieldLines::lines(&head, field).collect::<Vec<_>>(), &expected[..], "{}", name);
            }
        }
        prop_assert_eq!(head.fields().count(), model.len());
        let mut out = BytesMut::new();
        head.encode_lines(KnownFields::of(&[KnownField::Host]), &mut out);
        let encoded = Fields::new(&out).filter_map(|(name, value)| Some((HeaderName::try_from(name).ok()?, HeaderValue::from_bytes(value).ok()?)));
        let without_host = model.iter().filter(|(name, _)| **name != HOST).map(|(name, value)| (name.clone(), value.clone()));
        prop_assert_eq!(encoded.collect::<HeaderMap>(), without_host.collect::<HeaderMap>());
        prop_assert_eq!(head.headers(), &model);
        prop_assert_eq!((head.path(), head.query(), head.uri().path()), (&b"/a"[..], Some(&b"b"[..]), "/a"));
    }
}

#[test]
fn a_replaced_target_hides_the_received_one() {
    let text = b"GET http://own/<a>?b HTTP/1.1\r\nHost: other\r\n\r\n";
    let received = RequestHead::of_rejected(text, &MessageLimits::default()).expect("a valid head");
    let mut head = LazyHead::new(&received);
    assert_eq!(
        (head.host(), head.path(), head.path_and_query()),
        (&b"own"[..], &b"/<a>"[..], &b"/<a>?b"[..])
    );
    assert_eq!((head.uri().path(), head.received_path()), ("/%3Ca%3E", Some(&b"/<a>"[..])));
    head.set_uri("/c".parse().expect("a valid URI"));
    assert_eq!((head.host(), head.path_and_query()), (&b"other"[..], &b"/c"[..]));
    assert!(head.received_path().is_none() && head.unchanged().is_none() && !head.is_absolute());
}
