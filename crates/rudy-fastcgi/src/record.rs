//! Records, the unit of everything that FastCGI sends (section 3.3).
//!
//! The encoding functions append complete records, padded to a multiple of eight bytes as section 3.3 recommends.

use std::fmt;
use std::num::NonZeroU16;

use bytes::{BufMut, BytesMut};

/// The id of a request on its connection, from its [`Kind::BeginRequest`] to its [`Kind::EndRequest`]. Management records
/// have the id 0 (section 3.3).
pub type RequestId = NonZeroU16;

/// The protocol version: `FCGI_VERSION_1` (section 8).
pub const VERSION: u8 = 1;

/// Size of a record's header: `FCGI_HEADER_LEN` (section 8).
pub const HEADER_BYTES: usize = 8;

/// Maximum content of a record that we send: the largest multiple of eight in 16 bits, which needs no padding.
pub const CONTENT_BYTES_MAX: usize = 65_528;

/// The type of a record (section 8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Begins a request: `FCGI_BEGIN_REQUEST`, 1.
    BeginRequest,
    /// Cancels a request: `FCGI_ABORT_REQUEST`, 2.
    AbortRequest,
    /// Ends a request: `FCGI_END_REQUEST`, 3.
    EndRequest,
    /// The stream of a request's parameters: `FCGI_PARAMS`, 4.
    Params,
    /// The stream of a request's body: `FCGI_STDIN`, 5.
    Stdin,
    /// The stream of a response, including its head: `FCGI_STDOUT`, 6.
    Stdout,
    /// The stream of log messages: `FCGI_STDERR`, 7.
    Stderr,
    /// The stream of the file to filter: `FCGI_DATA`, 8.
    Data,
    /// Queries the capacity of an app: `FCGI_GET_VALUES`, 9.
    GetValues,
    /// The capacity of an app: `FCGI_GET_VALUES_RESULT`, 10.
    GetValuesResult,
    /// Reports a management record of unknown type: `FCGI_UNKNOWN_TYPE`, 11.
    UnknownType,
    /// An unknown type.
    Other(u8),
}

impl Kind {
    /// Converts from the number in a header.
    #[must_use]
    pub fn from_number(number: u8) -> Self {
        match number {
            1 => Self::BeginRequest,
            2 => Self::AbortRequest,
            3 => Self::EndRequest,
            4 => Self::Params,
            5 => Self::Stdin,
            6 => Self::Stdout,
            7 => Self::Stderr,
            8 => Self::Data,
            9 => Self::GetValues,
            10 => Self::GetValuesResult,
            11 => Self::UnknownType,
            other => Self::Other(other),
        }
    }

    /// The number in a header.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::BeginRequest => 1,
            Self::AbortRequest => 2,
            Self::EndRequest => 3,
            Self::Params => 4,
            Self::Stdin => 5,
            Self::Stdout => 6,
            Self::Stderr => 7,
            Self::Data => 8,
            Self::GetValues => 9,
            Self::GetValuesResult => 10,
            Self::UnknownType => 11,
            Self::Other(number) => number,
        }
    }
}

/// The name in the specification without its prefix `FCGI_`.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BeginRequest => "BEGIN_REQUEST",
            Self::AbortRequest => "ABORT_REQUEST",
            Self::EndRequest => "END_REQUEST",
            Self::Params => "PARAMS",
            Self::Stdin => "STDIN",
            Self::Stdout => "STDOUT",
            Self::Stderr => "STDERR",
            Self::Data => "DATA",
            Self::GetValues => "GET_VALUES",
            Self::GetValuesResult => "GET_VALUES_RESULT",
            Self::UnknownType => "UNKNOWN_TYPE",
            Self::Other(number) => return write!(f, "type {number}"),
        })
    }
}

/// The role of an app for a request (section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Produces the response, as a CGI program does: `FCGI_RESPONDER`, 1 (section 6.2).
    Responder,
    /// Decides whether the request is allowed: `FCGI_AUTHORIZER`, 2 (section 6.3).
    Authorizer,
    /// Responds with a changed version of a file that the server sends: `FCGI_FILTER`, 3 (section 6.4).
    Filter,
}

