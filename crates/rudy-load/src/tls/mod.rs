//! TLS client configuration: which certificates are trusted, and why one was rejected. rustls with aws-lc-rs.

mod explain;
mod file_verifier;
mod trust;

pub(crate) use explain::explain;
pub use trust::{Trust, TrustError};
