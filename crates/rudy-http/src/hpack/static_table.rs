//! The static table (RFC 7541 Appendix A).

/// A field of the static table: its name and value.
pub(crate) type Field = (&'static [u8], &'static [u8]);

/// The number of fields. The first index of the dynamic table is one more (§2.3.3).
pub(super) const LENGTH: usize = TABLE.len();

/// Returns the field with an index from 1 to [`LENGTH`].
#[inline]
pub(super) fn field(index: usize) -> Option<Field> {
    FIELDS.get(index.checked_sub(1)?).copied()
}

/// The result of a search for a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Match {
    /// The index of a field with this name and value.
    Field(usize),
    /// The first index of a field with this name.
    Name(usize),
    None,
}

/// Finds a field, or else its name.
#[inline]
pub(super) fn find(name: &[u8], value: &[u8]) -> Match {
    let Some(slot) = hash(name) else { return Match::None };
    let (first, last) = INDICES[usize::from(slot)];
    let (first, last) = (usize::from(first), usize::from(last));
    if field(first).is_none_or(|field| field.0 != name) {
        return Match::None;
    }
    match (first..=last).find(|index| FIELDS[index - 1].1 == value) {
        Some(index) => Match::Field(index),
        None => Match::Name(first),
    }
}

/// Returns the slot of a name in [`INDICES`]. The factors are the smallest with which all names have different slots. `None`
/// for the empty name.
const fn hash(name: &[u8]) -> Option<u8> {
    let ([first, ..], [.., last]) = (name, name) else { return None };
    let middle = name[name.len() / 2];
    let length = name.len().to_le_bytes()[0];
    Some(first.wrapping_add(last.wrapping_mul(3)).wrapping_add(middle.wrapping_mul(25)).wrapping_add(length))
}

/// The first and the last index of each name, by the hash of the name. Fields with the same name are adjacent. Other slots
/// have 0.
static INDICES: [(u8, u8); 256] = indices();

const fn indices() -> [(u8, u8); 256] {
    let mut table = [(0, 0); 256];
    let mut index = 1;
    while index <= LENGTH {
        let name = TABLE[index - 1].0;
        let Some(slot) = hash(name) else { panic!("a name is empty") };
        let (first, last) = &mut table[slot as usize];
        assert!(*last == 0 || is_equal(TABLE[*last as usize - 1].0, name), "two names have the same slot");
        *last = index.to_le_bytes()[0];
        if *first == 0 {
            *first = *last;
        }
        index += 1;
    }
    table
}

/// Whether two names are equal.
pub(crate) const fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let mut index = 0;
    while index < one.len() && index < other.len() && one[index] == other[index] {
        index += 1;
    }
    index == one.len() && index == other.len()
}

static FIELDS: [Field; LENGTH] = TABLE;

const TABLE: [Field; 61] = [
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    (b":status", b"200"),
    (b":status", b"204"),
    (b":status", b"206"),
    (b":status", b"304"),
    (b":status", b"400"),
    (b":status", b"404"),
    (b":status", b"500"),
    (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"),
    (b"accept-language", b""),
    (b"accept-ranges", b""),
    (b"accept", b""),
    (b"access-control-allow-origin", b""),
    (b"age", b""),
    (b"allow", b""),
    (b"authorization", b""),
    (b"cache-control", b""),
    (b"content-disposition", b""),
    (b"content-encoding", b""),
    (b"content-language", b""),
    (b"content-length", b""),
    (b"content-location", b""),
    (b"content-range", b""),
    (b"content-type", b""),
    (b"cookie", b""),
    (b"date", b""),
    (b"etag", b""),
    (b"expect", b""),
    (b"expires", b""),
    (b"from", b""),
    (b"host", b""),
    (b"if-match", b""),
    (b"if-modified-since", b""),
    (b"if-none-match", b""),
    (b"if-range", b""),
    (b"if-unmodified-since", b""),
    (b"last-modified", b""),
    (b"link", b""),
    (b"location", b""),
    (b"max-forwards", b""),
    (b"proxy-authenticate", b""),
    (b"proxy-authorization", b""),
    (b"range", b""),
    (b"referer", b""),
    (b"refresh", b""),
    (b"retry-after", b""),
    (b"server", b""),
    (b"set-cookie", b""),
    (b"strict-transport-security", b""),
    (b"transfer-encoding", b""),
    (b"user-agent", b""),
    (b"vary", b""),
    (b"via", b""),
    (b"www-authenticate", b""),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_found_at_its_index() {
        for (index, (name, value)) in TABLE.iter().enumerate() {
            assert_eq!(field(index + 1), Some((*name, *value)));
            assert_eq!(find(name, value), Match::Field(index + 1));
            let first = TABLE.iter().position(|field| field.0 == *name).map(|index| index + 1);
            assert_eq!(Some(find(name, b"other")), first.map(Match::Name));
        }
        assert_eq!((field(0), field(62)), (None, None));
    }

    #[test]
    fn other_names_are_not_found() {
        for (name, _) in TABLE {
            for other in [&name[1..], &name[..name.len() - 1], &[name, name].concat(), &[name, b"x"].concat()]
            {
                let is_name = TABLE.iter().any(|field| field.0 == other);
                assert_eq!(find(other, b"") == Match::None, !is_name);
            }
        }
        assert_eq!(find(b"", b""), Match::None);
    }
}
