//! Tells `rudy reload` what has become of what it asked for. The command listens on a Unix socket whose abstract name has the id of
//! the process that it signals; the server connects to it when it is done. So the server has no socket that others can connect to.

use std::{io, process};

use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, send, socket_with,
};
use rustix::process::geteuid;

use super::signals::Signals;
use crate::reload::OUTCOME_BYTES_MAX;

/// The name that the command listens on for the outcome of a signal to process `pid`.
pub(crate) fn address(pid: u32) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new_abstract_name(format!("rudy-reload-{pid}").as_bytes())?)
}

/// Tells the outcome to the command that waits for it, if one does: of a signal to this process, or to the one before it, which
/// passes on what it is asked.
pub(super) fn report(signals: &Signals, outcome: Result<&str, &str>) {
    let (mark, text) = match outcome {
        Ok(text) => ('+', text),
        Err(text) => ('-', text),
    };
    let text = &text[..text.floor_char_boundary(OUTCOME_BYTES_MAX - 1)];
    for pid in [Some(process::id()), signals.predecessor_pid()].into_iter().flatten() {
        // Mostly no one listens. It is in the log as well.
        let _ = address(pid).and_then(|address| send_outcome(&address, &format!("{mark}{text}")));
    }
}

/// Any user can listen under any abstract name: only root and our own user are told, and none is waited for.
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
