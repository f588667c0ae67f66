//! The bytes of a [`Stored`] in a file, and of names.
//!
//! All numbers are little-endian. After the version, the record has fixed numbers, then lists with their lengths:
//!
//! ```text
//! u8 version, u16 status, u8 flags, u64 received_at
//! u32 initial_age, u32 lifetime, u32 stale_while_revalidate, u32 stale_if_error
//! u32 count of parts, and if it is not 0: u64 size, (u64 start, u64 length)*
//! u32 count of names in Vary, (u16 length, name)*, u32 length of their values, values
//! u32 count of field lines, (u16 length, name, u32 length, value)*
//! ```
//!
//! A record has no checksum: the store that writes it has one for the whole file.

use bytes::{Buf, BufMut, TryGetError};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use rudy_message::semantics::date::HttpDate;
use rudy_message::semantics::range::Span;

use crate::freshness::Freshness;
use crate::seconds::Seconds;
use crate::stored::{Content, Stored, Validators};
use crate::vary::Variant;

/// The version of the format. A record with another one is not read: a lost cache is a cold cache.
const VERSION: u8 = 1;

const VALIDATE_ALWAYS: u8 = 1;
const NEVER_STALE: u8 = 1 << 1;
const IMMUTABLE: u8 = 1 << 2;
const AUTHORIZED: u8 = 1 << 3;
const INVALID: u8 = 1 << 4;
const FLAGS: u8 = VALIDATE_ALWAYS | NEVER_STALE | IMMUTABLE | AUTHORIZED | INVALID;

/// The error of bytes that are not a record of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the record of a stored response is damaged, or its version is not {VERSION}")]
pub struct InvalidRecord;

impl From<TryGetError> for InvalidRecord {
    fn from(_: TryGetError) -> Self {
        Self
    }
}

impl Stored {
    /// Appends the record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(VERSION);
        out.put_u16_le(self.status.as_u16());
        out.put_u8(self.flags());
        out.put_u64_le(self.received_at.unix_seconds());
        let Freshness { lifetime, stale_while_revalidate, stale_if_error, .. } = self.freshness;
        for seconds in [self.initial_age, lifetime, stale_while_revalidate, stale_if_error] {
            out.put_u32_le(seconds.get());
        }
        put_content(out, &self.content);
        put_count(out, self.variant.names.len());
        for name in &self.variant.names {
            put_name(out, name);
        }
        put_bytes(out, &self.variant.key);
        put_count(out, self.fields.len());
        for (name, value) in &self.fields {
            put_name(out, name);
            put_bytes(out, value.as_bytes());
        }
    }

    /// Decodes a record that [`Stored::encode`] wrote. All of the bytes have to belong to it.
    pub fn decode(mut record: &[u8]) -> Result<Self, InvalidRecord> {
        let input = &mut record;
        if input.try_get_u8()? != VERSION {
            return Err(InvalidRecord);
        }
        let status = StatusCode::from_u16(input.try_get_u16_le()?).map_err(|_| InvalidRecord)?;
        let flags = input.try_get_u8()?;
        let received_at = i64::try_from(input.try_get_u64_le()?).map_err(|_| InvalidRecord)?;
        let mut seconds = || input.try_get_u32_le().map(|seconds| Seconds::new(seconds.into()));
        let [initial_age, lifetime, stale_while_revalidate, stale_if_error] =
            [seconds()?, seconds()?, seconds()?, seconds()?];
        let has = |flag| flags & flag != 0;
        let (content, variant, fields) = (get_content(input)?, get_variant(input)?, get_fields(input)?);
        let stored = Self {
            status,
            received_at: HttpDate::from_unix_seconds(received_at),
            initial_age,
            freshness: Freshness {
                lifetime,
                stale_while_revalidate,
                stale_if_error,
                validate_always: has(VALIDATE_ALWAYS),
                never_stale: has(NEVER_STALE),
                immutable: has(IMMUTABLE),
            },
            is_authorized: has(AUTHORIZED),
            is_invalid: has(INVALID),
            validators: Validators::of(&fields),
            content,
            variant,
            fields,
        };
        if flags & !FLAGS == 0 && input.is_empty() { Ok(stored) } else { Err(InvalidRecord) }
    }

    fn flags(&self) -> u8 {
        let Freshness { validate_always, never_stale, immutable, .. } = self.freshness;
        [
            (validate_always, VALIDATE_ALWAYS),
            (never_stale, NEVER_STALE),
            (immutable, IMMUTABLE),
            (self.is_authorized, AUTHORIZED),
            (self.is_invalid, INVALID),
        ]
        .into_iter()
        .fold(0, |flags, (is_set, flag)| if is_set { flags | flag } else { flags })
    }
}

