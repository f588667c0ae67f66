//! Writes lines to a file, a pipe or a terminal from a dedicated thread, so that the callers never wait for it.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Maximum size of the queue in bytes; further lines are dropped and counted. 1 MiB holds about 5,000 requests:
/// a disk that pauses for 50 ms at 100,000 requests a second loses no line.
const QUEUE_BYTES: usize = 1024 * 1024;
/// Size of a batch in bytes that is written without further delay.
const BATCH_BYTES: usize = 64 * 1024;
/// How long a smaller batch waits for more lines. A user of `tail -f` does not notice; a busy server saves a write per request.
const BATCH_DELAY: Duration = Duration::from_millis(50);
/// How long the shutdown of the server waits for a reader that does not read.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum size of an atomic write to a pipe (`PIPE_BUF` of Linux, pipe(7)).
const PIPE_BYTES: usize = 4096;

/// Why lines are missing.
#[derive(Debug)]
pub(crate) enum LinesLost {
    /// The number of lines missing before the next one: the queue was full, or writes had failed.
    Dropped(u64),
    /// A write failed. The number counts the lines lost since the last successful write.
    Failed(io::Error, u64),
}

/// A callback that runs in the writing thread when lines are lost. It can return a line for the file itself.
pub(crate) type OnLinesLost = Box<dyn FnMut(&LinesLost) -> Option<String> + Send>;

/// A queue of lines and the thread that writes them.
#[derive(Debug)]
pub(crate) struct LineWriter {
    shared: Arc<Shared>,
}

impl LineWriter {
    /// Starts a thread called `name` that writes to `file`.
    pub(crate) fn start(name: &str, file: File, on_lines_lost: OnLinesLost) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let output = Output::new(file);
        let for_thread = shared.clone();
        thread::Builder::new().name(name.to_owned()).spawn(move || for_thread.run(output, on_lines_lost))?;
        Ok(Self { shared })
    }

    /// Queues a line, which includes its newline. If the queue is full, counts the line as dropped. Never blocks.
    pub(crate) fn push(&self, line: &[u8]) {
        let mut queue = self.shared.lock();
        let before = queue.lines.len();
        if before + line.len() > QUEUE_BYTES {
            queue.dropped += 1;
            return;
        }
        queue.lines.extend_from_slice(line);
        // The thread sleeps until the first line, and then until the batch is full or the delay is over.
        if before == 0 || (before < BATCH_BYTES && queue.lines.len() >= BATCH_BYTES) {
            self.shared.wake.notify_one();
        }
    }

    /// Writes the lines queued so far to the old file, and later ones to `file`.
    pub(crate) fn replace(&self, file: File) {
        let mut queue = self.shared.lock();
        let position = queue.lines.len();
        // Drop a replacement that has received no line, so that there are never more open files than queued lines.
        queue.replacements.pop_if(|(last, _)| *last == position);
        queue.replacements.push((position, file));
        self.shared.wake.notify_one();
    }

    /// Waits until all queued lines are written, for a limited time. Later lines are lost.
    pub(crate) fn close(&self) {
        let mut queue = self.shared.lock();
        queue.closing = true;
        self.shared.wake.notify_one();
        drop(self.shared.ended.wait_timeout_while(queue, CLOSE_TIMEOUT, |queue| !queue.ended));
    }
}

impl Drop for LineWriter {
    /// Lets the thread write the queued lines and end. Does not wait for that: the caller may be a worker.
    fn drop(&mut self) {
        self.shared.lock().closing = true;
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
    /// Ignores poisoning: a line is appended in one step, so a panic leaves the queue consistent.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread's loop: writes one batch after the other until the writer is closed.
    fn run(&self, mut output: Output, mut on_lines_lost: OnLinesLost) {
        let mut batch = Vec::new();
        loop {
            let mut queue = self.wait();
            std::mem::swap(&mut batch, &mut queue.lines);
            let dropped = std::mem::take(&mut queue.dropped);
            let replacements = std::mem::take(&mut queue.replacements);
            let closing = queue.closing;
            drop(queue);

            let mut written = 0;
            for (position, file) in replacements {
                output.write_batch(&batch[written..position], &mut on_lines_lost);
                output = Output { lost: output.lost, ..Output::new(file) };
                written = position;
            }
            output.write_batch(&batch[written..], &mut on_lines_lost);
            batch.clear();
            if dropped > 0 {
                // The dropped lines came after this batch and before the next one.
                output.report(&LinesLost::Dropped(dropped), &mut on_lines_lost);
            }
            if closing {
                self.lock().ended = true;
                self.ended.notify_all();
                return;
            }
        }
    }

    fn wait(&self) -> MutexGuard<'_, Queue> {
        let idle = |queue: &mut Queue| queue.lines.is_empty() && !queue.is_urgent();
        let queue = self.wake.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        self.wake
            .wait_timeout_while(queue, BATCH_DELAY, |queue| !queue.is_urgent())
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }
}

