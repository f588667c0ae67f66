//! Responds to a request: the routes.

use std::sync::Arc;

use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use minijinja::{context, value::Value};
use rudy_fastcgi_app::{Body, RequestExt};

use crate::blog::{Blog, page};
use crate::folder::Folder;
use crate::post::Post;
use crate::render::Templates;
use crate::respond::{self, Caching};
use crate::settings::Settings;
use crate::sidebar::Sidebar;
use crate::{feeds, report};

/// Everything that requests share.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) settings: Arc<Settings>,
    pub(crate) templates: Templates,
    pub(crate) posts: Folder,
    pub(crate) sidebar: Sidebar,
}

const HTML: &str = "text/html; charset=utf-8";

/// What a page needs besides its own values.
struct View<'a> {
    app: &'a App,
    fields: &'a HeaderMap,
    blog: Arc<Blog>,
}

impl App {
    /// Responds to a request.
    pub(crate) fn respond(&self, request: &Request<Body>) -> Response<String> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response = respond::plain(StatusCode::METHOD_NOT_ALLOWED, "Use GET.\n");
            response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        let view = View { app: self, fields: request.headers(), blog: self.posts.blog() };
        let parts: Vec<_> = request.uri().path().trim_start_matches('/').split('/').collect();
        let query = |name| parameter(request.uri().query().unwrap_or_default(), name);
        let number = query("page").map_or(Some(1), |number| number.parse().ok());
        let blog = &*view.blog;
        let response = match (&parts[..], number) {
            ([""], Some(number)) => view.list("", blog.published(), number),
            (["posts", slug], _) => view.post(slug),
            (["tags", tag], Some(number)) => view.list(tag, blog.tagged(tag), number),
            (["archive", month], Some(number)) => view.list(month, blog.of_month(month), number),
            (["search"], _) => Some(view.search(&query("q").unwrap_or_default())),
            (["feed.json"], _) => Some(view.json_feed()),
            (["feed.atom"], _) => Some(view.atom_feed()),
            (["sitemap.xml"], _) => Some(view.sitemap()),
            (["admin"], _) => Some(view.admin(request.param("REMOTE_USER"))),
            ([.., "" | "index.html"], _) => Some(respond::redirect(&without_end(request.uri().path()))),
            _ => None,
        };
        response.unwrap_or_else(|| view.not_found())
    }
}

impl View<'_> {
    /// A page of a list; `None` if there is no such page, or nothing on it.
    fn list<'p>(
        &self,
        heading: &str,
        posts: impl Iterator<Item = &'p Post>,
        number: usize,
    ) -> Option<Response<String>> {
        let page = page(posts, number).filter(|page| heading.is_empty() || !page.posts.is_empty())?;
        Some(self.html("list.html", context! { heading, page }, Caching::Public))
    }

    fn post(&self, slug: &str) -> Option<Response<String>> {
        let post = self.blog.post(slug).filter(|post| !post.draft)?;
        Some(self.html("post.html", context! { post => &**post }, Caching::Public))
    }

    fn search(&self, query: &str) -> Response<String> {
        let found: Vec<_> = self.blog.search(query).collect();
        self.html("search.html", context! { query, found }, Caching::Private)
    }

    fn json_feed(&self) -> Response<String> {
        let feed = feeds::json(&self.app.settings, &self.blog).to_string();
        respond::text(self.fields, "application/feed+json", feed, Caching::Public)
    }

    fn atom_feed(&self) -> Response<String> {
        let posts: Vec<_> = self.blog.published().take(feeds::POSTS).collect();
        self.page("feed.atom.xml", "application/atom+xml", context! { posts }, Caching::Public)
    }

    fn sitemap(&self) -> Response<String> {
        let posts: Vec<_> = self.blog.published().collect();
        self.page("sitemap.xml", "application/xml", context! { posts }, Caching::Public)
    }

    /// The page of the author: drafts, files with problems, and the polls of the sidebar. Only for a user that the web server has
    /// authenticated.
    fn admin(&self, user: Option<&str>) -> Response<String> {
        let Some(user) = user else {
            let line = "This page needs a user: protect /admin with basic_auth in the web server.\n";
            return respond::plain(StatusCode::FORBIDDEN, line);
        };
        let drafts: Vec<_> = self.blog.all().iter().filter(|post| post.draft).map(|post| &**post).collect();
        let problems = &self.blog.problems;
        self.html("admin.html", context! { user, drafts, problems }, Caching::Private)
    }

    fn not_found(&self) -> Response<String> {
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
        let Settings { title, description, author, url, sidebar: _ } = &*self.app.settings;
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

/// The first value of a parameter of the query.
fn parameter(query: &str, name: &str) -> Option<String> {
    form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// The path without a slash or `index.html` at its end. It begins with one slash, so that it leads to no other host.
fn without_end(path: &str) -> String {
    let path = path.trim_end_matches("index.html").trim_matches('/');
    format!("/{path}")
}
