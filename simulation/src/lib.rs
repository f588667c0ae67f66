//! The whole server in a simulation: one thread, virtual time, a network in memory, and a seed that decides everything.
//!
//! [`run()`] makes a world from a seed: a server with a configuration, applications behind it, clients that follow the protocols and
//! clients that do not. A [`Judge`](judge::Judge) decides whether what happens may happen. The same seed gives the same
//! [trace](trace::Trace), whose story says what happened.

#![forbid(unsafe_code)]

mod applications;
mod attacker;
mod behaviour;
mod cached;
mod client;
mod content;
pub mod disk;
mod fastcgi_origin;
mod http2_client;
mod http2_origin;
mod http3;
pub mod judge;
pub mod network;
mod operator;
mod origin;
mod process;
mod request;
mod run;
mod settings;
mod shrink;
mod tls;
pub mod trace;

pub use run::{Options, Outcome, run};
pub use shrink::{Reduction, shrink};
