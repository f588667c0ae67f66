//! Collects the output of a variant, so that it never blocks, and retains the last part.

use std::collections::VecDeque;
use std::io::{self, PipeReader, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The size of the retained part: enough for a stack trace.
pub(crate) const KEPT_BYTES: usize = 16 * 1024;

/// The output of a variant so far.
#[derive(Debug, Clone)]
pub(crate) struct Output(Arc<Mutex<Buffer>>);

#[derive(Debug, Default)]
struct Buffer {
    kept: VecDeque<u8>,
    total: u64,
    /// The text to wait for, and the last bytes, which may be its beginning.
    wanted: Vec<u8>,
    tail: Vec<u8>,
    is_found: bool,
    is_over: bool,
}

impl Output {
    /// Reads the output on a separate thread until all writers have closed it. Searches it for `wanted`.
    pub(crate) fn follow(mut pipe: PipeReader, wanted: &str) -> io::Result<Self> {
        let buffer = Buffer { wanted: wanted.as_bytes().to_owned(), ..Buffer::default() };
        let output = Self(Arc::new(Mutex::new(buffer)));
        let own = output.clone();
        let read = move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = pipe.read(&mut buffer) {
                own.lock().add(&buffer[..length]);
            }
            own.lock().is_over = true;
        };
        thread::Builder::new().name("rudy-lab-output".to_owned()).spawn(read)?;
        Ok(output)
    }

    /// Whether the text was found.
    pub(crate) fn is_found(&self) -> bool {
        self.lock().is_found
    }

    /// Whether the output is complete: all writers have closed it.
    pub(crate) fn is_over(&self) -> bool {
        self.lock().is_over
    }

    /// The last lines of the output with an introduction; empty without output.
    pub(crate) fn end(&self) -> Option<String> {
        let text = self.text();
        (!text.is_empty()).then(|| {
            let buffer = self.lock();
            let left_out = buffer.total.saturating_sub(buffer.kept.len() as u64);
            let cut =
                if left_out > 0 { format!(" ({left_out} bytes before it left out)") } else { String::new() };
            format!("its output{cut}:\n{text}")
        })
    }

    /// The last lines of the output.
    pub(crate) fn text(&self) -> String {
        let kept: Vec<u8> = self.lock().kept.iter().copied().collect();
        let text: String = String::from_utf8_lossy(&kept)
            .chars()
            .map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c })
            .collect();
        text.trim().to_owned()
    }

    /// A reader that panicked has left its data.
    fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buffer {
    fn add(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        self.kept.extend(bytes);
        let beyond = self.kept.len().saturating_sub(KEPT_BYTES);
        self.kept.drain(..beyond);
        if !self.is_found && !self.wanted.is_empty() {
            self.tail.extend_from_slice(bytes);
            self.is_found = self.tail.windows(self.wanted.len()).any(|window| window == self.wanted);
            let needless = (self.tail.len() + 1).saturating_sub(self.wanted.len());
            self.tail.drain(..needless);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_across_the_pieces_in_which_it_comes() {
        let mut buffer = Buffer { wanted: b"listening".to_vec(), ..Buffer::default() };
        for (piece, is_found) in [("I am lis", false), ("tenin", false), ("g now", true), ("more", true)] {
            buffer.add(piece.as_bytes());
            assert_eq!(buffer.is_found, is_found, "{piece}");
        }
    }

    #[test]
    fn the_end_of_a_megabyte_is_kept_with_a_note_about_the_rest() {
        let output = Output(Arc::default());
        for _ in 0..256 {
            output.lock().add(&[b'x'; 4096]);
        }
        output.lock().add(b"the end\x1b[31m");
        let end = output.end().unwrap();
        assert!(end.contains("the end\u{fffd}[31m") && end.len() < KEPT_BYTES + 100);
        assert!(end.contains(&format!("({} bytes", (1 << 20) + 12 - KEPT_BYTES)), "{}", &end[..80]);
    }
}
