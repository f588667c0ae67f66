//! The static table (RFC 9204 Appendix A).

use crate::hpack::static_table::{Field, Match, is_equal};

/// Returns the field with an index from 0.
#[inline]
pub(super) fn field(index: usize) -> Option<Field> {
    FIELDS.get(index).copied()
}

/// Finds a field, or else its name.
#[inline]
pub(super) fn find(name: &[u8], value: &[u8]) -> Match {
    let Some(slot) = hash(name) else { return Match::None };
    let first = usize::from(FIRST[usize::from(slot)]);
    if FIELDS.get(first).is_none_or(|field| field.0 != name) {
        return Match::None;
    }
    let mut index = first;
    while FIELDS[index].1 != value {
        index = usize::from(NEXT[index]);
        if index == 0 {
            return Match::Name(first);
        }
    }
    Match::Field(index)
}

/// Returns the slot of a name in [`FIRST`]. The position and the factor are the first ones with which all names have different slots.
/// `None` for the empty name.
const fn hash(name: &[u8]) -> Option<u8> {
    let ([first, ..], [.., last]) = (name, name) else { return None };
    let late = name[name.len() * 5 / 6];
    let length = name.len().to_le_bytes()[0];
    Some(first.wrapping_add(*last).wrapping_add(late.wrapping_mul(11)).wrapping_add(length))
}

/// Marks a slot of [`FIRST`] without a name.
const NO_NAME: u8 = u8::MAX;

/// The first index of each name, by the hash of the name.
static FIRST: [u8; 256] = INDICES.0;

/// The next index of the same name, or 0. Unlike those of HPACK, fields with the same name are not adjacent.
static NEXT: [u8; LENGTH] = INDICES.1;

const INDICES: ([u8; 256], [u8; LENGTH]) = indices();

const fn indices() -> ([u8; 256], [u8; LENGTH]) {
    let (mut first, mut next) = ([NO_NAME; 256], [0; LENGTH]);
    // Backwards, so that each index finds the one after it.
    let mut index = LENGTH;
    while index > 0 {
        index -= 1;
        let Some(slot) = hash(TABLE[index].0) else { panic!("a name is empty") };
        let later = first[slot as usize];
        if later != NO_NAME {
            assert!(is_equal(TABLE[later as usize].0, TABLE[index].0), "two names have the same slot");
            next[index] = later;
        }
        first[slot as usize] = index.to_le_bytes()[0];
    }
    (first, next)
}

static FIELDS: [Field; LENGTH] = TABLE;

const LENGTH: usize = TABLE.len();

const TABLE: [Field; 99] = [
    (b":authority", b""),
    (b":path", b"/"),
    (b"age", b"0"),
    (b"content-disposition", b""),
    (b"content-length", b"0"),
    (b"cookie", b""),
    (b"date", b""),
    (b"etag", b""),
    (b"if-modified-since", b""),
    (b"if-none-match", b""),
    (b"last-modified", b""),
    (b"link", b""),
    (b"location", b""),
    (b"referer", b""),
    (b"set-cookie", b""),
    (b":method", b"CONNECT"),
    (b":method", b"DELETE"),
    (b":method", b"GET"),
    (b":method", b"HEAD"),
    (b":method", b"OPTIONS"),
    (b":method", b"POST"),
    (b":method", b"PUT"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    (b":status", b"103"),
    (b":status", b"200"),
    (b":status", b"304"),
    (b":status", b"404"),
    (b":status", b"503"),
    (b"accept", b"*/*"),
    (b"accept", b"application/dns-message"),
    (b"accept-encoding", b"gzip, deflate, br"),
    (b"accept-ranges", b"bytes"),
    (b"access-control-allow-headers", b"cache-control"),
    (b"access-control-allow-headers", b"content-type"),
    (b"access-control-allow-origin", b"*"),
    (b"cache-control", b"max-age=0"),
    (b"cache-control", b"max-age=2592000"),
    (b"cache-control", b"max-age=604800"),
    (b"cache-control", b"no-cache"),
    (b"cache-control", b"no-store"),
    (b"cache-control", b"public, max-age=31536000"),
    (b"content-encoding", b"br"),
    (b"content-encoding", b"gzip"),
    (b"content-type", b"application/dns-message"),
    (b"content-type", b"application/javascript"),
    (b"content-type", b"application/json"),
    (b"content-type", b"application/x-www-form-urlencoded"),
    (b"content-type", b"image/gif"),
    (b"content-type", b"image/jpeg"),
    (b"content-type", b"image/png"),
    (b"content-type", b"text/css"),
    (b"content-type", b"text/html; charset=utf-8"),
    (b"content-type", b"text/plain"),
    (b"content-type", b"text/plain;charset=utf-8"),
    (b"range", b"bytes=0-"),
    (b"strict-transport-security", b"max-age=31536000"),
    (b"strict-transport-security", b"max-age=31536000; includesubdomains"),
    (b"strict-transport-security", b"max-age=31536000; includesubdomains; preload"),
    (b"vary", b"accept-encoding"),
    (b"vary", b"origin"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-xss-protection", b"1; mode=block"),
    (b":status", b"100"),
    (b":status", b"204"),
    (b":status", b"206"),
    (b":status", b"302"),
    (b":status", b"400"),
    (b":status", b"403"),
    (b":status", b"421"),
    (b":status", b"425"),
    (b":status", b"500"),
    (b"accept-language", b""),
    (b"access-control-allow-credentials", b"FALSE"),
    (b"access-control-allow-credentials", b"TRUE"),
    (b"access-control-allow-headers", b"*"),
    (b"access-control-allow-methods", b"get"),
    (b"access-control-allow-methods", b"get, post, options"),
    (b"access-control-allow-methods", b"options"),
    (b"access-control-expose-headers", b"content-length"),
    (b"access-control-request-headers", b"content-type"),
    (b"access-control-request-method", b"get"),
    (b"access-control-request-method", b"post"),
    (b"alt-svc", b"clear"),
    (b"authorization", b""),
    (b"content-security-policy", b"script-src 'none'; object-src 'none'; base-uri 'none'"),
    (b"early-data", b"1"),
    (b"expect-ct", b""),
    (b"forwarded", b""),
    (b"if-range", b""),
    (b"origin", b""),
    (b"purpose", b"prefetch"),
    (b"server", b""),
    (b"timing-allow-origin", b"*"),
    (b"upgrade-insecure-requests", b"1"),
    (b"user-agent", b""),
    (b"x-forwarded-for", b""),
    (b"x-frame-options", b"deny"),
    (b"x-frame-options", b"sameorigin"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_found_at_its_index() {
        for (index, (name, value)) in TABLE.iter().enumerate() {
            assert_eq!(field(index), Some((*name, *value)));
            assert_eq!(find(name, value), Match::Field(index));
            let first = TABLE.iter().position(|field| field.0 == *name);
            assert_eq!(Some(find(name, b"other")), first.map(Match::Name));
        }
        assert_eq!(field(99), None);
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
