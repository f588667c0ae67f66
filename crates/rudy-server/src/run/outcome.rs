//! Reports the result of a reload or an upgrade to `rudy reload`. The command listens on an abstract Unix socket, named after the
//! process that it signals, and the server connects to it. So the server itself needs no control socket.

use std::{io, process};

use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, send, socket_with,
};
use rustix::process::geteuid;

use super::signals::Signals;
use crate::reload::OUTCOME_BYTES_MAX;

/// The address on which the command waits for the result of a signal to process `pid`.
pub(crate) fn address(pid: u32) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new_abstract_name(format!("rudy-reload-{pid}").as_bytes())?)
}

/// Sends the result to the command that waits for it, if any. It may have signalled this process, or the one that this process
/// replaces, which forwards signals.
pub(super) fn report(signals: &Signals, outcome: Result<&str, &str>) {
    let (mark, text) = match outcome {
        Ok(text) => ('+', text),
        Err(text) => ('-', text),
    };
    let text = &text[..text.floor_char_boundary(OUTCOME_BYTES_MAX - 1)];
    for pid in [Some(process::id()), signals.predecessor_pid()].into_iter().flatten() {
        // Usually no command is waiting. The result is also in the log.
        let _ = address(pid).and_then(|address| send_outcome(&address, &format!("{mark}{text}")));
    }
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
