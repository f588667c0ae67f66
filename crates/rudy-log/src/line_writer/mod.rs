//! Writes lines to a file, a pipe, a terminal or another log from a dedicated thread, so that the callers never wait for it.

mod datagrams;
mod destination;
mod output;
mod place;
pub(crate) mod rotation;
#[cfg(test)]
mod tests;
mod tidy;

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

pub use self::datagrams::Receiver;
use self::datagrams::{Datagrams, SEND_TIMEOUT};
pub use self::destination::Destination;
use self::output::Output;
pub(crate) use self::output::Target;
pub use self::place::{LogFile, LogPlace, ONE_DESTINATION};
use self::rotation::open_log;
pub use self::rotation::{RotationOptions, open_to_append};
pub use self::tidy::Compression;

/// Maximum size of the queue in bytes; further lines are dropped and counted. 1 MiB holds about 5,000 requests:
/// a disk that pauses for 50 ms at 100,000 requests a second loses no line.
const QUEUE_BYTES: usize = 1024 * 1024;
/// Size of a batch in bytes that is written without further delay.
const BATCH_BYTES: usize = 64 * 1024;
/// How long a smaller batch waits for more lines. A user of `tail -f` does not notice; a busy server saves a write per request.
const BATCH_DELAY: Duration = Duration::from_millis(50);
/// How long the shutdown of the server waits for a reader that does not read: for the batch that is being written, for the last one,
/// and 1 s more.
const CLOSE_TIMEOUT: Duration = SEND_TIMEOUT.saturating_mul(3);

/// The number of lines that all logs of the process have lost.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Returns the number of lines that all logs of the process have lost.
#[must_use]
pub fn lost_lines() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// What has gone wrong with a log.
#[derive(Debug)]
pub enum LogFailure {
    /// The number of lines missing before the next one: the queue was full, or writes had failed.
    Dropped(u64),
    /// A write failed. The number counts the lines lost since the last successful write.
    Failed(io::Error, u64),
    /// The file was not rotated. No line is lost: the writer continues with it.
    NotRotated(io::Error),
    /// Rotated files were not removed or compressed. The error has the path and the attempt. Another one follows in a minute.
    NotTidied(io::Error),
}

/// A callback that runs in the writing thread after a failure. It can return a line for the file itself.
pub type OnLogFailure = Box<dyn FnMut(&LogFailure) -> Option<String> + Send>;

/// A queue of lines and the thread that writes them.
#[derive(Debug)]
pub struct LineWriter {
    shared: Arc<Shared>,
}

impl LineWriter {
    /// Opens the destination of the log `kind`, such as `access`, and starts a thread that writes to it.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, the other program does not listen, or the thread cannot be started.
    pub fn open(
        kind: &'static str,
        destination: &Destination,
        rotation: Option<&RotationOptions>,
        on_failure: OnLogFailure,
    ) -> io::Result<Self> {
        Self::start(&format!("{kind}-log"), destination.open(kind, rotation)?, on_failure)
    }

