//! What the tests over real sockets share: [`Server`] starts the built `rudy`, [`Connection`] speaks HTTP to it byte by
//! byte, [`binary()`] finds it. [`conformance`] holds what the conformance cases are run with.

mod binary;
pub mod conformance;
mod connection;
mod curl;
mod descriptors;
mod engines;
pub mod fastcgi;
mod load;
mod port;
mod program;
mod random;
mod response;
mod server;
pub mod soak;
pub mod spellings;
mod tls;
mod wait;

pub use binary::{binary, fastcgi_info};
pub use connection::Connection;
pub use curl::{Curl, Fetched};
pub use descriptors::descriptors;
pub use engines::engines;
pub use load::{Load, Tally};
pub use port::{ReservedPort, quiet_port};
pub use program::{flup, go_httpbin, long, php_fpm, program, redbot, skip, skip_here};
pub use response::Response;
pub use server::{Builder, Server};
pub use tls::{Certificates, TlsServer, Valid};
pub use wait::{children, eventually};

use std::time::Duration;

/// How long a test waits for something that must come. Only a failing test waits so long.
pub const PATIENCE: Duration = Duration::from_secs(30);
