//! Reports the result of a reload or an upgrade to `rudy reload`. The command listens on a socket named after the process that it
//! signals, and the server connects to it. So the server itself needs no control socket.
//!
//! The socket is in the folder of the admin sockets, where no other user can take its name, and in the abstract namespace, for servers
//! that do not see the folder.

use std::io::{self, Write};
use std::path::Path;
use std::process;

use rudy_admin::{OUTCOME_BYTES_MAX, outcome_address, outcome_file_name, safe_folders};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, send, socket_with,
};
use rustix::process::geteuid;

use super::signals::Signals;

/// Sends the result to the command that waits for it, if any. It may have signalled this process, or the one that this process
/// replaces, which forwards signals.
pub(super) fn report(signals: &Signals, outcome: Result<&str, &str>) {
    let (mark, text) = match outcome {
        Ok(text) => ('+', text),
        Err(text) => ('-', text),
    };
    let text = &text[..text.floor_char_boundary(OUTCOME_BYTES_MAX - 1)];
    for pid in [Some(process::id()), signals.predecessor_pid()].into_iter().flatten() {
        let message = format!("{mark}{text}");
        // Usually no command is waiting. The result is also in the log.
        let _ = outcome_address(pid).and_then(|address| send_outcome(&address, &message));
        for folder in safe_folders(geteuid().as_raw()) {
            let _ = send_to_file(&folder.join(outcome_file_name(pid)), &message);
        }
    }
}

/// Sends without waiting, and only to root and our own user.
fn send_to_file(path: &Path, text: &str) -> io::Result<()> {
    let mut stream = rudy_socket::file::connect(path)?;
    stream.set_nonblocking(true)?;
    let listener = socket_peercred(&stream)?.uid;
    if listener.is_root() || listener == geteuid() {
        stream.write_all(text.as_bytes())?;
    }
    Ok(())
}

/// Sends without waiting, and only to root and our own user, because any user can listen on any abstract name.
fn send_outcome(address: &SocketAddrUnix, text: &str) -> io::Result<()> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    connect(&socket, address)?;
    let listener = socket_peercred(&socket)?.uid;
    if listener.is_root() || listener == geteuid() {
        send(&socket, text.as_bytes(), SendFlags::NOSIGNAL)?;
    }
    Ok(())
}
