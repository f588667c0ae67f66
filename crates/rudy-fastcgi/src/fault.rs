//! Protocol violations of a peer.

use crate::Excerpt;
use crate::record::{Kind, RequestId};

/// A violation of the protocol or of a limit. After a fault the connection must be closed, because the start of the next
/// record is unknown or cannot be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A stream continues after its end (section 3.3).
    #[error("{kind} record for request {id} after the end of that stream")]
    AfterEnd {
        /// The stream.
        kind: Kind,
        /// The request.
        id: RequestId,
    },
    /// A request begins with the id of an open request (section 3.3).
    #[error("BEGIN_REQUEST for request {id}, which is still open")]
    AlreadyOpen {
        /// The id.
        id: RequestId,
    },
    /// An `FCGI_END_REQUEST` with a status that is not in section 5.5.
    #[error("END_REQUEST of request {id} has protocol status {received}; expected 0 to 3")]
    BadProtocolStatus {
        /// The request.
        id: RequestId,
        /// The status.
        received: u8,
    },
    /// A body record before the end of the parameters (section 6.1).
    #[error("{kind} record for request {id} before the end of its PARAMS")]
    BeforeParams {
        /// The type of the record.
        kind: Kind,
        /// The request.
        id: RequestId,
    },
    /// The connection was closed during a request.
    #[error("the connection was closed during a request")]
    Closed,
    /// Name-value pairs that end in the middle of a pair (section 3.4).
    #[error("a name-value pair is truncated")]
    TruncatedPair,
    /// `FCGI_DATA` for a request whose role is not filter (section 6.4).
    #[error("DATA record for request {id}, whose role is not filter")]
    DataWithoutFilterRole {
        /// The request.
        id: RequestId,
    },
    /// A management record over the limit.
    #[error("{kind} record of {received} bytes is over the limit of {limit}")]
    ManagementTooLarge {
        /// The type of the record.
        kind: Kind,
        /// Its content length in bytes.
        received: u16,
        /// The limit.
        limit: u16,
    },
    /// A request's record without a request id, or a management record with one (section 3.3).
    #[error("{kind} record {}", misplaced(*.id))]
    MisplacedId {
        /// The type of the record.
        kind: Kind,
        /// The request id.
        id: Option<RequestId>,
    },
    /// A version other than 1, or another protocol.
    #[error("a record begins with {0}, expected FastCGI version 1; is it another protocol?")]
    NotFastcgi(Excerpt),
    /// A record from the app for a request that is neither the current nor the previous one.
    #[error("{kind} record for request {id}, which is not open")]
    UnknownRequest {
        /// The type of the record.
        kind: Kind,
        /// The request id.
        id: RequestId,
    },
    /// The encoded parameters are too large.
    #[error("the parameters are larger than the limit of {limit} bytes")]
    ParamsTooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// Too many parameters.
    #[error("more parameters than the limit of {limit}")]
    TooManyParams {
        /// The limit.
        limit: usize,
    },
    /// An `FCGI_GET_VALUES_RESULT` without an `FCGI_GET_VALUES` (section 4.1).
    #[error("GET_VALUES_RESULT without GET_VALUES")]
    UnrequestedValues,
    /// A record that only the other end may receive.
    #[error("unexpected {kind} record at this end of the connection")]
    Unexpected {
        /// The type of the record.
        kind: Kind,
    },
    /// A record of fixed length (section 8) with another length.
    #[error("{kind} record has {received} bytes of content, expected {expected}")]
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

fn misplaced(id: Option<RequestId>) -> String {
    match id {
        Some(id) => format!("for request {id}; expected request id 0"),
        None => "with request id 0; expected the id of a request".to_owned(),
    }
}
