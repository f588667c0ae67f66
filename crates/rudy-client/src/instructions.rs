//! What the instructions of an app change in the response for the client.

use http::header::CONTENT_TYPE;
use rudy_message::Instructions;
use rudy_message::semantics::media_type::with_other_charset;
use rudy_pipeline::pacing::Rate;
use rudy_pipeline::request_state::HasResponseState;
use rudy_service::Response;

use super::RequestInfo;

/// Changes a response as its app instructs the server in front of it, and logs what is invalid. `is_in_flight` is whether a cache sends
/// the request: others may wait for a response that it stores, so the rate is only for one that names its content.
#[must_use]
pub fn follow(
    instructions: &Instructions,
    mut response: Response,
    is_in_flight: bool,
    info: impl FnOnce() -> RequestInfo,
) -> Response {
    if !instructions.invalid.is_empty() {
        info().log_ignored(&instructions.invalid);
    }
    if let Some(charset) = &instructions.charset {
        let media_type = response.header(&CONTENT_TYPE).and_then(|value| str::from_utf8(value).ok());
        let media_type = media_type.and_then(|media_type| with_other_charset(media_type, charset));
        media_type.map(|media_type| response.headers_mut().insert(CONTENT_TYPE, media_type));
    }
    if instructions.expires.is_some() {
        response.state_mut().expires = instructions.expires;
    }
    match instructions.rate.filter(|_| !is_in_flight || response.state().is_replacement) {
        None => response,
        Some(bytes_per_second) => {
            response.state_mut().has_own_rate = true;
            let rate = Rate { bytes_per_second, after: 0 };
            if bytes_per_second == 0 { response } else { rate.pace(response) }
        }
    }
}
