//! Responds to a request: the routes.

use std::borrow::Cow;
use std::sync::Arc;

use http::{Method, Request, Response, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rudy_fastcgi_app::{Body, RequestExt};

use crate::cache::Changes;
use crate::comments::{Change, Comments};
use crate::folder::Folder;
use crate::forms::{self, Rejection};
use crate::render::Templates;
use crate::report;
use crate::respond;
use crate::settings::Settings;
use crate::sidebar::Sidebar;
use crate::view::View;

/// What a path does not contain as it is. A browser takes a backslash for a slash.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Everything that requests share.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) settings: Settings,
    pub(crate) templates: Templates,
    pub(crate) posts: Folder,
    pub(crate) comments: Comments,
    pub(crate) sidebar: Sidebar,
    pub(crate) changes: Arc<Changes>,
}

impl App {
    /// Responds to a request.
    pub(crate) async fn respond(&self, request: Request<Body>) -> Response<String> {
        let response = match *request.method() {
            Method::GET | Method::HEAD => self.page(&request),
            Method::POST => self.submit(request).await,
            _ => Err(not_allowed()),
        };
        response.unwrap_or_else(|(status, line)| respond::plain(status, &line))
    }

    /// Responds with a page.
    fn page(&self, request: &Request<Body>) -> Result<Response<String>, Rejection> {
        let path = decoded(request.uri().path());
        let query = |name| parameter(request.uri().query().unwrap_or_default(), name);
        let number = query("page").map_or(Some(1), |number| number.parse().ok());
        let view = View::new(self, request.headers());
        let blog = &*view.blog;
        let response = match (&parts(&path)[..], number) {
            ([""], Some(number)) => view.list("", blog.published(), number),
            ([_, .., ""] | [.., "index.html"], _) => Some(respond::redirect(&without_end(&path))),
            (["posts", post], _) => blog.published_post(post).map(|post| view.post(post)),
            (["posts", post, "thanks"], _) => blog.published_post(post).map(|post| view.thanks(post)),
            (["tags", tag], Some(number)) => view.list(tag, blog.tagged(tag), number),
            (["archive", month], Some(number)) => view.list(month, blog.of_month(month), number),
            (["search"], _) => Some(view.search(&query("q").unwrap_or_default())),
            (["feed.json"], _) => Some(view.json_feed()),
            (["feed.atom"], _) => Some(view.atom_feed()),
            (["sitemap.xml"], _) => Some(view.sitemap()),
            (["admin"], _) => Some(view.admin(author(request)?, request.param("HTTPS") == Some("on"))),
            (["admin", "posts", post], _) => {
                author(request)?;
                blog.post(post).map(|post| view.preview(post))
            }
            _ => None,
        };
        Ok(response.unwrap_or_else(|| view.not_found()))
    }

    /// Makes the change that a form asks for, and leads to the next page.
    async fn submit(&self, request: Request<Body>) -> Result<Response<String>, Rejection> {
        forms::check_origin(request.headers(), &self.settings.url)?;
        let path = request.uri().path().to_owned();
        match parts(&path)[..] {
            ["posts", post, "comments"] => {
                let blog = self.posts.blog();
                blog.published_post(post)
                    .ok_or((StatusCode::NOT_FOUND, "There is no such post.\n".to_owned()))?;
                let change = forms::comment(post, request).await?;
                let line = "Too many comments wait for the author. Try again tomorrow.\n";
                self.change(change, (StatusCode::SERVICE_UNAVAILABLE, line.into())).await?;
                Ok(respond::see_other(&format!("/posts/{post}/thanks")))
            }
            ["admin", "comments", id, decision @ ("approve" | "delete")] => {
                author(&request)?;
                forms::check_cookie(request.headers(), &self.comments.session)?;
                let missing = || (StatusCode::NOT_FOUND, "There is no such comment any more.\n".to_owned());
                let id = id.parse().map_err(|_| missing())?;
                let change = if decision == "approve" { Change::Approve(id) } else { Change::Delete(id) };
                self.change(change, missing()).await?;
                // The author looks at the page next.
                self.changes.purged().await;
                Ok(respond::see_other("/admin"))
            }
            _ => Err(not_allowed()),
        }
    }

    /// Changes the comments; `rejection` if there is nothing to change.
    async fn change(&self, change: Change, rejection: Rejection) -> Result<(), Rejection> {
        match self.comments.change(change).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(rejection),
            Err(error) => {
                report(&error);
                Err((StatusCode::INTERNAL_SERVER_ERROR, "The comments could not be changed.\n".into()))
            }
        }
    }
}

/// The user of the pages below `/admin`, as the web server has authenticated it.
fn author(request: &Request<Body>) -> Result<&str, Rejection> {
    let line = "This page needs a user: protect /admin/* with basic_auth in the web server.\n";
    request.param("REMOTE_USER").filter(|user| !user.is_empty()).ok_or((StatusCode::FORBIDDEN, line.into()))
}

fn not_allowed() -> Rejection {
    (StatusCode::METHOD_NOT_ALLOWED, "Use GET or HEAD.\n".into())
}

/// The path as text: browsers encode other letters than those of English.
fn decoded(path: &str) -> Cow<'_, str> {
    percent_decode_str(path).decode_utf8_lossy()
}

fn parts(path: &str) -> Vec<&str> {
    path.trim_start_matches('/').split('/').collect()
}

/// The first value of a parameter of the query.
fn parameter(query: &str, name: &str) -> Option<String> {
    form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// The target for a path without a slash or `index.html` at its end. It begins with one slash, so that it leads to no other host.
fn without_end(path: &str) -> String {
    let path = path.trim_end_matches("index.html").trim_matches('/');
    format!("/{}", utf8_percent_encode(path, ENCODED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_leads_to_a_path_of_this_site() {
        for (path, expected) in [
            ("/index.html", "/"),
            ("/posts/a-b_c.d~e/", "/posts/a-b_c.d~e"),
            ("/posts/index.html", "/posts"),
            ("//evil.example/", "/evil.example"),
            ("/\\evil.example/", "/%5Cevil.example"),
            ("/%5C%5Cevil.example/index.html", "/%5C%5Cevil.example"),
            ("/%2F/evil.example/", "/evil.example"),
            ("/%09/evil.example/", "/%09/evil.example"),
            ("/tags/gr\u{f6}\u{df}e/", "/tags/gr%C3%B6%C3%9Fe"),
            ("/tags/gr%C3%B6%C3%9Fe/", "/tags/gr%C3%B6%C3%9Fe"),
            ("/a%2541/", "/a%2541"),
            ("/a?b#c\"<>/", "/a%3Fb%23c%22%3C%3E"),
            // Without the decoding, these would lead to themselves.
            ("/posts%2F", "/posts"),
            ("/posts/%69ndex.html", "/posts"),
        ] {
            assert_eq!(without_end(&decoded(path)), expected, "{path}");
        }
    }
}