/// The current file.
struct Output {
    file: File,
    /// Maximum size of one write in bytes.
    chunk_bytes: usize,
    /// Whether the file ends with an incomplete line.
    is_torn: bool,
    /// Lines lost since the last successful write.
    lost: u64,
}

impl Output {
    fn new(file: File) -> Self {
        // An append to a regular file is atomic at any size. A larger write to a pipe can mix with those of other writers.
        let is_pipe = file
            .metadata()
            .is_ok_and(|metadata| metadata.file_type().is_fifo() || metadata.file_type().is_socket());
        Self { file, chunk_bytes: if is_pipe { PIPE_BYTES } else { usize::MAX }, is_torn: false, lost: 0 }
    }

    fn write_batch(&mut self, lines: &[u8], on_lines_lost: &mut OnLinesLost) {
        match self.write_lines(lines) {
            Err((error, lost)) => {
                self.lost += lost;
                self.report(&LinesLost::Failed(error, self.lost), on_lines_lost);
            }
            // Writes work again: report in the file how many lines are missing.
            Ok(()) if self.lost > 0 && !lines.is_empty() => {
                let lost = std::mem::take(&mut self.lost);
                self.report(&LinesLost::Dropped(lost), on_lines_lost);
            }
            Ok(()) => {}
        }
    }

    fn report(&mut self, lost: &LinesLost, on_lines_lost: &mut OnLinesLost) {
        if let Some(line) = on_lines_lost(lost) {
            // The callback has reported the loss, even if this line is lost too.
            let _ = self.write_lines(line.as_bytes());
        }
    }

    /// Writes lines. The error includes the number of lines lost.
    fn write_lines(&mut self, mut lines: &[u8]) -> Result<(), (io::Error, u64)> {
        while !lines.is_empty() {
            let (chunk, rest) = lines.split_at(chunk_length(lines, self.chunk_bytes));
            if let Err((error, written)) = self.write_chunk(chunk) {
                let lost = lines[written..].split_inclusive(|byte| *byte == b'\n').count();
                return Err((error, lost as u64));
            }
            lines = rest;
        }
        Ok(())
    }

    /// Writes all of `chunk`. The error includes the number of bytes written. A full disk can cut a line in half: the next write
    /// then begins with a newline, so that it does not continue the incomplete line.
    fn write_chunk(&mut self, chunk: &[u8]) -> Result<(), (io::Error, usize)> {
        if self.is_torn {
            self.file.write_all(b"\n").map_err(|error| (error, 0))?;
            self.is_torn = false;
        }
        let mut written = 0;
        while written < chunk.len() {
            match self.file.write(&chunk[written..]) {
                Ok(0) => return Err((io::ErrorKind::WriteZero.into(), written)),
                Ok(n) => written += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err((error, written)),
            }
            self.is_torn = chunk[written - 1] != b'\n';
        }
        Ok(())
    }
}

