//! The `files` handler: a folder as a site.
//!
//! A request's way through it, the usual one first:
//!
//! 1. [`cache`]: the path was asked for within the last second: an answer whose head is already encoded. Nothing is
//!    allocated, formatted or waited for, and no [`Request`] is made ([`Files::respond_to_head`]).
//! 2. [`resolve`]: the second is over: `statx` tells whether everything still is what it was ([`entry`]).
//! 3. [`mod@find`]: not known: index files, `try_files`, the fallback, opened beneath the root ([`root`]).
//!    What was found is read by [`load`].
//!
//!    Where 2 or 3 would wait for a disk, the request begins again on the pool for blocking work ([`access`]).
//! 4. [`respond`]: conditions, ranges and codings choose what is sent of the entry; [`compress`] makes a coding that is
//!    not there, once.
//! 5. No file: a redirect to the folder's address, [`listing`], or a [`failure`] and its page ([`crate::pages`]).
//!
//! [`folders`] shares roots and caches among routes and generations, and closes what is unused.

pub(crate) mod access;
mod cache;
pub(crate) mod clock;
mod compress;
mod entry;
mod failure;
mod find;
mod folders;
mod listing;
mod load;
mod options;
mod resolve;
mod respond;
mod root;
mod source;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, LOCATION, VARY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use rudy_http::h1::RequestHead;
use rudy_http::semantics::negotiation;
use rudy_http::semantics::path::{PathBelow, RequestPath};
use rudy_http::semantics::percent::encode_query;
use rudy_net::{Reply, Request, Response};
use tokio::sync::Semaphore;

use crate::compile::Target;
use crate::error_log::ErrorLog;
use crate::handlers::{Call, Handler, Start};
use crate::routing::RouteMatch;
use crate::{methods, pages};
use access::{Access, WouldBlock, on_pool};
use cache::Entries;
use failure::Failure;
use find::FolderPath;
pub(crate) use find::OtherRoutes;
pub use folders::Folders;
use options::CacheRules;
pub use options::{CacheRule, Compression, FilesError, FilesOptions, FilesTable};
use resolve::Resolved;
pub(crate) use root::{Kind, Root};
pub(crate) use source::is_withheld;

/// A folder as a site. Clones share everything.
#[derive(Debug, Clone)]
pub struct Files(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    root: Arc<Root>,
    options: FilesOptions,
    cache_rules: CacheRules,
    extra: HeaderMap,
    entries: Entries,
    revalidate_after_ms: u64,
    log: OnceLock<ErrorLog>,
    /// One permit for each larger file that may be compressed at a time: for the memory of its encoder.
    encoders: Arc<Semaphore>,
    /// One permit for each piece that may be compressed at a time.
    pieces: Arc<Semaphore>,
}

impl Shared {
    fn new(root: Arc<Root>, options: FilesOptions) -> Result<Self, FilesError> {
        let streams = options.compression.as_ref().map_or(0, |compression| compression.streams);
        Ok(Self {
            root,
            cache_rules: CacheRules::new(&options.cache_control)?,
            extra: options.headers.to_map(),
            entries: Entries::new(&options),
            revalidate_after_ms: u64::try_from(options.revalidate_after.as_millis()).unwrap_or(u64::MAX),
            log: OnceLock::new(),
            encoders: Arc::new(Semaphore::new(streams.min(Semaphore::MAX_PERMITS))),
            pieces: Arc::new(Semaphore::new(compress::PIECES_MAX)),
            options,
        })
    }
}

/// What the handler makes of a request.
pub(crate) enum Outcome {
    /// It answers.
    Reply(Reply),
    /// Another route of the site answers: that of the index, the fallback, a file of `try_files`, or the page for an error.
    Redirect {
        /// The path that the other route takes.
        path: RequestPath<'static>,
        /// The response that the other path is the page for, if it is an error's. Boxed: it is rare, and larger than a reply.
        failed: Option<Box<Response>>,
    },
}

impl Handler for Files {
    fn call(&self, request: Request, call: Call<'_>) -> Reply {
        let other_routes = |file: &str| call.path_on_other_route(file);
        let Call { context, route, path } = call;
        match self.respond_to(
            &request,
            call.below(),
            route.if_has_other_routes(&other_routes),
            context.access,
        ) {
            Ok(Outcome::Reply(reply)) => reply,
            Ok(Outcome::Redirect { path, failed: None }) => context.redirect(request, path),
            Ok(Outcome::Redirect { path, failed: Some(failed) }) => context.page_of(*failed, request, path),
            Err(WouldBlock) => context.reply_on_pool(request, path.clone()),
        }
    }

