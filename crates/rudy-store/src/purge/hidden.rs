//! Objects that a process without the lock of the folder may not use: it has invalidated them, and cannot remove their files.

use std::collections::HashMap;

use rudy_cache::HttpDate;
use rudy_cache::index::ObjectId;
use rudy_runtime::random::RandomState;

use crate::head::Slot;
use crate::object::Object;

/// The limit of hidden objects. Beyond it, any of the others can be used again.
const HIDDEN_MAX: usize = 16 * 1024;

/// Hidden objects, until the process with the lock replaces or validates them. Their epochs do not show which are invalid: the other process has
/// purges that are only in its memory.
#[derive(Debug, Default)]
pub(crate) struct Hidden(HashMap<ObjectId, (Slot, HttpDate), RandomState>);

impl Hidden {
    pub(crate) fn add(&mut self, object: &Object) {
        let Some(stored) = &object.record.stored else { return };
        if self.0.len() == HIDDEN_MAX
            && let Some(other) = self.0.keys().next().copied()
        {
            self.0.remove(&other);
        }
        self.0.insert(object.id, (object.slot, stored.received_at()));
    }

    pub(crate) fn has(&self, object: &Object) -> bool {
        let received_at = object.record.stored.as_ref().map(rudy_cache::Stored::received_at);
        self.0
            .get(&object.id)
            .is_some_and(|(slot, then)| slot.is_of_same_body(&object.slot) && received_at == Some(*then))
    }

    pub(crate) fn remove(&mut self, id: ObjectId) {
        self.0.remove(&id);
    }

    pub(crate) fn ids(&self) -> Vec<ObjectId> {
        self.0.keys().copied().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
