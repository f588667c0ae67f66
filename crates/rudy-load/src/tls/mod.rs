//! The trust of a TLS client: which certificates it accepts, and why one is rejected. rustls with aws-lc-rs.

mod explain;
mod file_verifier;
mod trust;

pub(crate) use explain::explain;
pub use trust::{Trust, TrustError};
