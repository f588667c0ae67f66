//! Lines to a file, a pipe or a terminal, written by a thread of their own: whoever has a line to write never waits for
//! whatever is at the other end.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Bytes of lines that may wait to be written; beyond it lines are dropped and counted. 1 MiB is some 5,000 requests:
/// a disk that pauses for 50 ms at 100,000 requests a second loses nothing.
const QUEUE_BYTES: usize = 1024 * 1024;
/// So many bytes are worth a write at once.
const BATCH_BYTES: usize = 64 * 1024;
/// How long fewer bytes wait for company. `tail -f` does not notice; a busy server saves a write for each request.
const GATHER_TIME: Duration = Duration::from_millis(50);
/// How long the end of the server waits for a reader who does not read.
const CLOSE_TIME: Duration = Duration::from_secs(2);
/// What a pipe takes in one piece even if others write to it too (`PIPE_BUF` of Linux, pipe(7)).
const PIPE_BYTES: usize = 4096;

/// What keeps lines from being written.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// This many lines are missing before the next one: they came faster than they could be written, or the file took none.
    Dropped(u64),
    /// The file took no more, and this many lines are lost since it last took one.
    Failed(io::Error, u64),
}

/// Is told of trouble, in the writing thread. What it returns becomes a line of the file itself.
pub(crate) type OnTrouble = Box<dyn FnMut(&Trouble) -> Option<String> + Send>;

/// A queue of lines and the thread that writes them.
#[derive(Debug)]
pub(crate) struct LineWriter {
    shared: Arc<Shared>,
}

impl LineWriter {
    /// Starts a thread of this name that writes to `file`.
    pub(crate) fn start(name: &str, file: File, on_trouble: OnTrouble) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let output = Output::new(file);
        let for_thread = shared.clone();
        thread::Builder::new().name(name.to_owned()).spawn(move || for_thread.run(output, on_trouble))?;
        Ok(Self { shared })
    }

    /// Queues a line, its newline included, or counts it as dropped. Never waits for the file.
    pub(crate) fn push(&self, line: &[u8]) {
        let mut queue = self.shared.lock();
        let before = queue.lines.len();
        if before + line.len() > QUEUE_BYTES {
            queue.dropped += 1;
            return;
        }
        queue.lines.extend_from_slice(line);
        // The thread sleeps until there is a first line, and then until there are enough of them.
        if before == 0 || (before < BATCH_BYTES && queue.lines.len() >= BATCH_BYTES) {
            self.shared.wanted.notify_one();
        }
    }

    /// Lines queued so far go to the old file, those from now on to `file`.
    pub(crate) fn replace(&self, file: File) {
        let mut queue = self.shared.lock();
        let position = queue.lines.len();
        // A file that got no line before the next one came is not needed: so no more files wait than lines do.
        queue.replacements.pop_if(|(last, _)| *last == position);
        queue.replacements.push((position, file));
        self.shared.wanted.notify_one();
    }

    /// Writes what waits, and waits for that, though not for ever. What comes after is lost.
    pub(crate) fn close(&self) {
        let mut queue = self.shared.lock();
        queue.closing = true;
        self.shared.wanted.notify_one();
        drop(self.shared.ended.wait_timeout_while(queue, CLOSE_TIME, |queue| !queue.ended));
    }
}

impl Drop for LineWriter {
    /// The thread writes what waits and ends. It is not waited for: this may be a thread that serves others.
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.wanted.notify_one();
    }
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Signalled to the thread: there is something to do.
    wanted: Condvar,
    /// Signalled by the thread when it has written everything and ends.
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    lines: Vec<u8>,
    dropped: u64,
    /// The files for the lines beyond these positions, in order. There may be several: the thread does not wake between
    /// two reopens that follow each other quickly.
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
    /// A panic while the lock is held leaves nothing half done: a line is appended in one step.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread: takes what has gathered, writes it, and begins again until it is told to end.
    fn run(&self, mut output: Output, mut on_trouble: OnTrouble) {
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
                output.write_batch(&batch[written..position], &mut on_trouble);
                output = Output { lost: output.lost, ..Output::new(file) };
                written = position;
            }
            output.write_batch(&batch[written..], &mut on_trouble);
            batch.clear();
            if dropped > 0 {
                // They came when the queue was full, so after everything in it and before everything to come.
                output.note(&Trouble::Dropped(dropped), &mut on_trouble);
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
        let queue = self.wanted.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        self.wanted
            .wait_timeout_while(queue, GATHER_TIME, |queue| !queue.is_urgent())
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }
}

