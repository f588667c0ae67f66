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
            "content_html": with_origin(&post.html, url),
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

/// Adds the origin to the links and images of a post: a reader of a feed shows it elsewhere.
pub(crate) fn with_origin(html: &str, origin: &str) -> String {
    // As `Post` writes them. The text of a post has no `<`.
    let starts = ["<a href=\"", "<img src=\""];
    starts.iter().fold(html.to_owned(), |html, start| {
        let mut pieces = html.split(start);
        let before = pieces.next().unwrap_or_default().to_owned();
        pieces.fold(before, |html, piece| {
            let is_of_weblog = piece.starts_with('/') && !piece.starts_with("//");
            html + start + if is_of_weblog { origin } else { "" } + piece
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_images_of_the_weblog_have_its_origin() {
        for (html, expected) in [
            (
                "<img src=\"/images/a.png\" alt=\"/\">",
                "<img src=\"https://a.example/images/a.png\" alt=\"/\">",
            ),
            (
                "a <a href=\"/a\">/</a><a href=\"/b\">",
                "a <a href=\"https://a.example/a\">/</a><a href=\"https://a.example/b\">",
            ),
            ("<a href=\"//b.example/\"><a href=\"#1\"><a href=\"https://b.example/\">", ""),
            ("&lt;img src=\"/a\">", ""),
        ] {
            let expected = if expected.is_empty() { html } else { expected };
            assert_eq!(with_origin(html, "https://a.example"), expected);
        }
    }
}
