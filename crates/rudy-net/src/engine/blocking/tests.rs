//! A thread and its socket, over socket pairs.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::open::{Open, Registry};
use super::park::{Parker, block_on};
use super::transport::Blocking;
use crate::transport::Transport;

/// Far more than any of this takes.
const LONG: Duration = Duration::from_mins(10);
const SHORT: Duration = Duration::from_millis(20);

fn pair() -> (Arc<Open>, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (Arc::new(Open::new(ours.into(), Arc::new(Parker::default()))), theirs)
}

/// Asks once for a request, as the driver does: what came, empty at the end, or that nothing is there.
async fn ask(io: &mut Blocking, time: Duration) -> Poll<Vec<u8>> {
    let until = Some(Instant::now() + time);
    std::future::poll_fn(|cx| {
        let mut bytes = [0; 100];
        let mut buffer = ReadBuf::new(&mut bytes);
        let read = io.poll_read_request(cx, &mut buffer, until, true);
        Poll::Ready(read.map(|read| read.map(|()| buffer.filled().to_vec()).unwrap()))
    })
    .await
}

async fn read(io: &mut Blocking) -> Vec<u8> {
    std::future::poll_fn(|cx| {
        let mut bytes = [0; 100];
        let mut buffer = ReadBuf::new(&mut bytes);
        let read = Pin::new(&mut *io).poll_read(cx, &mut buffer);
        read.map(|read| read.map(|()| buffer.filled().to_vec()).unwrap())
    })
    .await
}

/// What a thread of its own makes of `work` on the connection; `None` if it is cut.
fn carry<R: Send + 'static>(
    open: &Arc<Open>,
    work: impl AsyncFnOnce(Blocking) -> R + Send + 'static,
) -> Receiver<Option<R>> {
    let (open, (sender, result)) = (open.clone(), channel());
    thread::spawn(move || sender.send(block_on(&open, work(Blocking::new(open.clone())))));
    result
}