/// The file, and whether it ends in the middle of a line.
struct Output {
    file: File,
    /// The most bytes in one write.
    piece_bytes: usize,
    is_torn: bool,
    /// Lines that it has not taken since it last took one.
    lost: u64,
}

impl Output {
    fn new(file: File) -> Self {
        // Appending to a regular file is one step however much it is; a pipe mixes the pieces of its writers.
        let is_pipe = file
            .metadata()
            .is_ok_and(|metadata| metadata.file_type().is_fifo() || metadata.file_type().is_socket());
        Self { file, piece_bytes: if is_pipe { PIPE_BYTES } else { usize::MAX }, is_torn: false, lost: 0 }
    }

    fn write_batch(&mut self, lines: &[u8], on_trouble: &mut OnTrouble) {
        match self.write_lines(lines) {
            Err((error, lost)) => {
                self.lost += lost;
                self.note(&Trouble::Failed(error, self.lost), on_trouble);
            }
            // It takes lines again, and says how many it lacks.
            Ok(()) if self.lost > 0 && !lines.is_empty() => {
                let lost = std::mem::take(&mut self.lost);
                self.note(&Trouble::Dropped(lost), on_trouble);
            }
            Ok(()) => {}
        }
    }

    fn note(&mut self, trouble: &Trouble, on_trouble: &mut OnTrouble) {
        if let Some(line) = on_trouble(trouble) {
            // If the file does not take this line either, the trouble has been told all the same.
            let _ = self.write_lines(line.as_bytes());
        }
    }

    /// Writes lines, or says why not, and how many are lost.
    fn write_lines(&mut self, mut lines: &[u8]) -> Result<(), (io::Error, u64)> {
        while !lines.is_empty() {
            let (piece, rest) = lines.split_at(piece_length(lines, self.piece_bytes));
            if let Err((error, written)) = self.write_piece(piece) {
                let lost = lines[written..].split_inclusive(|byte| *byte == b'\n').count();
                return Err((error, lost as u64));
            }
            lines = rest;
        }
        Ok(())
    }

    /// Writes all of `piece`, or says how much of it was written. A full disk may take half a line: the next write
    /// begins a new one, so that the torn one stands alone.
    fn write_piece(&mut self, piece: &[u8]) -> Result<(), (io::Error, usize)> {
        if self.is_torn {
            self.file.write_all(b"\n").map_err(|error| (error, 0))?;
            self.is_torn = false;
        }
        let mut written = 0;
        while written < piece.len() {
            match self.file.write(&piece[written..]) {
                Ok(0) => return Err((io::ErrorKind::WriteZero.into(), written)),
                Ok(n) => written += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err((error, written)),
            }
            self.is_torn = piece[written - 1] != b'\n';
        }
        Ok(())
    }
}

