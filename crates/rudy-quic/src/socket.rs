//! UDP sockets that receive and send many datagrams in a call.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use bytes::BytesMut;
use quinn_proto::{EcnCodepoint, Transmit};
use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};

/// Messages that are received in a call. With GRO, each can have up to 64 datagrams.
const MESSAGES: usize = 8;

/// The size of the buffer of a message: the maximum of GRO.
const MESSAGE_BYTES: usize = 64 * 1024;

/// What the kernel can do with a UDP socket, which the caller owns.
#[derive(Debug)]
pub struct Datagrams(UdpSocketState);

/// The buffers for received messages, which the sockets of a thread share.
#[derive(Debug)]
pub struct Received {
    buffer: Box<[u8]>,
    messages: [RecvMeta; MESSAGES],
    count: usize,
}

/// A datagram that was received.
#[derive(Debug)]
pub struct Datagram {
    /// The sender.
    pub from: SocketAddr,
    /// The address that it was sent to.
    pub to: Option<IpAddr>,
    /// Whether a router on the way was congested (RFC 3168).
    pub ecn: Option<EcnCodepoint>,
    /// Its content.
    pub bytes: BytesMut,
}

impl Default for Received {
    fn default() -> Self {
        Self {
            buffer: vec![0; MESSAGES * MESSAGE_BYTES].into(),
            messages: [RecvMeta::default(); MESSAGES],
            count: 0,
        }
    }
}

impl Received {
    /// Returns the memory of the buffers, for a message of any size from elsewhere.
    pub fn buffer(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    /// Takes the datagrams, each of which is copied out of the buffer.
    pub fn take(&mut self) -> impl Iterator<Item = Datagram> {
        let messages = self.messages[..std::mem::take(&mut self.count)].iter();
        messages.zip(self.buffer.chunks(MESSAGE_BYTES)).flat_map(|(message, buffer)| {
            let RecvMeta { addr: from, dst_ip: to, stride, len, .. } = *message;
            let ecn = message.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
            let mut rest = BytesMut::from(&buffer[..len]);
            std::iter::from_fn(move || {
                let bytes = rest.split_to(rest.len().min(stride.max(1)));
                (!bytes.is_empty()).then_some(Datagram { from, to, ecn, bytes })
            })
        })
    }
}

impl Datagrams {
    /// Prepares a bound socket.
    ///
    /// # Errors
    ///
    /// The kernel does not tell the address that a datagram was sent to.
    pub fn new(socket: &impl AsFd) -> io::Result<Self> {
        UdpSocketState::new(UdpSockRef::from(socket)).map(Self)
    }

    /// Receives datagrams.
    ///
    /// # Errors
    ///
    /// None is there (`WouldBlock`), or the kernel reports an error of the network.
    pub fn receive(&self, socket: &impl AsFd, received: &mut Received) -> io::Result<()> {
        let mut buffers = received.buffer.chunks_mut(MESSAGE_BYTES).map(IoSliceMut::new);
        let mut slices: [IoSliceMut<'_>; MESSAGES] =
            std::array::from_fn(|_| buffers.next().unwrap_or_else(|| IoSliceMut::new(&mut [])));
        received.count = self.0.recv(UdpSockRef::from(socket), &mut slices, &mut received.messages)?;
        Ok(())
    }

    /// Sends datagrams of a size to one address, in one call.
    ///
    /// # Errors
    ///
    /// The socket is full (`WouldBlock`), or the network does not accept them.
    pub fn send(&self, socket: &impl AsFd, transmit: &Transmit, contents: &[u8]) -> io::Result<()> {
        let ecn = transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8));
        let transmit = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn,
            contents,
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        self.0.try_send(UdpSockRef::from(socket), &transmit)
    }

    /// Returns how many datagrams can be sent in a call.
    #[must_use]
    pub fn segments_max(&self) -> usize {
        self.0.max_gso_segments()
    }

    /// Whether routers may split datagrams, so that the largest size cannot be found out.
    #[must_use]
    pub fn may_fragment(&self) -> bool {
        self.0.may_fragment()
    }
}
