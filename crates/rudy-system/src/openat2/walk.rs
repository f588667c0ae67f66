//! Resolves a path without `openat2`: no `openat` here follows a link. Links are read and resolved by the rules of
//! `path_resolution(7)`, so another process that exchanges files for links meanwhile cannot lead the walk elsewhere.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, FsWord, Mode, OFlags, ResolveFlags, fstat, fstatfs, openat, readlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

/// The length of a path, with its end, as in `openat2`.
const PATH_BYTES_MAX: usize = 4096;
/// The number of links in a path, as in `openat2`.
const LINKS_MAX: usize = 40;
/// The number of folders that a walk enters again because of `..`, about 0.1 s. 40 links of 2,048 names are as many.
const REENTERED_MAX: usize = 1 << 17;

/// Opens `path` as `openat2` does. Links of `/proc` to open files are never followed.
pub(super) fn open(
    from: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    mode: Mode,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let path = path.as_os_str().as_bytes();
    if path.len() >= PATH_BYTES_MAX {
        return Err(Errno::NAMETOOLONG);
    }
    // The folder `from` does not matter to an absolute path.
    let folder = if path.starts_with(b"/") { enter(CWD, b"/") } else { enter(from, b".") }?;
    let mut walk = Walk { from, resolve, folder, names: vec![], rest: vec![], links: 0, reentered: 0 };
    walk.prepend(path)?;
    while let Some(name) = walk.rest.pop() {
        if !walk.rest.is_empty() {
            walk.enter_or_follow(name)?;
        } else if let Some(file) = walk.last(name, flags, mode)? {
            return Ok(file);
        }
    }
    // The path is empty.
    Err(Errno::NOENT)
}

/// Opens a folder, which is not a link.
fn enter(folder: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    openat(folder, name, LINK | OFlags::DIRECTORY, Mode::empty())
}

/// Opens a link itself.
const LINK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

struct Walk<'a> {
    from: BorrowedFd<'a>,
    resolve: ResolveFlags,
    /// Where the walk is.
    folder: OwnedFd,
    /// With `BENEATH`: how the walk got there from `from`.
    names: Vec<Vec<u8>>,
    /// The names that follow, the next one last.
    rest: Vec<Vec<u8>>,
    links: usize,
    reentered: usize,
}

impl Walk<'_> {
    /// Puts a path or the target of a link before the rest.
    fn prepend(&mut self, path: &[u8]) -> Result<(), Errno> {
        if path.starts_with(b"/") {
            if self.resolve.contains(ResolveFlags::BENEATH) {
                return Err(Errno::XDEV);
            }
            self.folder = enter(CWD, b"/")?;
        }
        // A slash at the end requires a folder.
        if path.ends_with(b"/") {
            self.rest.push(b".".to_vec());
        }
        let names = path.rsplit(|byte| *byte == b'/').filter(|name| !name.is_empty());
        self.rest.extend(names.map(<[u8]>::to_vec));
        Ok(())
    }

    /// Enters a folder, or follows the link to it.
    fn enter_or_follow(&mut self, name: Vec<u8>) -> Result<(), Errno> {
        match &*name {
            b"." => Ok(()),
            b".." => self.up(),
            _ => match enter(&self.folder, &name) {
                Ok(folder) => {
                    self.folder = folder;
                    self.names.push(name);
                    Ok(())
                }
                Err(Errno::NOTDIR) => self.follow(&openat(&self.folder, &*name, LINK, Mode::empty())?),
                Err(error) => Err(error),
            },
        }
    }

    /// Enters the parent.
    fn up(&mut self) -> Result<(), Errno> {
        // This fails without the permission to search the folder.
        let parent = enter(&self.folder, b"..")?;
        if !self.resolve.contains(ResolveFlags::BENEATH) {
            self.folder = parent;
            return Ok(());
        }
        self.names.pop().ok_or(Errno::XDEV)?;
        self.reentered += self.names.len();
        if self.reentered > REENTERED_MAX {
            return Err(Errno::LOOP);
        }
        // `parent` can be outside, if another process has moved the folder meanwhile. An open descriptor for each folder would be
        // faster, but a tree of 2,000 levels would use as many.
        self.folder = enter(self.from, b".")?;
        for name in &self.names {
            self.folder = enter(&self.folder, name)?;
        }
        Ok(())
    }

    /// Opens the file that the last name means; `None` if it is a link that has to be followed.
    fn last(&mut self, mut name: Vec<u8>, flags: OFlags, mode: Mode) -> Result<Option<OwnedFd>, Errno> {
        if name == b".." {
            self.up()?;
            name = b".".to_vec();
        }
        let opened = openat(&self.folder, &*name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode);
        if flags.contains(OFlags::NOFOLLOW) {
            return opened.map(Some);
        }
        let link = match opened {
            Ok(file) if flags.contains(OFlags::PATH) && target(&file).is_some() => file,
            // NOTDIR: O_DIRECTORY.
            Err(Errno::LOOP | Errno::NOTDIR) => openat(&self.folder, &*name, LINK, Mode::empty())?,
            opened => return opened.map(Some),
        };
        self.follow(&link)?;
        Ok(None)
    }

    /// Puts the target of a link before the rest. The descriptor shows the target of this link, even if another one has its name
    /// meanwhile.
    fn follow(&mut self, link: &OwnedFd) -> Result<(), Errno> {
        let target = target(link).ok_or(Errno::NOTDIR)?;
        self.links += 1;
        if self.links > LINKS_MAX
            || self.resolve.contains(ResolveFlags::NO_SYMLINKS)
            || self.is_blocked(link)?
        {
            return Err(Errno::LOOP);
        }
        if self.rest.iter().all(|name| name == b".") && self.is_protected(link)? {
            return Err(Errno::ACCESS);
        }
        self.prepend(&target)
    }

    /// Whether the kernel never follows a link by its text: it leads to an open file (`RESOLVE_NO_MAGICLINKS`), or its file system
    /// is mounted with `nosymfollow`.
    fn is_blocked(&self, link: &OwnedFd) -> Result<bool, Errno> {
        const PROC: FsWord = 0x9fa0;
        /// The inode of `/proc` itself. Its links (`self`, `mounts`) are ordinary ones.
        const PROC_ROOT: u64 = 1;
        /// `AppArmor` has links to open files in both.
        const SECURITYFS: FsWord = 0x7363_6673;
        const APPARMORFS: FsWord = 0x5a3c_69f0;
        const NO_SYMFOLLOW: FsWord = 0x2000;
        let system = fstatfs(link)?;
        let is_magic = match system.f_type {
            PROC => fstat(&self.folder)?.st_ino != PROC_ROOT,
            found => matches!(found, SECURITYFS | APPARMORFS),
        };
        Ok(is_magic || system.f_flags & NO_SYMFOLLOW != 0)
    }

    /// Whether the last link of a path belongs to another user, in a folder in which all users can create links
    /// (`fs.protected_symlinks`, which is assumed to be on).
    fn is_protected(&self, link: &OwnedFd) -> Result<bool, Errno> {
        const SHARED: Mode = Mode::SVTX.union(Mode::WOTH);
        let (folder, owner) = (fstat(&self.folder)?, fstat(link)?.st_uid);
        let is_shared = Mode::from_raw_mode(folder.st_mode).contains(SHARED);
        Ok(is_shared && owner != geteuid().as_raw() && owner != folder.st_uid)
    }
}

/// Returns the target of a link; `None` if it is another file.
fn target(link: &OwnedFd) -> Option<Vec<u8>> {
    readlinkat(link, c"", Vec::new()).ok().map(CString::into_bytes)
}
