//! The request fields that decide about most responses, and where they are looked up.

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Where the fields of a request are looked up: in a map, or in a view of the request's head.
pub trait FieldLines {
    /// The values of all field lines of this name, in the order in which they came.
    fn lines(&self, field: KnownField) -> impl Iterator<Item = &[u8]>;

    /// Whether there is such a line.
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

/// A field that [`RequestHead::field`](crate::h1::RequestHead::field) finds without a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the field of its name")]
pub enum KnownField {
    Accept,
    AcceptEncoding,
    Authorization,
    Connection,
    ContentLength,
    Cookie,
    Expect,
    Host,
    IfMatch,
    IfModifiedSince,
    IfNoneMatch,
    IfRange,
    IfUnmodifiedSince,
    Range,
    Referer,
    Te,
    TransferEncoding,
    Upgrade,
    UserAgent,
}

impl KnownField {
    pub(crate) const COUNT: usize = Self::UserAgent as usize + 1;

    /// The field of this name, a token, whatever its case. Most names differ in their length already.
    pub(crate) fn of(name: &[u8]) -> Option<Self> {
        match name.len() {
            2 if is(name, b"te") => Some(Self::Te),
            4 if is(name, b"host") => Some(Self::Host),
            5 if is(name, b"range") => Some(Self::Range),
            6 if is(name, b"accept") => Some(Self::Accept),
            6 if is(name, b"cookie") => Some(Self::Cookie),
            6 if is(name, b"expect") => Some(Self::Expect),
            7 if is(name, b"referer") => Some(Self::Referer),
            7 if is(name, b"upgrade") => Some(Self::Upgrade),
            8 if is(name, b"if-match") => Some(Self::IfMatch),
            8 if is(name, b"if-range") => Some(Self::IfRange),
            10 if is(name, b"connection") => Some(Self::Connection),
            10 if is(name, b"user-agent") => Some(Self::UserAgent),
            13 if is(name, b"if-none-match") => Some(Self::IfNoneMatch),
            13 if is(name, b"authorization") => Some(Self::Authorization),
            14 if is(name, b"content-length") => Some(Self::ContentLength),
            15 if is(name, b"accept-encoding") => Some(Self::AcceptEncoding),
            17 if is(name, b"if-modified-since") => Some(Self::IfModifiedSince),
            17 if is(name, b"transfer-encoding") => Some(Self::TransferEncoding),
            19 if is(name, b"if-unmodified-since") => Some(Self::IfUnmodifiedSince),
            _ => None,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> HeaderName {
        match self {
            Self::Accept => header::ACCEPT,
            Self::AcceptEncoding => header::ACCEPT_ENCODING,
            Self::Authorization => header::AUTHORIZATION,
            Self::Connection => header::CONNECTION,
            Self::ContentLength => header::CONTENT_LENGTH,
            Self::Cookie => header::COOKIE,
            Self::Expect => header::EXPECT,
            Self::Host => header::HOST,
            Self::IfMatch => header::IF_MATCH,
            Self::IfModifiedSince => header::IF_MODIFIED_SINCE,
            Self::IfNoneMatch => header::IF_NONE_MATCH,
            Self::IfRange => header::IF_RANGE,
            Self::IfUnmodifiedSince => header::IF_UNMODIFIED_SINCE,
            Self::Range => header::RANGE,
            Self::Referer => header::REFERER,
            Self::Te => header::TE,
            Self::TransferEncoding => header::TRANSFER_ENCODING,
            Self::Upgrade => header::UPGRADE,
            Self::UserAgent => header::USER_AGENT,
        }
    }
}

/// Compares a token with a name of lower-case letters and hyphens. The bit that tells the cases apart is set in a hyphen, too,
/// and what is a hyphen but for that bit is CR, which no token has.
fn is<const N: usize>(token: &[u8], name: &[u8; N]) -> bool {
    let Ok(token) = <&[u8; N]>::try_from(token) else { return false };
    token.iter().zip(name).fold(0, |difference, (byte, expected)| difference | ((byte | 0x20) ^ expected))
        == 0
}
