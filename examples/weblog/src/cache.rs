//! The cache of Rudy in front. It uses a page without asking the app, until the app purges it after a change.

use std::env;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use rudy_fastcgi_app::purge;
use tokio::sync::Notify;

use crate::report;

/// The tag of all pages: each has the sidebar.
const ALL: &str = "weblog";

/// Names the tags of a page, and lets Rudy use it for ten minutes. Only Rudy obeys, and only if this process can purge its cache.
pub(crate) fn mark(fields: &mut HeaderMap, post: Option<&str>) {
    if env::var_os("RUDY_PURGE_SOCKET").is_none() {
        return;
    }
    let tags = post.map_or(ALL.to_owned(), |post| format!("{ALL}, {}", tag(post)));
    let Ok(tags) = HeaderValue::from_str(&tags) else { return };
    fields.insert(HeaderName::from_static("cache-tag"), tags);
    fields.insert(HeaderName::from_static("rudy-cache-control"), HeaderValue::from_static("max-age=600"));
}

/// Purges the page of a post.
pub(crate) async fn purge_post(post: &str) {
    purge_tag(&tag(post)).await;
}

/// Purges all pages after each change, and at first: what is stored may be of a process before this one.
pub(crate) async fn follow(changes: Arc<Notify>) {
    loop {
        purge_tag(ALL).await;
        changes.notified().await;
    }
}

fn tag(post: &str) -> String {
    format!("post-{post}")
}

async fn purge_tag(tag: &str) {
    let result = purge::tag(tag).await;
    if let Err(error) = result
        && env::var_os("RUDY_PURGE_SOCKET").is_some()
    {
        report(&format!("purge of {tag}: {error}"));
    }
}
