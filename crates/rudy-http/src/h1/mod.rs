//! HTTP/1.1 on the wire (RFC 9112), server role.
mod prepared;
pub use prepared::Prepared;
