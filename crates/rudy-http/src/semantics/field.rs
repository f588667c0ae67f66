//! The fields whose values a request's head is asked for most.

/// A field that [`RequestHead::field`](super::RequestHead::field) finds at once.
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
    Te,
    TransferEncoding,
    Upgrade,
}

impl KnownField {
    pub(super) const COUNT: usize = Self::Upgrade as usize + 1;

    /// The field of this name, a token, whatever its case. Most names differ in their length already.
    pub(super) fn of(name: &[u8]) -> Option<Self> {
        match name.len() {
            2 if is(name, b"te") => Some(Self::Te),
            4 if is(name, b"host") => Some(Self::Host),
            5 if is(name, b"range") => Some(Self::Range),
            6 if is(name, b"accept") => Some(Self::Accept),
            6 if is(name, b"cookie") => Some(Self::Cookie),
            6 if is(name, b"expect") => Some(Self::Expect),
            7 if is(name, b"upgrade") => Some(Self::Upgrade),
            8 if is(name, b"if-match") => Some(Self::IfMatch),
            8 if is(name, b"if-range") => Some(Self::IfRange),
            10 if is(name, b"connection") => Some(Self::Connection),
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
}

/// Compares a token with a name of lower-case letters and hyphens. The bit that tells the cases apart is set in a hyphen, too,
/// and what is a hyphen but for that bit is CR, which no token has.
fn is<const N: usize>(token: &[u8], name: &[u8; N]) -> bool {
    let Ok(token) = <&[u8; N]>::try_from(token) else { return false };
    token.iter().zip(name).fold(0, |difference, (byte, expected)| difference | ((byte | 0x20) ^ expected))
        == 0
}
