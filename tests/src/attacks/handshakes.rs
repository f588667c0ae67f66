//! TLS handshakes that do not end.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::outcome::{End, Outcome};
use super::target::Target;
use crate::PATIENCE;
use crate::tls::client;

/// Sends a `ClientHello` on each connection, byte by byte and on all at the same time. Waits for the `ServerHello`, and sends no more.
pub(super) fn by_byte(target: &Target, connections: u32) -> Outcome {
    let (hello, mut sockets) = (hello(target), connect(target.address(), connections));
    for byte in hello.chunks(1) {
        for socket in &mut sockets {
            // Fails if the server has closed the connection, which the read below notices.
            let _ = socket.write_all(byte);
        }
    }
    let mut outcome = Outcome::default();
    for mut socket in sockets {
        let has_response = socket.read(&mut [0]).is_ok_and(|length| length > 0);
        outcome.add(if has_response { End::Open } else { End::Closed }, 1, socket);
    }
    outcome
}

/// Sends the first half of a `ClientHello` on each connection.
pub(super) fn half(target: &Target, connections: u32) -> Outcome {
    let hello = hello(target);
    let mut outcome = Outcome::default();
    for mut socket in connect(target.address(), connections) {
        socket.write_all(&hello[..hello.len() / 2]).expect("the server reads");
        outcome.add(End::Open, 1, socket);
    }
    outcome
}

/// Returns the first message of a client.
fn hello(target: &Target) -> Vec<u8> {
    let mut hello = Vec::new();
    let config = target.tls().expect("the server has a certificate").config();
    client(&config).write_tls(&mut hello).expect("writing to memory");
    hello
}

fn connect(address: SocketAddr, connections: u32) -> Vec<TcpStream> {
    let connect = |_| {
        let socket = TcpStream::connect(address).expect("the server listens");
        socket.set_nodelay(true).expect("TCP supports it");
        socket.set_read_timeout(Some(PATIENCE)).expect("the timeout is not zero");
        socket
    };
    (0..connections).map(connect).collect()
}
