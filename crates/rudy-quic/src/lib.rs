//! QUIC (RFC 9000), without HTTP: what the state machines of [`quinn_proto`] need of a server.
//!
//! They decide about packets, loss and congestion. Here are the TLS of sites ([`ServerCrypto`]), the ids of connections
//! ([`Ids`]), the limits on the memory of a connection ([`Transport`]), what waits on its [`streams`], and UDP sockets that receive and
//! send many datagrams in a call ([`Datagrams`]).

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod client;
mod crypto;
mod ids;
mod keys;
mod socket;
pub mod streams;
mod transport;

pub use client::{client_config, client_endpoint};
pub use crypto::{ServerCrypto, VERSION_1};
pub use ids::{Ids, Place};
pub use keys::{Keys, SECRET_BYTES, TokenTime};
pub use quinn_proto;
pub use socket::{Datagram, Datagrams, Received};
pub use transport::{SEND_WINDOW_BYTES, Transport};
