//! TLS for clients: the certificates that they trust, what is wrong with those of a server, and sessions.

mod chain;
mod file_verifier;
mod inspector;
mod ocsp;
mod problem;
mod revocation;
mod session;
mod trust;

pub use self::chain::ServerCertificate;
pub use self::inspector::{Inspection, Inspector};
pub use self::ocsp::{OcspState, OcspStatus};
pub use self::problem::{Problem, in_words};
pub use self::revocation::RevocationLists;
pub use self::session::{ClientSession, ClientSettings, ClientTls, is_untrusted_certificate, same_error};
pub use self::trust::{Trust, TrustError};
