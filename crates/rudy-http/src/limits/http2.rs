//! Limits of an HTTP/2 connection.

/// The limits of one HTTP/2 connection, beside those that all protocols share in [`crate::Limits`]. There, `head_bytes` is also
/// the maximum size of a header list. An encoded block of more than twice that size ends the connection (ENHANCE_YOUR_CALM).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of concurrent streams (REFUSED_STREAM above it). RFC 9113 §6.5.2 recommends at least 100.
    pub streams: u32,
    /// Maximum number of streams that the peer cancels, or makes this side reset, beyond those that end properly
    /// (ENHANCE_YOUR_CALM). A tenth recovers each second. Cancelled requests cost work that no response pays for
    /// (CVE-2023-44487). A browser cancels at most the images of a page.
    pub resets: u32,
    /// Maximum number of frames without purpose: PING, SETTINGS, PRIORITY, RST_STREAM, unknown ones, empty DATA, parts of
    /// header blocks. Above it, the connection ends as above. A tenth recovers each second, and some with each request and each
    /// DATA frame of a response. WINDOW_UPDATE is counted separately, because a client sends it for what it receives: the same
    /// number, and two more with each KiB of a response. So are reads of fewer than 256 bytes that complete no frame: each wakes
    /// the connection. Those before a read that completes one are part of it.
    pub control_frames: u32,
    /// The receive window of a connection at its start, in bytes.
    pub connection_window_bytes: u32,
    /// The receive window of a new stream, in bytes, before it grows.
    pub stream_window_bytes: u32,
    /// The maximum size to which the receive window of a stream grows, in bytes. A window holds the bytes of one round trip:
    /// 8 MiB are 80 MiB/s at 100 ms.
    pub stream_window_bytes_max: u32,
    /// The maximum of what all connections together store of bodies that no service has read, in bytes. 256 MiB are 256 connections
    /// whose first window is full. The state machine of one connection leaves this limit to its caller.
    pub windows_total_bytes: u64,
}

impl Limits {
    /// The defaults.
    pub const DEFAULT: Self = Self {
        streams: 100,
        resets: 500,
        control_frames: 1000,
        connection_window_bytes: 1024 * 1024,
        // The default of the protocol. A server stores what it receives.
        stream_window_bytes: 65_535,
        stream_window_bytes_max: 8 * 1024 * 1024,
        windows_total_bytes: 256 * 1024 * 1024,
    };

    /// The limits for a client that stores no bodies, so that large windows cost no memory.
    pub const FOR_RESPONSES: Self = Self {
        connection_window_bytes: 16 * 1024 * 1024,
        stream_window_bytes: 1024 * 1024,
        stream_window_bytes_max: 32 * 1024 * 1024,
        ..Self::DEFAULT
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