fn put_content(out: &mut Vec<u8>, content: &Content) {
    let Content::Parts { size, spans } = content else { return put_count(out, 0) };
    put_count(out, spans.len());
    out.put_u64_le(*size);
    for span in spans {
        out.put_u64_le(span.start);
        out.put_u64_le(span.length);
    }
}

fn get_content(input: &mut &[u8]) -> Result<Content, InvalidRecord> {
    let count = input.try_get_u32_le()?;
    if count == 0 {
        return Ok(Content::Whole);
    }
    let size = input.try_get_u64_le()?;
    let (mut spans, mut free_from) = (Vec::new(), 0);
    for _ in 0..count {
        let span = Span { start: input.try_get_u64_le()?, length: input.try_get_u64_le()? };
        let end = span.start.checked_add(span.length).filter(|end| *end <= size).ok_or(InvalidRecord)?;
        // In order, not empty, and with a gap between them.
        if span.length == 0 || span.start < free_from {
            return Err(InvalidRecord);
        }
        free_from = end.saturating_add(1);
        spans.push(span);
    }
    Ok(Content::Parts { size, spans })
}

fn get_variant(input: &mut &[u8]) -> Result<Variant, InvalidRecord> {
    let count = input.try_get_u32_le()?;
    let mut names = Vec::new();
    for _ in 0..count {
        names.push(get_name(input)?);
    }
    Ok(Variant { names, key: get_bytes(input)?.to_vec() })
}

fn get_fields(input: &mut &[u8]) -> Result<HeaderMap, InvalidRecord> {
    let count = input.try_get_u32_le()?;
    let mut fields = HeaderMap::new();
    for _ in 0..count {
        let name = get_name(input)?;
        let value = HeaderValue::from_bytes(get_bytes(input)?).map_err(|_| InvalidRecord)?;
        // A map has a maximum size.
        fields.try_append(name, value).map_err(|_| InvalidRecord)?;
    }
    Ok(fields)
}

/// Lists come from a message head, whose limit is far below 4 GiB.
fn put_count(out: &mut Vec<u8>, count: usize) {
    out.put_u32_le(u32::try_from(count).expect("all lengths are limited"));
}

/// Appends bytes with their length, which is limited.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.put_slice(bytes);
}

/// Takes bytes with their length.
pub fn get_bytes<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], InvalidRecord> {
    let length = input.try_get_u32_le()?;
    take(input, length as usize)
}

/// Appends the name of a field.
pub fn put_name(out: &mut Vec<u8>, name: &HeaderName) {
    let name = name.as_str();
    out.put_u16_le(u16::try_from(name.len()).expect("the type limits a name to 65,535 bytes"));
    out.put_slice(name.as_bytes());
}

/// Takes the name of a field.
pub fn get_name(input: &mut &[u8]) -> Result<HeaderName, InvalidRecord> {
    let length = input.try_get_u16_le()?;
    HeaderName::from_bytes(take(input, length.into())?).map_err(|_| InvalidRecord)
}

