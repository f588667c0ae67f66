//! Creates the cache entry of an open file: precompressed siblings, codings and response heads.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use http::HeaderValue;
use rudy_message::semantics::negotiation::Coding;
use rudy_message::semantics::path::RequestPath;
use rudy_pipeline::compression::Of;
use rudy_service::{Reply, Request};
use rudy_system::file_access::{Access, WouldBlock};

use super::entry::{self, Coded, Content, Entry, Representation};
use super::failure::Failure;
use super::find::if_exists;
use super::stat::{Dependency, Kind, Opened, Stat, is_not_found};
use super::{Files, clock, source};

/// The precompressed siblings of a file, in the order of [`Coding::COMPRESSED`].
type Siblings = [Option<Opened>; 3];

impl Files {
    /// Creates the entry of an open file and caches it under `key`.
    pub(super) fn load_and_cache(
        &self,
        key: &str,
        opened: Opened,
        path: &str,
        mut dependencies: Vec<Dependency>,
        access: Access,
    ) -> Result<Arc<Entry>, WouldBlock> {
        let siblings = self.open_siblings(path, &mut dependencies, access)?;
        let entry = Arc::new(self.load(opened, path, siblings, dependencies, access)?);
        self.0.entries.insert(key, entry.clone());
        Ok(entry)
    }

    /// Responds with a file whose name is not UTF-8, but in Latin-1 for instance. Such names are rare, so the cache has none.
    pub(super) fn respond_uncached(
        &self,
        request: &Request<'_>,
        path: &RequestPath<'_>,
        access: Access,
    ) -> Result<Reply, WouldBlock> {
        let name = path.as_bytes().strip_prefix(b"/").unwrap_or(path.as_bytes());
        let shown = String::from_utf8_lossy(name);
        let opened = self.revalidate_root(clock::monotonic_ms(), access).and_then(|()| {
            match self.0.root.open_file(OsStr::from_bytes(name), access) {
                Ok(opened) if opened.stat.kind == Kind::File => Ok(opened),
                Err(error) if !is_not_found(error) => Err(Failure::of(&shown, error.into(), access)),
                _ => Err(Failure::NotFound),
            }
        });
        Ok(match opened {
            Ok(opened) => {
                let entry = self.load(opened, &shown, Siblings::default(), Vec::new(), access)?;
                self.respond(request, &shown, &Arc::new(entry))
            }
            Err(failure) => self.error_response(request.headers(), &failure)?.into(),
        })
    }

    fn open_siblings(
        &self,
        path: &str,
        dependencies: &mut Vec<Dependency>,
        access: Access,
    ) -> Result<Siblings, WouldBlock> {
        let mut siblings = Siblings::default();
        if !self.0.options.precompressed || self.0.options.types.coding(path) != Coding::Identity {
            return Ok(siblings);
        }
        for (sibling, coding) in siblings.iter_mut().zip(Coding::COMPRESSED) {
            let path = format!("{path}{}", coding.extension());
            let found = match if_exists(self.0.root.open_sibling(&path, access), &path, access) {
                Ok(found) => found,
                Err(Failure::WouldBlock) => return Err(WouldBlock),
                // Log the error and use the uncompressed file.
                Err(failure) => {
                    self.log_failure(&failure);
                    None
                }
            };
            let seen = found.as_ref().map(|opened| opened.stat);
            *sibling = found.filter(|opened| {
                opened.stat.kind == Kind::File && !source::is_file_withheld(opened, &path, &self.0.options)
            });
            dependencies.push(Dependency { path, seen });
        }
        Ok(siblings)
    }

    fn load(
        &self,
        opened: Opened,
        path: &str,
        siblings: Siblings,
        dependencies: Vec<Dependency>,
        access: Access,
    ) -> Result<Entry, WouldBlock> {
        let stat = opened.stat;
        let now_ns = clock::unix_ns();
        let media_type = self.0.options.types.of_name(path);
        let own_coding = self.0.options.types.coding(path);
        let is_coded = own_coding != Coding::Identity;
        let on_the_fly = if is_coded { &[] } else { self.codings(&stat, &media_type) };
        let all = || std::iter::once(stat).chain(siblings.iter().flatten().map(|opened| opened.stat));
        // The file and its siblings are all in memory or all open, so an entry uses either memory or descriptors.
        let in_memory = all().all(|stat| stat.size <= self.0.entries.file_bytes_max());
        let mtime_is_stable = all().all(|stat| stat.identity().is_mtime_stable(now_ns));
        let varies = !on_the_fly.is_empty() || siblings.iter().any(Option::is_some);
        let common = entry::common_fields(varies, self.0.cache_rules.value(path));
        let content = Content::of(opened, in_memory, access)?;
        let plain = Representation::plain(content, &stat, now_ns, (media_type, own_coding), &common);
        let mut coded = Coding::COMPRESSED
            .map(|coding| if on_the_fly.contains(&coding) { Coded::OnTheFly } else { Coded::No });
        for ((coded, sibling), coding) in coded.iter_mut().zip(siblings).zip(Coding::COMPRESSED) {
            if let Some(opened) = sibling {
                let stat = opened.stat;
                let content = Content::of(opened, in_memory, access)?;
                *coded = Coded::Sibling(plain.sibling(content, &stat, now_ns, coding));
            }
        }
        let checked_ms = AtomicU64::new(clock::monotonic_ms());
        Ok(Entry {
            path: path.into(),
            plain,
            coded,
            on_the_fly: on_the_fly.into(),
            dependencies: dependencies.into(),
            stat,
            mtime_is_stable,
            checked_ms,
        })
    }

    /// Returns the codings in which a file can be compressed, the preferred one first.
    fn codings(&self, stat: &Stat, media_type: &HeaderValue) -> &[Coding] {
        let compression = self.0.compression.as_ref();
        compression
            .filter(|compression| compression.includes(Some(stat.size), media_type.as_bytes()))
            .map_or(&[], |compression| compression.codings(Of::Files))
    }
}