/// Waits for a state that no event tells of.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_mins(1);
    while !holds() {
        assert!(Instant::now() < until, "never came true: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_request_is_waited_for_until_its_time_is_over_and_no_shorter() {
    let (open, mut peer) = pair();
    let (tell, told) = channel();
    let result = carry(&open, async move |mut io| {
        let began = Instant::now();
        tell.send((ask(&mut io, SHORT).await, began.elapsed() >= SHORT)).unwrap();
        ask(&mut io, LONG).await
    });
    assert_eq!(told.recv().unwrap(), (Poll::Pending, true));
    peer.write_all(b"late").unwrap();
    assert_eq!(result.recv().unwrap(), Some(Poll::Ready(b"late".to_vec())));
}

#[test]
fn a_receive_timeout_that_serves_is_left_alone() {
    let (open, _peer) = pair();
    let mut io = Blocking::new(open.clone());
    let seconds = Duration::from_secs;
    for (left, expected) in [
        (seconds(75), seconds(75)),
        (Duration::from_millis(74_980), seconds(75)),
        (seconds(75) + SHORT, seconds(75)),
        (seconds(10), seconds(10)),
        (seconds(75), seconds(75)),
    ] {
        io.block_for(left).unwrap();
        assert_eq!(open.socket.read_timeout().unwrap(), Some(expected), "with {left:?} left");
    }
}

#[test]
fn a_moment_left_is_not_for_ever() {
    let (open, _peer) = pair();
    let mut io = Blocking::new(open.clone());
    io.block_for(Duration::from_nanos(1)).unwrap();
    assert!(open.socket.read_timeout().unwrap().is_some_and(|timeout| timeout <= SHORT));
}

#[test]
fn an_idle_connection_ends_when_it_is_told_and_a_busy_one_when_it_is_idle() {
    for busy_first in [false, true] {
        let (open, mut peer) = pair();
        let registry = Registry::default();
        let _entry = registry.enter(1, open.clone(), Arc::default());
        let result = carry(&open, async move |mut io| {
            if busy_first {
                // Not between requests: it is not interrupted.
                assert_eq!(read(&mut io).await, b"body");
            }
            ask(&mut io, LONG).await
        });
        if !busy_first {
            eventually("it blocks", || open.is_idle());
        }
        registry.finish();
        if busy_first {
            peer.write_all(b"body").unwrap();
            // It does not block any more: the driver is told that there is nothing, and ends it.
            assert_eq!(result.recv().unwrap(), Some(Poll::Pending));
        } else {
            assert_eq!(result.recv().unwrap(), Some(Poll::Ready(Vec::new())));
        }
    }
}

#[test]
fn no_connection_becomes_idle_unseen() {
    for _ in 0..500 {
        let (open, _peer) = pair();
        let registry = Registry::default();
        let _entry = registry.enter(1, open.clone(), Arc::default());
        // Interrupted, or not let block at all.
        let result = carry(&open, async |mut io| drop(ask(&mut io, LONG).await));
        registry.finish();
        assert_eq!(result.recv_timeout(LONG).unwrap(), Some(()));
    }
}

#[test]
fn a_request_that_has_come_is_read_although_the_end_has_been_told() {
    let (open, mut peer) = pair();
    let registry = Registry::default();
    registry.finish();
    let _entry = registry.enter(1, open.clone(), Arc::default());
    peer.write_all(b"request").unwrap();
    let result = carry(&open, async |mut io| ask(&mut io, LONG).await);
    assert_eq!(result.recv().unwrap(), Some(Poll::Ready(b"request".to_vec())));
}

#[test]
fn a_cut_ends_a_thread_wherever_it_waits() {
    let (reading, _peer) = pair();
    let (parked, _other_peer) = pair();
    let (early, _third_peer) = pair();
    let registry = Registry::default();
    let _entries = [
        registry.enter(1, reading.clone(), Arc::default()),
        registry.enter(2, parked.clone(), Arc::default()),
    ];
    let results = [
        carry(&reading, async |mut io| {
            let _ = ask(&mut io, LONG).await;
            std::future::pending::<()>().await;
        }),
        carry(&parked, async |_io| std::future::pending::<()>().await),
    ];
    eventually("one blocks and one is parked", || reading.is_idle() && parked.parker.is_parked());
    registry.cut();
    for result in results {
        assert_eq!(result.recv().unwrap(), None);
    }
    let _entry = registry.enter(3, early.clone(), Arc::default());
    assert_eq!(carry(&early, async |_io| std::future::pending::<()>().await).recv().unwrap(), None);
}

#[test]
fn a_parked_thread_is_woken_by_its_socket_and_by_wakers() {
    let (open, mut peer) = pair();
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let result = carry(&open, async move |mut io| {
        let body = read(&mut io).await;
        (body, receiver.await.unwrap())
    });
    eventually("it waits for its socket", || open.parker.is_parked());
    peer.write_all(b"body").unwrap();
    eventually("it waits for somebody", || open.parker.is_parked() && !open.parker.has_reader());
    sender.send("answer").unwrap();
    assert_eq!(result.recv().unwrap(), Some((b"body".to_vec(), "answer")));
}

#[test]
fn a_parked_thread_waits_for_its_socket_on_behalf_of_others() {
    struct Count(AtomicU32);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    let (open, mut peer) = pair();
    let (give_back, back) = tokio::sync::oneshot::channel();
    let (lend, lent) = channel();
    let result = carry(&open, async move |io| {
        // As after an upgrade: the connection is in other hands until it comes back.
        lend.send(io).unwrap();
        back.await.unwrap();
    });
    let mut io = lent.recv().unwrap();
    eventually("it waits for nothing of its socket", || open.parker.is_parked());
    let count = Arc::new(Count(AtomicU32::new(0)));
    let waker = Waker::from(count.clone());
    let mut cx = Context::from_waker(&waker);
    let mut bytes = [0; 100];
    let mut buffer = ReadBuf::new(&mut bytes);
    assert!(Pin::new(&mut io).poll_read(&mut cx, &mut buffer).is_pending());
    peer.write_all(b"text").unwrap();
    eventually("the other is woken", || count.0.load(Ordering::SeqCst) == 1);
    assert!(Pin::new(&mut io).poll_read(&mut cx, &mut buffer).is_ready());
    assert_eq!(buffer.filled(), b"text");
    assert_eq!(result.try_recv().ok(), None, "the thread itself goes on waiting");
    give_back.send(()).unwrap();
    assert_eq!(result.recv().unwrap(), Some(()));
}

#[test]
fn an_end_that_nobody_waits_for_does_not_keep_the_thread_awake() {
    let (open, peer) = pair();
    let (tell, told) = channel();
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let result = carry(&open, async move |_io| {
        tell.send(rustix::thread::gettid()).unwrap();
        receiver.await.unwrap();
    });
    let status = format!("/proc/self/task/{}/status", told.recv().unwrap());
    let sleeps = || std::fs::read_to_string(&status).unwrap().contains("State:\tS");
    eventually("it is parked", || open.parker.is_parked() && sleeps());
    drop(peer);
    // A thread to which poll(2) tells the end again and again would never sleep.
    eventually("it sleeps on", sleeps);
    sender.send(()).unwrap();
    assert_eq!(result.recv().unwrap(), Some(()));
}

#[test]
fn a_full_socket_is_waited_for_and_a_file_does_not_keep_the_next_read_from_blocking() {
    const FILE_BYTES: usize = 4 << 20;
    let file = tempfile::tempfile().unwrap();
    file.set_len(FILE_BYTES as u64).unwrap();
    let (open, mut peer) = pair();
    let result = carry(&open, async move |mut io| {
        write_all(&mut io, &vec![b'x'; FILE_BYTES]).await;
        send_file(&mut io, &file, FILE_BYTES).await;
        ask(&mut io, LONG).await
    });
    let mut received = vec![1; 2 * FILE_BYTES];
    peer.read_exact(&mut received).unwrap();
    assert!(received[..FILE_BYTES].iter().all(|byte| *byte == b'x'));
    assert!(received[FILE_BYTES..].iter().all(|byte| *byte == 0));
    eventually("it blocks again", || open.is_idle());
    peer.write_all(b"next").unwrap();
    assert_eq!(result.recv().unwrap(), Some(Poll::Ready(b"next".to_vec())));
}

async fn write_all(io: &mut Blocking, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let written = std::future::poll_fn(|cx| Pin::new(&mut *io).poll_write(cx, bytes)).await;
        bytes = &bytes[written.unwrap()..];
    }
}

async fn send_file(io: &mut Blocking, file: &File, length: usize) {
    let mut sent = 0;
    while sent < length {
        let offset = sent as u64;
        sent += std::future::poll_fn(|cx| io.poll_send_file(cx, file, offset, length - sent)).await.unwrap();
    }
}