    /// Starts a thread called `name` that writes to `target`.
    pub(crate) fn start(name: &str, target: impl Into<Target>, on_failure: OnLogFailure) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let output = Output::new(target.into());
        let for_thread = shared.clone();
        thread::Builder::new().name(name.to_owned()).spawn(move || for_thread.run(output, on_failure))?;
        Ok(Self { shared })
    }

    /// Queues a line, which includes its newline. If the queue is full, counts the line as dropped. Never blocks.
    pub fn push(&self, line: &[u8]) {
        let mut queue = self.shared.queue.lock();
        let before = queue.lines.len();
        if before + line.len() > QUEUE_BYTES {
            queue.dropped += 1;
            LOST.fetch_add(1, Ordering::Relaxed);
            return;
        }
        queue.lines.extend_from_slice(line);
        queue.count += 1;
        // The thread sleeps until the first line, and then until the batch is full or the delay is over.
        if before == 0 || (before < BATCH_BYTES && queue.lines.len() >= BATCH_BYTES) {
            self.shared.wake.notify_one();
        }
    }

    /// Opens the file of `destination` again after it was renamed or removed. Lines queued so far go to the old one. Has no effect for
    /// other destinations.
    ///
    /// # Errors
    ///
    /// The file cannot be opened.
    pub fn reopen(&self, destination: &Destination) -> io::Result<()> {
        if let Destination::File(path) = destination {
            self.replace(open_log(path)?);
        }
        Ok(())
    }

    /// Writes the lines queued so far to the old file, and later ones to `file`.
    fn replace(&self, file: File) {
        let mut queue = self.shared.queue.lock();
        let position = queue.lines.len();
        // Drop a replacement that has received no line, so that there are never more open files than queued lines.
        queue.replacements.pop_if(|(last, _)| *last == position);
        queue.replacements.push((position, file));
        self.shared.wake.notify_one();
    }

    /// Waits until all queued lines are written, for a limited time. Returns the number of those that were not. Later lines are lost.
    #[must_use = "the caller reports lost lines"]
    pub fn close(&self) -> u64 {
        self.close_within(CLOSE_TIMEOUT)
    }

    fn close_within(&self, timeout: Duration) -> u64 {
        let mut queue = self.shared.queue.lock();
        queue.closing = true;
        self.shared.wake.notify_one();
        self.shared.ended.wait_while_for(&mut queue, |queue| !queue.ended, timeout);
        let lost = std::mem::take(&mut queue.writing) + std::mem::take(&mut queue.count);
        LOST.fetch_add(lost, Ordering::Relaxed);
        lost
    }
}

impl Drop for LineWriter {
    /// Lets the thread write the queued lines and end. Does not wait for that: the caller may be a worker.
    fn drop(&mut self) {
        self.shared.queue.lock().closing = true;
        self.shared.wake.notify_one();
    }
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Wakes the thread.
    wake: Condvar,
    /// Notified by the thread when it has written everything and ends.
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    lines: Vec<u8>,
    /// The number of `lines`.
    count: u64,
    /// The number of lines that the thread has taken and not written yet.
    writing: u64,
    dropped: u64,
    /// The files for the lines from these positions on, in order. There can be several if the log is reopened twice before the
    /// thread wakes.
    replacements: Vec<(usize, File)>,
    closing: bool,
    ended: bool,
}

impl Queue {
    fn is_urgent(&self) -> bool {
        self.lines.len() >= BATCH_BYTES || !self.replacements.is_empty() || self.closing
    }
}

impl Shared {
    /// The thread's loop: writes one batch after the other until the writer is closed.
    fn run(&self, mut output: Output, mut on_failure: OnLogFailure) {
        let mut batch = Vec::new();
        loop {
            let mut queue = self.wait();
            std::mem::swap(&mut batch, &mut queue.lines);
            queue.writing = std::mem::take(&mut queue.count);
            let dropped = std::mem::take(&mut queue.dropped);
            let replacements = std::mem::take(&mut queue.replacements);
            let closing = queue.closing;
            drop(queue);

            let mut written = 0;
            for (position, file) in replacements {
                output.write_batch(&batch[written..position], &mut on_failure);
                output.replace(file);
                written = position;
            }
            output.write_batch(&batch[written..], &mut on_failure);
            batch.clear();
            if dropped > 0 {
                // The dropped lines came after this batch and before the next one.
                output.dropped(dropped, &mut on_failure);
            }
            if closing {
                let mut queue = self.queue.lock();
                (queue.ended, queue.writing) = (true, 0);
                self.ended.notify_all();
                return;
            }
        }
    }

    fn wait(&self) -> MutexGuard<'_, Queue> {
        let idle = |queue: &mut Queue| queue.lines.is_empty() && !queue.is_urgent();
        let mut queue = self.queue.lock();
        queue.writing = 0;
        self.wake.wait_while(&mut queue, idle);
        self.wake.wait_while_for(&mut queue, |queue| !queue.is_urgent(), BATCH_DELAY);
        queue
    }
}
