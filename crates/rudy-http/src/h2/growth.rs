//! Measures how large the receive windows must be: as large as what the peer delivers in a round trip.
//!
//! A PING is sent with data, and what arrives before its acknowledgement is the product of bandwidth and delay, unless the window was
//! in the way. If it may have been, the window grows to four times its size, to stay ahead of a TCP connection that doubles its rate
//! with each round trip. An application that reads slowly opens no windows, so that less arrives, and nothing grows.

/// The payload of the PING.
const PAYLOAD: [u8; 8] = *b"rudy bdp";

/// The factor by which a window grows.
const FACTOR: u32 = 4;

/// The measurement of a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Growth {
    /// Bytes that have arrived since the PING was sent; `None` if none is in transit.
    received: Option<u64>,
    /// Bytes to receive before the next PING. A window that is large enough makes pings rare.
    pause_bytes: u64,
}

impl Growth {
    /// Records received bytes. Returns the payload of a PING to send.
    pub(super) fn receive(&mut self, bytes: u32, window: u32) -> Option<[u8; 8]> {
        let bytes = u64::from(bytes);
        if bytes == 0 {
            return None;
        }
        if let Some(received) = &mut self.received {
            *received += bytes;
            return None;
        }
        if bytes < self.pause_bytes {
            self.pause_bytes -= bytes;
            return None;
        }
        self.pause_bytes = u64::from(window / 2);
        self.received = Some(bytes);
        Some(PAYLOAD)
    }

    /// Whether an acknowledgement is that of a PING in transit.
    pub(super) fn expects(&self, payload: [u8; 8]) -> bool {
        payload == PAYLOAD && self.received.is_some()
    }

    /// Handles the acknowledgement of a PING. Returns the new size of the windows.
    pub(super) fn acknowledge(&mut self, payload: [u8; 8], window: u32, max: u32) -> Option<u32> {
        let received = self.received.take_if(|_| payload == PAYLOAD)?;
        // The peer gets room in steps of half a window, one of which may arrive after the acknowledgement.
        if received * 2 < u64::from(window) || window >= max {
            return None;
        }
        self.pause_bytes = 0;
        Some(window.saturating_mul(FACTOR).min(max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_was_filled_within_a_round_trip_grows() {
        let mut growth = Growth::default();
        assert_eq!(growth.receive(16_384, 65_535), Some(PAYLOAD));
        assert_eq!(growth.receive(40_000, 65_535), None);
        assert_eq!(growth.acknowledge([0; 8], 65_535, 1 << 20), None, "not this PING");
        assert_eq!(growth.acknowledge(PAYLOAD, 65_535, 1 << 20), Some(262_140));
        assert_eq!(growth.acknowledge(PAYLOAD, 65_535, 1 << 20), None, "no PING was sent");
        assert_eq!(growth.receive(100, 262_140), Some(PAYLOAD));
        assert_eq!(growth.acknowledge(PAYLOAD, 262_140, 1 << 20), None, "little has arrived");
    }

    #[test]
    fn pings_become_rare_and_the_window_is_bounded() {
        let (mut growth, mut pings) = (Growth::default(), 0);
        for _ in 0..10_000 {
            if growth.receive(1000, 65_535).is_some() {
                pings += 1;
                assert_eq!(growth.acknowledge(PAYLOAD, 65_535, 1 << 20), None);
            }
        }
        // One for each half of the window.
        assert!((300..310).contains(&pings), "{pings}");
        let mut growth = Growth::default();
        growth.receive(u32::MAX, 1 << 20);
        assert_eq!(growth.acknowledge(PAYLOAD, 1 << 20, 1 << 20), None);
    }
}
