//! Accepts connections: one task for each listening socket of a worker.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rudy_runtime::{is_planted, lose, watch};
use rudy_service::{Peer, Service};
use rudy_socket::close::close_listener;
use rustix::io::Errno;
use socket2::{SockFilter, SockRef};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinHandle;

use super::admission::LimitReached;
use super::descriptors::HOW_TO_RAISE_DESCRIPTORS;
use super::reject::Rejecter;
use super::spawner::Spawner;
use super::worker_runner::{OpenConnection, WorkerRunner};
use super::{Problem, ServiceSource};
use crate::close::CloseMode;
use crate::driver::ConnectionContext;
use crate::listen::BACKLOG;
use crate::network::Listening;
use crate::transport::Stream;
use crate::wire::{Wire, close_at_once};

/// Connections accepted in a row before open connections get their turn.
const ACCEPT_BATCH: usize = 32;

/// The pause after an error that an immediate retry cannot fix.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// How long a socket that is closing still accepts connections, so that handshakes in progress can finish.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_millis(50);

/// A listening socket.
pub(super) trait Incoming: Send + Sync + 'static {
    type Io: Into<Stream> + Wire;

    /// Accepts the next connection. Cancel safe: dropping the future loses no connection.
    fn next(&self) -> impl Future<Output = io::Result<(Self::Io, Peer)>> + Send;

    /// Stops the kernel from queueing new connections. Queued connections can still be accepted.
    fn stop_queueing(&self) -> io::Result<()>;

    /// Closes the socket, so that its address is free.
    fn close(self);
}

impl Incoming for TcpListener {
    type Io = TcpStream;

    async fn next(&self) -> io::Result<(TcpStream, Peer)> {
        let (stream, mut address) = self.accept().await?;
        address.set_ip(address.ip().to_canonical());
        Ok((stream, Peer::Ip(address)))
    }

    fn stop_queueing(&self) -> io::Result<()> {
        // Closing a listening socket resets its queued connections, and any connection that arrives between
        // the last accept and the close. So first attach a packet filter that drops SYN. A client that
        // connects now retries a second later, and reaches a closed port or the next listener.
        const TCP_FLAGS_OFFSET: u32 = 13;
        const TCP_SYN: u32 = 0x02;
        // linux/bpf_common.h: BPF_LD|BPF_B|BPF_ABS, BPF_JMP|BPF_JSET|BPF_K, BPF_RET|BPF_K.
        const LOAD_BYTE: u16 = 0x30;
        const JUMP_IF_SET: u16 = 0x45;
        const RETURN: u16 = 0x06;
        SockRef::from(self).attach_filter(&[
            SockFilter::new(LOAD_BYTE, 0, 0, TCP_FLAGS_OFFSET),
            SockFilter::new(JUMP_IF_SET, 0, 1, TCP_SYN),
            SockFilter::new(RETURN, 0, 0, 0),
            SockFilter::new(RETURN, 0, 0, u32::MAX),
        ])
    }

    fn close(self) {
        close_listener(self);
    }
}

impl Incoming for UnixListener {
    type Io = UnixStream;

    async fn next(&self) -> io::Result<(UnixStream, Peer)> {
        let (stream, _) = self.accept().await?;
        Ok((stream, Peer::Unix))
    }

    fn stop_queueing(&self) -> io::Result<()> {
        // The socket file has been removed, so no client can find the socket.
        Ok(())
    }

    fn close(self) {
        // The workers share the socket; it closes with the last of them.
        drop(self);
    }
}

impl Incoming for Arc<dyn Listening> {
    type Io = Stream;

    fn next(&self) -> impl Future<Output = io::Result<(Stream, Peer)>> + Send {
        poll_fn(|cx| self.poll_accept(cx))
    }

    fn stop_queueing(&self) -> io::Result<()> {
        Listening::stop_queueing(&**self);
        Ok(())
    }

    fn close(self) {
        Listening::close(&*self);
    }
}

