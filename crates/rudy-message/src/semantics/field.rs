//! The request fields that affect most responses, and their lookup.

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// A lookup of request fields, in a map or in a view of a request head.
pub trait FieldLines {
    /// Returns the values of all lines of a field, in their original order.
    fn lines(&self, field: KnownField) -> impl Iterator<Item = &[u8]>;

    /// Whether the field is present.
    fn has(&self, field: KnownField) -> bool;
}

impl FieldLines for HeaderMap {
    fn lines(&self, field: KnownField) -> impl Iterator<Item = &[u8]> {
        self.get_all(field.name()).iter().map(HeaderValue::as_bytes)
    }

    fn has(&self, field: KnownField) -> bool {
        self.contains_key(field.name())
    }
}

/// The fields of a message, read and changed in whatever form they are: a map, or lines as they were received.
pub trait ChangeFields {
    /// Returns the values of all lines of a field, in their order.
    fn get_all<'s>(&'s self, name: &HeaderName) -> impl Iterator<Item = &'s [u8]>;

    /// Returns the value of the first line of a field.
    fn get(&self, name: &HeaderName) -> Option<&[u8]> {
        self.get_all(name).next()
    }

    /// Whether a field is present.
    fn contains(&self, name: &HeaderName) -> bool {
        self.get(name).is_some()
    }

    /// Removes all lines of a field.
    fn remove(&mut self, name: &HeaderName);

    /// Adds a line.
    fn add(&mut self, name: HeaderName, value: HeaderValue);

    /// Replaces all lines of a field by one.
    fn set(&mut self, name: HeaderName, value: HeaderValue) {
        self.remove(&name);
        self.add(name, value);
    }
}

impl ChangeFields for HeaderMap {
    fn get_all<'s>(&'s self, name: &HeaderName) -> impl Iterator<Item = &'s [u8]> {
        self.get_all(name).iter().map(HeaderValue::as_bytes)
    }

    fn remove(&mut self, name: &HeaderName) {
        self.remove(name);
    }

    fn add(&mut self, name: HeaderName, value: HeaderValue) {
        self.append(name, value);
    }
}

/// A field that [`RequestHead::field`](crate::RequestHead::field) finds without a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the field of that name")]
pub enum KnownField {
    Accept,
    AcceptEncoding,
    Authorization,
    CacheControl,
    Connection,
    ContentEncoding,
    ContentLength,
    ContentType,
    Cookie,
    Date,
    Expect,
    Host,
    IfMatch,
    IfModifiedSince,
    IfNoneMatch,
    IfRange,
    IfUnmodifiedSince,
    KeepAlive,
    ProxyConnection,
    Range,
    Referer,
    Te,
    TransferEncoding,
    Upgrade,
    UserAgent,
    Via,
}

impl KnownField {
    /// The number of known fields.
    pub const COUNT: usize = Self::Via as usize + 1;

    const ALL: [Self; Self::COUNT] = [
        Self::Accept,
        Self::AcceptEncoding,
        Self::Authorization,
        Self::CacheControl,
        Self::Connection,
        Self::ContentEncoding,
        Self::ContentLength,
        Self::ContentType,
        Self::Cookie,
        Self::Date,
        Self::Expect,
        Self::Host,
        Self::IfMatch,
        Self::IfModifiedSince,
        Self::IfNoneMatch,
        Self::IfRange,
        Self::IfUnmodifiedSince,
        Self::KeepAlive,
        Self::ProxyConnection,
        Self::Range,
        Self::Referer,
        Self::Te,
        Self::TransferEncoding,
        Self::Upgrade,
        Self::UserAgent,
        Self::Via,
    ];

    /// Finds the field with this name, a token in any case. Most names differ in length or in the first letter.
    #[must_use]
    pub fn of(name: &[u8]) -> Option<Self> {
        match (name.len(), name.first()? | 0x20) {
            (2, b't') if is(name, b"te") => Some(Self::Te),
            (3, b'v') if is(name, b"via") => Some(Self::Via),
            (4, b'd') if is(name, b"date") => Some(Self::Date),
            (4, b'h') if is(name, b"host") => Some(Self::Host),
            (5, b'r') if is(name, b"range") => Some(Self::Range),
            (6, b'a') if is(name, b"accept") => Some(Self::Accept),
            (6, b'c') if is(name, b"cookie") => Some(Self::Cookie),
            (6, b'e') if is(name, b"expect") => Some(Self::Expect),
            (7, b'r') if is(name, b"referer") => Some(Self::Referer),
            (7, b'u') if is(name, b"upgrade") => Some(Self::Upgrade),
            (8, b'i') if is(name, b"if-match") => Some(Self::IfMatch),
            (8, b'i') if is(name, b"if-range") => Some(Self::IfRange),
            (10, b'c') if is(name, b"connection") => Some(Self::Connection),
            (10, b'k') if is(name, b"keep-alive") => Some(Self::KeepAlive),
            (10, b'u') if is(name, b"user-agent") => Some(Self::UserAgent),
            (12, b'c') if is(name, b"content-type") => Some(Self::ContentType),
            (13, b'a') if is(name, b"authorization") => Some(Self::Authorization),
            (13, b'c') if is(name, b"cache-control") => Some(Self::CacheControl),
            (13, b'i') if is(name, b"if-none-match") => Some(Self::IfNoneMatch),
            (14, b'c') if is(name, b"content-length") => Some(Self::ContentLength),
            (15, b'a') if is(name, b"accept-encoding") => Some(Self::AcceptEncoding),
            (16, b'c') if is(name, b"content-encoding") => Some(Self::ContentEncoding),
            (16, b'p') if is(name, b"proxy-connection") => Some(Self::ProxyConnection),
            (17, b'i') if is(name, b"if-modified-since") => Some(Self::IfModifiedSince),
            (17, b't') if is(name, b"transfer-encoding") => Some(Self::TransferEncoding),
            (19, b'i') if is(name, b"if-unmodified-since") => Some(Self::IfUnmodifiedSince),
            _ => None,
        }
    }

