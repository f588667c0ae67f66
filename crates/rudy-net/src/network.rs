//! A network that is not the kernel's: a simulation puts its own in the place of listeners, of sockets for datagrams, of connections to
//! upstreams, and of their names.

use std::cell::Cell;
use std::fmt::Debug;
use std::io;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rudy_quic::Datagram;
use rudy_quic::quinn_proto::Transmit;
use rudy_service::Peer;
use rudy_service::listen_address::Address;

use crate::transport::Stream;

thread_local! {
    static CURRENT: Cell<Option<&'static dyn Network>> = const { Cell::new(None) };
}

/// A network, in place of the kernel's on the thread that has [entered](Entered) it.
pub trait Network {
    /// Listens on an address.
    ///
    /// # Errors
    ///
    /// The address is in use.
    fn listen(&self, address: &Address) -> io::Result<Arc<dyn Listening>>;

    /// Binds an address for datagrams.
    ///
    /// # Errors
    ///
    /// The address is in use.
    fn bind(&self, address: SocketAddr) -> io::Result<Box<dyn DatagramSocket>>;

    /// Connects to an address.
    fn connect(&self, to: SocketAddr) -> Connecting;

    /// Returns the addresses of a host name.
    ///
    /// # Errors
    ///
    /// It has none, or cannot be resolved now.
    fn look_up(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// A connection that is being opened.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

/// A listener of a network. Clones of the reference share its queue, as processes share a socket.
pub trait Listening: Debug + Send + Sync {
    /// Accepts the next connection.
    ///
    /// # Errors
    ///
    /// Those of accept(2).
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Stream, Peer)>>;

    /// Stops to queue new connections. Queued ones can still be accepted.
    fn stop_queueing(&self);

    /// Closes the listener: its address is free, and queued connections are reset.
    fn close(&self);

    /// Whether it has not been closed.
    fn is_listening(&self) -> bool;
}

/// A socket for datagrams. Dropping it frees its address.
pub trait DatagramSocket: Debug + Send + Sync {
    /// Receives the next datagram.
    fn poll_receive(&self, cx: &mut Context<'_>) -> Poll<Datagram>;

    /// Sends datagrams of one size, in one call.
    ///
    /// # Errors
    ///
    /// The socket is full (`WouldBlock`).
    fn send(&self, transmit: &Transmit, contents: &[u8]) -> io::Result<()>;

    /// Ready when the socket is not full.
    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<()>;
}

/// The time in which a thread is on a network. Dropping it returns to the kernel's.
#[derive(Debug)]
pub struct Entered(PhantomData<*const ()>);

impl Entered {
    /// Puts the thread on a network.
    #[must_use]
    pub fn new(network: &'static dyn Network) -> Self {
        CURRENT.set(Some(network));
        Self(PhantomData)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(None);
    }
}

/// Returns the network of this thread, unless it is the kernel's.
#[must_use]
pub fn current() -> Option<&'static dyn Network> {
    CURRENT.get()
}
