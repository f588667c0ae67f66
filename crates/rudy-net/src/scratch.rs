//! What a thread lends to the connection that runs on it just now, so that a waiting connection holds no buffer.

use std::cell::RefCell;
use std::time::{Duration, Instant, SystemTime};

use bytes::BytesMut;
use rudy_http::h1::DateLine;

/// How much is read at once. Larger reads do not make an upload cheaper; a request's head is a hundredth of it.
const READ_BYTES: usize = 64 * 1024;
/// How much a thread reads at once that has one connection in its life. An allocator that uses memory anew has to zero it,
/// and every page of it is then the thread's own: 64 KiB took 50 KiB a connection more than this does.
const FEW_READ_BYTES: usize = 8 * 1024;
/// How old the `Date` field may be before the clock is asked again.
const DATE_AGE: Duration = Duration::from_millis(50);
/// What an output buffer may keep for the next connection; one long pipeline does not hold its memory for ever.
const OUT_KEPT_BYTES: usize = 128 * 1024;

/// A thread's buffers, and its idea of the date.
pub(crate) struct Scratch {
    /// What was read last.
    pub(crate) input: Box<[u8]>,
    /// What is to be written next.
    pub(crate) out: BytesMut,
    /// The `Date` field of this second.
    pub(crate) date: DateLine,
    /// When the clock is to be asked for the date again.
    date_due: Instant,
}

impl Scratch {
    fn new(read_bytes: usize) -> Self {
        Self {
            input: vec![0; read_bytes].into_boxed_slice(),
            out: BytesMut::with_capacity(READ_BYTES),
            date: DateLine::new(SystemTime::now()),
            date_due: Instant::now() + DATE_AGE,
        }
    }

    fn refresh(&mut self, now: Instant) {
        if now >= self.date_due {
            self.date.update(SystemTime::now());
            self.date_due = now + DATE_AGE;
        }
        self.out.clear();
        if self.out.capacity() > OUT_KEPT_BYTES {
            self.out = BytesMut::with_capacity(READ_BYTES);
        }
    }
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::new(READ_BYTES));
}

/// Gives this thread a scratch for one connection alone.
pub(crate) fn take_small_scratch() {
    SCRATCH.set(Scratch::new(FEW_READ_BYTES));
}

/// Lends the thread's scratch for the length of one call, with an empty output buffer and the date of `now`.
pub(crate) fn with_scratch<R>(now: Instant, work: impl FnOnce(&mut Scratch) -> R) -> R {
    SCRATCH.with_borrow_mut(|scratch| {
        scratch.refresh(now);
        work(scratch)
    })
}
