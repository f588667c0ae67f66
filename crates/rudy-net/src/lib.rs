//! Network I/O of the server: listeners, engines (the concurrency models), the driver between transports and
//! protocol state machines, closing, and the limits that span connections.
//!
//! The content comes from a [`Service`](rudy_service::Service).

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod active;
mod address_key;
pub mod close;
pub mod connection;
mod driver;
pub mod engine;
pub mod listen;
pub mod network;
pub mod proxy_header;
mod quic;
mod scratch;
mod sync;
mod timers;
mod tls;
pub mod transport;
mod unavailable;
mod wire;
mod worker;
mod yield_now;

pub use active::{ActiveExchange, ExchangePhase};
pub use driver::http2_stored_bytes;
pub use rudy_quic::Keys as QuicKeys;
pub use worker::{ConnectionStates, Counter, Counters, Http3Counters, Question, Worker};
