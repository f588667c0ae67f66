//! What there is for a path: an entry that is known and current, or what a lookup finds.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::HeaderMap;
use rudy_http::semantics::path::RequestPath;
use rudy_net::{Reply, Request, Response};

use super::access::{Access, WouldBlock};
use super::entry::{Entry, Evidence};
use super::failure::Failure;
use super::find::{FolderPath, Lookup, OtherRoutes, find, open_if_there};
use super::root::{Kind, Opened};
use super::{Files, clock, source};

/// What there is for a path.
pub(super) enum Resolved<'a> {
    /// An entry, and what it is kept under.
    Entry(Cow<'a, str>, Arc<Entry>),
    /// Something else.
    Reply(Reply),
    /// A path that another route takes.
    OtherRoute(RequestPath<'static>),
}

impl Files {
    /// What there is for a path.
    pub(super) fn resolve<'a>(
        &self,
        request: &Request,
        path: FolderPath<'a>,
        other_routes: Option<OtherRoutes<'_>>,
        access: Access,
    ) -> Result<Resolved<'a>, WouldBlock> {
        if let Some(entry) = self.known(path.key, access)? {
            return Ok(
                match other_routes.and_then(|others| entry.path_on_other_route(path.name(), others)) {
                    Some(path) => Resolved::OtherRoute(path),
                    None => Resolved::Entry(path.key.into(), entry),
                },
            );
        }
        let found = self
            .follow_root(clock::monotonic_ms(), access)
            .and_then(|()| find(&self.0.root, &self.0.options, path, other_routes, access))
            .and_then(|found| self.open_found(request, path, found, access));
        found.or_else(|failure| Ok(Resolved::Reply(self.answer_failure(request.headers(), &failure)?.into())))
    }

    fn open_found<'a>(
        &self,
        request: &Request,
        path: FolderPath<'a>,
        found: Lookup,
        access: Access,
    ) -> Result<Resolved<'a>, Failure> {
        Ok(match found {
            Lookup::File { opened, path: file, evidence } => {
                let entry = self.load_and_keep(path.key, opened, &file, evidence, access)?;
                Resolved::Entry(path.key.into(), entry)
            }
            Lookup::NamedFile(name) => {
                let (key, entry) = self.named(&name, access)?;
                Resolved::Entry(key.into(), entry)
            }
            Lookup::OtherRoute(path) => Resolved::OtherRoute(path),
            Lookup::MissingSlash => Resolved::Reply(self.redirect(request, path.below).into()),
            Lookup::Listing => Resolved::Reply(self.list(request, path.name().to_owned())),
        })
    }

    /// The entry that is kept under `key`, if it may still be sent.
    pub(super) fn known(&self, key: &str, access: Access) -> Result<Option<Arc<Entry>>, WouldBlock> {
        let Some(entry) = self.0.entries.get(key) else { return Ok(None) };
        Ok(self.is_current(&entry, key, access)?.then_some(entry))
    }

    /// Whether an entry may be sent without a new lookup. The first request after expiry looks; concurrent ones take
    /// the entry as it is.
    fn is_current(&self, entry: &Entry, key: &str, access: Access) -> Result<bool, WouldBlock> {
        let now_ms = clock::monotonic_ms();
        // The pool is here because a worker could not look: it has to, although the worker has noted the time.
        if access == Access::Cached && self.is_fresh(entry, now_ms) {
            return Ok(true);
        }
        entry.checked_ms.store(now_ms, Ordering::Relaxed);
        let current = match self.follow_root(now_ms, access) {
            Ok(()) => entry.holds(&self.0.root, access)?,
            Err(Failure::WouldBlock) => return Err(WouldBlock),
            // The lookup that follows says what is wrong.
            Err(_) => false,
        };
        if !current {
            self.0.entries.remove(key);
        }
        Ok(current)
    }

    /// Whether an entry was looked for so lately that it may be sent.
    pub(super) fn is_fresh(&self, entry: &Entry, now_ms: u64) -> bool {
        let age_ms = now_ms.saturating_sub(entry.checked_ms.load(Ordering::Relaxed));
        age_ms < self.0.revalidate_after_ms
    }

    /// A file that the operator named (an error page, the fallback), and what it is kept under.
    pub(super) fn named(&self, path: &str, access: Access) -> Result<(String, Arc<Entry>), Failure> {
        let key = key_of_named(path);
        if let Some(entry) = self.known(&key, access)? {
            return Ok((key, entry));
        }
        let opened = open_if_there(&self.0.root, path, access)?;
        let is_sent = |opened: &Opened| {
            opened.stat.kind == Kind::File && !source::is_file_withheld(opened, path, &self.0.options)
        };
        let Some(opened) = opened.filter(is_sent) else {
            self.say_missing(path);
            return Err(Failure::NotFound);
        };
        let evidence = vec![Evidence { path: path.to_owned(), seen: Some(opened.stat) }];
        let entry = self.load_and_keep(&key, opened, path, evidence, access)?;
        Ok((key, entry))
    }

    /// The path of the site that a path of this folder leads to, if another route takes it.
    pub(super) fn path_on_other_route(
        &self,
        path: FolderPath<'_>,
        other_routes: OtherRoutes<'_>,
        access: Access,
    ) -> Result<Option<RequestPath<'static>>, WouldBlock> {
        match find(&self.0.root, &self.0.options, path, Some(other_routes), access) {
            Ok(Lookup::OtherRoute(path)) => Ok(Some(path)),
            Err(Failure::WouldBlock) => Err(WouldBlock),
            _ => Ok(None),
        }
    }

    /// The response for a failure, which the operator hears of.
    pub(super) fn answer_failure(
        &self,
        headers: &HeaderMap,
        failure: &Failure,
    ) -> Result<Response, WouldBlock> {
        self.say(failure);
        let (status, explanation) = failure.answer()?;
        Ok(self.error(status, headers, explanation))
    }
}

/// What a file that the operator named is kept under: NUL is in no path that anybody can ask for.
fn key_of_named(path: &str) -> String {
    format!("\0{path}")
}
