//! Network I/O of the server: listeners, engines (the concurrency models), the driver between transports and
//! protocol state machines, closing, and the limits that span connections.
//!
//! The content comes from a [`Service`], which responds to a [`Request`] with a [`Response`].

mod active;
mod address_key;
mod body;
mod client;
pub mod close;
mod context;
mod deadline;
mod driver;
pub mod engine;
pub mod file;
mod limits;
pub mod listen;
mod listen_address;
mod local_address;
mod message;
mod observer;
mod pipe;
pub mod proxy_header;
mod request_body;
mod scratch;
mod service;
mod shutdown;
mod timers;
mod tls;
pub mod transport;
mod unavailable;
mod upgrade;
mod worker;
mod worker_thread;
mod yield_now;

pub use active::{ActiveExchange, ExchangePhase};
pub use body::{Body, BodyError, BodyPiece, BodyStream, FileRange};
pub use client::{Client, Forwarded, Peer};
pub use context::{asking, collect_interim, poll_time, send_interim, wake_at, without_interim};
pub use deadline::Deadline;
pub use driver::http2_stored_bytes;
pub use limits::Limits;
pub use local_address::LocalAddress;
pub use message::{Head, Reply, Request, Response};
pub use observer::{EndReason, ExchangeOutcome, Observer};
pub use pipe::Piped;
pub use request_body::{RequestBody, RequestBodyError};
pub use rudy_tls::{ClientHello, Tls, TlsSite};
pub use service::Service;
pub use upgrade::{Upgrade, Upgraded, UpgradedConnection, UpgradedIo};
pub use worker::{ConnectionStates, Counter, Counters, Question, Worker};
pub use worker_thread::{WorkerThread, current_runtime};