impl Role {
    /// Converts from the number in a record. Returns `None` if section 6 does not define it.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        Some(match number {
            1 => Self::Responder,
            2 => Self::Authorizer,
            3 => Self::Filter,
            _ => return None,
        })
    }

    /// The number in a record.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            Self::Responder => 1,
            Self::Authorizer => 2,
            Self::Filter => 3,
        }
    }
}

/// How a request ended on the level of the protocol (section 5.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProtocolStatus {
    /// The app handled it: `FCGI_REQUEST_COMPLETE`, 0.
    RequestComplete,
    /// Rejected: the app accepts one request at a time per connection. `FCGI_CANT_MPX_CONN`, 1.
    CannotMultiplex,
    /// Rejected: the app is out of some resource. `FCGI_OVERLOADED`, 2.
    Overloaded,
    /// Rejected: the app does not have this role. `FCGI_UNKNOWN_ROLE`, 3.
    UnknownRole,
}

impl ProtocolStatus {
    /// Converts from the number in a record. Returns `None` if section 5.5 does not define it.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::RequestComplete,
            1 => Self::CannotMultiplex,
            2 => Self::Overloaded,
            3 => Self::UnknownRole,
            _ => return None,
        })
    }

    /// The number in a record.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::RequestComplete => 0,
            Self::CannotMultiplex => 1,
            Self::Overloaded => 2,
            Self::UnknownRole => 3,
        }
    }
}

/// The header of a record (section 3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The type of the record.
    pub kind: Kind,
    /// The request of the record, or `None` for a management record.
    pub id: Option<RequestId>,
    /// Number of content bytes.
    pub content_bytes: u16,
    /// Number of padding bytes after the content.
    pub padding_bytes: u8,
}

impl Header {
    /// Decodes a header. Returns `None` for another version or protocol. Ignores the reserved byte.
    #[must_use]
    pub fn decode(bytes: [u8; HEADER_BYTES]) -> Option<Self> {
        let [VERSION, kind, id @ .., _] = bytes else { return None };
        let [id_high, id_low, content_high, content_low, padding_bytes] = id;
        Some(Self {
            kind: Kind::from_number(kind),
            id: RequestId::new(u16::from_be_bytes([id_high, id_low])),
            content_bytes: u16::from_be_bytes([content_high, content_low]),
            padding_bytes,
        })
    }

    /// Encodes the header.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let [id_high, id_low] = self.id.map_or(0, RequestId::get).to_be_bytes();
        let [content_high, content_low] = self.content_bytes.to_be_bytes();
        [VERSION, self.kind.number(), id_high, id_low, content_high, content_low, self.padding_bytes, 0]
    }
}

/// Appends `FCGI_BEGIN_REQUEST` (section 5.1). Without `keep`, the app closes the connection after its response.
pub fn encode_begin(id: RequestId, role: Role, keep: bool, out: &mut BytesMut) {
    let [role_high, role_low] = role.number().to_be_bytes();
    let flags = u8::from(keep) * FLAG_KEEP_CONNECTION;
    encode_discrete(Kind::BeginRequest, Some(id), &[role_high, role_low, flags, 0, 0, 0, 0, 0], out);
}

/// Appends `FCGI_ABORT_REQUEST` (section 5.4).
pub fn encode_abort(id: RequestId, out: &mut BytesMut) {
    encode_discrete(Kind::AbortRequest, Some(id), &[], out);
}

/// Appends `FCGI_END_REQUEST` (section 5.5). `app_status` is the exit status of an equivalent CGI program.
pub fn encode_end(id: RequestId, app_status: u32, protocol_status: ProtocolStatus, out: &mut BytesMut) {
    let [a, b, c, d] = app_status.to_be_bytes();
    encode_discrete(Kind::EndRequest, Some(id), &[a, b, c, d, protocol_status.number(), 0, 0, 0], out);
}

/// Appends `FCGI_UNKNOWN_TYPE`, the reply to a management record of unknown type (section 4.2).
pub fn encode_unknown_type(number: u8, out: &mut BytesMut) {
    encode_discrete(Kind::UnknownType, None, &[number, 0, 0, 0, 0, 0, 0, 0], out);
}

