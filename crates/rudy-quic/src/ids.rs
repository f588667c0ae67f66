//! The ids of connections (RFC 9000 §5.1), which say who has the connection.

use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};
use rudy_runtime::random;

use crate::Keys;

/// The place of a connection, masked, and 8 random bytes.
const ID_BYTES: usize = 2 + RANDOM_BYTES;
const RANDOM_BYTES: usize = 8;

/// Who has a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The process: one that replaces another has the next number.
    pub generation: u8,
    /// The worker of the process.
    pub worker: u8,
}

/// Generates the ids of an endpoint. They carry its place, so that a packet that arrives elsewhere is passed on; it is masked, so that
/// no observer on the way can tell that two ids belong together (RFC 9000 §5.1).
pub struct Ids {
    place: Place,
    mask: [u32; 2],
}

impl Ids {
    /// Creates the ids of the endpoint at a place.
    #[must_use]
    pub fn new(place: Place, keys: &Keys) -> Self {
        Self { place, mask: keys.mask() }
    }

    /// Returns the id of the connection to which a datagram belongs, if this side may have chosen it: the client chooses that of the first
    /// packets (RFC 9000 §17.2, §17.3).
    #[must_use]
    pub fn destination(datagram: &[u8]) -> Option<&[u8]> {
        const LONG: u8 = 0x80;
        let (first, rest) = datagram.split_first()?;
        if first & LONG == 0 {
            return rest.get(..ID_BYTES);
        }
        let (length, rest) = rest.get(4..)?.split_first()?;
        rest.get(..usize::from(*length)).filter(|id| id.len() == ID_BYTES)
    }

    /// Returns the place in an id.
    #[must_use]
    pub fn place_of(&self, id: &[u8]) -> Option<Place> {
        let (masked, random) = id.split_first_chunk::<2>()?;
        let mask = self.mask(random.try_into().ok()?);
        Some(Place { generation: masked[0] ^ mask[0], worker: masked[1] ^ mask[1] })
    }

    /// Computes the mask with multiplications of 32 bits, which a filter of the kernel (BPF) can compute, too.
    fn mask(&self, random: [u8; RANDOM_BYTES]) -> [u8; 2] {
        let random = u64::from_be_bytes(random);
        let words = [random >> 32, random & u64::from(u32::MAX)].map(|word| u32::try_from(word).unwrap_or(0));
        let products = [0, 1].map(|at| words[at].wrapping_mul(self.mask[at] | 1));
        let [high, low, ..] = (products[0] ^ products[1]).to_be_bytes();
        [high, low]
    }
}

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        let random = random::bits().to_be_bytes();
        let mask = self.mask(random);
        let mut id = [0; ID_BYTES];
        id[0] = self.place.generation ^ mask[0];
        id[1] = self.place.worker ^ mask[1];
        id[2..].copy_from_slice(&random);
        ConnectionId::new(&id)
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        if id.len() == ID_BYTES { Ok(()) } else { Err(InvalidCid) }
    }

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SECRET_BYTES;

    #[test]
    fn the_destination_of_a_packet_is_found_in_both_forms() {
        let id = *b"0123456789";
        let short = [&[0x40], &id[..], b"packet"].concat();
        let long = [&[0xe0, 0, 0, 0, 1, 10], &id[..], b"packet"].concat();
        assert_eq!([&short, &long].map(|datagram| Ids::destination(datagram)), [Some(&id[..]); 2]);
        let of_client = [&[0xc0, 0, 0, 0, 1, 8], &id[..], b"packet"].concat();
        assert_eq!(Ids::destination(&of_client), None);
        let lengths = (0..11).map(|length| &short[..length]).chain((0..16).map(|length| &long[..length]));
        assert!(lengths.into_iter().all(|datagram| Ids::destination(datagram).is_none()));
    }

    #[test]
    fn an_id_carries_its_place_and_does_not_show_it() {
        let keys = Keys::of_secret([1; SECRET_BYTES]);
        for place in [Place { generation: 0, worker: 0 }, Place { generation: 255, worker: 7 }] {
            let mut ids = Ids::new(place, &keys);
            let made: Vec<_> = (0..200).map(|_| ids.generate_cid()).collect();
            assert!(made.iter().all(|id| ids.place_of(id) == Some(place) && ids.validate(id).is_ok()));
            let starts: std::collections::BTreeSet<_> = made.iter().map(|id| id[..2].to_vec()).collect();
            assert!(starts.len() > 150, "{}", starts.len());
            let other = Ids::new(place, &Keys::of_secret([2; SECRET_BYTES]));
            assert!(made.iter().filter(|id| other.place_of(id) == Some(place)).count() < 20);
        }
        assert_eq!(Ids::new(Place { generation: 0, worker: 0 }, &keys).place_of(b"a"), None);
    }
}