/// Accepts connections from one socket for one worker.
pub(super) struct Acceptor<L, S, C> {
    pub(super) listener: L,
    pub(super) context: Arc<ConnectionContext<S>>,
    pub(super) runner: Arc<WorkerRunner>,
    pub(super) spawner: C,
    /// Whether this process owns the socket: then it accepts all queued connections and closes the socket at
    /// the end. Connections queued on a shared socket are left to the other process, or to the next process
    /// that the service manager starts.
    pub(super) owns_socket: Arc<AtomicBool>,
}

impl<L: Incoming, S: ServiceSource, C: Spawner> Acceptor<L, S, C> {
    /// Accepts until `closing` becomes true, then accepts what is queued.
    pub(super) async fn run(self, mut closing: watch::Receiver<bool>) {
        tokio::select! {
            biased;
            // An error means that the engine was dropped.
            _ = closing.wait_for(|closing| *closing) => {}
            never = self.accept_all(false) => match never {},
        }
        if self.owns_socket.load(Ordering::Acquire) {
            self.drain().await;
            if is_planted("a port that a closed listener keeps") {
                return lose(self.listener);
            }
            self.listener.close();
        }
    }

    /// Accepts connections forever. While a connection waits for a thread, later connections wait in the
    /// kernel's queue. If the socket is closing they cannot wait there, so all of them are accepted.
    async fn accept_all(&self, is_closing: bool) -> Infallible {
        loop {
            let mut progress = false;
            for _ in 0..ACCEPT_BATCH {
                match self.listener.next().await.or_else(|error| self.make_room_or_use_spare(error)) {
                    Ok((io, peer)) => {
                        progress = true;
                        if let Some(waiting) = self.serve_or_reject(io, peer)
                            && !is_closing
                        {
                            // Fails only if the runtime ends.
                            let _ = waiting.await;
                        }
                    }
                    Err(error) => self.handle_error(&error).await,
                }
            }
            if progress {
                tokio::task::yield_now().await;
            } else {
                // The kernel keeps returning errors that should each concern one connection: avoid a busy
                // loop.
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }

    async fn drain(&self) {
        // Some kernels allow this to privileged processes only. Without the filter, connections that arrive
        // between the last accept and the close are reset. An operator cannot fix that now, so the error is
        // not logged.
        let _best_effort = self.listener.stop_queueing();
        // Always times out.
        let _ = tokio::time::timeout(HANDSHAKE_TIMEOUT, self.accept_all(true)).await;
        // No connection can join the queue now, and the kernel queues no more than this.
        for _ in 0..=BACKLOG {
            let next = self.next_if_ready();
            match next.map(|next| next.or_else(|error| self.accept_with_spare(error))) {
                None => break,
                Some(Ok((io, peer))) => drop(self.serve_or_reject(io, peer)),
                Some(Err(error)) if concerns_one_connection(&error) => {}
                Some(Err(error)) => {
                    self.report(Problem::Accept, || format!("closing a listener: {error}"));
                    break;
                }
            }
        }
    }

    fn next_if_ready(&self) -> Option<io::Result<(L::Io, Peer)>> {
        // Bypasses tokio's task budget, which would make a non-empty queue look empty.
        let next = pin!(tokio::task::unconstrained(self.listener.next()));
        match next.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(next) => Some(next),
            Poll::Pending => None,
        }
    }

    /// Returns the connection just accepted, or `None` if the connection used up the spare descriptor that an
    /// acceptor had closed. Then the connection is rejected, and its descriptor becomes the spare one again.
    fn restore_spare(&self, io: L::Io) -> Option<L::Io> {
        let spare = &self.runner.shared.spare;
        let Err(error) = spare.ensure_open() else { return Some(io) };
        self.reject_at_once(io);
        self.report(Problem::Descriptors, || error.to_string());
        // If another acceptor took the descriptor, the next accept tries again.
        let _ = spare.ensure_open();
        None
    }

    /// Serves or rejects a connection. For the return value see [`Spawner::spawn`].
    fn serve_or_reject(&self, io: L::Io, peer: Peer) -> Option<JoinHandle<()>> {
        let io = self.restore_spare(io)?;
        let service = self.context.source.current();
        let shared = &self.runner.shared;
        let make_room =
            |connections, reached: &LimitReached| self.runner.make_room(connections, || reached.to_string());
        // A PROXY protocol header names the address to count later. Other trusted proxies carry the
        // connections of many clients.
        let is_counted = !self.context.address.proxy_protocol && !service.is_trusted_proxy(&peer);
        let counted = peer.ip().filter(|_| is_counted);
        match shared.admission.admit(service.limits(), counted, make_room) {
            Ok(permit) => {
                let open = OpenConnection::new(self.runner.clone(), permit);
                let client = (peer, shared.next_number());
                self.spawner.spawn(io.into(), client, self.context.clone(), open)
            }
            Err(reached) => {
                self.runner.worker.counters.over_limit.add(1);
                self.report(reached.problem(), || reached.to_string());
                if service.speaks_http(&self.context.address) {
                    shared.rejecter.reject(io, service.limits());
                } else {
                    close_at_once(io, CloseMode::NoLinger);
                }
                None
            }
        }
    }

    /// Handles a lack of descriptors: closes an idle connection and returns `WouldBlock`, because a
    /// descriptor is about to be free. The kernel needs a descriptor before it checks its queue, so that may
    /// be for a later connection. Without an idle connection, calls [`Self::accept_with_spare`].
    fn make_room_or_use_spare(&self, error: io::Error) -> io::Result<(L::Io, Peer)> {
        let why = || format!("{error} ({HOW_TO_RAISE_DESCRIPTORS})");
        if is_out_of_descriptors(&error) && self.runner.make_room(1, why) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.accept_with_spare(error)
    }

    /// Closes the spare descriptor to accept a connection with it. [`Self::restore_spare`] decides whether
    /// the connection may stay, because other descriptors may have become free.
    fn accept_with_spare(&self, error: io::Error) -> io::Result<(L::Io, Peer)> {
        if !is_out_of_descriptors(&error) {
            return Err(error);
        }
        match self.runner.shared.spare.close_during(|| self.next_if_ready()) {
            Some(Ok(next)) => Ok(next),
            // Another thread took the descriptor first, or the queue is empty.
            _ => Err(error),
        }
    }

    /// Logs an accept error, and pauses if an immediate retry cannot help.
    async fn handle_error(&self, error: &io::Error) {
        if concerns_one_connection(error) {
            return;
        }
        if error.kind() == io::ErrorKind::WouldBlock {
            return tokio::task::yield_now().await;
        }
        let problem = if is_out_of_descriptors(error) { Problem::Descriptors } else { Problem::Accept };
        self.report(problem, || error.to_string());
        tokio::time::sleep(RETRY_PAUSE).await;
    }

    fn reject_at_once(&self, io: L::Io) {
        self.runner.worker.counters.over_limit.add(1);
        if self.context.source.current().speaks_http(&self.context.address) {
            Rejecter::reject_at_once(io);
        } else {
            close_at_once(io, CloseMode::NoLinger);
        }
    }

    fn report(&self, problem: Problem, detail: impl FnOnce() -> String) {
        self.runner.shared.reports.record(problem, detail);
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(errno(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Whether an accept error belongs to the accepted connection, so that the accept itself has consumed it:
/// accept(2), "Error handling".
fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(
        errno(error),
        Some(
            Errno::CONNABORTED
                | Errno::INTR
                | Errno::NETDOWN
                | Errno::PROTO
                | Errno::NOPROTOOPT
                | Errno::HOSTDOWN
                | Errno::NONET
                | Errno::HOSTUNREACH
                | Errno::OPNOTSUPP
                | Errno::NETUNREACH
                | Errno::PERM
        )
    )
}

fn errno(error: &io::Error) -> Option<Errno> {
    error.raw_os_error().map(Errno::from_raw_os_error)
}
