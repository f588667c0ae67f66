//! TLS of sites: where their certificates come from, and whether they fit.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod acme;
mod algorithms;
mod authority;
mod check;
mod definition;
mod files;
mod hsts;
mod made;
mod sources;
mod state;
mod sufficient;
mod table;
mod ticket_keys;
mod watch;

pub use self::algorithms::{CipherSuite, Curve};
pub use self::authority::certificate_file as authority_file;
pub use self::definition::Definition;
pub use self::files::certificate_and_key;
pub use self::hsts::HstsTable;
pub use self::state::{TlsState, site};
pub use self::table::{CertificateSource, CertificateTable, ClientCertificatesTable, MinVersion, TlsTable};
pub use self::ticket_keys::ticket_keys_problem;
