//! The limits of a connection.

use std::sync::Arc;
use std::time::Duration;

use quinn_proto::congestion::BbrConfig;
use quinn_proto::{IdleTimeout, TransportConfig, VarInt};

/// Streams that a side opens beside those of requests: control, and two of QPACK (RFC 9114 §6.2); another one is for extensions, and ends at
/// once if its type is unknown.
pub(crate) const UNIDIRECTIONAL_STREAMS: u32 = 4;

/// What may be in transit before a client has acknowledged anything, in bytes: twice the first congestion window, with which it grows.
pub const SEND_WINDOW_BYTES: u64 = 32 * 1024;

/// What may be in transit before the path is known (RFC 9002 §7.2).
const INITIAL_WINDOW_BYTES: u64 = 14_720;

/// The limits on what a connection may use.
#[derive(Debug, Clone, Copy)]
pub struct Transport {
    /// Requests at the same time.
    pub streams: u32,
    /// What a client may send on a stream before it is read, in bytes.
    pub stream_window_bytes: u32,
    /// What a client may send on all streams before it is read, in bytes.
    pub connection_window_bytes: u32,
    /// How long nothing may arrive.
    pub idle_timeout: Duration,
    /// Whether the bandwidth is found out (BBR), instead of reacting to loss (CUBIC).
    pub uses_bbr: bool,
}

impl Transport {
    /// Returns the settings of [`quinn_proto`]. Its defaults permit a client to make it store megabytes (RUSTSEC-2026-0185, -0341).
    #[must_use]
    pub fn config(&self) -> Arc<TransportConfig> {
        let mut config = TransportConfig::default();
        config
            .max_concurrent_bidi_streams(VarInt::from_u32(self.streams))
            .max_concurrent_uni_streams(VarInt::from_u32(UNIDIRECTIONAL_STREAMS))
            .max_idle_timeout(IdleTimeout::try_from(self.idle_timeout).ok())
            .stream_receive_window(VarInt::from_u32(self.stream_window_bytes))
            .receive_window(VarInt::from_u32(self.connection_window_bytes))
            .send_window(SEND_WINDOW_BYTES)
            .datagram_receive_buffer_size(None)
            .datagram_send_buffer_size(0)
            // Tells observers on the way the round trip time (RFC 9000 §17.4).
            .allow_spin(false);
        if self.uses_bbr {
            let mut bbr = BbrConfig::default();
            // Its default is 240 KB.
            bbr.initial_window(INITIAL_WINDOW_BYTES);
            config.congestion_controller_factory(Arc::new(bbr));
        }
        Arc::new(config)
    }
}
