//! Finds the start of the last lines of a file, reading backwards from its end.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use memchr::memrchr_iter;

/// The size of a block that is read at once. The last ten lines of a log fit into one.
const BLOCK_BYTES: u64 = 64 * 1024;

/// Returns the offset of the last `count` lines in the first `size` bytes of `file`. An unfinished last line
/// counts as a line. With a `count` of 0 it is included all the same, because its end is still to come.
pub(super) fn start_of_last_lines(file: &File, size: u64, count: u64) -> io::Result<u64> {
    let ends_whole = size == 0 || read_block(file, size - 1, 1)? == b"\n";
    let (end, count) = match (ends_whole, count) {
        (true, 0) => return Ok(size),
        // No line starts after the final newline.
        (true, count) => (size.saturating_sub(1), count),
        (false, count) => (size, count.max(1)),
    };
    let mut left = count;
    let mut block_end = end;
    while block_end > 0 {
        let block_start = block_end.saturating_sub(BLOCK_BYTES);
        let block = read_block(file, block_start, block_end - block_start)?;
        for newline in memrchr_iter(b'\n', &block) {
            left -= 1;
            if left == 0 {
                return Ok(block_start + newline as u64 + 1);
            }
        }
        block_end = block_start;
    }
    Ok(0)
}

/// Reads these bytes, or fewer if the file was truncated; then it is soon read from its start.
fn read_block(file: &File, start: u64, length: u64) -> io::Result<Vec<u8>> {
    // At most one block, which fits into every `usize`.
    let mut block = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    let mut filled = 0;
    while filled < block.len() {
        match file.read_at(&mut block[filled..], start + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    block.truncate(filled);
    Ok(block)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn start(text: &[u8], count: u64) -> u64 {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        start_of_last_lines(&file, text.len() as u64, count).unwrap()
    }

    #[test]
    fn the_last_lines_are_found() {
        for (text, count, expected) in [
            ("", 0, 0),
            ("", 3, 0),
            ("\n", 0, 1),
            ("\n", 1, 0),
            ("a\nb\nc\n", 0, 6),
            ("a\nb\nc\n", 1, 4),
            ("a\nb\nc\n", 2, 2),
            ("a\nb\nc\n", 3, 0),
            ("a\nb\nc\n", u64::MAX, 0),
            ("a\n\n\n", 2, 2),
            ("a\nb", 0, 2),
            ("a\nb", 1, 2),
            ("a\nb", 2, 0),
        ] {
            assert_eq!(start(text.as_bytes(), count), expected, "the last {count} of {text:?}");
        }
    }

    #[test]
    fn lines_are_counted_across_blocks() {
        let line = [b"x".repeat(999), b"\n".to_vec()].concat();
        let text = line.repeat(300);
        for count in [1, 64, 65, 66, 131, 299, 300, 301] {
            assert_eq!(start(&text, count), (300 - count.min(300)) * 1000, "the last {count}");
        }
    }
}
