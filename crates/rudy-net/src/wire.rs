//! What is below a transport: a socket of the kernel, or a connection of another network.

use std::io;
use std::os::fd::AsFd;

use rudy_service::{LocalAddress, LocalAddressCache};
use rudy_socket::close::{CloseMode, finish, stop_writing};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::SendFlags;
use socket2::SockRef;

/// The lowest level of a connection. Every socket is one; a network that is not the kernel's implements it itself.
pub trait Wire: Send + Sync {
    /// Returns the address to which the client has connected; stores the answer of the kernel in `cache`.
    fn local_address<'c>(&'c self, cache: &'c LocalAddressCache) -> LocalAddress<'c>;

    /// Returns which directions the peer has shut down, even behind unread input.
    fn peer_close(&self) -> PeerClose;

    /// Writes a short message to a connection that has not sent anything, or nothing: best effort.
    fn send_first(&self, message: &[u8]);

    /// Limits how much of the output is taken before it is sent, where that can be set.
    fn limit_unsent(&self, bytes: u32);

    /// Stops writing: the peer reads the end of the input after the last byte.
    ///
    /// # Errors
    ///
    /// The connection is broken.
    fn stop_writing(&self) -> io::Result<()>;

    /// Takes the remaining steps of a close without waiting; dropping the connection is the last one.
    fn finish(&self, mode: CloseMode, has_stopped_writing: bool, has_drained: bool);
}

/// Which directions the peer has shut down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerClose {
    /// None.
    None,
    /// The peer's write side; it may still read.
    WriteSide,
    /// Both, by a reset.
    Both,
}

impl<S: AsFd + Send + Sync> Wire for S {
    fn local_address<'c>(&'c self, cache: &'c LocalAddressCache) -> LocalAddress<'c> {
        LocalAddress::of_socket(self.as_fd(), cache)
    }

    /// The runtime does not report this.
    fn peer_close(&self) -> PeerClose {
        let mut polled = [PollFd::new(self, PollFlags::RDHUP)];
        // Fails only for lack of memory; the next call tries again.
        let _ = poll(&mut polled, Some(&Timespec::default()));
        let events = polled[0].revents();
        if events.intersects(PollFlags::ERR | PollFlags::HUP) {
            PeerClose::Both
        } else if events.contains(PollFlags::RDHUP) {
            PeerClose::WriteSide
        } else {
            PeerClose::None
        }
    }

    /// The send buffer of a new connection is empty, so either the kernel accepts the whole message or the peer is gone.
    fn send_first(&self, message: &[u8]) {
        let _ = rustix::net::send(self, message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    fn limit_unsent(&self, bytes: u32) {
        // Fails for Unix sockets, which have no such setting.
        let _ = SockRef::from(self).set_tcp_notsent_lowat(bytes);
    }

    fn stop_writing(&self) -> io::Result<()> {
        stop_writing(self)
    }

    fn finish(&self, mode: CloseMode, has_stopped_writing: bool, has_drained: bool) {
        finish(self, mode, has_stopped_writing, has_drained);
    }
}

/// Closes a connection without waiting, for use outside of a task or runtime. The steps are the same, but input that arrives later causes
/// a reset.
pub(crate) fn close_at_once(wire: impl Wire, mode: CloseMode) {
    wire.finish(mode, false, false);
    drop(wire);
}

/// Implements [`Wire`] for what wraps another one.
macro_rules! delegate_wire {
    ($wrapper:ty, |$this:ident| $inner:expr) => {
        impl $crate::wire::Wire for $wrapper {
            fn local_address<'c>(
                &'c self,
                cache: &'c rudy_service::LocalAddressCache,
            ) -> rudy_service::LocalAddress<'c> {
                let $this = self;
                $inner.local_address(cache)
            }

            fn peer_close(&self) -> $crate::wire::PeerClose {
                let $this = self;
                $inner.peer_close()
            }

            fn send_first(&self, message: &[u8]) {
                let $this = self;
                $inner.send_first(message);
            }

            fn limit_unsent(&self, bytes: u32) {
                let $this = self;
                $inner.limit_unsent(bytes);
            }

            fn stop_writing(&self) -> std::io::Result<()> {
                let $this = self;
                $inner.stop_writing()
            }

            fn finish(
                &self,
                mode: rudy_socket::close::CloseMode,
                has_stopped_writing: bool,
                has_drained: bool,
            ) {
                let $this = self;
                $inner.finish(mode, has_stopped_writing, has_drained);
            }
        }
    };
}
pub(crate) use delegate_wire;
