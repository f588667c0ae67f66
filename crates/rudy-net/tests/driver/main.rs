//! The driver on real sockets: bodies both ways, faults in the middle, and how each connection ends.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

#[path = "../engine/support.rs"]
#[expect(dead_code, reason = "shared with the engine's tests, which use more of it")]
mod support;

#[path = "../engine/engines.rs"]
mod engines;

mod answers;
mod bodies;
mod faults;
mod interim;
mod live;
mod pieces;
mod scene;
mod service;
mod timeouts;
mod turns;
mod upgrades;
mod whole;
