//! TLS client configuration with rustls and aws-lc-rs: trusted certificates, and explanations of rejected ones.

mod explain;
mod file_verifier;
mod trust;

pub(crate) use explain::explain;
pub use trust::{Trust, TrustError};
