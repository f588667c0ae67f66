//! What a connection has sent and received: bytes, round trips and packets.

use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

use socket2::Socket;

/// Bytes on the connection, and the round trips that they took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
    /// How often something was sent, and something else then received. In a handshake, where both sides wait for each other, each took
    /// a round trip.
    pub round_trips: u32,
    /// Whether something was sent since the last reception.
    awaits: bool,
}

impl Traffic {
    /// What has been added to an earlier state.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            sent: self.sent - before.sent,
            received: self.received - before.received,
            round_trips: self.round_trips - before.round_trips,
            awaits: self.awaits,
        }
    }

    pub(super) fn add_sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
        self.awaits |= bytes > 0;
    }

    pub(super) fn add_received(&mut self, bytes: usize) {
        self.received += bytes as u64;
        if bytes > 0 && std::mem::take(&mut self.awaits) {
            self.round_trips += 1;
        }
    }
}

/// TCP segments, with those that have no data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Packets {
    /// Segments sent.
    pub sent: u32,
    /// Segments received.
    pub received: u32,
}

impl Packets {
    /// What has been added to an earlier state.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(before.sent),
            received: self.received.saturating_sub(before.received),
        }
    }

    /// The segments of a connection so far, as the kernel counts them. `None` for another kind of socket.
    pub(super) fn of(socket: &Socket) -> Option<Self> {
        let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
        let mut length = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).ok()?;
        // SAFETY: the descriptor is open while `socket` is borrowed. The kernel writes at most `length` bytes to `info`, whose
        // size that is, and does not retain the addresses.
        #[expect(unsafe_code, reason = "neither rustix nor socket2 has this option")]
        let result = unsafe {
            let option = info.as_mut_ptr().cast();
            libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, option, &raw mut length)
        };
        if result != 0 {
            return None;
        }
        // SAFETY: all fields are integers, for which zero is valid; an older kernel leaves the last ones zero.
        #[expect(unsafe_code, reason = "initialized by zeroes and the kernel")]
        let info = unsafe { info.assume_init() };
        Some(Self { sent: info.tcpi_segs_out, received: info.tcpi_segs_in })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_is_a_reception_after_something_was_sent() {
        let mut traffic = Traffic::default();
        traffic.add_received(1);
        for _ in 0..2 {
            traffic.add_sent(10);
            traffic.add_sent(10);
            traffic.add_received(0);
            traffic.add_received(5);
            traffic.add_received(5);
        }
        assert_eq!((traffic.sent, traffic.received, traffic.round_trips), (40, 21, 2));
    }
}
