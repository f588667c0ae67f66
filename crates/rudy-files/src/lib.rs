//! The `files` handler: serves static files from a folder.
//!
//! The steps of a request:
//!
//! 1. [`cache`]: If the path was requested within the last second, the cache has a response with an encoded head. This step
//!    allocates, formats and waits for nothing, and needs no map of the fields ([`Files::respond_if_cached`]).
//! 2. [`resolve`]: After a second, `statx` shows whether a dependency of the [`entry`] has changed.
//! 3. [`mod@find`]: Without an entry, it looks up index files, `try_files` and the fallback beneath the root ([`Root`]).
//!    [`load`] reads the file.
//!
//!    If step 2 or 3 would block on a disk, the request starts again on the thread pool for blocking work ([`file_access`](rudy_system::file_access)).
//! 4. [`respond`]: Preconditions, ranges and codings select the response. [`rudy_pipeline::compression`] compresses a file once.
//! 5. Without a file, the response is a redirect to the folder's URL, a [`listing`], or an error page ([`failure`],
//!    [`rudy_pipeline::pages`]).
//!
//! [`folders`] shares roots and caches among routes and generations, and closes unused files.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod browse;
mod cache;
pub mod clock;
mod entry;
mod failure;
mod find;
mod folders;
mod listing;
mod load;
mod options;
mod placeholders;
pub mod replacement;
mod resolve;
mod respond;
mod source;
mod stat;
mod table;
#[cfg(test)]
mod tests;
mod try_files;