    fn call_head(
        &self,
        head: &RequestHead<'_>,
        route: &RouteMatch<'_, Target>,
        path: &RequestPath<'_>,
    ) -> Option<Response> {
        let other_routes = |file: &str| route.path_on_other_route(path, file);
        self.respond_to_head(head, route.below(path), route.if_has_other_routes(&other_routes))
    }

    fn start(&self, start: &Start<'_>) -> io::Result<()> {
        self.log_to(start.log.clone());
        Ok(())
    }
}

impl Files {
    /// A folder to be served, with all that `folders` already keeps of it under the same options. Says now what would go wrong
    /// later: a folder that is not there, a kernel without `openat2`, options that make no sense.
    pub fn open(
        root: impl AsRef<Path>,
        options: FilesOptions,
        folders: &Folders,
    ) -> Result<Self, FilesError> {
        if let Some(problem) = options.problems().into_iter().next() {
            return Err(problem);
        }
        let root = folders.root(root.as_ref(), options.follow_symlinks)?;
        let shared = folders.files(&root.clone(), options, |options| Shared::new(root, options))?;
        Ok(Self(shared))
    }

    /// Says in `log` what the file system refuses and what the options name in vain. The first log stays; without one
    /// nobody hears of it.
    pub fn log_to(&self, log: ErrorLog) {
        self.0.log.get_or_init(|| log);
    }

    /// Answers a request, or says which path of the site does. `path` is the part of the request's path below the route;
    /// `other_routes` knows the other routes, if there are any.
    ///
    /// # Errors
    ///
    /// The file system may have to be waited for, and `access` forbids it: the pool for blocking work is to call this again.
    pub(crate) fn respond_to(
        &self,
        request: &Request,
        path: PathBelow<'_>,
        other_routes: Option<OtherRoutes<'_>>,
        access: Access,
    ) -> Result<Outcome, WouldBlock> {
        let failed = match self.answer(request, path, other_routes, access)? {
            Outcome::Reply(Reply::Now(response)) if response.status().as_u16() >= 400 => response,
            outcome => return Ok(outcome),
        };
        let page = self.page_for(failed.status());
        Ok(match page.and_then(|page| other_routes.and_then(|find| find(page))) {
            Some(path) => Outcome::Redirect { path, failed: Some(Box::new(failed)) },
            None => Outcome::Reply(self.with_page(failed, access)?.into()),
        })
    }

    /// Answers a request by the files of this folder alone.
    pub(crate) async fn send(&self, request: Request, path: RequestPath<'static>) -> Response {
        let cached = self.respond_to(&request, path.below(0), None, Access::Cached);
        let outcome = if let Ok(outcome) = cached {
            outcome
        } else {
            let files = self.clone();
            on_pool(move |access| files.respond_to(&request, path.below(0), None, access)).await
        };
        match outcome {
            Outcome::Reply(reply) => reply.response().await,
            Outcome::Redirect { .. } => {
                unreachable!("no redirect happens without other routes")
            }
        }
    }

    fn answer(
        &self,
        request: &Request,
        path: PathBelow<'_>,
        other_routes: Option<OtherRoutes<'_>>,
        access: Access,
    ) -> Result<Outcome, WouldBlock> {
        let path = match FolderPath::new(path) {
            Ok(path) => path,
            Err(refusal) => {
                let explanation = format!("Bad request: {refusal}.");
                let response = self.error(StatusCode::BAD_REQUEST, request.headers(), &explanation);
                return Ok(Outcome::Reply(response.into()));
            }
        };
        if let Some(answer) = methods::respond_unless_read(request) {
            // The other route may have an answer to this method.
            let path = match other_routes.filter(|_| methods::is_known(request.method())) {
                Some(other_routes) => self.path_on_other_route(path, other_routes, access)?,
                None => None,
            };
            return Ok(match path {
                Some(path) => Outcome::Redirect { path, failed: None },
                None => Outcome::Reply(self.with_extra(answer).into()),
            });
        }
        Ok(match self.resolve(request, path, other_routes, access)? {
            Resolved::Entry(key, entry) => Outcome::Reply(self.respond(request, &key, &entry)),
            Resolved::Reply(reply) => Outcome::Reply(reply),
            Resolved::OtherRoute(path) => Outcome::Redirect { path, failed: None },
        })
    }

    /// Answers a request as [`Self::send`] does, if what is at the path is known, and the request is one to read.
    ///
    /// # Errors
    ///
    /// As [`Self::respond_to`].
    pub(crate) fn respond_if_cached(
        &self,
        request: &Request,
        path: PathBelow<'_>,
        access: Access,
    ) -> Result<Option<Reply>, WouldBlock> {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let Some(key) = path.in_folder().ok().filter(|_| is_read) else { return Ok(None) };
        let entry = self.known(key, access)?;
        Ok(entry.map(|entry| self.respond(request, key, &entry)))
    }

