//! Closes a connection without waiting.
//!
//! There are four steps: stop writing, drain the input, stop reading, close. Each may fail, because the peer is gone or does not respond,
//! and a failure never prevents the next step. Dropping the owner closes the descriptor. `rudy-net` waits between these steps.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::{RecvFlags, Shutdown};

/// Maximum number of bytes to discard when the close cannot wait: a request, or the buffered part of an
/// upload.
const DRAIN_BYTES_MAX: usize = 64 * 1024;

/// How to close a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseMode {
    /// We have sent everything, and the peer may still be sending: drain its input until it closes.
    Linger,
    /// No exchange is in progress: do not wait for the peer.
    NoLinger,
    /// The peer has closed, its input is read, and no exchange is in progress: only close the descriptor.
    /// That needs one system call instead of four. A TLS session sends its close notification first.
    PeerClosed,
    /// The response is incomplete and would look complete, or the connection is broken: reset it.
    Reset,
}

/// Closes a connection without waiting, for use outside of a task or runtime. The steps are the same, but
/// input that arrives later causes a reset.
pub fn close_at_once(io: impl AsFd, mode: CloseMode) {
    finish(&io, mode, false, false);
}

/// Takes the remaining steps; a failure does not prevent the next step. Dropping `io` is the last step.
pub fn finish(io: &impl AsFd, mode: CloseMode, has_stopped_writing: bool, has_drained: bool) {
    match mode {
        CloseMode::PeerClosed => return,
        CloseMode::Reset => {
            // If this fails the peer sees an orderly close; a length or a missing last chunk still shows the
            // truncation.
            let _ = reset_on_close(io);
            return;
        }
        CloseMode::Linger | CloseMode::NoLinger => {}
    }
    // 1. Stop writing. Fails if the peer is gone.
    if !has_stopped_writing {
        let _ = stop_writing(io);
    }
    // 2. Drain the input.
    if !has_drained {
        drain_without_waiting(io);
    }
    // 3. Stop reading.
    stop_reading(io);
}

/// Discards what the kernel has buffered, up to [`DRAIN_BYTES_MAX`].
fn drain_without_waiting(socket: impl AsFd) {
    let mut buffer = [0; 4096];
    for _ in 0..DRAIN_BYTES_MAX / buffer.len() {
        match rustix::net::recv(&socket, &mut buffer, RecvFlags::DONTWAIT) {
            Ok((_, 1..)) => {}
            Ok((_, 0)) | Err(_) => return,
        }
    }
}

/// Stops writing: the peer reads the end of the input after the last byte.
pub fn stop_writing(socket: impl AsFd) -> io::Result<()> {
    Ok(rustix::net::shutdown(socket, Shutdown::Write)?)
}

/// Stops reading.
fn stop_reading(socket: impl AsFd) {
    // Fails if the connection is broken; then no input can arrive.
    let _ = rustix::net::shutdown(socket, Shutdown::Read);
}

/// Makes the close send a reset. That is the only way to show a truncation to a peer for which the end of the
/// connection is the end of the body.
fn reset_on_close(socket: impl AsFd) -> io::Result<()> {
    socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO))
}

/// Closes a listening TCP socket: its port is free when this returns, and its queued connections are reset.
///
/// The shutdown frees the port. A close alone does not while another process also has the socket, even
/// briefly: a reader of `/proc/PID/fd` such as `ss -p`, or a child between fork and exec.
pub fn close_listener(listener: impl AsFd) {
    // Fails if the socket does not listen; then it does not block the port.
    let _ = rustix::net::shutdown(&listener, Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_port_of_a_closed_listener_is_free_even_while_its_socket_is_shared() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let _held = listener.try_clone().unwrap();
        close_listener(listener);
        TcpListener::bind(address).unwrap();
    }

    #[test]
    fn a_close_without_waiting_drains_buffered_input_up_to_a_limit() {
        for (sent, left) in [(0, 0), (1, 0), (DRAIN_BYTES_MAX, 0), (DRAIN_BYTES_MAX + 1, 1)] {
            let (socket, mut peer) = UnixStream::pair().unwrap();
            peer.write_all(&vec![b'x'; sent]).unwrap();
            let again = socket.try_clone().unwrap();
            close_at_once(socket, CloseMode::NoLinger);
            assert_eq!(rustix::io::ioctl_fionread(&again).unwrap(), left, "{sent}");
        }
    }
}
