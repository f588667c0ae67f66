//! The pages.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use minijinja::{context, value::Value};

use crate::app::App;
use crate::blog::{Blog, page};
use crate::comments::Comment;
use crate::post::Post;
use crate::respond::{self, Caching};
use crate::settings::Settings;
use crate::{feeds, forms, report};

const HTML: &str = "text/html; charset=utf-8";

/// Comments on the page of the author that readers see.
const RECENT: usize = 20;

/// What a page needs besides its own values.
pub(crate) struct View<'a> {
    app: &'a App,
    fields: &'a HeaderMap,
    pub(crate) blog: Arc<Blog>,
}

impl<'a> View<'a> {
    /// Shows the blog as it is now, in response to a request with these fields.
    pub(crate) fn new(app: &'a App, fields: &'a HeaderMap) -> Self {
        Self { app, fields, blog: app.posts.blog() }
    }

    /// A page of a list; `None` if there is no such page, or nothing on it.
    pub(crate) fn list<'p>(
        &self,
        heading: &str,
        posts: impl Iterator<Item = &'p Post>,
        number: usize,
    ) -> Option<Response<String>> {
        let page = page(posts, number).filter(|page| heading.is_empty() || !page.posts.is_empty())?;
        Some(self.html("list.html", context! { heading, page }, Caching::Public))
    }

    /// A post with its comments.
    pub(crate) fn post(&self, post: &Post) -> Response<String> {
        let all = self.app.comments.all();
        let of_post = |comment: &&Comment| comment.post == post.slug && comment.is_approved;
        let comments: Vec<_> = all.iter().filter(of_post).collect();
        self.html("post.html", context! { post, comments }, Caching::Public)
    }

    /// A post as it will be, with a link back to the page of the author.
    pub(crate) fn preview(&self, post: &Post) -> Response<String> {
        self.html("preview.html", context! { post }, Caching::Private)
    }

    /// Confirms a comment.
    pub(crate) fn thanks(&self, post: &Post) -> Response<String> {
        self.html("thanks.html", context! { post }, Caching::Private)
    }

    pub(crate) fn search(&self, query: &str) -> Response<String> {
        let found: Vec<_> = self.blog.search(query).collect();
        self.html("search.html", context! { query, found }, Caching::Private)
    }

    pub(crate) fn json_feed(&self) -> Response<String> {
        let feed = feeds::json(&self.app.settings, &self.blog).to_string();
        respond::text(self.fields, "application/feed+json", feed, Caching::Public)
    }

    pub(crate) fn atom_feed(&self) -> Response<String> {
        let posts: Vec<_> = self.blog.published().take(feeds::POSTS).collect();
        self.page("feed.atom.xml", "application/atom+xml", context! { posts }, Caching::Public)
    }

    pub(crate) fn sitemap(&self) -> Response<String> {
        let posts: Vec<_> = self.blog.published().collect();
        self.page("sitemap.xml", "application/xml", context! { posts }, Caching::Public)
    }

    /// The page of the author: comments, drafts, files with problems, and the polls of the sidebar.
    pub(crate) fn admin(&self, user: &str, is_encrypted: bool) -> Response<String> {
        let all = self.app.comments.all();
        let (approved, waiting): (Vec<_>, Vec<_>) = all.iter().partition(|comment| comment.is_approved);
        let recent: Vec<_> = approved.into_iter().rev().take(RECENT).collect();
        let drafts: Vec<_> = self.blog.all().iter().filter(|post| post.draft).map(|post| &**post).collect();
        let problems = &self.blog.problems;
        let values = context! { user, waiting, recent, drafts, problems };
        let mut response = self.html("admin.html", values, Caching::Private);
        let cookie = forms::cookie(&self.app.comments.session, is_encrypted);
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            response.headers_mut().insert(header::SET_COOKIE, cookie);
        }
        response
    }

    pub(crate) fn not_found(&self) -> Response<String> {
        let mut response = self.html("not-found.html", context! {}, Caching::Private);
        *response.status_mut() = StatusCode::NOT_FOUND;
        response
    }

    fn html(&self, template: &str, values: Value, caching: Caching) -> Response<String> {
        self.page(template, HTML, values, caching)
    }

    /// Fills a template with its values and those of all pages.
    fn page(
        &self,
        template: &str,
        media_type: &'static str,
        values: Value,
        caching: Caching,
    ) -> Response<String> {
        let Settings { title, description, author, url, sidebar: _ } = &self.app.settings;
        let site = context! { title, description, author, url };
        let (tags, months, panels) = (self.blog.tags(), self.blog.months(), self.app.sidebar.panels());
        let updated = self.blog.published().next().map(|post| post.date.as_str());
        let values = context! { site, tags, months, panels, updated, ..values };
        match self.app.templates.render(template, values) {
            Ok(text) => respond::text(self.fields, media_type, text, caching),
            Err(error) => {
                report(&error);
                respond::plain(StatusCode::INTERNAL_SERVER_ERROR, "The page could not be made.\n")
            }
        }
    }
}
