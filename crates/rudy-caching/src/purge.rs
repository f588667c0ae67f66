//! The HTTP method PURGE, which many applications send: from the addresses of `purge_from`, for the URL of the request.
//!
//! `Surrogate-Key` or `Cache-Tag` in the request purges by tags instead, and a path that ends with `*` purges all that begins so.
//! `Purge-Soft: 1` (as of Fastly) makes objects stale instead of removing them.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, Method, StatusCode};
use rudy_pipeline::methods::{APP_METHODS, method_not_allowed};
use rudy_pipeline::{Call, pages};
use rudy_runtime::blocking;
use rudy_service::{Reply, Request, Response};
use rudy_store::{Purge, Target};

use super::store::OpenStore;
use super::{Shared, subject};

/// Fields with the tags to purge, separated by spaces or commas.
pub(super) static TAG_FIELDS: [HeaderName; 2] =
    [HeaderName::from_static("surrogate-key"), HeaderName::from_static("cache-tag")];
static SOFT: HeaderName = HeaderName::from_static("purge-soft");

/// The maximum number of tags in a request.
const TAGS_MAX: usize = 256;

/// Whether the request has the method PURGE.
pub(super) fn is_purge(method: &Method) -> bool {
    method.as_str() == "PURGE"
}

/// Responds to a PURGE, if the settings allow any. `None` passes it on, as other unknown methods.
pub(super) fn respond(
    shared: &Arc<Shared>,
    open: &Arc<OpenStore>,
    request: &Request<'_>,
    call: &Call<'_>,
) -> Option<Reply> {
    let allowed = shared.table.purge_from.as_ref()?;
    let headers = request.headers();
    if let Some(rejected) = allowed.reject(request, call.context) {
        return Some(rejected.into());
    }
    let Some(targets) = targets(shared, request, call) else {
        let explanation = format!("A request purges at most {TAGS_MAX} tags.");
        return Some(pages::error(StatusCode::BAD_REQUEST, headers, &explanation).into());
    };
    let soft = headers.get(&SOFT).is_some_and(|value| value == "1");
    let purges: Vec<_> = targets.into_iter().map(|target| Purge { target, soft }).collect();
    let (open, headers) = (open.clone(), headers.clone());
    Some(Reply::Later(Box::pin(async move {
        match blocking(move || open.purge(&purges)).await {
            Ok(result) => purged(result, &headers),
            // A panic, which is logged.
            Err(_) => pages::error(StatusCode::INTERNAL_SERVER_ERROR, &headers, "The purge has failed."),
        }
    })))
}

/// The response to an HTTP request that purges.
fn purged(result: Result<(), String>, headers: &HeaderMap) -> Response {
    match result {
        Ok(()) => Response::text(StatusCode::OK, "text/plain; charset=utf-8", "200 OK\nPurged.\n"),
        Err(why) => pages::error(StatusCode::SERVICE_UNAVAILABLE, headers, &format!("{why}.")),
    }
}

/// The response to a PURGE that no setting allows: it never reaches the application.
pub(super) fn reject(request: &Request<'_>) -> Reply {
    method_not_allowed(request, APP_METHODS, "Method not allowed. PURGE needs `purge_from`.").into()
}

/// Returns what the request purges. `None` with too many tags.
fn targets(shared: &Shared, request: &Request<'_>, call: &Call<'_>) -> Option<Vec<Target>> {
    let tags = tags(request.headers());
    if tags.len() > TAGS_MAX {
        return None;
    }
    if !tags.is_empty() {
        // Other sites have other applications, and perhaps the same tags.
        let site = shared.site.as_bytes();
        return Some(tags.into_iter().map(|tag| Target::TagOfSite { site: site.to_vec(), tag }).collect());
    }
    let key = subject::key(&shared.policy, request, call.context.client);
    Some(vec![match key.uri().strip_suffix(b"*") {
        Some(prefix) => Target::Prefix(prefix.to_vec()),
        None => Target::Key(key),
    }])
}

fn tags(headers: &HeaderMap) -> Vec<Vec<u8>> {
    let lines = TAG_FIELDS.iter().flat_map(|name| headers.get_all(name));
    let words = lines.flat_map(|line| line.as_bytes().split(|byte| b" ,\t".contains(byte)));
    words.filter(|word| !word.is_empty()).map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_separated_by_spaces_or_commas() {
        let mut headers = HeaderMap::new();
        headers.append(&TAG_FIELDS[0], "a b".parse().unwrap());
        headers.append(&TAG_FIELDS[1], "c, d,,".parse().unwrap());
        assert_eq!(tags(&headers), [b"a", b"b", b"c", b"d"]);
        assert!(tags(&HeaderMap::new()).is_empty());
    }
}
