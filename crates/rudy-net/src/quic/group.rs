//! The endpoints of a listener, which pass on to each other what arrives at the wrong one: after a change of a client's address, the kernel
//! may choose the socket of another worker. During an upgrade, two processes share the sockets, and do so, too.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use rudy_quic::{Datagram, Ids, Place};

use super::endpoint::Endpoint;
use super::neighbour::Neighbour;
use super::relay::Relay;
use crate::listen::DatagramSockets;
use crate::worker::Http3Counters;

/// The endpoints of a listener, by their numbers.
#[derive(Default)]
pub(crate) struct Group {
    endpoints: OnceLock<Vec<Weak<Endpoint>>>,
    neighbour: Mutex<Option<Arc<Neighbour>>>,
}

impl Group {
    /// Sets the endpoints, once all are there.
    pub(crate) fn set(&self, endpoints: &[Arc<Endpoint>]) {
        let _is_first = self.endpoints.set(endpoints.iter().map(Arc::downgrade).collect());
    }

    /// Returns the endpoints.
    pub(super) fn all(&self) -> impl Iterator<Item = Arc<Endpoint>> {
        self.endpoints.get().into_iter().flatten().filter_map(Weak::upgrade)
    }

    /// Returns the number of endpoints.
    pub(super) fn len(&self) -> usize {
        self.endpoints.get().map_or(0, Vec::len)
    }

    /// Wakes the tasks that receive.
    pub(super) fn wake(&self) {
        self.all().for_each(|endpoint| endpoint.wake());
    }

    /// Passes a datagram to the endpoint that has its connection, unless that is the one at `own`, or there is none.
    pub(super) fn pass_on(
        &self,
        own: Place,
        ids: &Ids,
        datagram: Datagram,
        counters: &Http3Counters,
    ) -> Option<Datagram> {
        let place = Ids::destination(&datagram.bytes).and_then(|id| ids.place_of(id));
        let Some(place) = place.filter(|place| *place != own) else { return Some(datagram) };
        if place.generation != own.generation {
            return self.pass_to_neighbour((own, place), datagram, counters);
        }
        let endpoints = self.endpoints.get().map_or(&[][..], Vec::as_slice);
        match endpoints.get(usize::from(place.worker)).and_then(Weak::upgrade) {
            Some(other) => {
                other.receive_passed(datagram);
                None
            }
            None => Some(datagram),
        }
    }

    fn pass_to_neighbour(
        &self,
        places: (Place, Place),
        datagram: Datagram,
        counters: &Http3Counters,
    ) -> Option<Datagram> {
        let Some(neighbour) = self.neighbour() else { return Some(datagram) };
        match neighbour.pass(places, datagram, counters) {
            Ok(rest) => rest,
            Err(datagram) => {
                self.forget(&neighbour);
                Some(datagram)
            }
        }
    }

    /// Returns the other process that shares the sockets.
    pub(super) fn neighbour(&self) -> Option<Arc<Neighbour>> {
        self.neighbour.lock().clone()
    }

    /// Forgets another process, which has ended.
    pub(super) fn forget(&self, ended: &Arc<Neighbour>) {
        let mut neighbour = self.neighbour.lock();
        if neighbour.as_ref().is_some_and(|neighbour| Arc::ptr_eq(neighbour, ended)) {
            *neighbour = None;
        }
        drop(neighbour);
        // A closed listener has waited for it.
        self.wake();
    }

    /// Sets the process that this one replaces; each relay is of one of its endpoints.
    pub(crate) fn replace(&self, generation: u8, relays: Vec<Relay>) {
        *self.neighbour.lock() = Some(Arc::new(Neighbour::older(generation, relays)));
        self.wake();
    }

    /// Whether datagrams are read here for a process that this one replaces.
    pub(crate) fn reads_for_older(&self) -> bool {
        self.neighbour().is_some_and(|neighbour| neighbour.is_older())
    }

    /// Whether no endpoint has a connection, and no other process needs what arrives.
    pub(super) fn is_unused(&self) -> bool {
        !self.reads_for_older() && self.all().all(|endpoint| !endpoint.has_connections())
    }

    /// Shares the sockets with a process that replaces this one. `None` if some are closed, or cannot be shared.
    pub(crate) fn share(&self, own: u8) -> io::Result<Option<DatagramSockets>> {
        let endpoints: Vec<_> = self.all().collect();
        if endpoints.is_empty() || self.endpoints.get().is_none_or(|all| all.len() != endpoints.len()) {
            return Ok(None);
        }
        let (mut sockets, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::<OwnedFd>::new());
        for endpoint in &endpoints {
            let Some(socket) = endpoint.duplicate()? else { return Ok(None) };
            let (here, there) = Relay::pair()?;
            ours.push(endpoint.relay(here)?);
            theirs.push(there);
            sockets.push(socket);
        }
        let generation = own.wrapping_add(1);
        *self.neighbour.lock() = Some(Arc::new(Neighbour::younger(generation, ours)));
        self.wake();
        Ok(Some(DatagramSockets { sockets, relays: theirs, generation }))
    }

    /// Leaves the reading to the process that replaces this one.
    pub(crate) fn stop_reading(&self) {
        self.all().for_each(|endpoint| endpoint.stop_reading());
        self.wake();
    }
}
