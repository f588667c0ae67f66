//! The endpoints of a listener, which pass on to each other what arrives at the wrong one: after a change of a client's address, the kernel
//! may choose the socket of another worker.

use std::sync::{Arc, OnceLock, Weak};

use rudy_quic::{Datagram, Ids, Place};

use super::endpoint::Endpoint;

/// The endpoints of a listener, by their workers.
#[derive(Default)]
pub(crate) struct Group(OnceLock<Vec<Weak<Endpoint>>>);

impl Group {
    /// Sets the endpoints, once all are there.
    pub(crate) fn set(&self, endpoints: &[Arc<Endpoint>]) {
        let _is_first = self.0.set(endpoints.iter().map(Arc::downgrade).collect());
    }

    /// Returns the endpoints.
    pub(super) fn all(&self) -> impl Iterator<Item = Arc<Endpoint>> {
        self.0.get().into_iter().flatten().filter_map(Weak::upgrade)
    }

    /// Wakes the tasks that receive.
    pub(super) fn wake(&self) {
        self.all().for_each(|endpoint| endpoint.wake());
    }

    /// Passes a datagram to the endpoint that has its connection, unless that is the one at `own`, or there is none.
    pub(super) fn pass_on(&self, own: Place, ids: &Ids, datagram: Datagram) -> Option<Datagram> {
        let of_other = Ids::destination(&datagram.bytes)
            .and_then(|id| ids.place_of(id))
            .filter(|place| place.generation == own.generation && place.worker != own.worker);
        let other = of_other.and_then(|place| self.0.get()?.get(usize::from(place.worker))?.upgrade());
        match other {
            Some(other) => {
                other.receive_passed(datagram);
                None
            }
            None => Some(datagram),
        }
    }
}
