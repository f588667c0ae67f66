//! Tests how connections end with any peer, by the state of the kernel's sockets.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

#[path = "../engine/engines.rs"]
mod engines;
#[path = "../driver/service.rs"]
#[expect(dead_code, reason = "shared with the driver's tests, which use more of it")]
mod service;
#[path = "../engine/support.rs"]
#[expect(dead_code, reason = "shared with the engine's tests, which use more of it")]
mod support;

mod client;
mod many;
mod peers;
mod sockets;
mod stop;
