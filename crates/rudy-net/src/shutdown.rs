//! The calls that end the directions of a socket. [`close`](crate::close) makes them in order.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::Shutdown;

/// Stops writing: the peer reads the end of the input after the last byte.
pub fn stop_writing(socket: impl AsFd) -> io::Result<()> {
    Ok(rustix::net::shutdown(socket, Shutdown::Write)?)
}

/// Stops reading.
pub(crate) fn stop_reading(socket: impl AsFd) {
    // Fails if the connection is broken; then no input can arrive.
    let _ = rustix::net::shutdown(socket, Shutdown::Read);
}

/// Makes the close send a reset. That is the only way to show a truncation to a peer for which the end of the
/// connection is the end of the body.
pub(crate) fn reset_on_close(socket: impl AsFd) -> io::Result<()> {
    socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO))
}

/// Closes a listening TCP socket: its port is free when this returns, and its queued connections are reset.
///
/// The shutdown frees the port. A close alone does not while another process also has the socket, even
/// briefly: a reader of `/proc/PID/fd` such as `ss -p`, or a child between fork and exec.
pub(crate) fn close_listener(listener: impl AsFd) {
    // Fails if the socket does not listen; then it does not block the port.
    let _ = rustix::net::shutdown(&listener, Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_port_of_a_closed_listener_is_free_even_while_its_socket_is_shared() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let _held = listener.try_clone().unwrap();
        close_listener(listener);
        TcpListener::bind(address).unwrap();
    }
}
