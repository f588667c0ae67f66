//! SIGUSR2: a new process takes the place of the running one, and no request fails.

mod command;
mod failures;
mod load;
mod rig;
mod service_manager;
mod signals;
mod sockets;
