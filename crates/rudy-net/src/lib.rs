//! Network I/O of the server: listeners, engines (the concurrency models), the driver between transports and
//! protocol state machines, closing, and the limits that span connections.
//!
//! The content comes from a [`Service`](rudy_service::Service).

mod active;
mod address_key;
pub mod close;
mod driver;
pub mod engine;
pub mod listen;
pub mod proxy_header;
mod scratch;
mod shutdown;
mod timers;
mod tls;
pub mod transport;
mod unavailable;
mod worker;
mod yield_now;

pub use active::{ActiveExchange, ExchangePhase};
pub use driver::http2_stored_bytes;
// For crates that do not name rudy-service yet.
pub use rudy_service::{
    Body, BodyError, BodyPiece, BodyStream, Client, Deadline, EndReason, ExchangeOutcome, FileRange,
    Forwarded, Head, Limits, LocalAddress, Observer, Peer, Piped, Reply, Request, RequestBody,
    RequestBodyError, Response, Service, Upgrade, Upgraded, UpgradedIo, WorkerThread, asking,
    collect_interim, current_runtime, file, poll_time, send_interim, wake_at, without_interim,
};
pub use rudy_tls::{ClientHello, Tls, TlsSite};
pub use worker::{ConnectionStates, Counter, Counters, Question, Worker};
