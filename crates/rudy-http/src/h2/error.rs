//! Error codes (RFC 9113 §7), and the errors that end a connection.

use std::fmt;

use crate::allowance::Excess;

/// Why a stream or a connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// No error: a graceful end.
    pub const NO_ERROR: Self = Self(0x0);
    /// A violation that no other code describes.
    pub const PROTOCOL_ERROR: Self = Self(0x1);
    /// A bug of the sender.
    pub const INTERNAL_ERROR: Self = Self(0x2);
    /// The peer sent more than a window allows.
    pub const FLOW_CONTROL_ERROR: Self = Self(0x3);
    /// A frame for a stream whose direction has ended.
    pub const STREAM_CLOSED: Self = Self(0x5);
    /// A frame of an invalid size.
    pub const FRAME_SIZE_ERROR: Self = Self(0x6);
    /// The stream was not processed at all, so its request can be repeated.
    pub const REFUSED_STREAM: Self = Self(0x7);
    /// The stream is no longer needed.
    pub const CANCEL: Self = Self(0x8);
    /// A header block that cannot be decoded.
    pub const COMPRESSION_ERROR: Self = Self(0x9);
    /// The peer causes too much work.
    pub const ENHANCE_YOUR_CALM: Self = Self(0xb);
    /// The request needs HTTP/1.1.
    pub const HTTP_1_1_REQUIRED: Self = Self(0xd);

    const NAMES: [&str; 14] = [
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY",
        "HTTP_1_1_REQUIRED",
    ];
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match usize::try_from(self.0).ok().and_then(|code| Self::NAMES.get(code)) {
            Some(name) => f.write_str(name),
            None => write!(f, "error code {:#x}", self.0),
        }
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An error that ends the connection (RFC 9113 §5.4.1). The peer receives GOAWAY with the code and the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("HTTP/2: {reason} ({code})")]
pub struct ConnectionError {
    /// The code for the peer.
    pub code: ErrorCode,
    /// What the peer did, for its developers and for the log.
    pub reason: &'static str,
}

impl ConnectionError {
    pub(super) const fn new(code: ErrorCode, reason: &'static str) -> Self {
        Self { code, reason }
    }

    pub(super) const fn protocol(reason: &'static str) -> Self {
        Self::new(ErrorCode::PROTOCOL_ERROR, reason)
    }

    pub(super) const fn frame_size(reason: &'static str) -> Self {
        Self::new(ErrorCode::FRAME_SIZE_ERROR, reason)
    }
}

impl From<Excess> for ConnectionError {
    fn from(Excess(reason): Excess) -> Self {
        Self::new(ErrorCode::ENHANCE_YOUR_CALM, reason)
    }
}
