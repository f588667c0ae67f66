//! Where a running server reports the result of a reload or an upgrade: see `rudy reload`.

use std::io;

use rustix::net::SocketAddrUnix;

/// The maximum size of a result, which can contain the errors of a configuration. The log has all of them.
pub const OUTCOME_BYTES_MAX: usize = 64 * 1024;

/// Returns the address on which the command waits for the result of a signal to process `pid`.
///
/// # Errors
///
/// None in practice: the name is shorter than the system allows.
pub fn outcome_address(pid: u32) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new_abstract_name(format!("rudy-reload-{pid}").as_bytes())?)
}

/// Returns the name of that socket in the folder of the admin sockets.
#[must_use]
pub fn outcome_file_name(pid: u32) -> String {
    format!("reload-{pid}.sock")
}
