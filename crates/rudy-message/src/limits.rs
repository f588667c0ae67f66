//! Limits on the messages of a peer.

/// The limits of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageLimits {
    /// Maximum size of a request head in bytes, including empty lines before it (431). 16 KiB is twice what browsers with
    /// many cookies need; nginx allows 4 × 8 KiB, Apache 8 KiB per line.
    pub head_bytes: usize,
    /// Maximum number of fields in a head or a trailer section (431). 100, as in Apache; more than 6000 are always rejected.
    pub head_fields: usize,
    /// Maximum size of the request target in bytes (414). RFC 9112 §3 recommends at least 8000.
    pub target_bytes: usize,
    /// Maximum size of a request body in bytes (413). Raise it for handlers that accept large uploads.
    pub body_bytes: u64,
}

impl MessageLimits {
    /// The defaults.
    pub const DEFAULT: Self = Self {
        head_bytes: 16 * 1024,
        head_fields: 100,
        target_bytes: 8 * 1024,
        body_bytes: 16 * 1024 * 1024,
    };

    /// Maximum size of the head of a response in bytes: of a server, and of an application over FastCGI. Servers that set many long cookies
    /// send larger heads than browsers do.
    pub const RESPONSE_HEAD_BYTES: usize = 64 * 1024;

    /// Maximum number of fields in the head of a response: about as many as fit.
    pub const RESPONSE_HEAD_FIELDS: usize = 500;
}

impl Default for MessageLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
