//! Tests the engines on real sockets: accepting, limits, listening, stopping.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod addresses;
mod descriptors;
mod engines;
mod eviction;
mod limits;
mod listen;
mod proxies;
mod reload;
mod share;
mod stop;
mod support;
mod threads;
mod worker_threads;
