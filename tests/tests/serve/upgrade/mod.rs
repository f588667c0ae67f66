//! SIGUSR2: a new process replaces the running one, and no request fails.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod command;
mod failures;
mod http3;
mod load;
pub(crate) mod rig;
mod service_manager;
mod signals;
mod sockets;
