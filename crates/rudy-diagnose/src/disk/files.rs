//! The files that a process has open for writing.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rudy_observe::{Error, Folder, field};

/// A file that is open for writing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenFile {
    pub(super) descriptor: u32,
    pub(super) path: String,
    /// Where the next `write` goes.
    pub(super) position: u64,
    pub(super) size: u64,
}

impl OpenFile {
    /// Bytes written since an earlier sample: by how much the position moved, which covers overwriting; or else by how much the file
    /// grew, which covers `pwrite` and other descriptors. Reading moves the position too, if the file is open for both.
    pub(super) fn written_since(&self, earlier: Option<&Self>) -> u64 {
        let Some(earlier) = earlier.filter(|earlier| earlier.path == self.path) else { return 0 };
        let moved = self.position.saturating_sub(earlier.position);
        if moved > 0 { moved } else { self.size.saturating_sub(earlier.size) }
    }
}

/// The files that a process has open for writing; not sockets, pipes and devices. The error is [`Error::Denied`] for a process of
/// another user.
pub(super) fn open_for_writing(folder: &Folder, buffer: &mut Vec<u8>) -> Result<Vec<OpenFile>, Error> {
    let mut files = Vec::new();
    for descriptor in folder.list("fd")? {
        // A descriptor that is gone by now is left out.
        if let Some(file) = open_file(folder, descriptor, buffer)? {
            files.push(file);
        }
    }
    Ok(files)
}

fn open_file(folder: &Folder, descriptor: u32, buffer: &mut Vec<u8>) -> Result<Option<OpenFile>, Error> {
    let link = format!("fd/{descriptor}");
    let Some(path) = folder.link(&link) else { return Ok(None) };
    // Others are such as `socket:[4711]`, `pipe:[4712]`, `anon_inode:[eventpoll]`.
    let is_file = path.starts_with(b"/") && !path.starts_with(b"/dev/") && !path.starts_with(b"/proc/");
    if !is_file || !folder.read_if_there(&format!("fdinfo/{descriptor}"), buffer)? {
        return Ok(None);
    }
    let Some(position) = field(buffer, "pos:").filter(|_| is_for_writing(buffer)) else { return Ok(None) };
    let Ok(size) = folder.size(&link) else { return Ok(None) };
    let path = OsStr::from_bytes(&path).to_string_lossy().into_owned();
    Ok(Some(OpenFile { descriptor, path, position, size }))
}

/// Whether the access mode in `flags:`, an octal number, is `O_WRONLY` or `O_RDWR`.
fn is_for_writing(fdinfo: &[u8]) -> bool {
    let text = String::from_utf8_lossy(fdinfo);
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| matches!(flags & 0b11, 1 | 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_access_mode_is_octal() {
        let info = |flags: &str| format!("pos:\t12\nflags:\t{flags}\nmnt_id:\t9\n");
        for (flags, is_written) in [("0100000", false), ("02100001", true), ("0102002", true), ("x", false)] {
            assert_eq!(is_for_writing(info(flags).as_bytes()), is_written, "{flags}");
        }
    }

    #[test]
    fn bytes_are_known_by_the_position_or_else_by_the_size() {
        let file =
            |path: &str, position, size| OpenFile { descriptor: 3, path: path.to_owned(), position, size };
        let earlier = file("/a", 100, 200);
        let cases = [
            (file("/a", 150, 200), 50),
            (file("/a", 100, 260), 60),
            (file("/a", 150, 260), 50),
            (file("/a", 0, 0), 0),
            // The number was given to another file.
            (file("/b", 900, 900), 0),
        ];
        for (now, expected) in cases {
            assert_eq!(now.written_since(Some(&earlier)), expected, "{now:?}");
        }
        assert_eq!(file("/a", 5, 5).written_since(None), 0);
    }
}
