//! What a peer did wrong.

use std::fmt;

use crate::Excerpt;
use crate::record::{Kind, RequestId};

/// Why what came is not FastCGI, or too much of it. After a fault the connection is always closed: where the next record
/// would begin is not known, or not trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A stream goes on behind its end (section 3.3).
    AfterEnd {
        /// Of which stream.
        kind: Kind,
        /// Of which request.
        id: RequestId,
    },
    /// A request begins under a number that another one has (section 3.3).
    AlreadyOpen {
        /// The number.
        id: RequestId,
    },
    /// An end with a status that section 5.5 does not have.
    BadProtocolStatus {
        /// Of which request.
        id: RequestId,
        /// The status.
        came: u8,
    },
    /// A body before the parameters are complete (section 6.1: an app knows what a request is before it reads it).
    BeforeParams {
        /// What came.
        kind: Kind,
        /// For which request.
        id: RequestId,
    },
    /// The connection was closed with a request in progress.
    Closed,
    /// Names and values end in the middle of one (section 3.4).
    TruncatedPair,
    /// DATA for a request whose role is not that of a filter (section 6.4).
    DataWithoutFilterRole {
        /// Of which request.
        id: RequestId,
    },
    /// A record about the connection that is larger than the limit.
    ManagementTooLarge {
        /// What came.
        kind: Kind,
        /// Bytes of content that it has.
        came: u16,
        /// Bytes of content that it may have.
        limit: u16,
    },
    /// A record about a request that says of none (section 3.3), or a record about the connection that says of one.
    MisplacedId {
        /// What came.
        kind: Kind,
        /// Of which request.
        id: Option<RequestId>,
    },
    /// A version other than 1, or another protocol.
    NotFastcgi(Excerpt),
    /// A record from the app about a request that is neither in progress nor the previous one.
    UnknownRequest {
        /// What came.
        kind: Kind,
        /// For which request.
        id: RequestId,
    },
    /// Parameters with too many bytes.
    ParamsTooLarge {
        /// Bytes that they may have.
        limit: usize,
    },
    /// Too many parameters.
    TooManyParams {
        /// How many there may be.
        limit: usize,
    },
    /// Values that nobody has asked for (section 4.1).
    UnrequestedValues,
    /// A record that this end is not sent.
    Unexpected {
        /// What came.
        kind: Kind,
    },
    /// A record whose content has another length than section 8 gives it.
    WrongLength {
        /// What came.
        kind: Kind,
        /// Bytes of content that it has.
        came: u16,
        /// Bytes of content that it has to have.
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
            Self::AfterEnd { kind, id } => write!(f, "{kind} of request {id} goes on behind its end"),
            Self::AlreadyOpen { id } => write!(f, "a request begins as number {id}, which is still open"),
            Self::BadProtocolStatus { id, came } => {
                write!(f, "request {id} ends with protocol status {came}; 0 to 3 are known")
            }
            Self::BeforeParams { kind, id } => {
                write!(f, "{kind} of request {id} comes before the end of its PARAMS")
            }
            Self::Closed => f.write_str("the connection was closed with a request open"),
            Self::TruncatedPair => f.write_str("names and values end in the middle of one"),
            Self::DataWithoutFilterRole { id } => {
                write!(f, "DATA came for request {id}, whose role is not that of a filter")
            }
            Self::ManagementTooLarge { kind, came, limit } => {
                write!(f, "{kind} has {came} bytes, more than the limit of {limit}")
            }
            Self::MisplacedId { kind, id: Some(id) } => {
                write!(f, "{kind} is about the connection, and came for request {id}")
            }
            Self::MisplacedId { kind, id: None } => {
                write!(f, "{kind} is about a request, and came without its number")
            }
            Self::NotFastcgi(came) => {
                write!(
                    f,
                    "a record begins with {came}, not with version 1 of FastCGI: is it another protocol?"
                )
            }
            Self::UnknownRequest { kind, id } => write!(f, "{kind} came for request {id}, which is not open"),
            Self::ParamsTooLarge { limit } => {
                write!(f, "the parameters are larger than the limit of {limit} bytes")
            }
            Self::TooManyParams { limit } => write!(f, "there are more parameters than the limit of {limit}"),
            Self::UnrequestedValues => f.write_str("GET_VALUES_RESULT came, and nobody has asked for values"),
            Self::Unexpected { kind } => write!(f, "{kind} came, which is not for this end of a connection"),
            Self::WrongLength { kind, came, expected } => {
                write!(f, "{kind} has {came} bytes of content, and has to have {expected}")
            }
        }
    }
}

impl std::error::Error for Fault {}
