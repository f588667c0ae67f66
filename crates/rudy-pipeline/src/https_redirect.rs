//! Redirects from plain HTTP to HTTPS.

use http::{HeaderValue, StatusCode, header};
use rudy_message::semantics::path::RequestPath;
use rudy_service::{Request, Response};

use crate::hosts::without_port;
use crate::pages;

/// Where authorities look for the files of challenges (RFC 8555 §8.3).
pub const CHALLENGE_PATH: &str = "/.well-known/acme-challenge/";

/// The port of `https` URLs without one (RFC 9110 §4.2.2).
pub const HTTPS_PORT: u16 = 443;

/// Whether a path is that of a challenge, which is never redirected.
#[must_use]
pub fn is_challenge_path(path: &[u8]) -> bool {
    path.starts_with(CHALLENGE_PATH.as_bytes())
}

/// Redirects a request for `path` over plain HTTP to the same URL with HTTPS, unless there is no certificate yet. `None` if it may
/// stay.
pub(super) fn redirect(
    request: &Request<'_>,
    path: &RequestPath<'_>,
    port: u16,
    awaits_certificate: bool,
) -> Option<Response> {
    // The target as sent may lead to another path, also in a program that decodes encoded slashes.
    if is_challenge_path(path.as_bytes()) && path.check_dot_segments().is_ok() {
        return None;
    }
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    if awaits_certificate {
        let explanation = "This site has no certificate for HTTPS yet. Rudy is getting one; if that takes longer than a minute, its \
                           error log and `rudy certificates` say why.";
        return Some(pages::error(StatusCode::SERVICE_UNAVAILABLE, request.headers(), explanation));
    }
    let host = String::from_utf8_lossy(without_port(request.host()));
    let port = if port == HTTPS_PORT { String::new() } else { format!(":{port}") };
    let location = HeaderValue::try_from(format!("https://{host}{port}{target}"));
    let (Ok(location), false) = (location, host.is_empty()) else {
        let explanation = "This site needs HTTPS, and the request has no host to redirect to.";
        return Some(pages::error(StatusCode::BAD_REQUEST, request.headers(), explanation));
    };
    let mut response = Response::text(
        StatusCode::PERMANENT_REDIRECT,
        "text/plain; charset=utf-8",
        "308: this site needs HTTPS\n",
    );
    response.headers_mut().insert(header::LOCATION, location);
    Some(response)
}
