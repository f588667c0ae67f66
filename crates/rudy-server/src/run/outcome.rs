//! Reports the result of a reload or an upgrade to `rudy reload`. The command listens on a socket named after the process that it
//! signals, and the server connects to it. So the server itself needs no control socket.
//!
//! The socket is in the folder of the admin sockets, where no other user can take its name, and in the abstract namespace, for servers
//! that do not see the folder.

use std::io;
use std::os::fd::OwnedFd;
use std::process;

use rudy_admin::{OUTCOME_BYTES_MAX, outcome_address, outcome_file_name, safe_folders};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, connect, send, socket_with};
use rustix::process::geteuid;

use super::signals::Signals;

/// Sends the result of the signal with this name to the command that waits for it, if any. It may have signalled this process, or the one
/// that this process replaces, which forwards signals. A command that has sent another signal goes on waiting.
pub(super) fn report(signals: &Signals, name: &str, outcome: Result<&str, &str>) {
    let (mark, text) = match outcome {
        Ok(text) => ('+', text),
        Err(text) => ('-', text),
    };
    let mut message = format!("{name}{mark}{text}");
    message.truncate(message.floor_char_boundary(OUTCOME_BYTES_MAX));
    let pids = [Some(process::id()), signals.predecessor_pid()];
    // Before the first result is sent: a command ends with it, and the next one must not get the second for its own.
    let sockets: Vec<_> = pids.into_iter().flatten().flat_map(sockets).collect();
    for socket in sockets {
        // Usually no command is waiting. The result is also in the log.
        let _ = send(&socket, message.as_bytes(), SendFlags::NOSIGNAL);
    }
}

/// Connects to the sockets on which root or our own user waits for the result of a process. Any user can listen on an abstract name.
fn sockets(pid: u32) -> impl Iterator<Item = OwnedFd> {
    let by_name = outcome_address(pid).and_then(|address| {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        connect(&socket, &address)?;
        Ok(socket)
    });
    let in_folders = safe_folders(geteuid().as_raw()).map(move |folder| {
        let stream = rudy_socket::file::connect(&folder.join(outcome_file_name(pid)))?;
        stream.set_nonblocking(true)?;
        Ok(OwnedFd::from(stream))
    });
    let is_ours = |socket: &OwnedFd| {
        socket_peercred(socket).is_ok_and(|listener| listener.uid.is_root() || listener.uid == geteuid())
    };
    [by_name].into_iter().chain(in_folders).filter_map(io::Result::ok).filter(is_ours)
}
