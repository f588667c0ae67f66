//! What the fields mean (RFC 9110), as functions.
//!
//! - [`date`]: HTTP dates (§5.6.7).
//! - [`etag`]: entity tags, strong and weak (§8.8.3).
//! - [`conditional`]: the five conditions, in their order (§13).
//! - [`field`]: the fields that decide about most responses.
//! - [`forwarded`]: the sender of a request, as a proxy names it (RFC 7239).
//! - [`range`]: byte ranges and the multipart answer (§14).
//! - [`negotiation`]: `Accept-Encoding` and `Accept` (§12.5).
//! - [`media_type`]: what a file name says of its content (§8.3).
//! - [`path`]: a request's path in its one canonical spelling, and as a path below a folder.
//! - [`percent`]: percent-encoding (RFC 3986 §2.1).
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
