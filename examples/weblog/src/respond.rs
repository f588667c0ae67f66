//! Responses, with validators, so that readers and caches ask only for what has changed.

use std::hash::{DefaultHasher, Hash, Hasher};

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

use crate::cache;

/// How long caches in front may use a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caching {
    /// Everybody may store it, and asks whether it has changed.
    Public,
    /// It is for one reader.
    Private,
}

/// Responds with a text, or with 304 if the client has it.
pub(crate) fn text(
    request: &HeaderMap,
    media_type: &'static str,
    text: String,
    caching: Caching,
) -> Response<String> {
    let etag = etag(&text);
    let mut response = Response::new(text);
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    if caching == Caching::Private {
        fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        return response;
    }
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=0, must-revalidate"));
    cache::mark(fields);
    let has_it = request.get_all(header::IF_NONE_MATCH).iter().any(|value| matches(value, &etag));
    fields.insert(header::ETAG, etag);
    if has_it {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response.body_mut().clear();
    }
    response
}

/// Redirects to the address of a page.
pub(crate) fn redirect(path: &str) -> Response<String> {
    to(StatusCode::PERMANENT_REDIRECT, path)
}

/// Leads to a page after a form, so that a reload does not send the form again.
pub(crate) fn see_other(path: &str) -> Response<String> {
    to(StatusCode::SEE_OTHER, path)
}

fn to(status: StatusCode, path: &str) -> Response<String> {
    let mut response = plain(status, "The page has another address.\n");
    if let Ok(location) = HeaderValue::from_str(path) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// A status with a line of text.
pub(crate) fn plain(status: StatusCode, line: &str) -> Response<String> {
    let mut response = Response::new(line.to_owned());
    *response.status_mut() = status;
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        // RFC 9110 §15.5.6
        fields.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

/// The tag of a text: a hash, which is the same in every process.
fn etag(text: &str) -> HeaderValue {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    HeaderValue::from_str(&format!("\"{:016x}\"", hasher.finish()))
        .unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}

/// Whether a list of tags contains the tag, with the weak comparison (RFC 9110 §13.1.2): a compressed response has a weak one.
fn matches(list: &HeaderValue, etag: &HeaderValue) -> bool {
    let (Ok(list), Ok(etag)) = (list.to_str(), etag.to_str()) else { return false };
    list.trim() == "*" || list.split(',').any(|tag| tag.trim().trim_start_matches("W/") == etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_has_the_text_gets_304() {
        let get = |condition: Option<&str>| {
            let fields = condition.map(|value| (header::IF_NONE_MATCH, value.parse().unwrap()));
            text(&fields.into_iter().collect(), "text/plain", "hello".into(), Caching::Public)
        };
        let first = get(None);
        let tag = first.headers()[header::ETAG].to_str().unwrap().to_owned();
        assert_eq!((first.status(), first.body().as_str()), (StatusCode::OK, "hello"));
        for condition in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}"), "*".into()] {
            let second = get(Some(&condition));
            assert_eq!(
                (second.status(), second.body().as_str()),
                (StatusCode::NOT_MODIFIED, ""),
                "{condition}"
            );
        }
        assert_eq!(get(Some("\"other\"")).status(), StatusCode::OK);
    }
}
