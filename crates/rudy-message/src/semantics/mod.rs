//! HTTP semantics (RFC 9110): functions for header fields and paths.
//!
//! - [`date`]: HTTP dates (§5.6.7).
//! - [`etag`]: entity tags, strong and weak (§8.8.3).
//! - [`conditional`]: conditional requests (§13).
//! - [`field`]: the request fields that affect most responses.
//! - [`forwarded`]: the client of a proxied request: `Forwarded` (RFC 7239) and `X-Forwarded-For`.
//! - [`range`]: byte ranges and multipart responses (§14).
//! - [`negotiation`]: `Accept-Encoding` and `Accept` (§12.5).
//! - [`media_type`]: media types by file name (§8.3).
//! - [`path`]: canonical request paths, and paths below a folder.
//! - [`percent`]: percent-encoding (RFC 3986 §2.1).
//! - [`reference`](mod@reference): relative references (RFC 3986 §5).
//! - [`reason`]: the reason phrases of status codes (§15).

pub mod conditional;
pub mod date;
pub mod etag;
pub mod field;
pub mod forwarded;
pub mod media_type;
pub mod negotiation;
pub mod path;
pub mod percent;
pub mod range;
pub mod reason;
pub mod reference;