/// How much of `lines` to write at once: whole lines, `most` bytes at most unless one line alone is longer.
fn piece_length(lines: &[u8], most: usize) -> usize {
    if lines.len() <= most {
        return lines.len();
    }
    let end_of_line = |byte: &u8| *byte == b'\n';
    let fitting = lines[..most].iter().rposition(end_of_line);
    fitting.or_else(|| lines.iter().position(end_of_line)).map_or(lines.len(), |end| end + 1)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read};
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;

    use super::*;

    fn silent() -> OnTrouble {
        Box::new(|_| None)
    }

    fn socket_file(stream: UnixStream) -> File {
        File::from(std::os::fd::OwnedFd::from(stream))
    }

    #[test]
    fn pieces_are_whole_lines() {
        for (lines, most, expected) in [
            ("", 4, 0),
            ("ab\n", 4, 3),
            ("ab\ncd\n", 4, 3),
            ("ab\ncd\n", 5, 3),
            ("ab\ncd\n", 6, 6),
            ("abcdefgh\nij\n", 4, 9),
        ] {
            assert_eq!(piece_length(lines.as_bytes(), most), expected, "{lines:?} at {most}");
        }
    }

    #[test]
    fn lines_arrive_in_order_and_none_is_lost_at_the_end() {
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
    fn a_reader_who_does_not_read_costs_lines_that_are_counted_in_the_file() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let note: OnTrouble = Box::new(|trouble| match trouble {
            Trouble::Dropped(n) => Some(format!("dropped {n}\n")),
            Trouble::Failed(..) => None,
        });
        let writer = LineWriter::start("test", socket_file(ours), note).unwrap();
        let line = [b"x".repeat(1023), b"\n".to_vec()].concat();
        let pushed = 4 * QUEUE_BYTES / line.len();
        for _ in 0..pushed {
            writer.push(&line);
        }
        let reader = thread::spawn(move || BufReader::new(theirs).lines().collect::<Result<Vec<_>, _>>());
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
    fn a_replaced_file_gets_every_line_from_then_on() {
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
    fn a_file_that_is_replaced_before_the_writer_wakes_gets_its_lines() {
        let folder = tempfile::tempdir().unwrap();
        let [second, third] = ["second", "third"].map(|name| folder.path().join(name));
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let writer = LineWriter::start("test", socket_file(ours), silent()).unwrap();
        // More than a socket takes: until the other end reads, the writer sees none of what follows.
        let first = [b"x".repeat(QUEUE_BYTES / 2), b"\n".to_vec()].concat();
        writer.push(&first);
        writer.replace(File::create(&second).unwrap());
        writer.push(b"between\n");
        writer.replace(File::create(&third).unwrap());
        writer.push(b"after\n");
        let reader = thread::spawn(move || {
            let mut read = Vec::new();
            theirs.read_to_end(&mut read).map(|_| read)
        });
        writer.close();
        assert!(reader.join().unwrap().unwrap() == first, "the first file has other lines than the first");
        assert_eq!(std::fs::read_to_string(second).unwrap(), "between\n");
        assert_eq!(std::fs::read_to_string(third).unwrap(), "after\n");
    }

    #[test]
    fn lines_that_a_full_disk_has_cost_are_counted_where_lines_go_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let (sender, told) = mpsc::channel();
        let note: OnTrouble = Box::new(move |trouble| {
            sender.send(format!("{trouble:?}")).unwrap();
            matches!(trouble, Trouble::Dropped(_)).then(|| format!("{trouble:?}\n"))
        });
        let full = || File::options().write(true).open("/dev/full").unwrap();
        let writer = LineWriter::start("test", full(), note).unwrap();
        writer.push(b"one\ntwo\n");
        assert!(told.recv().unwrap().ends_with(", 2)"));
        writer.push(b"three\n");
        assert!(told.recv().unwrap().ends_with(", 3)"), "all since the last that was written");
        writer.replace(File::create(&path).unwrap());
        writer.push(b"four\n");
        writer.push(b"five\n");
        writer.close();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "four\nfive\nDropped(3)\n");
    }

    #[test]
    fn a_file_that_takes_nothing_is_told_with_the_number_of_lines() {
        let (sender, told) = mpsc::channel();
        let tell: OnTrouble = Box::new(move |trouble| {
            sender.send(format!("{trouble:?}")).unwrap();
            None
        });
        let full = File::options().write(true).open("/dev/full").unwrap();
        let writer = LineWriter::start("test", full, tell).unwrap();
        writer.push(b"one\ntwo\n");
        let told = told.recv().unwrap();
        assert!(told.contains("StorageFull") && told.ends_with(", 2)"), "{told}");
    }
}