/// Takes bytes.
pub fn take<'a>(input: &mut &'a [u8], length: usize) -> Result<&'a [u8], InvalidRecord> {
    let (taken, rest) = input.split_at_checked(length).ok_or(InvalidRecord)?;
    *input = rest;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn encode(stored: &Stored) -> Vec<u8> {
        let mut record = Vec::new();
        stored.encode(&mut record);
        record
    }

    fn seconds() -> impl Strategy<Value = Seconds> {
        (0_u64..1 << 33).prop_map(Seconds::new)
    }

    fn content() -> impl Strategy<Value = Content> {
        vec((1_u64..1000, 1_u64..1000), 0..4).prop_map(|gaps_and_lengths| {
            let (mut spans, mut size) = (Vec::new(), 0);
            for (gap, length) in gaps_and_lengths {
                spans.push(Span { start: size + gap, length });
                size += gap + length;
            }
            if spans.is_empty() { Content::Whole } else { Content::Parts { size, spans } }
        })
    }

    fn name() -> impl Strategy<Value = HeaderName> {
        "[a-z][a-z0-9-]{0,20}".prop_map(|name| HeaderName::try_from(name).unwrap())
    }

    fn fields() -> impl Strategy<Value = HeaderMap> {
        let value =
            "[ -~\u{e9}\t]{0,20}".prop_map(|value| HeaderValue::from_bytes(value.as_bytes()).unwrap());
        vec((name(), value), 0..8).prop_map(|lines| {
            let mut fields = HeaderMap::new();
            for (name, value) in lines {
                fields.append(name, value);
            }
            fields
        })
    }

    prop_compose! {
        fn freshness()(
            durations in (seconds(), seconds(), seconds()),
            (validate_always, never_stale, immutable) in any::<(bool, bool, bool)>(),
        ) -> Freshness {
            let (lifetime, stale_while_revalidate, stale_if_error) = durations;
            Freshness { lifetime, stale_while_revalidate, stale_if_error, validate_always, never_stale, immutable }
        }
    }

    prop_compose! {
        fn stored()(
            (status, received_at) in (100_u16..1000, 0_i64..1 << 40),
            (initial_age, freshness, content) in (seconds(), freshness(), content()),
            (names, key, fields) in (vec(name(), 0..3), vec(any::<u8>(), 0..40), fields()),
            (is_authorized, is_invalid) in any::<(bool, bool)>(),
        ) -> Stored {
            Stored {
                status: StatusCode::from_u16(status).unwrap(),
                received_at: HttpDate::from_unix_seconds(received_at),
                variant: Variant { names, key },
                validators: Validators::of(&fields),
                fields, content, initial_age, freshness, is_authorized, is_invalid,
            }
        }
    }

    proptest! {
        #[test]
        fn a_record_is_decoded_to_the_same_response(stored in stored()) {
            prop_assert_eq!(Stored::decode(&encode(&stored)), Ok(stored));
        }

        #[test]
        fn a_record_that_is_cut_or_longer_is_invalid(stored in stored(), cut in any::<prop::sample::Index>()) {
            let mut record = encode(&stored);
            prop_assert_eq!(Stored::decode(&record[..cut.index(record.len())]), Err(InvalidRecord));
            record.push(0);
            prop_assert_eq!(Stored::decode(&record), Err(InvalidRecord));
        }

        #[test]
        fn a_changed_byte_gives_another_valid_response_or_an_error(
            stored in stored(),
            at in any::<prop::sample::Index>(),
            byte: u8,
        ) {
            let mut record = encode(&stored);
            let at = at.index(record.len());
            record[at] = byte;
            if let Ok(changed) = Stored::decode(&record) {
                prop_assert_eq!(Stored::decode(&encode(&changed)), Ok(changed));
            }
        }
    }

    #[test]
    fn a_record_without_fields_has_44_bytes() {
        let stored = Stored {
            status: StatusCode::OK,
            fields: HeaderMap::new(),
            validators: Validators::of(&HeaderMap::new()),
            variant: Variant::default(),
            content: Content::Whole,
            received_at: HttpDate::from_unix_seconds(1),
            initial_age: Seconds::new(2),
            freshness: Freshness { lifetime: Seconds::new(3), immutable: true, ..Freshness::default() },
            is_authorized: false,
            is_invalid: true,
        };
        let record = encode(&stored);
        let fixed = [1, 200, 0, 0b1_0100, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0];
        assert_eq!(record, [&fixed[..], &[0; 24]].concat(), "a change of the format needs another VERSION");
    }
}