/// Returns the length of the next write: whole lines, at most `max` bytes unless the first line is longer.
fn chunk_length(lines: &[u8], max: usize) -> usize {
    if lines.len() <= max {
        return lines.len();
    }
    let end_of_line = |byte: &u8| *byte == b'\n';
    let fitting = lines[..max].iter().rposition(end_of_line);
    fitting.or_else(|| lines.iter().position(end_of_line)).map_or(lines.len(), |end| end + 1)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read};
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;

    use super::*;

    fn silent() -> OnLinesLost {
        Box::new(|_| None)
    }

    fn socket_file(stream: UnixStream) -> File {
        File::from(std::os::fd::OwnedFd::from(stream))
    }

    #[test]
    fn a_chunk_holds_whole_lines() {
        for (lines, max, expected) in [
            ("", 4, 0),
            ("ab\n", 4, 3),
            ("ab\ncd\n", 4, 3),
            ("ab\ncd\n", 5, 3),
            ("ab\ncd\n", 6, 6),
            ("abcdefgh\nij\n", 4, 9),
        ] {
            assert_eq!(chunk_length(lines.as_bytes(), max), expected, "{lines:?} with {max}");
        }
    }

    #[test]
    fn all_lines_are_written_in_order() {
        let mut file = tempfile::tempfile().unwrap();
        let writer = LineWriter::start("test", file.try_clone().unwrap(), silent()).unwrap();
        let expected: String = (0..10_000).fold(String::new(), |lines, n| lines + &format!("line {n}\n"));
        for line in expected.split_inclusive('\n') {
            writer.push(line.as_bytes());
        }
        writer.close();
        let mut written = String::new();
        io::Seek::rewind(&mut file).unwrap();
        file.read_to_string(&mut written).unwrap();
        assert_eq!(written, expected);
    }

    #[test]
    fn lines_dropped_because_of_a_slow_reader_are_counted_in_the_file() {
        let (write_end, read_end) = UnixStream::pair().unwrap();
        let on_lines_lost: OnLinesLost = Box::new(|lost| match lost {
            LinesLost::Dropped(n) => Some(format!("dropped {n}\n")),
            LinesLost::Failed(..) => None,
        });
        let writer = LineWriter::start("test", socket_file(write_end), on_lines_lost).unwrap();
        let line = [b"x".repeat(1023), b"\n".to_vec()].concat();
        let pushed = 4 * QUEUE_BYTES / line.len();
        for _ in 0..pushed {
            writer.push(&line);
        }
        let reader = thread::spawn(move || BufReader::new(read_end).lines().collect::<Result<Vec<_>, _>>());
        writer.close();
        drop(writer);
        let lines = reader.join().unwrap().unwrap();
        let dropped: usize =
            lines.iter().filter_map(|line| line.strip_prefix("dropped ")?.parse::<usize>().ok()).sum();
        let arrived = lines.iter().filter(|line| line.len() == 1023).count();
        assert!(dropped > 0, "nothing was dropped");
        assert_eq!(arrived + dropped, pushed);
    }

    #[test]
    fn lines_after_a_replacement_go_to_the_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        let writer = LineWriter::start("test", File::create(&old).unwrap(), silent()).unwrap();
        writer.push(b"before\n");
        writer.replace(File::create(&new).unwrap());
        writer.push(b"after\n");
        writer.close();
        assert_eq!(std::fs::read_to_string(old).unwrap(), "before\n");
        assert_eq!(std::fs::read_to_string(new).unwrap(), "after\n");
    }

    #[test]
    fn each_file_gets_its_lines_if_two_replacements_happen_before_the_thread_wakes() {
        let folder = tempfile::tempdir().unwrap();
        let [second, third] = ["second", "third"].map(|name| folder.path().join(name));
        let (write_end, mut read_end) = UnixStream::pair().unwrap();
        let writer = LineWriter::start("test", socket_file(write_end), silent()).unwrap();
        // More than a socket buffers: the thread blocks on this line until the other end reads.
        let first = [b"x".repeat(QUEUE_BYTES / 2), b"\n".to_vec()].concat();
        writer.push(&first);
        writer.replace(File::create(&second).unwrap());
        writer.push(b"between\n");
        writer.replace(File::create(&third).unwrap());
        writer.push(b"after\n");
        let reader = thread::spawn(move || {
            let mut read = Vec::new();
            read_end.read_to_end(&mut read).map(|_| read)
        });
        writer.close();
        assert!(reader.join().unwrap().unwrap() == first, "the first file has exactly the first line");
        assert_eq!(std::fs::read_to_string(second).unwrap(), "between\n");
        assert_eq!(std::fs::read_to_string(third).unwrap(), "after\n");
    }

    #[test]
    fn lines_lost_on_a_full_disk_are_counted_in_the_file_after_the_next_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let (sender, reports) = mpsc::channel();
        let on_lines_lost: OnLinesLost = Box::new(move |lost| {
            sender.send(format!("{lost:?}")).unwrap();
            matches!(lost, LinesLost::Dropped(_)).then(|| format!("{lost:?}\n"))
        });
        let full = || File::options().write(true).open("/dev/full").unwrap();
        let writer = LineWriter::start("test", full(), on_lines_lost).unwrap();
        writer.push(b"one\ntwo\n");
        assert!(reports.recv().unwrap().ends_with(", 2)"));
        writer.push(b"three\n");
        assert!(reports.recv().unwrap().ends_with(", 3)"), "all since the last successful write");
        writer.replace(File::create(&path).unwrap());
        writer.push(b"four\n");
        writer.push(b"five\n");
        writer.close();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "four\nfive\nDropped(3)\n");
    }

    #[test]
    fn a_failed_write_is_reported_with_the_number_of_lines() {
        let (sender, reports) = mpsc::channel();
        let on_lines_lost: OnLinesLost = Box::new(move |lost| {
            sender.send(format!("{lost:?}")).unwrap();
            None
        });
        let full = File::options().write(true).open("/dev/full").unwrap();
        let writer = LineWriter::start("test", full, on_lines_lost).unwrap();
        writer.push(b"one\ntwo\n");
        let report = reports.recv().unwrap();
        assert!(report.contains("StorageFull") && report.ends_with(", 2)"), "{report}");
    }
}
