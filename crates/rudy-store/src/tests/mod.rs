//! The store as its users see it.

mod damage;
mod purge;
mod store;

use http::{HeaderMap, HeaderName, Request, Response};
use rudy_cache::{Exchange, HttpDate, Policy, Stored};

pub(crate) fn fields(lines: &[(&'static str, &str)]) -> HeaderMap {
    let lines = lines.iter();
    lines.map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
}

/// Returns the metadata of a response with some fields to a request with others.
pub(crate) fn stored(
    response_fields: &[(&'static str, &str)],
    request_fields: &[(&'static str, &str)],
) -> Stored {
    let (mut request, mut response) = (Request::new(()), Response::new(()));
    *request.headers_mut() = fields(request_fields);
    *response.headers_mut() = fields(response_fields);
    response.headers_mut().insert("cache-control", "max-age=60".parse().unwrap());
    let time = HttpDate::from_unix_seconds(1_000_000_000);
    let exchange = Exchange { requested_at: time, received_at: time };
    Policy::default().store(&request, &response, exchange).unwrap()
}
