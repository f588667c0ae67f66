//! Where the last lines of a file begin, found from its end.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use memchr::memrchr_iter;

/// Read at once. The last ten lines of a log are in the first such block.
const BLOCK_BYTES: u64 = 64 * 1024;

/// Where the last `count` lines begin in the first `size` bytes of `file`. A last line without its newline is one of
/// them; with a `count` of 0 such a line is begun all the same, because its end is still to come.
pub(super) fn start_of_last_lines(file: &File, size: u64, count: u64) -> io::Result<u64> {
    let ends_whole = size == 0 || read_block(file, size - 1, 1)? == b"\n";
    let (end, count) = match (ends_whole, count) {
        (true, 0) => return Ok(size),
        // The newline at the very end begins no line.
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

/// These bytes, or fewer where the file has become shorter: then it is read from its start soon.
fn read_block(file: &File, start: u64, length: u64) -> io::Result<Vec<u8>> {
    // At most a block, which every usize can count.
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
    fn lines_are_counted_over_the_edges_of_blocks() {
        let line = [b"x".repeat(999), b"\n".to_vec()].concat();
        let text = line.repeat(300);
        for count in [1, 64, 65, 66, 131, 299, 300, 301] {
            assert_eq!(start(&text, count), (300 - count.min(300)) * 1000, "the last {count}");
        }
    }
}
