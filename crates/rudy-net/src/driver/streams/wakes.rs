//! Which streams of a connection have woken. A handler or a body wakes only its stream, so that a wake-up does no work for the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use parking_lot::Mutex;

use super::multiplex::StreamId;

/// The streams of a connection that have woken.
#[derive(Debug)]
pub(super) struct Wakes(Mutex<Woken>);

#[derive(Debug)]
struct Woken {
    streams: Vec<StreamId>,
    /// Wakes the connection.
    connection: Waker,
}

impl Wakes {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Woken { streams: Vec::new(), connection: Waker::noop().clone() })))
    }

    /// Moves the streams that have woken to `streams`. From now on, `connection` is woken with the next one.
    pub(super) fn take(&self, connection: &Waker, streams: &mut Vec<StreamId>) {
        let mut woken = self.0.lock();
        streams.append(&mut woken.streams);
        woken.connection.clone_from(connection);
    }
}

/// Wakes a stream.
#[derive(Debug)]
pub(super) struct StreamWaker {
    stream: StreamId,
    /// Whether the stream is among those that have woken.
    is_woken: AtomicBool,
    wakes: Arc<Wakes>,
}

impl StreamWaker {
    pub(super) fn new(stream: StreamId, wakes: Arc<Wakes>) -> Arc<Self> {
        Arc::new(Self { stream, is_woken: AtomicBool::new(false), wakes })
    }

    /// The stream is about to be polled: later wake-ups are new ones.
    pub(super) fn begin_poll(&self) {
        self.is_woken.store(false, Ordering::Release);
    }
}

impl Wake for StreamWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_woken.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut woken = self.wakes.0.lock();
        woken.streams.push(self.stream);
        let connection = woken.connection.clone();
        drop(woken);
        connection.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_stream_that_wakes_twice_is_listed_once_until_it_is_polled() {
        let (wakes, count) = (Wakes::new(), Arc::new(Count::default()));
        let connection = Waker::from(count.clone());
        let [first, second] = [1, 3].map(|stream| StreamWaker::new(stream, wakes.clone()));
        let mut streams = Vec::new();
        wakes.take(&connection, &mut streams);
        for waker in [&second, &first, &second] {
            waker.wake_by_ref();
        }
        wakes.take(&connection, &mut streams);
        assert_eq!(streams, [3, 1]);
        second.wake_by_ref();
        second.begin_poll();
        second.wake_by_ref();
        first.begin_poll();
        wakes.take(&connection, &mut streams);
        assert_eq!((streams, count.0.load(Ordering::Relaxed)), (vec![3, 1, 3], 3));
    }
}