    /// Returns the length of the name.
    #[must_use]
    pub fn length(self) -> usize {
        self.name().as_str().len()
    }

    /// Returns the name of the field.
    #[must_use]
    pub fn name(self) -> HeaderName {
        match self {
            Self::Accept => header::ACCEPT,
            Self::AcceptEncoding => header::ACCEPT_ENCODING,
            Self::Authorization => header::AUTHORIZATION,
            Self::CacheControl => header::CACHE_CONTROL,
            Self::Connection => header::CONNECTION,
            Self::ContentEncoding => header::CONTENT_ENCODING,
            Self::ContentLength => header::CONTENT_LENGTH,
            Self::ContentType => header::CONTENT_TYPE,
            Self::Cookie => header::COOKIE,
            Self::Date => header::DATE,
            Self::Expect => header::EXPECT,
            Self::Host => header::HOST,
            Self::IfMatch => header::IF_MATCH,
            Self::IfModifiedSince => header::IF_MODIFIED_SINCE,
            Self::IfNoneMatch => header::IF_NONE_MATCH,
            Self::IfRange => header::IF_RANGE,
            Self::IfUnmodifiedSince => header::IF_UNMODIFIED_SINCE,
            Self::KeepAlive => const { HeaderName::from_static("keep-alive") },
            Self::ProxyConnection => const { HeaderName::from_static("proxy-connection") },
            Self::Range => header::RANGE,
            Self::Referer => header::REFERER,
            Self::Te => header::TE,
            Self::TransferEncoding => header::TRANSFER_ENCODING,
            Self::Upgrade => header::UPGRADE,
            Self::UserAgent => header::USER_AGENT,
            Self::Via => header::VIA,
        }
    }
}

/// A set of known fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KnownFields(u32);

impl KnownFields {
    /// Returns the set of these fields.
    #[must_use]
    pub const fn of(fields: &[KnownField]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < fields.len() {
            bits |= 1 << fields[at] as u32;
            at += 1;
        }
        Self(bits)
    }

    /// Whether the field is in the set.
    #[must_use]
    #[inline]
    pub fn contains(self, field: KnownField) -> bool {
        self.0 & 1 << field as u32 != 0
    }

    /// Whether the set has no field.
    #[must_use]
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Adds a field.
    #[inline]
    pub fn insert(&mut self, field: KnownField) {
        self.0 |= 1 << field as u32;
    }

    /// Removes a field.
    #[inline]
    pub fn remove(&mut self, field: KnownField) {
        self.0 &= !(1 << field as u32);
    }

    /// Returns the fields of both sets.
    #[must_use]
    #[inline]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the fields that are in both sets.
    #[must_use]
    #[inline]
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the fields that are not in the other set.
    #[must_use]
    #[inline]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the fields, one after another.
    pub fn iter(self) -> impl Iterator<Item = KnownField> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            // Without a field, there are as many zeros as bits, which are more than the fields.
            let field = KnownField::ALL.get(rest.trailing_zeros() as usize)?;
            rest &= rest - 1;
            Some(*field)
        })
    }
}

/// What the names in a head look like: a filter that tells without a search that a head has none of some fields.
///
/// Of a name, it has the first two letters; of one that begins with `x`, only that, because a hyphen follows in one of its spellings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NameStarts(u64);

impl NameStarts {
    /// Returns the filter of names, or of their beginnings.
    #[must_use]
    pub const fn of(names: &[&str]) -> Self {
        let (mut starts, mut at) = (0, 0);
        while at < names.len() {
            starts |= Self::bit(names[at].as_bytes());
            at += 1;
        }
        Self(starts)
    }

    /// Returns the filter of both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Adds a name.
    #[inline]
    pub fn insert(&mut self, name: &[u8]) {
        self.0 |= Self::bit(name);
    }

    /// Whether a name may be among these.
    #[must_use]
    #[inline]
    pub fn may_have(self, name: &[u8]) -> bool {
        self.0 & Self::bit(name) != 0
    }

    /// Whether there may be a name that is among `others`.
    #[must_use]
    #[inline]
    pub fn intersects(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// Returns one of 64 bits. The factors give those of usual fields and those that only proxies set different ones.
    const fn bit(name: &[u8]) -> u64 {
        let (first, second) = match name {
            [b'x' | b'X', ..] | [] => (b'x', 0),
            [first] => (*first | 0x20, 0),
            [first, second, ..] => (*first | 0x20, *second | 0x20),
        };
        1 << ((first as u32 * 2 + second as u32 * 29) % 64)
    }
}

/// Compares a token with a name of lower-case letters and hyphens, ignoring case. Setting the bit 0x20 maps upper case to lower
/// case and keeps hyphens. It also maps CR to a hyphen, but a token has no CR.
fn is<const N: usize>(token: &[u8], name: &[u8; N]) -> bool {
    let Ok(token) = <&[u8; N]>::try_from(token) else { return false };
    // By index: without optimisation across crates, each `zip` of two arrays is a call, and a request has twenty of them.
    (0..N).fold(0, |difference, at| difference | ((token[at] | 0x20) ^ name[at])) == 0
}
