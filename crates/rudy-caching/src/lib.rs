//! The response cache: the step `cache` of routes with `proxy`, `fastcgi` and `php`.
//!
//! The lifecycle of a request:
//!
//! 1. [`prepared`]: if a response to the same URL was sent by this worker before and is fresh, its encoded head is used again. This
//!    needs no [`Request`](rudy_service::Request).
//! 2. [`subject`] determines the key and the fields that count. Requests that must not use the cache pass it ([`bypass`]), and those
//!    with unsafe methods invalidate what is stored.
//! 3. [`rudy_store`] finds the stored objects for the key, and [`rudy_cache`] decides. [`reply`] makes the response from an object.
//! 4. [`visit`]: without a usable object, the request joins one in flight for the same key ([`flights`]) or begins one.
//! 5. [`fetch`] sends the request to the origin, as a task: a client that leaves does not end it if others wait. [`pump`] moves the
//!    body into the store, from where all clients receive it while it arrives.
//!
//! A response that is not stored leaves a mark ([`marks`]), so that requests for its key do not wait for each other.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod bypass;
mod control;
mod fetch;
mod flights;
mod marks;
mod origin;
mod prepared;
mod pump;
mod purge;
mod reply;
mod spellings;
mod step;
mod store;
mod subject;
mod successor;
mod table;
mod visit;
mod waiting;

use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use rudy_cache::{CacheStatus, HttpDate, Policy};
use rudy_pipeline::compression::StoredContent;
use rudy_pipeline::exchange::note;
use rudy_runtime::clock;
use rudy_service::{Head, Observer, Response, poll_time};
use rudy_store::Object;

pub use self::control::{disk_errors, respond};
pub use self::origin::Origin;
pub use self::pump::read;
pub use self::step::Cache;
pub use self::store::StoreTable;
pub use self::store::{CacheStore, Caches, OpenStore};
use self::subject::KeyRules;
pub use self::table::{CacheTable, FreshnessTable, KeyField};

static CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// The settings of a cache, prepared for requests.
#[derive(Debug)]
struct Shared {
    policy: Policy,
    rules: KeyRules,
    table: CacheTable,
    store: Arc<CacheStore>,
    /// Names the site of stored responses, for purges by tag.
    site: HeaderValue,
    /// Whether a step around the cache uses the identity of stored content: compression, or a mirror.
    identifies_content: bool,
}

impl Shared {
    /// Returns the maximum size of a response.
    fn object_bytes_max(&self) -> u64 {
        self.table.object_bytes.map_or_else(|| self.store.object_bytes_max(), |size| size.0)
    }

    /// Identifies the content of an object, if a step uses that.
    fn content(&self, open: &OpenStore, object: &Object) -> Option<StoredContent> {
        let content = || StoredContent { variants: open.variants.load_full(), id: object.content_id() };
        self.identifies_content.then(content)
    }

    /// Adds how the cache has handled the request, and notes it for logs and metrics. A prepared response is a file of the handler, which
    /// the cache has not handled.
    fn add_status(
        &self,
        response: &mut Response,
        status: &CacheStatus,
        observer: Option<&Arc<dyn Observer>>,
    ) {
        note(observer, |notes| notes.cached(status.word(), poll_time()));
        if !matches!(response.head, Head::Prepared(_))
            && let Ok(value) = self.status_value(status)
        {
            response.headers_mut().append(&CACHE_STATUS, value);
        }
    }

    fn status_value(&self, status: &CacheStatus) -> Result<HeaderValue, http::header::InvalidHeaderValue> {
        status.to_value(self.store.table.name())
    }
}

/// Returns the time for ages and dates.
fn now() -> HttpDate {
    HttpDate::at(clock::utc())
}
