//! What a thread lends to the connection that runs on it just now, so that a waiting connection holds no buffer.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant, SystemTime};

use bytes::BytesMut;
use rudy_http::h1::{DateLine, ServerConnection};

/// How much is read at once. Larger reads do not make an upload cheaper; a request's head is a hundredth of it.
const READ_BYTES: usize = 64 * 1024;
/// How much a thread reads at once that has one connection in its life. An allocator that uses memory again has to zero it,
/// and every page of it is then the thread's own: 64 KiB took 50 KiB a connection more than this does.
const SMALL_READ_BYTES: usize = 8 * 1024;
/// How old the `Date` field may be before the clock is asked again.
const DATE_AGE_MAX: Duration = Duration::from_millis(50);
/// What an output buffer may keep for the next connection; one long pipeline does not hold its memory for ever.
const OUT_BYTES_MAX: usize = 128 * 1024;

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
    /// That of the connection that was idle last.
    pub(crate) machine: Option<Box<ServerConnection>>,
}

impl Scratch {
    fn new(read_bytes: usize) -> Self {
        Self {
            input: vec![0; read_bytes].into_boxed_slice(),
            out: BytesMut::with_capacity(READ_BYTES),
            date: DateLine::new(SystemTime::now()),
            date_due: Instant::now() + DATE_AGE_MAX,
            machine: None,
        }
    }

    /// Borrows a scratch of this thread, with an empty output buffer. A second one that is borrowed at the same time is another
    /// scratch: a body that is read while its connection writes, a session that encrypts what it is given.
    pub(crate) fn borrow() -> Borrowed {
        let mut scratch = FREE.with_borrow_mut(FreeScratches::take);
        scratch.out.clear();
        if scratch.out.capacity() > OUT_BYTES_MAX {
            scratch.out = BytesMut::with_capacity(READ_BYTES);
        }
        Borrowed(Some(scratch))
    }

    /// As [`Self::borrow`], with the date of `now`.
    pub(crate) fn borrow_at(now: Instant) -> Borrowed {
        let mut scratch = Self::borrow();
        if now >= scratch.date_due {
            scratch.date.update(SystemTime::now());
            scratch.date_due = now + DATE_AGE_MAX;
        }
        scratch
    }
}

/// A scratch in use. Dropped, it is the thread's again.
pub(crate) struct Borrowed(Option<Scratch>);

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Some(scratch) = self.0.take() {
            // It fails only while the thread ends.
            let _ = FREE.try_with(|free| free.borrow_mut().scratches.push(scratch));
        }
    }
}

impl Deref for Borrowed {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        self.0.as_ref().expect("there until it is dropped")
    }
}

impl DerefMut for Borrowed {
    fn deref_mut(&mut self) -> &mut Scratch {
        self.0.as_mut().expect("there until it is dropped")
    }
}

/// The scratches of a thread that are not borrowed: as many as it ever needed at once, one or two.
struct FreeScratches {
    scratches: Vec<Scratch>,
    read_bytes: usize,
}

impl FreeScratches {
    fn take(&mut self) -> Scratch {
        self.scratches.pop().unwrap_or_else(|| Scratch::new(self.read_bytes))
    }
}

thread_local! {
    static FREE: RefCell<FreeScratches> = const { RefCell::new(FreeScratches { scratches: Vec::new(), read_bytes: READ_BYTES }) };
}

/// Has this thread read less at once: it is there for one connection.
pub(crate) fn use_small_buffer() {
    FREE.with_borrow_mut(|free| free.read_bytes = SMALL_READ_BYTES);
}