    /// Answers a request to read from its head, if the response for its path is there and needs no check: no system call is made.
    pub(crate) fn respond_to_head(
        &self,
        head: &RequestHead<'_>,
        path: PathBelow<'_>,
        other_routes: Option<OtherRoutes<'_>>,
    ) -> Option<Response> {
        let path = FolderPath::new(path).ok()?;
        let entry = self.0.entries.get(path.key)?;
        let is_ours =
            || other_routes.and_then(|others| entry.path_on_other_route(path.name(), others)).is_none();
        let may_be_sent = self.is_fresh(&entry, clock::monotonic_ms()) && is_ours();
        may_be_sent.then(|| respond::ready(&entry, head.method(), head)).flatten()
    }

    /// The response for an error, with a page of ours; `explanation` is a sentence for its reader.
    #[must_use]
    pub fn error(&self, status: StatusCode, headers: &HeaderMap, explanation: &str) -> Response {
        self.with_extra(pages::error(status, headers, explanation))
    }

    /// Adds the operator's fields to a response of ours.
    fn with_extra(&self, mut response: Response) -> Response {
        entry::add_extra(response.headers_mut(), &self.0.extra);
        response
    }

    /// Puts the operator's page, where there is one for the status, into a response of ours.
    fn with_page(&self, mut answer: Response, access: Access) -> Result<Response, WouldBlock> {
        match self.page_for(answer.status()).map(|path| self.named(path, access)) {
            Some(Ok((_, entry))) => {
                if let Some(media_type) = entry.plain.whole.headers().get(CONTENT_TYPE) {
                    answer.headers_mut().insert(CONTENT_TYPE, media_type.clone());
                }
                answer.headers_mut().remove(VARY);
                entry::add_extra(answer.headers_mut(), &self.0.extra);
                answer.body = entry.plain.content.all();
            }
            Some(Err(Failure::WouldBlock)) => return Err(WouldBlock),
            Some(Err(failure)) => self.say(&failure),
            None => {}
        }
        Ok(answer)
    }

    /// The page that the operator gave for an error.
    fn page_for(&self, status: StatusCode) -> Option<&str> {
        self.0.options.error_pages.iter().find(|(of, _)| *of == status).map(|(_, path)| path.as_str())
    }

    /// Sends a request for a folder without its slash to the address that has one.
    ///
    /// It is a path that begins with one slash: `//host/` would be the address of another host (RFC 3986 §4.2).
    pub(crate) fn redirect(&self, request: &Request, path: PathBelow<'_>) -> Response {
        let query = request.uri().query().map(|query| format!("?{}", encode_query(query)));
        let folder = path.whole().encoded_from(0);
        let location = format!("{}/{}", folder.trim_end_matches('/'), query.unwrap_or_default());
        let mut response = Response::new(StatusCode::MOVED_PERMANENTLY);
        // All of it is visible ASCII; if that were wrong, the site's first page is a place to go on from.
        let location = HeaderValue::try_from(location).unwrap_or(HeaderValue::from_static("/"));
        response.headers_mut().insert(LOCATION, location);
        entry::add_extra(response.headers_mut(), &self.0.extra);
        response
    }

    /// Reads the folder on the pool for blocking work: thousands of entries take milliseconds.
    fn list(&self, request: &Request, folder: String) -> Reply {
        let files = self.clone();
        let headers = request.headers().clone();
        let order = listing::Order::from_query(request.uri().query().unwrap_or_default());
        Reply::Later(Box::pin(on_pool(move |access| {
            files.listing(&folder, order, &headers).or_else(|cause| {
                let failure = Failure::of(&folder, cause, access);
                files.with_page(files.answer_failure(&headers, &failure)?, access)
            })
        })))
    }

    fn listing(&self, folder: &str, order: listing::Order, headers: &HeaderMap) -> io::Result<Response> {
        let listing = listing::Listing::read(&self.0.root, &self.0.options, folder, order)?;
        let offers = ["text/html", "application/json"];
        let is_json = negotiation::choose_media_type(headers.get_all(ACCEPT), &offers) == Some(offers[1]);
        Ok(if is_json {
            self.listing_page(listing.to_json()?, "application/json")
        } else {
            self.listing_page(listing.to_html()?, "text/html; charset=utf-8")
        })
    }

    fn listing_page(&self, page: String, media_type: &'static str) -> Response {
        let mut response = Response::text(StatusCode::OK, media_type, page);
        let headers = response.headers_mut();
        headers.insert(VARY, HeaderValue::from_static("Accept"));
        // It has no validator, so nobody may take an old one for the present state.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        entry::add_extra(headers, &self.0.extra);
        response
    }
}
