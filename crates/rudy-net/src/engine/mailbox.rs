//! `mailbox`: two tasks for each connection. The task that owns the socket reads, and sends what it reads to
//! the handler as a message, one for each request of the handler ("active once"). The handler writes to the
//! socket directly.
//!
//! A known race of this design cannot happen: data that arrives before the handler owns the socket and is
//! lost. Without a credit the owner reads nothing, so early data waits in the kernel, and only a running
//! handler issues credits.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use parking_lot::Mutex;
use rudy_service::Peer;
use tokio::io::ReadBuf;
use tokio::task::JoinHandle;

use super::spawner::{Connection, Spawner};
use super::worker_runner::OpenConnection;
use super::{Engine, Options, Reporter, ServiceSource, task};
use crate::close::stop_writing;
use crate::driver::{self, ConnectionContext};
use crate::scratch::Scratch;
use crate::transport::{self, Socket, Stream, Transport};

pub(super) fn start<S: ServiceSource>(
    options: &Options,
    source: Arc<S>,
    reporter: Arc<dyn Reporter>,
) -> io::Result<Box<dyn Engine>> {
    task::start_with(Mailboxes, options, source, reporter)
}

#[derive(Clone)]
struct Mailboxes;

impl Spawner for Mailboxes {
    fn spawn<S: ServiceSource>(
        &self,
        io: Stream,
        client: (Peer, u64),
        context: Arc<ConnectionContext<S>>,
        open: OpenConnection,
    ) -> Option<JoinHandle<()>> {
        let io = match io {
            Stream::Tcp(socket) => mailbox(socket),
            Stream::Unix(socket) => mailbox(socket),
            other @ Stream::Other(_) => other,
        };
        let serving = driver::serve(io, client, context);
        rudy_runtime::spawn(Connection { serving, open });
        None
    }
}

/// Spawns a task that reads from a socket.
fn mailbox(socket: impl Socket) -> Stream {
    let (owner, mailbox) = pair(socket);
    rudy_runtime::spawn(owner.run());
    Stream::Other(Box::new(mailbox))
}

fn pair<S: Socket>(socket: S) -> (Owner<S>, Mailbox<S>) {
    let (socket, slot) = (Arc::new(socket), Arc::new(Slot::default()));
    (Owner { socket: socket.clone(), slot: slot.clone() }, Mailbox { socket, slot })
}

/// Reads the socket for the handler.
struct Owner<S> {
    socket: Arc<S>,
    slot: Arc<Slot>,
}

impl<S: Socket> Owner<S> {
    /// Sends a message for each credit, until the handler drops its mailbox.
    async fn run(self) {
        std::future::poll_fn(|cx| self.slot.poll_transfer(cx, |cx, credit| self.poll_read(cx, credit))).await;
    }

    /// Reads at most `credit` bytes. Returns nothing at the end of the input.
    fn poll_read(&self, cx: &mut Context<'_>, credit: usize) -> Poll<io::Result<Bytes>> {
        let mut scratch = Scratch::borrow();
        let room = credit.min(scratch.input.len());
        let mut buffer = ReadBuf::new(&mut scratch.input[..room]);
        ready!(transport::poll_receive(&*self.socket, cx, &mut buffer))?;
        Poll::Ready(Ok(Bytes::copy_from_slice(buffer.filled())))
    }
}

/// The handler's side: reads are messages, writes go to the socket.
struct Mailbox<S> {
    socket: Arc<S>,
    slot: Arc<Slot>,
}

impl<S> Drop for Mailbox<S> {
    fn drop(&mut self) {
        self.slot.close();
    }
}

impl<S: Socket> AsFd for Mailbox<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl<S: Socket> Transport for Mailbox<S> {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let message = ready!(self.slot.poll_message(cx, buffer.remaining()))?;
        buffer.put_slice(&message);
        Poll::Ready(Ok(()))
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
        more: bool,
    ) -> Poll<io::Result<usize>> {
        transport::poll_send(&*self.socket, cx, slices, more)
    }

    fn poll_shutdown(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(stop_writing(&*self.socket))
    }

    fn piece_bytes(&self) -> Option<usize> {
        None
    }

    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        offset: u64,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        transport::poll_send_file(&*self.socket, cx, file, offset, length)
    }

    fn unacknowledged(&self) -> io::Result<u64> {
        transport::unacknowledged(&*self.socket)
    }

    fn has_unread(&self) -> bool {
        self.slot.holds_message() || transport::has_unread(&*self.socket)
    }
}

/// Holds at most one message, and only one that the handler requested.
#[derive(Default)]
struct Slot(Mutex<State>);

#[derive(Default)]
struct State {
    /// How many bytes the handler accepts; 0 if it has not requested a message.
    credit: usize,
    message: Option<io::Result<Bytes>>,
    is_closed: bool,
    handler: Option<Waker>,
    owner: Option<Waker>,
}

impl Slot {
    /// Returns up to `credit` bytes of the waiting message, or requests a message.
    fn poll_message(&self, cx: &mut Context<'_>, credit: usize) -> Poll<io::Result<Bytes>> {
        let mut state = self.0.lock();
        match state.message.take() {
            Some(Ok(mut message)) if message.len() > credit => {
                let begin = message.split_to(credit);
                state.message = Some(Ok(message));
                return Poll::Ready(Ok(begin));
            }
            Some(message) => return Poll::Ready(message),
            None => {}
        }
        state.handler = Some(cx.waker().clone());
        if state.credit == 0 {
            wake(&mut state.owner);
        }
        state.credit = credit;
        Poll::Pending
    }

