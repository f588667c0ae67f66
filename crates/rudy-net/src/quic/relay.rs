//! The way of datagrams between two processes that share the sockets of HTTP/3 during an upgrade: each reads what arrives for the other.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use rudy_quic::Datagram;
use rudy_quic::quinn_proto::EcnCodepoint;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, recv, sendmsg,
    socketpair, sockopt,
};
use tokio::io::Interest;
use tokio::net::UnixStream;

/// What may wait for the other process, with what the kernel needs for it: a few hundred datagrams. When there are more, they are dropped,
/// so that neither a process that hangs nor ids that an attacker has guessed use more memory.
const QUEUE_BYTES: usize = 1024 * 1024;

/// The size of a head: ECN, the sender's address, port and scope, and the receiver's address.
const HEAD_BYTES: usize = 1 + (1 + 16) + 2 + 4 + (1 + 16);

// Kinds of addresses. A socket of IPv6 has those of IPv4 in its own form (RFC 4291 §2.5.5.2).
const NO_ADDRESS: u8 = 0;
const IPV4: u8 = 4;
const IPV6: u8 = 6;

/// One end of the way. The socket is `SOCK_SEQPACKET`: a message for each datagram, and its end is noticed. tokio's `UnixStream` only waits
/// for readiness.
pub(crate) struct Relay(UnixStream);

/// The other process has ended.
#[derive(Debug)]
pub(crate) struct Gone;

impl Relay {
    /// Creates both ends of a way.
    pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        for end in [&pair.0, &pair.1] {
            sockopt::set_socket_send_buffer_size(end, QUEUE_BYTES)?;
        }
        Ok(pair)
    }

    /// Uses an end. The current runtime polls it.
    pub(crate) fn new(end: OwnedFd) -> io::Result<Self> {
        UnixStream::from_std(end.into()).map(Self)
    }

    /// Passes a datagram to the other process. Returns whether it had room.
    pub(super) fn pass(&self, datagram: &Datagram) -> Result<bool, Gone> {
        let head = head(datagram);
        let parts = [IoSlice::new(&head), IoSlice::new(&datagram.bytes)];
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match sendmsg(&self.0, &parts, &mut SendAncillaryBuffer::default(), flags) {
            Ok(_) => Ok(true),
            Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => Err(Gone),
            Err(_) => Ok(false),
        }
    }

    /// Receives a datagram that the other process has passed on, unless that has ended. `buffer` has room for the largest.
    pub(super) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<Result<Datagram, Gone>> {
        loop {
            ready!(self.0.poll_read_ready(cx)).map_err(|_| Gone)?;
            let receive = || Ok(recv(&self.0, &mut *buffer, RecvFlags::DONTWAIT)?.1);
            match self.0.try_io(Interest::READABLE, receive) {
                Ok(0) => return Poll::Ready(Err(Gone)),
                // A message of another version is no datagram.
                Ok(length) => {
                    if let Some(datagram) = read(&buffer[..length]) {
                        return Poll::Ready(Ok(datagram));
                    }
                }
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(_) => return Poll::Ready(Err(Gone)),
            }
        }
    }
}

fn head(datagram: &Datagram) -> [u8; HEAD_BYTES] {
    let Datagram { from, to, ecn, .. } = datagram;
    let (from_kind, from_ip) = octets(Some(from.ip()));
    let (to_kind, to_ip) = octets(*to);
    let scope = if let SocketAddr::V6(from) = from { from.scope_id() } else { 0 };
    let parts: [&[u8]; 7] = [
        &[ecn.map_or(0, |ecn| ecn as u8)],
        &[from_kind],
        &from_ip,
        &from.port().to_be_bytes(),
        &scope.to_be_bytes(),
        &[to_kind],
        &to_ip,
    ];
    let mut head = [0; HEAD_BYTES];
    head.iter_mut().zip(parts.into_iter().flatten()).for_each(|(byte, part)| *byte = *part);
    head
}

