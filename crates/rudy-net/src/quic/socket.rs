//! The socket of an endpoint.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use rudy_quic::quinn_proto::Transmit;
use rudy_quic::{Datagram, Datagrams, Received};
use rudy_runtime::clock;
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::listen::Http3Socket;
use crate::network::DatagramSocket;

/// How many datagrams a call sends on another network.
const SEGMENTS_OF_OTHERS: usize = 10;

/// A socket, which the current runtime polls.
pub(super) struct Socket {
    local: SocketAddr,
    kind: Kind,
}

enum Kind {
    Kernel(UdpSocket, Datagrams),
    /// Of another network.
    Other(Box<dyn DatagramSocket>),
}

impl Socket {
    pub(super) fn new(socket: Http3Socket) -> io::Result<Self> {
        Ok(match socket {
            Http3Socket::Udp(socket) => {
                let (local, datagrams) = (socket.local_addr()?, Datagrams::new(&socket)?);
                Self { local, kind: Kind::Kernel(UdpSocket::from_std(socket)?, datagrams) }
            }
            Http3Socket::Other(local, socket) => Self { local, kind: Kind::Other(socket) },
        })
    }

    /// Returns its address.
    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Returns the socket, if it is one of the kernel.
    pub(super) fn of_kernel(&self) -> Option<&UdpSocket> {
        match &self.kind {
            Kind::Kernel(socket, _) => Some(socket),
            Kind::Other(_) => None,
        }
    }

    /// Duplicates it, for another process. `None` if that cannot have it.
    pub(super) fn duplicate(&self) -> io::Result<Option<Http3Socket>> {
        match &self.kind {
            Kind::Kernel(socket, _) => {
                let socket = socket.as_fd().try_clone_to_owned()?;
                Ok(Some(Http3Socket::Udp(socket.into())))
            }
            Kind::Other(_) => Ok(None),
        }
    }

    /// Receives, once; `received` is a buffer. Passes each datagram to `handle`, with the time.
    pub(super) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        received: &mut Received,
        mut handle: impl FnMut(Datagram, Instant),
    ) -> Poll<io::Result<()>> {
        match &self.kind {
            Kind::Kernel(socket, datagrams) => {
                ready!(socket.poll_recv_ready(cx))?;
                let receive = || datagrams.receive(socket, received);
                // Others than `WouldBlock` are errors of the network, which concern a datagram that was sent.
                if socket.try_io(Interest::READABLE, receive).is_ok() {
                    let now = clock::now();
                    received.take().for_each(|datagram| handle(datagram, now));
                }
            }
            Kind::Other(socket) => handle(ready!(socket.poll_receive(cx)), clock::now()),
        }
        Poll::Ready(Ok(()))
    }

    /// Sends datagrams of a size to one address.
    pub(super) fn send(&self, transmit: &Transmit, contents: &[u8]) -> io::Result<()> {
        match &self.kind {
            Kind::Kernel(socket, datagrams) => {
                socket.try_io(Interest::WRITABLE, || datagrams.send(socket, transmit, contents))
            }
            Kind::Other(socket) => socket.send(transmit, contents),
        }
    }

    /// Ready when the socket may accept something.
    pub(super) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.kind {
            Kind::Kernel(socket, _) => socket.poll_send_ready(cx),
            Kind::Other(socket) => socket.poll_writable(cx).map(Ok),
        }
    }

    /// Returns how many datagrams can be sent in a call.
    pub(super) fn segments_max(&self) -> usize {
        match &self.kind {
            Kind::Kernel(_, datagrams) => datagrams.segments_max(),
            Kind::Other(_) => SEGMENTS_OF_OTHERS,
        }
    }

    /// Whether routers may split datagrams, so that the largest size cannot be found out.
    pub(super) fn may_fragment(&self) -> bool {
        match &self.kind {
            Kind::Kernel(_, datagrams) => datagrams.may_fragment(),
            Kind::Other(_) => false,
        }
    }
}