use std::borrow::Cow;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use cache::Entries;
use failure::Failure;
use find::FolderPath;
use http::header::{ACCEPT, CACHE_CONTROL, LOCATION, VARY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use minijinja::Environment;
use options::CacheRules;
use resolve::Resolved;
use rudy_log::ErrorLog;
use rudy_message::semantics::negotiation;
use rudy_message::semantics::path::{PathBelow, RequestPath};
use rudy_message::semantics::percent::encode_query;
use rudy_pipeline::compression::Compression;
use rudy_pipeline::{Call, Handler, Start, internal_redirect, methods, pages};
use rudy_service::{Reply, Request, Response};
use rudy_system::file_access::{Access, WouldBlock, on_pool};
use tokio::sync::Semaphore;

pub use browse::Browse;
pub use find::{OtherRoute, OtherRoutes};
pub use folders::{Folders, Root};
pub use options::{CacheRule, FilesError, FilesOptions};
pub use source::is_withheld;
pub use stat::Kind;
pub use table::FilesTable;
pub use try_files::TriedFile;

/// The files of a folder, and the log of their route. Clones share everything.
#[derive(Debug, Clone)]
pub struct Files(Arc<Opened>, Arc<OnceLock<ErrorLog>>);

/// What routes with the same definition share, from the start or the first request on. When a configuration is only checked, there is
/// none. It consists of copies: what outlives a reload should not be in memory between parts that the reload frees, because whole pages
/// are returned.
#[derive(Debug)]
struct Opened {
    definition: Definition,
    folders: Folders,
    shared: OnceLock<Arc<Shared>>,
}

/// Valid options of a folder that exists.
#[derive(Debug)]
struct Definition {
    /// The absolute path.
    root: PathBuf,
    options: FilesOptions,
    cache_rules: CacheRules,
}

impl Opened {
    fn shared(&self) -> &Arc<Shared> {
        self.shared.get_or_init(|| self.folders.files(&self.definition))
    }
}

impl Deref for Opened {
    type Target = Arc<Shared>;

    fn deref(&self) -> &Arc<Shared> {
        self.shared()
    }
}

#[derive(Debug)]
struct Shared {
    root: Arc<Root>,
    options: Arc<FilesOptions>,
    /// `None` if files are not compressed.
    compression: Option<Compression>,
    cache_rules: CacheRules,
    /// The template of listings, instead of the built-in one.
    listings: Option<Environment<'static>>,
    entries: Entries,
    revalidate_after_ms: u64,
    /// Limits how many larger files are compressed at a time, and so the memory of encoders.
    encoders: Arc<Semaphore>,
}

impl Shared {
    fn new(root: Arc<Root>, options: Arc<FilesOptions>, cache_rules: CacheRules) -> Self {
        let compression = options.compressed().map(Cow::into_owned);
        let streams = compression.as_ref().map_or(0, |compression| compression.streams);
        Self {
            compression,
            root,
            cache_rules,
            // Its text was checked when it was read.
            listings: options.listing.as_ref().and_then(|template| listing::template(&template.0).ok()),
            entries: Entries::new(&options),
            revalidate_after_ms: u64::try_from(options.revalidate_after.as_millis()).unwrap_or(u64::MAX),
            encoders: Arc::new(Semaphore::new(streams.min(Semaphore::MAX_PERMITS))),
            options,
        }
    }
}

/// The outcome of a request.
pub enum Outcome {
    /// A response from this folder.
    Reply(Reply),
    /// An internal redirect, because another route matches the index, the fallback or a file of `try_files`.
    Redirect(OtherRoute),
    /// Nothing was found, and the next route that matches has the request.
    NextRoute,
}

impl Outcome {
    /// Returns the response to the request.
    pub fn reply(self, request: Request<'_>, call: &Call<'_>) -> Reply {
        match self {
            Self::Reply(reply) => reply,
            Self::Redirect(other) => other.reply(request, call),
            Self::NextRoute => call.next_route(request),
        }
    }
}

impl OtherRoute {
    fn reply(self, mut request: Request<'_>, call: &Call<'_>) -> Reply {
        if let Some(query) = self.query {
            let filled = query.fill(&call.subject(&request));
            let changed = filled.and_then(|query| internal_redirect::set_query(&mut request, &query));
            if let Err(explanation) = changed {
                return pages::error(StatusCode::BAD_REQUEST, request.headers(), &explanation).into();
            }
        }
        call.context.redirect(request, self.path)
    }
}

impl Handler for Files {
    fn call(&self, request: Request<'_>, call: Call<'_>) -> Reply {
        let other_routes = |file: &str| call.path_on_other_route(file);
        let Call { context, route, .. } = call;
        match self.respond_to(
            &request,
            call.below(),
            route.if_has_other_routes(&other_routes),
            context.access,
        ) {
            Ok(outcome) => outcome.reply(request, &call),
            Err(WouldBlock) => call.on_pool(request),
        }
    }

    fn serves_files(&self) -> bool {
        true
    }

    /// The next route may be one with `proxy`.
    fn accepts_tunnels(&self) -> bool {
        self.0.options.next_route
    }

    fn start(&self, start: &Start<'_>) -> io::Result<()> {
        self.log_to(start.log.clone());
        Ok(())
    }
}

impl Files {
    /// Prepares a folder, which shares the cache that `folders` has for the same options. Fails if the folder is missing or
    /// the options are invalid.
    pub fn open(
        root: impl AsRef<Path>,
        options: FilesOptions,
        folders: &Folders,
    ) -> Result<Self, FilesError> {
        if let Some(problem) = options.problems().into_iter().next() {
            return Err(problem);
        }
        let root = folders::checked(root.as_ref(), options.follow_symlinks)?;
        let cache_rules = CacheRules::new(&options.cache_control)?;
        let definition = Definition { root, options, cache_rules };
        let opened = Opened { definition, folders: folders.clone(), shared: OnceLock::new() };
        Ok(Self(Arc::new(opened), Arc::default()))
    }

    /// Starts to serve: opens what routes share, and sets the log for errors of the file system and missing configured files. Only the first call has an effect.
    pub fn log_to(&self, log: ErrorLog) {
        self.0.shared();
        self.1.get_or_init(|| log);
    }

    /// Responds to a request, or returns the path for an internal redirect. `path` is the part of the request's path below the
    /// route; `other_routes` is `None` if the site has no other routes.
    ///
    /// # Errors
    ///
    /// The file system would block and `access` forbids that: call this again on the thread pool for blocking work.
    pub fn respond_to(
        &self,
        request: &Request<'_>,
        path: PathBelow<'_>,
        other_routes: Option<OtherRoutes<'_>>,
        access: Access,
    ) -> Result<Outcome, WouldBlock> {
        let path = match FolderPath::new(path) {
            Ok(path) => path,
            Err(_) if self.0.options.next_route => return Ok(Outcome::NextRoute),
            Err(error) => {
                let explanation = format!("Bad request: {error}.");
                let response = pages::error(StatusCode::BAD_REQUEST, request.headers(), &explanation);
                return Ok(Outcome::Reply(response.into()));
            }
        };
        self.respond_at(request, path, other_routes, access)
    }

    fn respond_at(
        &self,
        request: &Request<'_>,
        path: FolderPath<'_>,
        other_routes: Option<OtherRoutes<'_>>,
        access: Access,
    ) -> Result<Outcome, WouldBlock> {
        if let Some(response) = methods::respond_unless_read(request) {
            // Another route can support this method.
            let path = match other_routes.filter(|_| methods::is_known(request.method())) {
                Some(other_routes) => self.path_on_other_route(path, other_routes, access)?,
                None => None,
            };
            return Ok(match path {
                Some(other) => Outcome::Redirect(other),
                None if self.0.options.next_route => Outcome::NextRoute,
                None => Outcome::Reply(response.into()),
            });
        }
        Ok(match self.resolve(request, path, other_routes, access)? {
            Resolved::Entry(key, entry) => Outcome::Reply(self.respond(request, &key, &entry)),
            Resolved::Reply(reply) => Outcome::Reply(reply),
            Resolved::OtherRoute(other) => Outcome::Redirect(other),
            Resolved::NextRoute => Outcome::NextRoute,
        })
    }

    /// Responds to a request with the file that an app names, by a path below this folder.
    pub async fn send(&self, request: Request<'static>, path: RequestPath<'static>) -> Response {
        let reply = if let Ok(reply) = self.send_now(&request, &path, Access::Cached) {
            reply
        } else {
            let files = self.clone();
            on_pool(move |access| files.send_now(&request, &path, access)).await
        };
        reply.response().await
    }

    fn send_now(
        &self,
        request: &Request<'_>,
        path: &RequestPath<'_>,
        access: Access,
    ) -> Result<Reply, WouldBlock> {
        let Some(path) = FolderPath::of_app(path.below(0)) else {
            return self.respond_uncached(request, path, access);
        };
        match self.respond_at(request, path, None, access)? {
            Outcome::Reply(reply) => Ok(reply),
            Outcome::Redirect(_) | Outcome::NextRoute => unreachable!("there are no other routes"),
        }
    }

    /// Responds as [`Self::send`] does if the request is a GET or HEAD and its path is cached.
    ///
    /// # Errors
    ///
    /// As [`Self::respond_to`].
    pub fn respond_if_cached(
        &self,
        request: &Request<'_>,
        path: PathBelow<'_>,
        access: Access,
    ) -> Result<Option<Reply>, WouldBlock> {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let Some(key) = path.in_folder().ok().filter(|_| is_read) else { return Ok(None) };
        let entry = self.cached(key, access)?;
        Ok(entry.map(|entry| self.respond(request, key, &entry)))
    }

    /// Lists a folder on the thread pool for blocking work: thousands of entries take milliseconds.
    fn list(&self, request: &Request<'_>, folder: String) -> Reply {
        let files = self.clone();
        let headers = request.headers().clone();
        let order = listing::Order::from_query(request.uri().query().unwrap_or_default());
        Reply::Later(Box::pin(on_pool(move |access| {
            files.listing(&folder, order, &headers).or_else(|cause| {
                let failure = Failure::of(&folder, cause, access);
                files.error_response(&headers, &failure)
            })
        })))
    }

    fn listing(&self, folder: &str, order: listing::Order, headers: &HeaderMap) -> io::Result<Response> {
        let listing = listing::Listing::read(&self.0.root, &self.0.options, folder, order)?;
        let offers = ["text/html", "application/json"];
        let is_json = negotiation::choose_media_type(headers.get_all(ACCEPT), &offers) == Some(offers[1]);
        Ok(if is_json {
            listing_response(listing.to_json()?, "application/json")
        } else {
            listing_response(listing.to_html(self.0.listings.as_ref())?, "text/html; charset=utf-8")
        })
    }
}

/// Redirects a request for a folder without a slash at its end to the URL with one.
///
/// The location begins with exactly one slash: `//host/` would be the URL of another host (RFC 3986 §4.2).
pub fn redirect_to_folder(request: &Request<'_>, path: PathBelow<'_>) -> Response {
    let query = request.uri().query().map(|query| format!("?{}", encode_query(query)));
    let folder = path.whole().encoded_from(0);
    let location = format!("{}/{}", folder.trim_end_matches('/'), query.unwrap_or_default());
    let mut response = Response::new(StatusCode::MOVED_PERMANENTLY);
    // The location is visible ASCII, so the fallback to the root is never used.
    let location = HeaderValue::try_from(location).unwrap_or(HeaderValue::from_static("/"));
    response.headers_mut().insert(LOCATION, location);
    response
}

fn listing_response(page: String, media_type: &'static str) -> Response {
    let mut response = Response::text(StatusCode::OK, media_type, page);
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    // A listing has no validator, so caches must not reuse it.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
