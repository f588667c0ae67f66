//! What programs read: the JSON feed. The Atom feed and the sitemap are templates.

use serde_json::{Value, json};

use crate::blog::Blog;
use crate::settings::Settings;

/// Posts in a feed.
pub(crate) const POSTS: usize = 20;

/// The JSON feed (<https://www.jsonfeed.org/version/1.1/>).
pub(crate) fn json(settings: &Settings, blog: &Blog) -> Value {
    let url = &settings.url;
    let items = blog.published().take(POSTS).map(|post| {
        let link = format!("{url}/posts/{}", post.slug);
        json!({
            "id": link,
            "url": link,
            "title": post.title,
            "content_html": post.html,
            "summary": post.summary,
            "date_published": format!("{}T00:00:00Z", post.date),
            "tags": post.tags,
        })
    });
    json!({
        "version": "https://jsonfeed.org/version/1.1",
        "title": settings.title,
        "description": settings.description,
        "home_page_url": format!("{url}/"),
        "feed_url": format!("{url}/feed.json"),
        "authors": [{ "name": settings.author }],
        "items": items.collect::<Vec<_>>(),
    })
}
