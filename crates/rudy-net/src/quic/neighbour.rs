//! The other process of an upgrade. Both have the sockets of a listener, and one of them reads; ids of connections say whose a datagram is.

use rudy_quic::{Datagram, Place};

use super::relay::Relay;
use crate::worker::Http3Counters;

/// Another process that shares the sockets of a listener.
pub(crate) struct Neighbour {
    generation: u8,
    is_older: bool,
    /// For each endpoint of the older process, its way to the younger one.
    relays: Vec<Relay>,
}

impl Neighbour {
    /// The process that this one replaces.
    pub(super) fn older(generation: u8, relays: Vec<Relay>) -> Self {
        Self { generation, is_older: true, relays }
    }

    /// The process that replaces this one.
    pub(super) fn younger(generation: u8, relays: Vec<Relay>) -> Self {
        Self { generation, is_older: false, relays }
    }

    /// Whether this process replaces it.
    pub(super) fn is_older(&self) -> bool {
        self.is_older
    }

    /// Returns the relays that the endpoint with this number reads, of `count` endpoints.
    pub(super) fn relays_of(&self, number: usize, count: usize) -> impl Iterator<Item = &Relay> {
        self.relays.iter().skip(number).step_by(count.max(1))
    }

    /// Passes on a datagram of the connection at `place`, if that is in the other process; it is dropped if that does not receive fast
    /// enough: a stateless reset would end the connection. Returns the datagram if the other process does not have it, as an error if the
    /// process has ended.
    pub(super) fn pass(
        &self,
        (own, place): (Place, Place),
        datagram: Datagram,
        counters: &Http3Counters,
    ) -> Result<Option<Datagram>, Datagram> {
        if place.generation != self.generation {
            return Ok(Some(datagram));
        }
        // The older process reads for a moment only, and does not know the endpoints of the younger one. A number that it does not have
        // means that the client has chosen the id, in its first packets.
        let number = if self.is_older { place.worker } else { own.worker };
        let Some(relay) = self.relays.get(usize::from(number)) else { return Ok(Some(datagram)) };
        match relay.pass(&datagram) {
            Ok(has_room) => {
                let counter =
                    if has_room { &counters.passed_datagrams } else { &counters.unpassed_datagrams };
                counter.add(1);
                Ok(None)
            }
            Err(_) => Err(datagram),
        }
    }
}
