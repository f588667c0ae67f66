//! Objects that a process without the lock of the folder may not use: it has invalidated them, and cannot remove their files.

use std::collections::HashMap;

use rudy_cache::HttpDate;
use rudy_cache::index::ObjectId;
use rudy_runtime::random::RandomState;

use crate::head::Slot;
use crate::object::Object;

/// The limit of hidden objects. Beyond it, all are hidden that other processes have stored or validated until then.
const HIDDEN_MAX: usize = 16 * 1024;

/// Hidden objects, until the process with the lock replaces or validates them. Their epochs do not show which are invalid: the other process has
/// purges that are only in its memory.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    objects: HashMap<ObjectId, (Slot, HttpDate), RandomState>,
    /// Objects that were received until then are hidden.
    until: Option<HttpDate>,
}

impl Hidden {
    pub(crate) fn add(&mut self, object: &Object, now: HttpDate) {
        let Some(stored) = &object.record.stored else { return };
        if self.objects.len() == HIDDEN_MAX {
            self.until = self.until.max(Some(now));
        } else {
            self.objects.insert(object.id, (object.slot, stored.received_at()));
        }
    }

    pub(crate) fn has(&self, object: &Object) -> bool {
        let Some(received_at) = object.record.stored.as_ref().map(rudy_cache::Stored::received_at) else {
            return false;
        };
        let is_same =
            |(slot, then): &(Slot, HttpDate)| slot.is_of_same_body(&object.slot) && received_at == *then;
        self.until.is_some_and(|until| received_at <= until)
            || self.objects.get(&object.id).is_some_and(is_same)
    }

    pub(crate) fn remove(&mut self, id: ObjectId) {
        self.objects.remove(&id);
    }

    pub(crate) fn ids(&self) -> Vec<ObjectId> {
        self.objects.keys().copied().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.until.is_none()
    }
}

#[cfg(test)]
mod tests {
    use rudy_cache::Exchange;

    use super::*;
    use crate::index::Uses;
    use crate::object::{Body, Compared};
    use crate::record::{Epoch, Record};

    /// Returns an object that was received at a time.
    fn object(number: u64, received_at: HttpDate) -> Object {
        let id = ObjectId::from_bytes(u128::from(number).to_le_bytes());
        let (request, mut response) = (http::Request::new(()), http::Response::new(()));
        response.headers_mut().insert("cache-control", "max-age=60".parse().unwrap());
        let exchange = Exchange { requested_at: received_at, received_at };
        let stored = rudy_cache::Policy::default().store(&request, &response, exchange).unwrap();
        let record = Record { epoch: Epoch(1), key: Box::default(), vary: Vec::new(), stored: Some(stored) };
        let (slot, body) = (Slot::first(id, 0, 0, b""), Body::Memory(bytes::Bytes::new()));
        Object { id, slot, record, body, uses: Uses::default(), compared: Compared::default() }
    }

    #[test]
    fn beyond_the_limit_all_older_objects_are_hidden() {
        let (mut hidden, at) = (Hidden::default(), HttpDate::from_unix_seconds);
        let [old, new] = [10, 21].map(|second| object(0, at(second)));
        for number in 1..=HIDDEN_MAX as u64 {
            hidden.add(&object(number, at(10)), at(20));
        }
        assert!(hidden.has(&object(1, at(10))) && !hidden.has(&object(1, at(11))) && !hidden.has(&old));
        hidden.add(&object(HIDDEN_MAX as u64 + 1, at(10)), at(20));
        assert!(hidden.has(&object(HIDDEN_MAX as u64 + 1, at(10))) && hidden.has(&old));
        assert!(!hidden.has(&new), "it was stored later");
    }
}
