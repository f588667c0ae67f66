//! The floor: what the kernel alone costs a server that waits with epoll.
//!
//! Receives, sends one of two answers made beforehand, and does nothing else: no parsing, no limits, no timeouts. A server
//! that does its work between the same two calls cannot cost less, so a target below this one's ratio cannot be reached in
//! this way on this machine.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, accept_with, bind, listen, recv, send,
    socket_with, sockopt,
};

use crate::Outcome;

const BACKLOG: i32 = 4096;
const READ_BYTES: usize = 64 * 1024;
const EVENTS: usize = 1024;
const BODY_BYTES: usize = 1024;
/// How a conditional request of the load ends.
const CONDITION: &[u8] = b"If-None-Match: *\r\n\r\n";

/// Serves on `address` until it is killed.
pub(crate) fn serve(address: SocketAddrV4) -> Outcome {
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let running: Vec<_> = (0..threads).map(|_| thread::spawn(move || Loop::new(address)?.run())).collect();
    for thread in running {
        let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")));
        ended.map_err(|error| format!("cannot serve on {address}: {error}"))?;
    }
    Ok(())
}

/// One thread's sockets.
struct Loop {
    poller: OwnedFd,
    listener: OwnedFd,
    /// By descriptor.
    connections: Vec<Option<OwnedFd>>,
    whole: Answer,
    not_modified: Answer,
}

/// An answer as it goes on the wire.
struct Answer {
    bytes: Vec<u8>,
    head_bytes: usize,
}

impl Answer {
    fn new(status: &str, body_bytes: usize) -> Self {
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\netag: \"400-0123456789abcdef-0123456\"\r\n\
             last-modified: Sat, 21 Nov 2026 02:44:00 GMT\r\naccept-ranges: bytes\r\ndate: Sat, 21 Nov 2026 02:44:00 GMT\r\n\r\n"
        );
        let (head_bytes, mut bytes) = (head.len(), head.into_bytes());
        bytes.resize(head_bytes + body_bytes, b'x');
        Self { bytes, head_bytes }
    }
}

impl Loop {
    fn new(address: SocketAddrV4) -> io::Result<Self> {
        let listener = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::NONBLOCK, None)?;
        sockopt::set_socket_reuseaddr(&listener, true)?;
        sockopt::set_socket_reuseport(&listener, true)?;
        sockopt::set_tcp_nodelay(&listener, true)?;
        bind(&listener, &SocketAddr::V4(address))?;
        listen(&listener, BACKLOG)?;
        let poller = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&poller, &listener, EventData::new_u64(data(&listener)), EventFlags::IN)?;
        let whole = Answer::new(&format!("200 OK\r\ncontent-length: {BODY_BYTES}"), BODY_BYTES);
        let not_modified = Answer::new("304 Not Modified", 0);
        Ok(Self { poller, listener, connections: Vec::new(), whole, not_modified })
    }

    fn run(&mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS);
        let mut buffer = vec![0; READ_BYTES];
        loop {
            events.clear();
            epoll::wait(&self.poller, spare_capacity(&mut events), None)?;
            for event in &events {
                let key = event.data.u64();
                if key == data(&self.listener) {
                    self.accept()?;
                } else {
                    self.answer(key, &mut buffer);
                }
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        while let Ok(connection) = accept_with(&self.listener, SocketFlags::NONBLOCK) {
            let key = data(&connection);
            epoll::add(&self.poller, &connection, EventData::new_u64(key), EventFlags::IN | EventFlags::ET)?;
            let index = connection.as_raw_fd().unsigned_abs() as usize;
            self.connections.resize_with(self.connections.len().max(index + 1), || None);
            self.connections[index] = Some(connection);
        }
        Ok(())
    }

    fn answer(&mut self, key: u64, buffer: &mut [u8]) {
        let Some(place) = usize::try_from(key).ok().and_then(|index| self.connections.get_mut(index)) else {
            return;
        };
        let Some(connection) = place else { return };
        let request = match recv(&*connection, &mut *buffer, RecvFlags::empty()) {
            Ok((read @ 1.., _)) => &buffer[..read],
            Err(rustix::io::Errno::AGAIN) => return,
            _ => return *place = None,
        };
        let is_conditional = request.ends_with(CONDITION);
        // The measurement asks once by HEAD before the load; that request alone ends its connection.
        if request.starts_with(b"HEAD") {
            let is_conditional = request.windows(CONDITION.len() - 2).any(|part| CONDITION.starts_with(part));
            let answer = if is_conditional { &self.not_modified } else { &self.whole };
            // If it fails the measurement says so.
            let _ = send(&*connection, &answer.bytes[..answer.head_bytes], SendFlags::NOSIGNAL);
            return *place = None;
        }
        let answer = if is_conditional { &self.not_modified } else { &self.whole };
        if send(&*connection, &answer.bytes, SendFlags::NOSIGNAL).is_err() {
            *place = None;
        }
    }
}

fn data(socket: &OwnedFd) -> u64 {
    u64::from(socket.as_raw_fd().unsigned_abs())
}
