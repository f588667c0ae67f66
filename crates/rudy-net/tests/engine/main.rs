//! The default engine on real sockets: accepting, limits, listening and no longer listening, stopping.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod addresses;
mod descriptors;
mod limits;
mod listen;
mod stop;
mod support;
