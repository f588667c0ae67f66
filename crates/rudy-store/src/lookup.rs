//! Finds objects for a request.

use std::io;
use std::sync::Arc;

use http::HeaderMap;
use rudy_cache::Key;
use rudy_cache::index::ObjectId;

use crate::disk::{Access, WouldBlock};
use crate::failure::DiskFailure;
use crate::inner::Inner;
use crate::layout::{key_half, parse_name};
use crate::load::{Absent, Read, load, verify_body};
use crate::object::{Body, Object};
use crate::purge::Effect;

/// The limit of purged objects that lookups have found and that still have files. Others leave when they are found again.
const MET_MAX: usize = 1024;

/// The objects that can serve a request.
#[derive(Debug, Default)]
pub struct Found {
    /// Those whose variant matches the request, and the one without `Vary`.
    pub objects: Vec<Arc<Object>>,
    /// Whether responses with `Vary` were stored for the key, of which perhaps none matches.
    pub has_variants: bool,
}

impl Inner {
    pub(crate) fn lookup(&self, key: &Key, request: &HeaderMap, access: Access) -> Result<Found, WouldBlock> {
        self.while_purges_are_known(|| self.search(key, request, access))
    }

    fn search(&self, key: &Key, request: &HeaderMap, access: Access) -> Result<Found, WouldBlock> {
        self.refresh(access)?;
        let mut found = Found::default();
        let Some(base) = self.find(self.ids.base(key), key.as_bytes(), access)? else { return Ok(found) };
        for names in &base.record.vary {
            found.has_variants = true;
            let variant = self.find(self.ids.select(key, names, request), key.as_bytes(), access)?;
            let matches = |object: &Arc<Object>| {
                object.record.stored.as_ref().is_some_and(|stored| stored.variant().matches(request))
            };
            found.objects.extend(variant.filter(matches).and_then(|object| self.usable(object)));
        }
        found.objects.extend(self.usable(base));
        Ok(found)
    }

    /// Whether a lookup would find this object in memory, unchanged. It counts as a use.
    pub(crate) fn is_current(&self, object: &Arc<Object>) -> bool {
        let is_in_memory = self.memory.get(&object.id).is_some_and(|current| Arc::ptr_eq(&current, object));
        let is_current = is_in_memory && self.is_writer() && matches!(self.effect(object), Effect::None);
        if is_current {
            self.index.try_hit(object.id, &object.uses);
        }
        is_current
    }

    /// Returns all objects of a key.
    pub(crate) fn objects(&self, key: &Key) -> Vec<Arc<Object>> {
        self.while_purges_are_known(|| {
            if self.refresh(Access::Blocking).is_err() {
                return Vec::new();
            }
            let ids = self.ids_of(key).unwrap_or_default().into_iter();
            let objects = ids.filter_map(|id| self.find(id, key.as_bytes(), Access::Blocking).ok().flatten());
            objects.filter_map(|object| self.usable(object)).collect()
        })
    }

    /// Returns the ids of the files that can belong to a key.
    pub(crate) fn ids_of(&self, key: &Key) -> io::Result<Vec<ObjectId>> {
        let base = self.ids.base(key);
        let names = self.disk.names(&self.layout.folder_of(base))?.into_iter();
        let ids = names.filter_map(|(name, is_folder)| parse_name(&name).filter(|_| !is_folder));
        Ok(ids.filter(|id| key_half(*id) == key_half(base)).collect())
    }

    /// Returns an object that has a response, as purges permit its use.
    fn usable(&self, object: Arc<Object>) -> Option<Arc<Object>> {
        object.record.stored.as_ref()?;
        match self.effect(&object) {
            Effect::None => Some(object),
            Effect::Stale => Some(Arc::new(object.invalidated())),
            Effect::Gone => {
                self.meet(object.id);
                None
            }
        }
    }

    /// Lets the background thread remove the file of a purged object.
    fn meet(&self, id: ObjectId) {
        if self.is_writer()
            && let Some(mut met) = self.met.try_lock().filter(|met| met.len() < MET_MAX)
        {
            met.push(id);
            self.signal.apply();
        }
    }

    /// Finds an object in memory or on the disk.
    fn find(&self, id: ObjectId, key: &[u8], access: Access) -> Result<Option<Arc<Object>>, WouldBlock> {
        if self.is_writer() {
            if let Some(object) = self.memory.get(&id) {
                self.index.try_hit(id, &object.uses);
                return Ok(Some(object).filter(|object| object.key() == key));
            }
            // Until the index is complete, the disk decides.
            if !self.index.hit(id) && self.signal.is_indexed() {
                return Ok(None);
            }
        }
        let changes = self.changes(id).map(|changes| *changes);
        let loaded = load(&self.disk, &self.layout.path(id), id, Read::Body, access);
        match loaded.and_then(|object| self.verified(object, access)) {
            Ok(object) if *object.record.key != *key => Ok(None),
            Ok(object) => Ok(Some(self.keep(Arc::new(object), changes))),
            Err(Absent::WouldBlock) => Err(WouldBlock),
            Err(_) if access == Access::Cached && self.is_writer() => Err(WouldBlock),
            Err(absent) => {
                if let Absent::Failed(error) = absent {
                    self.failed(DiskFailure::Read, &error.into());
                }
                self.remove_damaged(id);
                Ok(None)
            }
        }
    }

    /// Verifies a large body before its first use in this process.
    fn verified(&self, object: Object, access: Access) -> Result<Object, Absent> {
        if matches!(object.body, Body::Memory(_)) || self.index.is_marked(object.id) {
            return Ok(object);
        }
        if access == Access::Cached {
            return Err(Absent::WouldBlock);
        }
        verify_body(&object)?;
        self.index.mark(object.id);
        Ok(object)
    }

    /// Keeps a small object in memory, unless its files have changed since `changes` was read.
    fn keep(&self, object: Arc<Object>, changes: Option<u64>) -> Arc<Object> {
        if self.is_writer()
            && matches!(object.body, Body::Memory(_))
            && let Some(_unchanged) = self.changes(object.id).filter(|now| Some(**now) == changes)
        {
            self.memory.insert(object.id, Arc::clone(&object));
        }
        object
    }
}
