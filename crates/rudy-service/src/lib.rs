//! The boundary between connections and the code that responds to their requests, without sockets or engines.
//!
//! A [`Service`] responds to a [`Request`] of a [`Client`] with a [`Response`], now or later ([`Reply`]). A connection of any protocol calls
//! it, and polls its futures and bodies.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod body;
mod client;
pub mod context;
mod deadline;
pub mod file;
mod limits;
pub mod listen_address;
mod local_address;
mod message;
mod observer;
mod pipe;
mod request_body;
mod service;
mod sync;
mod upgrade;
mod worker_thread;

pub use body::{Body, BodyError, BodyPiece, BodyStream, FileRange, GATHERED_BYTES};
pub use client::{Client, Forwarded, Peer};
pub use context::{asking, collect_interim, poll_time, send_interim, wake_at, without_interim};
pub use deadline::Deadline;
pub use limits::Limits;
pub use local_address::{LocalAddress, LocalAddressCache};
pub use message::{Head, Reply, Request, Response};
pub use observer::{EndReason, ExchangeOutcome, Observer};
pub use pipe::Piped;
pub use request_body::{BodySender, RequestBody, RequestBodyError};
pub use service::{Service, ServiceSource};
pub use upgrade::{Takeover, TlsChoice, Upgrade, Upgraded, UpgradedConnection, UpgradedIo};
pub use worker_thread::{WorkerThread, current_runtime};
