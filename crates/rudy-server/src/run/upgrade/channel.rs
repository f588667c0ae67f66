//! The channel between the old and the new process of an upgrade: short texts with file descriptors over a socket pair.
//!
//! The descriptors are sent with `SCM_RIGHTS`. Inheriting them with `LISTEN_FDS` would need fixed numbers and the process id of the
//! new program in `LISTEN_PID`, both set between `fork` and `exec`.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::str;

use rustix::cmsg_space;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use tokio::io::Interest;
use tokio::net::UnixStream;

/// The maximum number of descriptors per message: `SCM_MAX_FD` of the kernel.
pub(super) const DESCRIPTORS_MAX: usize = 253;
/// The maximum size of a message. The longest contain a socket path or an error.
const MESSAGE_BYTES_MAX: usize = 4096;

/// One end of the channel, which is closed when the other process ends. The socket is `SOCK_SEQPACKET`; tokio's `UnixStream` only
/// waits for readiness.
pub(super) struct Channel(UnixStream);

/// A received message.
pub(super) struct Message {
    pub(super) text: String,
    pub(super) descriptors: Vec<OwnedFd>,
}

impl Channel {
    /// Creates a channel: one end for this process, the other to pass on.
    pub(super) fn pair() -> io::Result<(Self, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Self::new(ours)?, theirs))
    }

    /// Must be called on a tokio runtime.
    pub(super) fn new(socket: OwnedFd) -> io::Result<Self> {
        UnixStream::from_std(socket.into()).map(Self)
    }

    /// Sends a text, truncated to the maximum size, with at most [`DESCRIPTORS_MAX`] descriptors.
    pub(super) async fn send(&self, text: &str, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.0.async_io(Interest::WRITABLE, || try_send(&self.0, text, descriptors)).await
    }

    /// Sends a text without waiting. Errors are ignored: the other process has ended.
    pub(super) fn send_now(&self, text: &str) {
        let _ = try_send(&self.0, text, &[]);
    }

    /// Receives a message; `None` when the other process has ended.
    pub(super) async fn receive(&self) -> io::Result<Option<Message>> {
        self.0.async_io(Interest::READABLE, || try_receive(&self.0)).await
    }
}

fn try_send(socket: &UnixStream, text: &str, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many descriptors for one message"));
    }
    let text = &text[..text.floor_char_boundary(MESSAGE_BYTES_MAX)];
    sendmsg(socket, &[IoSlice::new(text.as_bytes())], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn try_receive(socket: &UnixStream) -> io::Result<Option<Message>> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; MESSAGE_BYTES_MAX];
    let received =
        match recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            // The other process has ended with unread messages.
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            received => received?,
        };
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::other("too many open file descriptors"));
    }
    if received.bytes == 0 {
        return Ok(None);
    }
    let text = str::from_utf8(&bytes[..received.bytes]).map_err(io::Error::other)?;
    Ok(Some(Message { text: text.to_owned(), descriptors }))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write, pipe};
    use std::os::fd::AsFd;

    use super::*;

    #[tokio::test]
    async fn texts_and_descriptors_arrive_in_order_and_then_the_end() {
        let (ours, theirs) = Channel::pair().unwrap();
        let theirs = Channel::new(theirs).unwrap();
        let (mut reader, writer) = pipe().unwrap();
        ours.send("first", &vec![writer.as_fd(); DESCRIPTORS_MAX]).await.unwrap();
        ours.send_now(&"é".repeat(MESSAGE_BYTES_MAX));
        drop((ours, writer));
        let first = theirs.receive().await.unwrap().unwrap();
        assert_eq!((first.text.as_str(), first.descriptors.len()), ("first", DESCRIPTORS_MAX));
        std::fs::File::from(first.descriptors.into_iter().next().unwrap()).write_all(b"x").unwrap();
        let mut read = String::new();
        reader.read_to_string(&mut read).unwrap();
        assert_eq!(read, "x");
        let second = theirs.receive().await.unwrap().unwrap();
        assert_eq!(second.text.len(), MESSAGE_BYTES_MAX);
        assert!(theirs.receive().await.unwrap().is_none());
        theirs.send_now("not read");
    }

    #[tokio::test]
    async fn too_many_descriptors_for_a_message_are_an_error() {
        let (ours, _theirs) = Channel::pair().unwrap();
        let (_reader, writer) = pipe().unwrap();
        ours.send("too many", &vec![writer.as_fd(); DESCRIPTORS_MAX + 1]).await.unwrap_err();
    }
}
