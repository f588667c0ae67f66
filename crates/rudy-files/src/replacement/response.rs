//! The requests for replacements, and their responses with the fields of the app.

use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_TYPE, ETAG, EXPIRES, LAST_MODIFIED, RANGE, SET_COOKIE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use rudy_pipeline::field_changes::lets_store;
use rudy_pipeline::internal_redirect::CONDITIONAL_FIELDS;
use rudy_pipeline::request_state::HasResponseState;
use rudy_pipeline::wildcard::Wildcard;
use rudy_service::{Request, Response};

/// Fields that depend on the file and its range, which an app cannot know.
const FILE_FIELDS: [HeaderName; 6] =
    [ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG, LAST_MODIFIED];

/// The fields of the app in the response of another route, as in nginx.
const ROUTE_FIELDS: [HeaderName; 6] =
    [ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, EXPIRES, SET_COOKIE];

/// Those of them that are about the content.
const CONTENT_FIELDS: [HeaderName; 3] = [ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_TYPE];

/// Creates the request for the files handler: GET or HEAD of the file, with the conditions and the range of
/// the client.
pub(super) fn file_request(client_request: &Request<'_>, status: StatusCode) -> Request<'static> {
    let mut request = client_request.copy_head().into_owned();
    request.set_uri(Uri::default());
    if !is_read(client_request) {
        request.set_method(Method::GET);
    }
    without_useless_conditions(request, client_request, status)
}

/// Removes the conditions and the range from a request that replaces one of a client, if the app's status is not 200 (an error page, for
/// instance), or if the client has sent something. There is also no range if the client requests several: their parts would have
/// the type of the file name instead of the app's.
pub(super) fn without_useless_conditions<'r>(
    mut request: Request<'r>,
    client_request: &Request<'_>,
    status: StatusCode,
) -> Request<'r> {
    let has_several = || client_request.get(&RANGE).is_some_and(|range| range.contains(&b','));
    let ignored = match is_read(client_request) && status == StatusCode::OK {
        true if has_several() => &[RANGE][..],
        true => &[],
        false => &CONDITIONAL_FIELDS,
    };
    for name in ignored {
        request.remove(name);
    }
    request
}

fn is_read(request: &Request<'_>) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD)
}

/// Adds the app's fields and status to the response with a file.
pub(super) fn of_file(mut response: Response, status: StatusCode, fields: &HeaderMap) -> Response {
    // The app decides about the type, and so about compression.
    response.is_negotiated = false;
    if is_error(&response) {
        // 412, 416 and 503 are Rudy's own pages.
        response.state_mut().is_replacement = true;
        return response;
    }
    with_app_fields(response, status, fields, |name, _| !FILE_FIELDS.contains(name))
}

/// Adds the app's fields and status to the response of another route. `further` are the fields that the configuration lists. An error
/// has those, too, unless they are about the content that it does not have.
pub(super) fn of_route(
    response: Response,
    status: StatusCode,
    fields: &HeaderMap,
    further: &[Wildcard],
) -> Response {
    let is_error = is_error(&response);
    let is_listed = |name: &HeaderName| {
        let name_bytes = name.as_str().as_bytes();
        !FILE_FIELDS.contains(name) && further.iter().any(|pattern| pattern.matches(name_bytes, |_| true))
    };
    with_app_fields(response, status, fields, |name, value| {
        let is_passed = ROUTE_FIELDS.contains(name) || is_listed(name);
        is_passed && !(is_error && (CONTENT_FIELDS.contains(name) || lets_store(name, value.as_bytes())))
    })
}

fn is_error(response: &Response) -> bool {
    response.status().is_client_error() || response.status().is_server_error()
}

fn with_app_fields(
    mut response: Response,
    status: StatusCode,
    fields: &HeaderMap,
    is_passed: impl Fn(&HeaderName, &HeaderValue) -> bool,
) -> Response {
    response.state_mut().is_replacement = true;
    let is_whole = response.status() == StatusCode::OK;
    let is_sent = response.status() != StatusCode::NOT_MODIFIED;
    let headers = response.headers_mut();
    // A 304 has no content, so it has no type (RFC 9110 §15.4.5).
    for name in fields.keys().filter(|name| is_sent || *name != CONTENT_TYPE) {
        let mut passed = fields.get_all(name).iter().filter(|value| is_passed(name, value)).peekable();
        if *name != SET_COOKIE && passed.peek().is_some() {
            headers.remove(name);
        }
        for value in passed {
            headers.append(name, value.clone());
        }
    }
    if is_whole {
        response.set_status(status);
    }
    response
}
