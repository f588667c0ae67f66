//! The HTTP client: what it takes to send a request, and single requests in sequence with the times of their phases.
//!
//! The protocols are the client roles of `rudy-http`. A [`Session`] waits for its connections on the current thread; a caller that has many
//! of them drives each [`Connection`] when its socket is ready.

mod access;
mod back_off;
mod connection;
mod dial;
mod error;
mod exchange;
mod failure;
mod interrupt;
mod observer;
mod options;
mod output;
mod protocols;
mod redirect;
mod relay;
mod report;
mod request;
mod session;
mod sessions;
mod transport;
mod url;
mod waiter;

pub use access::{Access, AccessError, Route, Sessions};
pub use back_off::BackOff;
pub use connection::{Connection, DriveStatus, Observer};
pub use dial::{connect, resolve};
pub use error::Error;
pub use exchange::{Sending, exchange};
pub use failure::{Failure, FailureKind};
pub use interrupt::Interrupt;
pub use options::Options;
pub use output::{Memory, Output};
pub use protocols::Protocols;
pub use redirect::{follow, is_redirect};
pub use relay::Relay;
pub use report::{ConnectionEnd, ConnectionInfo, Head, NewConnectionReason, Phases, Report};
pub use request::{Encoded, Http2Request, Template, parse_field};
pub use rudy_tls::{Trust, TrustError};
pub use session::Session;
pub use sessions::SessionStore;
pub use transport::{EarlyData, Handshake, HandshakeError, Packets, Remote, Security, Traffic, Transport};
pub use url::{Url, UrlError};
pub use waiter::{Stop, Stopped, WaitResult, Waiter};
