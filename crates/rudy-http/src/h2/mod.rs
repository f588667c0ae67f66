//! HTTP/2 on the wire (RFC 9113).

pub mod hpack;
