//! Redirects from plain HTTP to HTTPS.

use http::{HeaderValue, StatusCode, header};
use rudy_config::Problem;
use rudy_http::semantics::path::RequestPath;
use rudy_net::{Request, Response};

use crate::acme::is_challenge_path;
use crate::config::{Config, Site};
use crate::pages;
use crate::routing::without_port;

/// The port of `https` URLs without one (RFC 9110 §4.2.2).
const HTTPS_PORT: u16 = 443;

/// Returns the port to redirect the site's plain requests to: that of its first address with TLS.
pub(crate) fn https_port(config: &Config, site: &Site, problems: &mut Vec<Problem>) -> Option<u16> {
    if !site.redirect_to_https {
        return None;
    }
    // A trusted proxy may provide HTTPS.
    if site.tls.is_none() && config.client_address.trusted_proxies.is_empty() {
        let location = site.location.key("redirect_to_https");
        let problem = Problem::key(&location, "the site has no TLS to redirect to").label("needs HTTPS");
        problems.push(problem.help("add `tls` to the site, or `trusted_proxies` if a proxy provides HTTPS"));
    }
    let mut addresses = config.addresses_of(site).iter().filter(|address| address.tls);
    let port = addresses.find_map(|address| address.endpoint.port());
    Some(port.unwrap_or(HTTPS_PORT))
}

/// Redirects a request for `path` over plain HTTP to the same URL with HTTPS, unless there is no certificate yet. `None` if it may
/// stay.
pub(crate) fn redirect(
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
