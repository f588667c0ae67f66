//! TLS: whom a client trusts. rustls with aws-lc-rs; both are given to whoever drives a session, and no session is
//! driven here.

mod held;
mod refused;
mod trust;

pub use refused::explain;
pub use trust::{Trust, TrustError};
