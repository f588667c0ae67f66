//! Reads files from the page cache without waiting for a disk, and reads uncached files on the thread pool.
//!
//! A worker has one thread, so waiting for a disk would block all its connections. It reads and sends only
//! cached data. The pool for blocking work first reads the rest into the page cache.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::Advice;
use rustix::io::{Errno, ReadWriteFlags};

/// Size of a read on the pool.
const READ_BYTES: usize = 128 * 1024;

/// Reads cached data at `offset`. Returns fewer bytes than `buffer` holds if the rest is not cached, or at
/// the end of the file.
///
/// # Errors
///
/// [`io::ErrorKind::WouldBlock`] if the first byte is not cached, or if the file system cannot report it.
/// Other errors come from the file system.
pub fn read_cached(file: impl AsFd, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    read_cached_into(file, &mut [IoSliceMut::new(buffer)], offset)
}

/// Like [`read_cached`], into several buffers.
///
/// # Errors
///
/// As those of [`read_cached`].
pub fn read_cached_into(file: impl AsFd, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
    if rudy_runtime::current().is_some() {
        // What the kernel has cached depends on more than the seed of a simulation.
        return Ok(rustix::io::preadv(&file, buffers, offset)?);
    }
    let read = match rustix::io::preadv2(&file, buffers, offset, ReadWriteFlags::NOWAIT) {
        Err(Errno::OPNOTSUPP) if is_in_memory(&file) => rustix::io::preadv(&file, buffers, offset),
        Err(Errno::OPNOTSUPP) => Err(Errno::AGAIN),
        read => read,
    };
    Ok(read?)
}

/// Whether a piece of a file can be sent without waiting: its first and last page are in the page cache. If
/// the file system cannot report it, the piece counts as not cached.
///
/// Takes two system calls; one for a piece within a page, or if the first page is not cached. The pages
/// between are not checked, because a piece is written and read ahead as a whole, and is seldom evicted in
/// parts.
#[must_use]
pub fn is_cached(file: &File, offset: u64, length: u64) -> bool {
    if let Some(simulation) = rudy_runtime::current() {
        return simulation.random() % 8 > 0;
    }
    let page = |at: u64| at / rustix::param::page_size() as u64;
    let last = offset.saturating_add(length).saturating_sub(1);
    let probe = |at: u64| read_if_cached(file, &mut [0], at);
    match probe(offset) {
        Err(Errno::AGAIN) => false,
        Err(Errno::OPNOTSUPP) => is_in_memory(file),
        Ok(_) if page(last) > page(offset) => probe(last) != Err(Errno::AGAIN),
        // The code that sends the piece will get and report the same error.
        Ok(_) | Err(_) => true,
    }
}

/// Reads a piece of a file into the page cache, on the pool for blocking work. Stops early at the end of the
/// file.
///
/// # Errors
///
/// Errors of the file system.
///
/// # Panics
///
/// The thread is outside of a tokio runtime.
pub async fn read_into_cache(file: Arc<File>, offset: u64, length: u64) -> io::Result<()> {
    let read = rudy_runtime::blocking(move || read_through(&file, offset, length));
    read.await.map_err(io::Error::other)?
}

