//! Resolves a path: a current entry of the cache, or a new lookup.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::HeaderMap;
use rudy_pipeline::pages;
use rudy_service::{Reply, Request, Response};
use rudy_system::file_access::{Access, WouldBlock};

use super::entry::Entry;
use super::failure::Failure;
use super::find::{FolderPath, Lookup, OtherRoute, OtherRoutes, find, open_if_exists};
use super::stat::{Dependency, Kind, Opened};
use super::{Files, clock, redirect_to_folder, source};

/// A resolved path.
pub(super) enum Resolved<'a> {
    /// An entry and its key.
    Entry(Cow<'a, str>, Arc<Entry>),
    /// A redirect, a listing or an error.
    Reply(Reply),
    /// A path that another route matches.
    OtherRoute(OtherRoute),
    /// Nothing was found, and the next route has the request.
    NextRoute,
}

impl Files {
    /// Resolves a path.
    pub(super) fn resolve<'a>(
        &self,
        request: &Request<'_>,
        path: FolderPath<'a>,
        other_routes: Option<OtherRoutes<'_>>,
        access: Access,
    ) -> Result<Resolved<'a>, WouldBlock> {
        if let Some(entry) = self.cached(path.key, access)? {
            return Ok(
                match other_routes.and_then(|others| entry.path_on_other_route(path.name(), others)) {
                    Some(path) => Resolved::OtherRoute(OtherRoute { path, query: None }),
                    None => Resolved::Entry(path.key.into(), entry),
                },
            );
        }
        let found = self
            .revalidate_root(clock::monotonic_ms(), access)
            .and_then(|()| find(&self.0.root, &self.0.options, path, other_routes, access))
            .and_then(|found| self.open_found(request, path, found, access));
        found.or_else(|failure| match failure {
            Failure::NotFound if self.0.options.next_route => Ok(Resolved::NextRoute),
            failure => Ok(Resolved::Reply(self.error_response(request.headers(), &failure)?.into())),
        })
    }

    fn open_found<'a>(
        &self,
        request: &Request<'_>,
        path: FolderPath<'a>,
        found: Lookup,
        access: Access,
    ) -> Result<Resolved<'a>, Failure> {
        Ok(match found {
            Lookup::File { opened, path: file, dependencies } => {
                let entry = self.load_and_cache(path.key, opened, &file, dependencies, access)?;
                Resolved::Entry(path.key.into(), entry)
            }
            Lookup::Configured(name) => {
                let (key, entry) = self.configured_file(&name, access)?;
                Resolved::Entry(key.into(), entry)
            }
            Lookup::OtherRoute(other) => Resolved::OtherRoute(other),
            Lookup::MissingSlash => Resolved::Reply(redirect_to_folder(request, path.below).into()),
            Lookup::Listing => Resolved::Reply(self.list(request, path.name().to_owned())),
        })
    }

    /// Returns the entry for `key` if it is current.
    pub(super) fn cached(&self, key: &str, access: Access) -> Result<Option<Arc<Entry>>, WouldBlock> {
        let Some(entry) = self.0.entries.get(key) else { return Ok(None) };
        Ok(self.is_current(&entry, key, access)?.then_some(entry))
    }

    /// Returns whether an entry is current. The first request after expiry revalidates; concurrent ones use the stale entry.
    fn is_current(&self, entry: &Entry, key: &str, access: Access) -> Result<bool, WouldBlock> {
        let now_ms = clock::monotonic_ms();
        // On the thread pool, always revalidate: the worker could not, although it has updated the time.
        if access == Access::Cached && self.is_fresh(entry, now_ms) {
            return Ok(true);
        }
        entry.checked_ms.store(now_ms, Ordering::Relaxed);
        let current = match self.revalidate_root(now_ms, access) {
            Ok(()) => entry.is_unchanged(&self.0.root, access)?,
            Err(Failure::WouldBlock) => return Err(WouldBlock),
            // The new lookup reports the error.
            Err(_) => false,
        };
        if !current {
            self.0.entries.remove(key);
        }
        Ok(current)
    }

    /// Returns whether an entry was checked within `revalidate_after`.
    pub(super) fn is_fresh(&self, entry: &Entry, now_ms: u64) -> bool {
        let age_ms = now_ms.saturating_sub(entry.checked_ms.load(Ordering::Relaxed));
        age_ms < self.0.revalidate_after_ms
    }

    /// Returns the entry and the key of a configured file (fallback, or a file of `try_files`).
    pub(super) fn configured_file(
        &self,
        path: &str,
        access: Access,
    ) -> Result<(String, Arc<Entry>), Failure> {
        let key = key_of_configured(path);
        if let Some(entry) = self.cached(&key, access)? {
            return Ok((key, entry));
        }
        let opened = open_if_exists(&self.0.root, path, access)?;
        let is_sent = |opened: &Opened| {
            opened.stat.kind == Kind::File && !source::is_file_withheld(opened, path, &self.0.options)
        };
        let Some(opened) = opened.filter(is_sent) else {
            self.log_missing(path);
            return Err(Failure::NotFound);
        };
        let dependencies = vec![Dependency { path: path.to_owned(), seen: Some(opened.stat) }];
        let entry = self.load_and_cache(&key, opened, path, dependencies, access)?;
        Ok((key, entry))
    }

    /// Returns the path in the site that a lookup of `path` leads to, if another route matches it.
    pub(super) fn path_on_other_route(
        &self,
        path: FolderPath<'_>,
        other_routes: OtherRoutes<'_>,
        access: Access,
    ) -> Result<Option<OtherRoute>, WouldBlock> {
        match find(&self.0.root, &self.0.options, path, Some(other_routes), access) {
            Ok(Lookup::OtherRoute(other)) => Ok(Some(other)),
            Err(Failure::WouldBlock) => Err(WouldBlock),
            _ => Ok(None),
        }
    }

    /// Logs a failure and returns its response.
    pub(super) fn error_response(
        &self,
        headers: &HeaderMap,
        failure: &Failure,
    ) -> Result<Response, WouldBlock> {
        self.log_failure(failure);
        let (status, explanation) = failure.status()?;
        Ok(pages::error(status, headers, explanation))
    }
}

/// Returns the key of a configured file. It begins with NUL, which no requested path can contain.
fn key_of_configured(path: &str) -> String {
    format!("\0{path}")
}
