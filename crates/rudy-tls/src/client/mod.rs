//! The settings of a TLS client: the certificates that it trusts.

mod file_verifier;
mod trust;

pub use self::trust::{Trust, TrustError};
