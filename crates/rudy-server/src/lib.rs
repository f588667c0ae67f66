//! What stands above the sockets: logs and the running of the server.

pub mod access_log;
pub mod error_log;
mod line_writer;
mod local_time;
