//! Everything that touches a socket: listeners, the concurrency model, the driver that moves bytes between a socket and
//! a protocol machine, the close that cannot leak, and the limits that hold across connections.
//!
//! What is served is none of its business: a [`Service`] answers a [`Request`] with a [`Response`].

pub mod close;
mod connection;
mod deadline;
pub mod engine;
pub mod file;
pub mod listen;
mod local;
mod message;
mod request_body;
mod scratch;
mod service;
mod timers;
pub mod transport;
mod worker;

pub use deadline::{Deadline, poll_time};
pub use local::Local;
pub use message::{
    Body, BodyError, BodyPiece, BodyStream, FileRange, Head, Live, Part, Reply, Request, Response, Upgrade,
    Upgraded,
};
pub use request_body::{RequestBody, RequestBodyError};
pub use service::{Call, Client, Ended, Limits, Observer, Outcome, Peer, Service};
pub use worker::{Count, Counters, Worker};
