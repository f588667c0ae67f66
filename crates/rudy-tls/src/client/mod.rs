//! The settings of a TLS client: the certificates that it trusts, and what is wrong with those of a server.

mod chain;
mod file_verifier;
mod inspector;
mod ocsp;
mod problem;
mod revocation;
mod trust;

pub use self::chain::ServerCertificate;
pub use self::inspector::{Inspection, Inspector};
pub use self::ocsp::{OcspState, OcspStatus};
pub use self::problem::{Problem, in_words};
pub use self::revocation::RevocationLists;
pub use self::trust::{Trust, TrustError};
