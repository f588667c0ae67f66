//! Errors of the server for gRPC clients, which read a status in `grpc-status` and cannot read a page.

use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use rudy_message::semantics::percent::encode_grpc_message;
use rudy_message::semantics::reason::reason_phrase;
use rudy_pipeline::request_state::HasResponseState;
use rudy_service::{Body, Request, Response};

static GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
static GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// Returns the media type of a call of gRPC or gRPC-Web, which is always a POST. `None` for other requests.
pub(crate) fn media_type(request: &Request<'_>) -> Option<HeaderValue> {
    if *request.method() != Method::POST {
        return None;
    }
    let media_type = request.get(&CONTENT_TYPE)?;
    let start = media_type.get(..b"application/grpc".len())?;
    let after = media_type.get(start.len());
    let is_grpc = start.eq_ignore_ascii_case(b"application/grpc")
        && matches!(after, None | Some(b'+' | b'-' | b';' | b' '));
    HeaderValue::from_bytes(media_type).ok().filter(|_| is_grpc)
}

/// Replaces an error that the server itself responds with by a response without a message ("Trailers-Only"). It has the status 200, which
/// means that HTTP has worked. What an application responds with stays.
pub(crate) fn without_page(mut response: Response, media_type: HeaderValue) -> Response {
    let status = response.status();
    let explanation = response.state().explanation.as_deref();
    if !response.state().is_own_error() || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let reason = || reason_phrase(status).unwrap_or("Error");
    let message = encode_grpc_message(explanation.filter(|text| !text.is_empty()).unwrap_or_else(reason));
    response.set_status(StatusCode::OK);
    response.error_status = Some(status);
    response.body = Body::Empty;
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, media_type);
    fields.insert(&GRPC_STATUS, HeaderValue::from(grpc_status(status)));
    // Escaped.
    if let Ok(message) = HeaderValue::try_from(message) {
        fields.insert(&GRPC_MESSAGE, message);
    }
    response
}

/// Returns the code that clients derive from the status of HTTP themselves if a response has none
/// (<https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md>).
fn grpc_status(status: StatusCode) -> u16 {
    match status.as_u16() {
        // INTERNAL
        400 => 13,
        // UNAUTHENTICATED
        401 => 16,
        // PERMISSION_DENIED
        403 => 7,
        // UNIMPLEMENTED
        404 => 12,
        // UNAVAILABLE
        429 | 502..=504 => 14,
        // UNKNOWN
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use rudy_service::RequestBody;

    use super::*;
    use rudy_pipeline::pages;

    fn media_type_of(method: &str, media_type: &str) -> Option<HeaderValue> {
        let request = http::Request::builder().method(method).header(CONTENT_TYPE, media_type);
        super::media_type(&request.body(RequestBody::empty()).map(Request::from).unwrap())
    }

    #[test]
    fn only_calls_of_grpc_get_errors_of_grpc() {
        for media_type in ["application/grpc", "application/grpc+proto", "Application/gRPC-web; a=b"] {
            assert!(media_type_of("POST", media_type).is_some(), "{media_type}");
            assert_eq!(media_type_of("GET", media_type), None);
        }
        for other in ["application/grpcx", "application/json", "text/plain", "application/gr"] {
            assert_eq!(media_type_of("POST", other), None, "{other}");
        }
    }

    #[test]
    fn an_error_of_the_server_becomes_a_status_of_grpc() {
        let grpc = HeaderValue::from_static("application/grpc+proto");
        for (status, code) in
            [(400, "13"), (401, "16"), (403, "7"), (404, "12"), (429, "14"), (502, "14"), (413, "2")]
        {
            let status = StatusCode::from_u16(status).unwrap();
            let response = without_page(pages::error(status, &HeaderMap::new(), "100 % ü."), grpc.clone());
            assert_eq!((response.status(), response.body.length()), (StatusCode::OK, Some(0)));
            let field = |name: &str| response.headers()[name].to_str().unwrap();
            assert_eq!(
                [CONTENT_TYPE.as_str(), "grpc-status", "grpc-message"].map(field),
                ["application/grpc+proto", code, "100 %25 %C3%BC."]
            );
        }
        let of_app = Response::text(StatusCode::BAD_GATEWAY, "text/plain", "own");
        assert_eq!(without_page(of_app, grpc).status(), StatusCode::BAD_GATEWAY);
    }
}
