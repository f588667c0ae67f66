//! The handlers that need no folder: each is made ready when the configuration is read, and answers at once.

mod redirect;
mod respond;
mod status;

pub(crate) use redirect::Redirect;
pub(crate) use respond::Respond;
pub(crate) use status::Status;
pub use status::Vitals;

use http::StatusCode;
use rudy_net::Response;

/// A status with a sentence for people. Ends in a line feed, for those who look at it in a terminal.
pub(crate) fn plain(status: StatusCode, sentence: &str) -> Response {
    let reason = status.canonical_reason().unwrap_or_default();
    let text = if sentence.is_empty() {
        format!("{} {reason}\n", status.as_str())
    } else {
        format!("{} {reason}: {sentence}\n", status.as_str())
    };
    Response::text(status, "text/plain; charset=utf-8", text)
}
