//! Buffers of a thread, borrowed by the connection that runs on it, so that waiting connections hold no
//! buffers.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use rudy_http::h1::ServerConnection;
use rudy_http::h2::HeadBuffers;
use rudy_message::DateLine;
use rudy_runtime::clock;

/// Size of a read. Larger reads do not make uploads cheaper; a request head is a hundredth of this.
const READ_BYTES: usize = 64 * 1024;
/// Size of a read on a thread that serves a single connection. The allocator zeroes reused memory, which
/// makes all of its pages resident: 64 KiB cost 50 KiB more for each connection.
const SMALL_READ_BYTES: usize = 8 * 1024;
/// Maximum age of the `Date` header field.
const DATE_AGE_MAX: Duration = Duration::from_millis(50);
/// Maximum capacity of an output buffer that is reused, so that one long pipeline does not occupy its memory
/// forever.
const OUT_BYTES_MAX: usize = 128 * 1024;

/// The buffers of a thread, and the current date.
pub(crate) struct Scratch {
    /// The input of the last read.
    pub(crate) input: Box<[u8]>,
    /// The output of the next write.
    pub(crate) out: BytesMut,
    /// The `Date` header field.
    pub(crate) date: DateLine,
    /// When to update the date.
    date_due: Instant,
    /// The state machine of the connection that became idle last, for reuse.
    pub(crate) machine: Option<Box<ServerConnection>>,
    /// The request head that is decoded, in HTTP/2.
    pub(crate) head: HeadBuffers,
    /// A piece of a body, in frames or in records. Empty at first.
    pub(crate) piece: Box<[u8]>,
}

impl Scratch {
    fn new(read_bytes: usize) -> Self {
        Self {
            input: vec![0; read_bytes].into_boxed_slice(),
            out: BytesMut::with_capacity(READ_BYTES),
            date: DateLine::new(clock::utc()),
            date_due: clock::now() + DATE_AGE_MAX,
            machine: None,
            head: HeadBuffers::default(),
            piece: Box::default(),
        }
    }

    /// Borrows the buffers of this thread, with an empty output buffer. Nested borrows get separate buffers:
    /// a body is read while its connection writes, a session encrypts its input.
    pub(crate) fn borrow() -> Borrowed {
        let mut scratch = FREE.with_borrow_mut(FreeScratches::take);
        scratch.out.clear();
        if scratch.out.capacity() > OUT_BYTES_MAX {
            scratch.out = BytesMut::with_capacity(READ_BYTES);
        }
        Borrowed(Some(scratch))
    }

    /// Returns the input buffer, enlarged to `bytes` if it is smaller.
    pub(crate) fn input_at_least(&mut self, bytes: usize) -> &mut [u8] {
        at_least(&mut self.input, bytes)
    }

    /// Like [`Self::borrow`], with the date updated to `now`.
    pub(crate) fn borrow_at(now: Instant) -> Borrowed {
        let mut scratch = Self::borrow();
        if now >= scratch.date_due {
            scratch.date.update(clock::utc());
            scratch.date_due = now + DATE_AGE_MAX;
        }
        scratch
    }
}

/// Enlarges a buffer to `bytes` if it is smaller.
pub(crate) fn at_least(buffer: &mut Box<[u8]>, bytes: usize) -> &mut [u8] {
    if buffer.len() < bytes {
        *buffer = vec![0; bytes].into_boxed_slice();
    }
    buffer
}

/// Borrowed buffers. Dropping them returns them to the thread.
pub(crate) struct Borrowed(Option<Box<Scratch>>);

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Some(scratch) = self.0.take() {
            // Fails only while the thread ends.
            let _ = FREE.try_with(|free| free.borrow_mut().scratches.push(scratch));
        }
    }
}

impl Deref for Borrowed {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        self.0.as_ref().expect("present until it is dropped")
    }
}

impl DerefMut for Borrowed {
    fn deref_mut(&mut self) -> &mut Scratch {
        self.0.as_mut().expect("present until it is dropped")
    }
}

/// The buffers of a thread that are not borrowed: as many as were ever needed at once, one or two.
#[expect(clippy::vec_box, reason = "a box moves at no cost, and a request borrows several times")]
struct FreeScratches {
    scratches: Vec<Box<Scratch>>,
    read_bytes: usize,
}

impl FreeScratches {
    fn take(&mut self) -> Box<Scratch> {
        self.scratches.pop().unwrap_or_else(|| Box::new(Scratch::new(self.read_bytes)))
    }
}

thread_local! {
    static FREE: RefCell<FreeScratches> = const { RefCell::new(FreeScratches { scratches: Vec::new(), read_bytes: READ_BYTES }) };
}

/// Uses smaller reads on this thread, because it serves a single connection.
pub(crate) fn use_small_buffer() {
    FREE.with_borrow_mut(|free| free.read_bytes = SMALL_READ_BYTES);
}
