//! Tests the driver on real sockets: bodies in both directions, failures, and how connections end.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

#[path = "../engine/support.rs"]
#[expect(dead_code, reason = "shared with the engine's tests, which use more of it")]
mod support;

#[path = "../engine/engines.rs"]
mod engines;

mod bodies;
mod fairness;
mod faults;
mod interim;
mod live;
mod pieces;
mod responses;
mod scene;
mod service;
mod timeouts;
mod tunnels;
mod upgrades;
mod whole_bodies;