fn read_through(file: &File, offset: u64, length: u64) -> io::Result<()> {
    // One disk request for the whole piece, instead of one for each of the kernel's read-ahead windows. This
    // is advice: the reads below work without it.
    let _ = rustix::fs::fadvise(file, offset, NonZeroU64::new(length), Advice::WillNeed);
    let size = usize::try_from(length).map_or(READ_BYTES, |length| length.min(READ_BYTES));
    let mut buffer = vec![0; size];
    let (mut at, end) = (offset, offset.saturating_add(length));
    while at < end {
        let wanted = usize::try_from(end - at).map_or(size, |left| left.min(size));
        match file.read_at(&mut buffer[..wanted], at) {
            Ok(0) => break,
            Ok(read) => at += read as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn read_if_cached(file: impl AsFd, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    rustix::io::preadv2(file, &mut [IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT)
}

/// Whether a file is in memory only. Only files of tmpfs can be sealed; querying the file system type might
/// wait for the server of a network file system.
fn is_in_memory(file: impl AsFd) -> bool {
    rustix::fs::fcntl_get_seals(file).is_ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::Path;

    use super::*;

    const SIZE: u64 = 512 * 1024;

    fn file_in(folder: &Path) -> Arc<File> {
        let mut file = tempfile::tempfile_in(folder).unwrap();
        file.write_all(&vec![b'x'; usize::try_from(SIZE).unwrap()]).unwrap();
        Arc::new(file)
    }

    /// Returns a file of which only a page in the middle is cached; `None`, after a message, if the file
    /// system does not evict it. Each probe makes the kernel read the page, so a test must probe each page
    /// once.
    fn evicted() -> Option<Arc<File>> {
        let file = file_in(&std::env::temp_dir());
        file.sync_all().unwrap();
        rustix::fs::fadvise(&*file, 0, None, Advice::DontNeed).unwrap();
        // Turns off read-ahead, so that one page is read alone.
        rustix::fs::fadvise(&*file, 0, None, Advice::Random).unwrap();
        match read_if_cached(&*file, &mut [0], SIZE / 2) {
            Err(Errno::AGAIN) => Some(file),
            read => {
                eprintln!("skipped: {} keeps its pages ({read:?})", std::env::temp_dir().display());
                None
            }
        }
    }

    /// Whether the file system of the temporary folder reports what is cached.
    fn reports_cached_pages(file: &File) -> bool {
        let reports = read_if_cached(file, &mut [0], 0) != Err(Errno::OPNOTSUPP) || is_in_memory(file);
        if !reports {
            eprintln!("skipped: {} does not report cached pages", std::env::temp_dir().display());
        }
        reports
    }

    #[test]
    fn a_file_just_written_is_cached() {
        let file = file_in(&std::env::temp_dir());
        if !reports_cached_pages(&file) {
            return;
        }
        for (offset, length) in [(0, SIZE), (0, 1), (SIZE - 1, 1), (5, 4096), (SIZE / 2, SIZE / 2), (0, 0)] {
            assert!(is_cached(&file, offset, length), "{offset} {length}");
        }
        let mut buffer = [0; 8];
        assert_eq!((read_cached(&*file, &mut buffer, SIZE - 3).unwrap(), &buffer[..3]), (3, &b"xxx"[..]));
        // Past the end of the file no read has to wait.
        assert!(is_cached(&file, SIZE + 1, 1));
        assert_eq!(read_cached(&*file, &mut buffer, SIZE).unwrap(), 0);
    }

    #[test]
    fn tmpfs_counts_as_cached() {
        let file = file_in(Path::new("/dev/shm"));
        assert!(is_in_memory(&*file));
        assert!(is_cached(&file, 0, SIZE));
        let mut buffer = [0; 3];
        assert_eq!((read_cached(&*file, &mut buffer, 1).unwrap(), &buffer), (3, b"xxx"));
    }

    /// Whether `condition` holds for one of several evicted files: the kernel may keep a page that another
    /// process is using. True if no file can be evicted.
    fn holds_for_evicted(condition: impl Fn(&File) -> bool) -> bool {
        (0..20).any(|_| evicted().is_none_or(|file| condition(&file)))
    }

    #[test]
    fn an_evicted_page_is_not_cached() {
        assert!(holds_for_evicted(|file| !is_cached(file, 5, 1)));
        assert!(holds_for_evicted(|file| {
            let read = read_cached(file, &mut [0; 8], SIZE - 8);
            read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        }));
    }

    #[test]
    fn an_uncached_page_is_noticed_at_either_end() {
        for cached_end in [0, SIZE - 1] {
            let is_noticed = |file: &File| {
                file.read_exact_at(&mut [0], cached_end).unwrap();
                !is_cached(file, 0, SIZE)
            };
            assert!(holds_for_evicted(is_noticed), "{cached_end}");
        }
    }

    #[test]
    fn a_piece_that_the_pool_has_read_is_cached() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for (offset, length) in [(SIZE / 2 + 7, SIZE / 4), (0, SIZE), (SIZE - 1, SIZE), (0, 0)] {
            let Some(file) = evicted() else { return };
            runtime.block_on(read_into_cache(file.clone(), offset, length)).unwrap();
            let mut piece = vec![0; usize::try_from(length.min(SIZE - offset)).unwrap()];
            assert_eq!(read_cached(&*file, &mut piece, offset).unwrap(), piece.len(), "{offset} {length}");
        }
    }

    #[test]
    fn reading_a_folder_is_an_error() {
        let folder = Arc::new(File::open(std::env::temp_dir()).unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let error = runtime.block_on(read_into_cache(folder, 0, SIZE)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
    }
}
