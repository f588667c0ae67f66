//! Protocol violations of a peer.

use std::fmt;

use crate::Excerpt;
use crate::record::{Kind, RequestId};

/// A violation of the protocol or of a limit. After a fault the connection must be closed, because the start of the next
/// record is unknown or cannot be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A stream continues after its end (section 3.3).
    AfterEnd {
        /// The stream.
        kind: Kind,
        /// The request.
        id: RequestId,
    },
    /// A request begins with the id of an open request (section 3.3).
    AlreadyOpen {
        /// The id.
        id: RequestId,
    },
    /// An `FCGI_END_REQUEST` with a status that is not in section 5.5.
    BadProtocolStatus {
        /// The request.
        id: RequestId,
        /// The status.
        received: u8,
    },
    /// A body record before the end of the parameters (section 6.1).
    BeforeParams {
        /// The type of the record.
        kind: Kind,
        /// The request.
        id: RequestId,
    },
    /// The connection was closed during a request.
    Closed,
    /// Name-value pairs that end in the middle of a pair (section 3.4).
    TruncatedPair,
    /// `FCGI_DATA` for a request whose role is not filter (section 6.4).
    DataWithoutFilterRole {
        /// The request.
        id: RequestId,
    },
    /// A management record over the limit.
    ManagementTooLarge {
        /// The type of the record.
        kind: Kind,
        /// Its content length in bytes.
        received: u16,
        /// The limit.
        limit: u16,
    },
    /// A request's record without a request id, or a management record with one (section 3.3).
    MisplacedId {
        /// The type of the record.
        kind: Kind,
        /// The request id.
        id: Option<RequestId>,
    },
    /// A version other than 1, or another protocol.
    NotFastcgi(Excerpt),
    /// A record from the app for a request that is neither the current nor the previous one.
    UnknownRequest {
        /// The type of the record.
        kind: Kind,
        /// The request id.
        id: RequestId,
    },
    /// The encoded parameters are too large.
    ParamsTooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// Too many parameters.
    TooManyParams {
        /// The limit.
        limit: usize,
    },
    /// An `FCGI_GET_VALUES_RESULT` without an `FCGI_GET_VALUES` (section 4.1).
    UnrequestedValues,
    /// A record that only the other end may receive.
    Unexpected {
        /// The type of the record.
        kind: Kind,
    },
    /// A record of fixed length (section 8) with another length.
    WrongLength {
        /// The type of the record.
        kind: Kind,
        /// Its content length in bytes.
        received: u16,
        /// The length from section 8.
        expected: u16,
    },
}

impl Fault {
    pub(crate) fn not_fastcgi(bytes: &[u8]) -> Self {
        Self::NotFastcgi(Excerpt::of(bytes))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AfterEnd { kind, id } => {
                write!(f, "{kind} record for request {id} after the end of that stream")
            }
            Self::AlreadyOpen { id } => write!(f, "BEGIN_REQUEST for request {id}, which is still open"),
            Self::BadProtocolStatus { id, received } => {
                write!(f, "END_REQUEST of request {id} has protocol status {received}; expected 0 to 3")
            }
            Self::BeforeParams { kind, id } => {
                write!(f, "{kind} record for request {id} before the end of its PARAMS")
            }
            Self::Closed => f.write_str("the connection was closed during a request"),
            Self::TruncatedPair => f.write_str("a name-value pair is truncated"),
            Self::DataWithoutFilterRole { id } => {
                write!(f, "DATA record for request {id}, whose role is not filter")
            }
            Self::ManagementTooLarge { kind, received, limit } => {
                write!(f, "{kind} record of {received} bytes is over the limit of {limit}")
            }
            Self::MisplacedId { kind, id: Some(id) } => {
                write!(f, "{kind} record for request {id}; expected request id 0")
            }
            Self::MisplacedId { kind, id: None } => {
                write!(f, "{kind} record with request id 0; expected the id of a request")
            }
            Self::NotFastcgi(start) => {
                write!(f, "a record begins with {start}, expected FastCGI version 1; is it another protocol?")
            }
            Self::UnknownRequest { kind, id } => {
                write!(f, "{kind} record for request {id}, which is not open")
            }
            Self::ParamsTooLarge { limit } => {
                write!(f, "the parameters are larger than the limit of {limit} bytes")
            }
            Self::TooManyParams { limit } => write!(f, "more parameters than the limit of {limit}"),
            Self::UnrequestedValues => f.write_str("GET_VALUES_RESULT without GET_VALUES"),
            Self::Unexpected { kind } => write!(f, "unexpected {kind} record at this end of the connection"),
            Self::WrongLength { kind, received, expected } => {
                write!(f, "{kind} record has {received} bytes of content, expected {expected}")
            }
        }
    }
}

impl std::error::Error for Fault {}