/// Returns which kind of address it is, and the address.
fn octets(ip: Option<IpAddr>) -> (u8, [u8; 16]) {
    match ip {
        None => (NO_ADDRESS, [0; 16]),
        Some(IpAddr::V4(ip)) => (IPV4, ip.to_ipv6_mapped().octets()),
        Some(IpAddr::V6(ip)) => (IPV6, ip.octets()),
    }
}

fn read_ip(message: &[u8]) -> Option<(Option<IpAddr>, &[u8])> {
    let ([kind], rest) = message.split_first_chunk()?;
    let (octets, rest) = rest.split_first_chunk::<16>()?;
    let ip = match *kind {
        NO_ADDRESS => None,
        IPV4 => Some(IpAddr::from(*octets).to_canonical()),
        IPV6 => Some(IpAddr::from(*octets)),
        _ => return None,
    };
    Some((ip, rest))
}

fn read(message: &[u8]) -> Option<Datagram> {
    let (ecn, rest) = message.split_first()?;
    let (ip, rest) = read_ip(rest)?;
    let (port, rest) = rest.split_first_chunk()?;
    let (scope, rest) = rest.split_first_chunk()?;
    let (to, bytes) = read_ip(rest)?;
    let mut from = SocketAddr::new(ip?, u16::from_be_bytes(*port));
    if let SocketAddr::V6(from) = &mut from {
        from.set_scope_id(u32::from_be_bytes(*scope));
    }
    Some(Datagram { from, to, ecn: EcnCodepoint::from_bits(*ecn), bytes: BytesMut::from(bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(from: &str, to: Option<&str>, length: usize) -> Datagram {
        Datagram {
            from: from.parse().unwrap(),
            to: to.map(|to| to.parse().unwrap()),
            ecn: Some(EcnCodepoint::Ce),
            bytes: BytesMut::from_iter(vec![7; length]),
        }
    }

    async fn receive(relay: &Relay) -> Result<Datagram, Gone> {
        let mut buffer = vec![0; 1 << 16];
        std::future::poll_fn(|cx| relay.poll_receive(cx, &mut buffer)).await
    }

    #[tokio::test]
    async fn datagrams_arrive_as_they_were_received() {
        let (ours, theirs) = Relay::pair().unwrap();
        let (ours, theirs) = (Relay::new(ours).unwrap(), Relay::new(theirs).unwrap());
        let passed = [
            datagram("192.0.2.1:4000", Some("192.0.2.2"), 1200),
            datagram("[::ffff:192.0.2.1]:4000", Some("::ffff:192.0.2.2"), 1),
            datagram("[fe80::1%3]:65535", None, 65_000),
        ];
        for datagram in passed {
            assert!(ours.pass(&datagram).unwrap());
            let received = receive(&theirs).await.unwrap();
            assert_eq!(format!("{received:?}"), format!("{datagram:?}"));
        }
    }

    #[tokio::test]
    async fn what_finds_no_room_is_dropped_and_the_end_is_noticed() {
        let (ours, theirs) = Relay::pair().unwrap();
        let (ours, theirs) = (Relay::new(ours).unwrap(), Relay::new(theirs).unwrap());
        let datagram = datagram("192.0.2.1:4000", None, 1200);
        let passed = (0..10_000).take_while(|_| ours.pass(&datagram).unwrap()).count();
        assert!((100..2000).contains(&passed), "{passed}");
        for _ in 0..passed {
            receive(&theirs).await.unwrap();
        }
        assert!(ours.pass(&datagram).unwrap());
        drop(theirs);
        assert!(ours.pass(&datagram).is_err());
        assert!(receive(&ours).await.is_err());
    }

    #[test]
    fn what_is_no_datagram_is_not_read() {
        let mut message = head(&datagram("192.0.2.1:1", None, 0));
        assert!((0..HEAD_BYTES).all(|length| read(&message[..length]).is_none()));
        assert!(read(&message).is_some());
        message[1] = 9;
        assert!(read(&message).is_none());
    }
}
