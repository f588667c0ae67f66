//! The page of a mirror for browsers: what the store holds, what the mirror has saved, and how clients use it. The store has only
//! hashes in memory, so it cannot count the files of one mirror.

use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderValue, StatusCode, header};
use rudy_caching::CacheStore;
use rudy_pipeline::pages::{Form, escape, page};
use rudy_service::{Request, Response};
use rudy_units::{Size, count, counted};

use super::{Preset, RepositoryUrl, Resource};

/// What a mirror has sent since the start of the server, or since a reload.
#[derive(Debug, Default)]
pub(super) struct Counts {
    responses: AtomicU64,
    /// Those that the repository did not send again, and the length of their bodies.
    saved: AtomicU64,
    saved_bytes: AtomicU64,
}

impl Counts {
    /// Counts a response of the cache.
    pub(super) fn add(&self, response: &Response) {
        self.responses.fetch_add(1, Ordering::Relaxed);
        if is_saved(response) {
            self.saved.fetch_add(1, Ordering::Relaxed);
            self.saved_bytes.fetch_add(response.body.length().unwrap_or(0), Ordering::Relaxed);
        }
    }
}

/// Whether the content is not from the repository, by `Cache-Status` (RFC 9211): it was stored, or shared with another request. The last
/// line is that of this server; the others are of the repository (§2).
fn is_saved(response: &Response) -> bool {
    let lines = response.headers().get_all("cache-status");
    let line = lines.iter().next_back().map_or(b"".as_slice(), HeaderValue::as_bytes);
    let line = String::from_utf8_lossy(line);
    let has = |sign: &str| line.contains(sign);
    // A stored response that replaces an error is none itself.
    let replaces_error = has("fwd=stale; fwd-status=5") && !response.status().is_server_error();
    has("; hit") || has("; collapsed") || has("fwd-status=304") || replaces_error
}

/// Whether a browser requests the root of the mirror.
pub(super) fn is_requested(request: &Request<'_>, resource: &Resource) -> bool {
    let is_root = resource.is_of_index && matches!(resource.path.as_str(), "" | "/");
    is_root && request.method().is_safe() && Form::preferred(request.headers()) == Form::Html
}

/// Responds with the page. `mirror` is the URL of the mirror for the client.
pub(super) fn respond(
    preset: Preset,
    url: &RepositoryUrl,
    mirror: &str,
    counts: &Counts,
    store: &CacheStore,
) -> Response {
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let size = |bytes| <Size>::from(bytes).to_string();
    let holds = store.get().map_or_else(
        || "nothing: the cache is not open".to_owned(),
        |open| {
            let stats = open.store.stats();
            let (bytes, max) = (size(stats.bytes), size(stats.capacity.bytes));
            format!("{}, {bytes} of at most {max}", counted(stats.objects, "file"))
        },
    );
    let responses = load(&counts.responses);
    let saved = format!("{} of {} requests", count(load(&counts.saved)), count(responses));
    let text = include_str!("page.html")
        .replace("{preset}", &preset.to_string())
        .replace("{url}", &escape(&url.to_string()))
        .replace("{holds}", &escape(&holds))
        .replace("{saved}", &escape(&saved))
        .replace("{bytes}", &size(load(&counts.saved_bytes)))
        .replace("{setting}", &escape(&preset.client_setting(mirror)));
    let mut response = page(StatusCode::OK, "text/html; charset=utf-8", text);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_repository_did_not_send_is_saved() {
        for (status, lines, expected) in [
            (200, &["Rudy; hit; ttl=5"][..], true),
            (200, &["Rudy; fwd=stale; fwd-status=304"], true),
            (200, &["Rudy; fwd=stale; fwd-status=502"], true),
            (200, &["Rudy; fwd=uri-miss; fwd-status=200; stored; collapsed"], true),
            (200, &["Rudy; fwd=uri-miss; fwd-status=200; stored"], false),
            (404, &["Rudy; fwd=uri-miss; fwd-status=404; stored"], false),
            (502, &["Rudy; fwd=uri-miss; fwd-status=502"], false),
            (502, &["Rudy; fwd=stale; fwd-status=502"], false),
            (200, &["Edge; hit", "Rudy; fwd=uri-miss; fwd-status=200; stored"], false),
            (200, &["Edge; fwd=uri-miss", "Rudy; hit; ttl=5"], true),
            (200, &[], false),
        ] {
            let mut response = Response::new(StatusCode::from_u16(status).unwrap());
            for &line in lines {
                response.headers_mut().append("cache-status", HeaderValue::from_static(line));
            }
            assert_eq!(is_saved(&response), expected, "{status} {lines:?}");
        }
    }
}