/// Appends a piece of a stream as one or more records. Appends nothing for an empty piece, because an empty record ends the
/// stream: see [`encode_stream_end`].
pub fn encode_stream(kind: Kind, id: RequestId, data: &[u8], out: &mut BytesMut) {
    for piece in data.chunks(CONTENT_BYTES_MAX) {
        encode_discrete(kind, Some(id), piece, out);
    }
}

/// Appends the end of a stream: a record without content (section 3.3).
pub fn encode_stream_end(kind: Kind, id: RequestId, out: &mut BytesMut) {
    encode_discrete(kind, Some(id), &[], out);
}

/// `FCGI_KEEP_CONN` (section 5.1).
pub(crate) const FLAG_KEEP_CONNECTION: u8 = 1;

/// Content length of `FCGI_BEGIN_REQUEST`, `FCGI_END_REQUEST` and `FCGI_UNKNOWN_TYPE` (section 8).
pub(crate) const BODY_BYTES: u16 = 8;

/// Appends one record. `content` has at most [`CONTENT_BYTES_MAX`] bytes.
pub(crate) fn encode_discrete(kind: Kind, id: Option<RequestId>, content: &[u8], out: &mut BytesMut) {
    let header = padded_header(kind, id, content.len());
    let padding_bytes = usize::from(header.padding_bytes);
    out.reserve(HEADER_BYTES + content.len() + padding_bytes);
    out.put_slice(&header.encode());
    out.put_slice(content);
    out.put_bytes(0, padding_bytes);
}

/// Returns the header of a record that is padded to a multiple of eight bytes.
pub(crate) fn padded_header(kind: Kind, id: Option<RequestId>, content_bytes: usize) -> Header {
    debug_assert!(content_bytes <= CONTENT_BYTES_MAX, "the caller makes records of this size");
    let content_bytes = u16::try_from(content_bytes).unwrap_or(u16::MAX);
    // At most 7.
    let padding_bytes = u8::try_from(content_bytes.wrapping_neg() % 8).unwrap_or_default();
    Header { kind, id, content_bytes, padding_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_kinds_roles_and_statuses_round_trip() {
        for number in 0..=u8::MAX {
            assert_eq!(Kind::from_number(number).number(), number);
            assert_eq!(matches!(Kind::from_number(number), Kind::Other(_)), !(1..=11).contains(&number));
            let status = ProtocolStatus::from_number(number).map(ProtocolStatus::number);
            assert_eq!(status, (number <= 3).then_some(number));
        }
        for number in 0..=u16::MAX {
            let role = Role::from_number(number).map(Role::number);
            assert_eq!(role, (1..=3).contains(&number).then_some(number));
        }
    }

    #[test]
    fn a_header_round_trips_and_its_reserved_byte_is_ignored() {
        let bytes = [1, 6, 0x12, 0x34, 0x56, 0x78, 7, 0];
        let header = Header {
            kind: Kind::Stdout,
            id: RequestId::new(0x1234),
            content_bytes: 0x5678,
            padding_bytes: 7,
        };
        assert_eq!(header.encode(), bytes);
        assert_eq!(Header::decode(bytes), Some(header));
        assert_eq!(Header::decode([1, 6, 0x12, 0x34, 0x56, 0x78, 7, 99]), Some(header));
        assert_eq!(Header::decode([2, 6, 0x12, 0x34, 0x56, 0x78, 7, 0]), None);
        assert_eq!(Header::decode([1, 9, 0, 0, 0, 0, 0, 0]).and_then(|header| header.id), None);
    }

    #[test]
    fn records_are_padded_to_eight_bytes_and_split_at_the_maximum() {
        for length in [1, 7, 8, 9, CONTENT_BYTES_MAX, CONTENT_BYTES_MAX + 1, 3 * CONTENT_BYTES_MAX] {
            let mut out = BytesMut::new();
            encode_stream(Kind::Stdin, RequestId::MIN, &vec![b'x'; length], &mut out);
            let records = length.div_ceil(CONTENT_BYTES_MAX);
            assert_eq!(out.len(), records * HEADER_BYTES + length.next_multiple_of(8), "{length}");
        }
        let mut out = BytesMut::new();
        encode_stream(Kind::Stdin, RequestId::MIN, b"", &mut out);
        assert!(out.is_empty(), "an empty record would end the stream");
    }
}
