//! Error codes (RFC 9114 §8.1, RFC 9204 §8.3), and the errors that end a connection.

use std::fmt;

use crate::allowance::Excess;

/// Why a stream or a connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u64);

impl ErrorCode {
    /// No error: a graceful end.
    pub const NO_ERROR: Self = Self(0x100);
    /// A violation that no other code describes.
    pub const GENERAL_PROTOCOL_ERROR: Self = Self(0x101);
    /// A bug of the sender.
    pub const INTERNAL_ERROR: Self = Self(0x102);
    /// The peer has opened a stream that is not accepted.
    pub const STREAM_CREATION_ERROR: Self = Self(0x103);
    /// A stream that the connection needs has ended.
    pub const CLOSED_CRITICAL_STREAM: Self = Self(0x104);
    /// A frame that is not allowed in this state, or on this stream.
    pub const FRAME_UNEXPECTED: Self = Self(0x105);
    /// A frame with an invalid layout or size.
    pub const FRAME_ERROR: Self = Self(0x106);
    /// The peer causes too much work.
    pub const EXCESSIVE_LOAD: Self = Self(0x107);
    /// An invalid number of a stream or a push.
    pub const ID_ERROR: Self = Self(0x108);
    /// An invalid setting.
    pub const SETTINGS_ERROR: Self = Self(0x109);
    /// The control stream does not begin with SETTINGS.
    pub const MISSING_SETTINGS: Self = Self(0x10a);
    /// The request was not processed at all, so it can be repeated.
    pub const REQUEST_REJECTED: Self = Self(0x10b);
    /// The request or its response is no longer needed.
    pub const REQUEST_CANCELLED: Self = Self(0x10c);
    /// The stream has ended without a whole request.
    pub const REQUEST_INCOMPLETE: Self = Self(0x10d);
    /// A malformed message.
    pub const MESSAGE_ERROR: Self = Self(0x10e);
    /// The request needs another version of HTTP.
    pub const VERSION_FALLBACK: Self = Self(0x110);
    /// A field section that cannot be decoded.
    pub const QPACK_DECOMPRESSION_FAILED: Self = Self(0x200);
    /// An invalid instruction on the encoder stream.
    pub const QPACK_ENCODER_STREAM_ERROR: Self = Self(0x201);
    /// An invalid instruction on the decoder stream.
    pub const QPACK_DECODER_STREAM_ERROR: Self = Self(0x202);

    const NAMES: [&str; 17] = [
        "H3_NO_ERROR",
        "H3_GENERAL_PROTOCOL_ERROR",
        "H3_INTERNAL_ERROR",
        "H3_STREAM_CREATION_ERROR",
        "H3_CLOSED_CRITICAL_STREAM",
        "H3_FRAME_UNEXPECTED",
        "H3_FRAME_ERROR",
        "H3_EXCESSIVE_LOAD",
        "H3_ID_ERROR",
        "H3_SETTINGS_ERROR",
        "H3_MISSING_SETTINGS",
        "H3_REQUEST_REJECTED",
        "H3_REQUEST_CANCELLED",
        "H3_REQUEST_INCOMPLETE",
        "H3_MESSAGE_ERROR",
        "H3_CONNECT_ERROR",
        "H3_VERSION_FALLBACK",
    ];

    const QPACK_NAMES: [&str; 3] =
        ["QPACK_DECOMPRESSION_FAILED", "QPACK_ENCODER_STREAM_ERROR", "QPACK_DECODER_STREAM_ERROR"];
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let find = |first: Self, names: &[&'static str]| {
            names.get(usize::try_from(self.0.checked_sub(first.0)?).ok()?).copied()
        };
        match find(Self::NO_ERROR, &Self::NAMES)
            .or_else(|| find(Self::QPACK_DECOMPRESSION_FAILED, &Self::QPACK_NAMES))
        {
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

/// An error that ends the connection (RFC 9114 §8). The peer receives `CONNECTION_CLOSE` with the code and the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("HTTP/3: {reason} ({code})")]
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
}

impl From<Excess> for ConnectionError {
    fn from(Excess(reason): Excess) -> Self {
        Self::new(ErrorCode::EXCESSIVE_LOAD, reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_names_of_the_standards() {
        for (code, name) in [
            (0x100, "H3_NO_ERROR"),
            (0x10e, "H3_MESSAGE_ERROR"),
            (0x110, "H3_VERSION_FALLBACK"),
            (0x202, "QPACK_DECODER_STREAM_ERROR"),
            (0xff, "error code 0xff"),
            (0x111, "error code 0x111"),
            (0x203, "error code 0x203"),
            (u64::MAX, "error code 0xffffffffffffffff"),
        ] {
            assert_eq!(ErrorCode(code).to_string(), name);
        }
    }
}
