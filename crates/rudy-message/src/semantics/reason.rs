//! Reason phrases (RFC 9110 §15).

use http::StatusCode;

/// Returns the reason phrase of a status code. `None` if no standard defines one.
///
/// The `http` crate has the old phrases of codes that RFC 9110 renamed, and a wrong phrase for 203.
///
/// ```
/// use http::StatusCode;
/// use rudy_message::semantics::reason::reason_phrase;
///
/// assert_eq!(reason_phrase(StatusCode::PAYLOAD_TOO_LARGE), Some("Content Too Large"));
/// assert_eq!(reason_phrase(StatusCode::NOT_FOUND), Some("Not Found"));
/// assert_eq!(reason_phrase(StatusCode::from_u16(299).unwrap()), None);
/// ```
#[must_use]
pub fn reason_phrase(status: StatusCode) -> Option<&'static str> {
    match status.as_u16() {
        203 => Some("Non-Authoritative Information"),
        413 => Some("Content Too Large"),
        422 => Some("Unprocessable Content"),
        _ => status.canonical_reason(),
    }
}
