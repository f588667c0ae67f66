//! Accepting: one task for each listening socket of a runner.

use std::convert::Infallible;
use std::io;
use std::os::fd::AsFd;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::io::Errno;
use socket2::{SockFilter, SockRef};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::admission::LimitReached;
use super::descriptors::HOW_TO_RAISE_DESCRIPTORS;
use super::reject::Rejecter;
use super::spawner::Spawner;
use super::worker_runner::{OpenConnection, WorkerRunner};
use super::{Problem, ServiceSource};
use crate::close::close_listener;
use crate::driver::ConnectionContext;
use crate::listen::BACKLOG;
use crate::transport::Stream;
use crate::{Peer, Service};

/// Connections accepted in a row before those that there are have their turn.
const ACCEPT_BATCH: usize = 32;

/// The pause after an error that will not go away by trying again at once.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// How long a socket that is to be closed is accepted from, so that handshakes under way come to their end.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_millis(50);

/// A socket that connections come from.
pub(super) trait Incoming: Send + Sync + 'static {
    type Io: Into<Stream> + AsFd;

    /// The next connection. Dropping the future loses none.
    fn next(&self) -> impl Future<Output = io::Result<(Self::Io, Peer)>> + Send;

    /// Keeps the kernel from queueing new connections, while those that wait can be accepted still.
    fn stop_queueing(&self) -> io::Result<()>;

    /// Closes it, so that whoever wants its address next can have it.
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
        // Closing a listening socket resets what is in its queue, and any connection that comes between the last
        // accept and the close. So first a packet filter that drops SYN: whoever comes now tries again a second later
        // and finds the port closed, or somebody else there.
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
        // Its file has been removed: nobody finds it any more.
        Ok(())
    }

    fn close(self) {
        // The runners share it, so it ends with the last of them. Its address was the file.
        drop(self);
    }
}

/// Accepts from one socket for one runner.
pub(super) struct Acceptor<L, S, C> {
    pub(super) listener: L,
    pub(super) context: Arc<ConnectionContext<S>>,
    pub(super) runner: Arc<WorkerRunner>,
    pub(super) spawner: C,
    /// Whether what is queued has to be accepted before the end, and the socket ended. What waits at a socket that another
    /// process has too waits for that process, or for the one that the service manager starts next.
    pub(super) owns_socket: Arc<AtomicBool>,
}

impl<L: Incoming, S: ServiceSource, C: Spawner> Acceptor<L, S, C> {
    /// Accepts until `closing` becomes true, then what is queued.
    pub(super) async fn run(self, mut closing: watch::Receiver<bool>) {
        tokio::select! {
            never = self.accept_all(false) => match never {},
            // An error is an engine that was dropped.
            _ = closing.wait_for(|closing| *closing) => {}
        }
        if self.owns_socket.load(Ordering::Acquire) {
            self.drain().await;
            self.listener.close();
        }
    }

    /// While a connection waits for a thread the others wait in the kernel's queue behind it, unless the socket is closing: then
    /// they have nowhere else to wait.
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
                            // It fails only where the runtime ends.
                            let _ = waiting.await;
                        }
                    }
                    Err(error) => self.handle_error(&error).await,
                }
            }
            if progress {
                tokio::task::yield_now().await;
            } else {
                // Errors that should each concern one connection, and no end of them: do not spin on them.
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }

    async fn drain(&self) {
        // Some kernels let only the privileged do this. Then what comes between the last accept and the close is reset, as
        // it is anywhere without it. There is nothing that an operator could do about it now, so nothing is said.
        let _best_effort = self.listener.stop_queueing();
        // The time is over in any case: that is its point.
        let _ = tokio::time::timeout(HANDSHAKE_TIMEOUT, self.accept_all(true)).await;
        // What is queued now is all that will be: more than this the kernel does not hold.
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
        // Without tokio's budget, which would make a socket look empty that is not.
        let next = pin!(tokio::task::unconstrained(self.listener.next()));
        match next.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(next) => Some(next),
            Poll::Pending => None,
        }
    }

    /// A connection that was just accepted, or `None` if that took the descriptor that this acceptor or another one had given
    /// up. Then this one is sent away, and the descriptor is the spare one again.
    fn restore_spare(&self, io: L::Io) -> Option<L::Io> {
        let spare = &self.runner.shared.spare;
        let Err(error) = spare.ensure_open() else { return Some(io) };
        self.reject_at_once(io);
        self.report(Problem::Descriptors, || error.to_string());
        // If others were faster here too, the next one who accepts tries again.
        let _ = spare.ensure_open();
        None
    }

    /// Has a connection served, or sends it away. See [`Spawner::spawn`] for what is returned.
    fn serve_or_reject(&self, io: L::Io, peer: Peer) -> Option<JoinHandle<()>> {
        let io = self.restore_spare(io)?;
        let service = self.context.source.current();
        let shared = &self.runner.shared;
        let make_room =
            |connections, reached: &LimitReached| self.runner.make_room(connections, || reached.to_string());
        // A header of the PROXY protocol names the address that counts; the connections of other proxies are those of many clients.
        let is_counted = !self.context.proxy_protocol && !service.is_trusted_proxy(&peer);
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
                shared.rejecter.reject(io, service.limits());
                None
            }
        }
    }

    /// Out of descriptors: has an idle connection close, and returns `WouldBlock` because a descriptor is free soon. The kernel wants
    /// one before it looks into the queue, so this may be for the next connection. If none is idle: [`Self::accept_with_spare`].
    fn make_room_or_use_spare(&self, error: io::Error) -> io::Result<(L::Io, Peer)> {
        let why = || format!("{error} ({HOW_TO_RAISE_DESCRIPTORS})");
        if is_out_of_descriptors(&error) && self.runner.make_room(1, why) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.accept_with_spare(error)
    }

    /// Out of descriptors: gives up the spare one to accept with. Whether the connection may stay, because others have become
    /// free meanwhile, is for [`Self::restore_spare`] to say.
    fn accept_with_spare(&self, error: io::Error) -> io::Result<(L::Io, Peer)> {
        if !is_out_of_descriptors(&error) {
            return Err(error);
        }
        match self.runner.shared.spare.close_during(|| self.next_if_ready()) {
            Some(Ok(next)) => Ok(next),
            // Others took the descriptor first, or nobody waits any more.
            _ => Err(error),
        }
    }

    /// Says what is wrong, and waits if trying again at once will not help.
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
        Rejecter::reject_at_once(io);
    }

    fn report(&self, problem: Problem, detail: impl FnOnce() -> String) {
        self.runner.shared.reports.record(problem, detail);
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(errno(error), Some(Errno::MFILE | Errno::NFILE))
}

/// accept(2), "Error handling": what has happened to the connection that was to be accepted is told by accepting it,
/// and is over with that.
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