    /// Stores a message for each credit. Ready when the handler has gone.
    ///
    /// The read is part of this step, under the lock, so that a message is always either in the socket or in
    /// the slot.
    fn poll_transfer(
        &self,
        cx: &mut Context<'_>,
        mut read: impl FnMut(&mut Context<'_>, usize) -> Poll<io::Result<Bytes>>,
    ) -> Poll<()> {
        let mut state = self.0.lock();
        if state.is_closed {
            return Poll::Ready(());
        }
        state.owner = Some(cx.waker().clone());
        if state.credit > 0 {
            let message = ready!(read(cx, state.credit));
            state.credit = 0;
            state.message = Some(message);
            wake(&mut state.handler);
        }
        Poll::Pending
    }

    fn holds_message(&self) -> bool {
        self.0.lock().message.as_ref().is_some_and(|message| !message.as_ref().is_ok_and(Bytes::is_empty))
    }

    /// Marks the handler as gone.
    fn close(&self) {
        let mut state = self.0.lock();
        state.is_closed = true;
        wake(&mut state.owner);
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io::Write;

    use tokio::net::UnixStream;

    use super::*;

    /// A step that may happen next, in any order.
    #[derive(Debug, Clone, Copy)]
    enum Step {
        Arrive,
        OwnerRuns,
        HandlerRuns,
    }

    /// Tries every order of arrivals and task polls. The handler gets every byte once and in order, and the
    /// owner reads nothing without a credit.
    #[test]
    fn no_order_of_arrivals_and_polls_loses_a_byte() {
        const STEPS: u32 = 9;
        for order in 0..3_u32.pow(STEPS) {
            let steps = (0..STEPS).map(|at| match order / 3_u32.pow(at) % 3 {
                0 => Step::Arrive,
                1 => Step::OwnerRuns,
                _ => Step::HandlerRuns,
            });
            let mut world = World::default();
            steps.clone().for_each(|step| world.take(step));
            for _ in 0..2 * STEPS {
                world.take(Step::OwnerRuns);
                world.take(Step::HandlerRuns);
            }
            let sent: Vec<u8> = (0..world.arrived).collect();
            assert_eq!(world.received, sent, "{:?}", steps.collect::<Vec<_>>());
        }
    }

    #[derive(Default)]
    struct World {
        slot: Slot,
        arrived: u8,
        kernel: VecDeque<u8>,
        received: Vec<u8>,
        credits: u32,
        reads: u32,
    }

    impl World {
        fn take(&mut self, step: Step) {
            let cx = &mut Context::from_waker(Waker::noop());
            match step {
                Step::Arrive => {
                    self.kernel.push_back(self.arrived);
                    self.arrived += 1;
                }
                Step::OwnerRuns => {
                    let ended = self.slot.poll_transfer(cx, |_, _| match self.kernel.pop_front() {
                        Some(byte) => {
                            self.reads += 1;
                            Poll::Ready(Ok(Bytes::copy_from_slice(&[byte])))
                        }
                        None => Poll::Pending,
                    });
                    assert!(ended.is_pending());
                    assert!(self.reads <= self.credits, "read without a credit");
                }
                Step::HandlerRuns => match self.slot.poll_message(cx, 1) {
                    Poll::Ready(message) => self.received.extend_from_slice(&message.unwrap()),
                    Poll::Pending => self.credits = self.reads + 1,
                },
            }
        }
    }

    /// Reads once, at most `most` bytes.
    async fn read(mailbox: &mut Mailbox<UnixStream>, most: usize) -> Vec<u8> {
        let mut buffer = vec![0; most];
        let mut buffer = ReadBuf::new(&mut buffer);
        std::future::poll_fn(|cx| mailbox.poll_read(cx, &mut buffer)).await.unwrap();
        buffer.filled().to_vec()
    }

    #[tokio::test]
    async fn data_that_arrives_before_the_handler_requests_it_waits_in_the_kernel() {
        let (mut client, server) = std::os::unix::net::UnixStream::pair().unwrap();
        server.set_nonblocking(true).unwrap();
        let (owner, mut mailbox) = pair(UnixStream::from_std(server).unwrap());
        let socket = owner.socket.clone();
        let owner = tokio::spawn(owner.run());
        client.write_all(b"early").unwrap();
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(rustix::io::ioctl_fionread(&*socket).unwrap(), 5);

        assert_eq!(read(&mut mailbox, 3).await, b"ear");
        assert_eq!(rustix::io::ioctl_fionread(&*socket).unwrap(), 2, "one credit is one message");
        drop(client);
        assert_eq!(read(&mut mailbox, 100).await, b"ly");
        assert_eq!(read(&mut mailbox, 100).await, b"", "the end");
        drop(mailbox);
        owner.await.unwrap();
    }

    /// This happens after a change of protocol: the next reader requests less than the driver did.
    #[tokio::test]
    async fn a_message_larger_than_the_next_read_is_split() {
        let (client, server) = std::os::unix::net::UnixStream::pair().unwrap();
        server.set_nonblocking(true).unwrap();
        let (owner, mut mailbox) = pair(UnixStream::from_std(server).unwrap());
        let slot = owner.slot.clone();
        let owner = tokio::spawn(owner.run());
        let mut large = [0; 100];
        let mut cx = Context::from_waker(Waker::noop());
        assert!(mailbox.poll_read(&mut cx, &mut ReadBuf::new(&mut large)).is_pending());
        (&client).write_all(b"hello").unwrap();
        drop(client);
        while !slot.holds_message() {
            tokio::task::yield_now().await;
        }

        assert_eq!(read(&mut mailbox, 1).await, b"h");
        assert!(mailbox.has_unread());
        assert_eq!(read(&mut mailbox, 100).await, b"ello");
        drop(mailbox);
        owner.await.unwrap();
    }
}
